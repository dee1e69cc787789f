export async function handler(event) {
  const pairs = (event.headers.cookie ?? '').split('; ').filter(Boolean);
  const cookies = Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
  return {
    statusCode: 200,
    body: cookies,
    headers: {
      'Set-Cookie': ['session=abc; Path=/; HttpOnly', 'seen=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT', 'seen=2'],
    },
  };
}
