export async function handler(event) {
  await new Promise((resolve) => setTimeout(resolve, 300));
  return event.body;
}
