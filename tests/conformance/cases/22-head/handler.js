export async function handler(event) {
  if (event.path === '/fail') throw new TypeError('no');
  if (event.path === '/own') return { statusCode: 200, headers: { 'content-length': '12345', 'content-type': 'video/mp4' } };
  return { statusCode: 200, headers: { 'x-method': event.method }, body: '12345' };
}
