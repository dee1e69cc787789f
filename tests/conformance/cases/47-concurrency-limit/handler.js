export async function handler() {
  await new Promise((resolve) => setTimeout(resolve, 1500));
  return 'done';
}
