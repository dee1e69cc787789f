class LookupError extends Error {}

async function* pieces(path) {
  if (path === '/first') throw new LookupError('nothing there');
  if (path === '/wrong') yield 42;
  yield 'one';
  if (path === '/later') throw new LookupError('lost');
  yield 'two';
}

export async function handler(event) {
  const length = { '/short': 100, '/long': 4, '/exact': 6 }[event.path];
  return { statusCode: 200, headers: length ? { 'content-length': length } : {}, body: pieces(event.path) };
}
