export async function handler(event) {
  if (event.path === '/length') return event.body.length;
  if (event.path === '/make') return '0123456789abcdef'.repeat(5 * 65536);
  return { statusCode: 200, headers: { 'content-type': 'text/plain' }, body: event.body };
}
