export async function handler(event) {
  const status = Number(event.path.slice(1));
  return { statusCode: status, body: `status ${status}` };
}
