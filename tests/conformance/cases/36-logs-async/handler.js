const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function inner(name) {
  await sleep(20);
  console.log('inner', name);
}

export async function handler(event) {
  const name = event.headers['x-request-id'];
  console.log('before', name);
  await Promise.all([inner(name), sleep(50)]);
  console.log('after', name);
  return name;
}
