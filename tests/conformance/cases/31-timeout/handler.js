export async function handler(event) {
  await new Promise((resolve) => setTimeout(resolve, Number(event.query.s ?? 0) * 1000));
  return 'done';
}
