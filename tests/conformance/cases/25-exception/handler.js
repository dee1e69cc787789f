class OutOfStock extends Error {}

function check(path) {
  if (path === '/pears') throw new OutOfStock('no more pears');
  if (path === '/silent') throw new OutOfStock();
  if (path === '/odd') throw new OutOfStock('quote " and ünï\nsecond line');
  if (path === '/long') throw new OutOfStock('x'.repeat(10_000));
}

export async function handler(event) {
  if (event.path.startsWith('/later')) await new Promise((resolve) => setTimeout(resolve, 10));
  check(event.path.replace('/later', ''));
  return 'fine';
}
