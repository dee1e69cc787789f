const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function part(n) {
  await sleep(10 * (4 - n));
  return n * n;
}

export async function handler() {
  return { parts: await Promise.all([0, 1, 2, 3].map(part)) };
}
