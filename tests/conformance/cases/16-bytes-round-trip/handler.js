export async function handler(event) {
  const body = Buffer.from(event.body, event.isBase64Encoded ? 'base64' : 'utf8');
  if (event.path === '/reversed') return body.reverse();
  return {
    statusCode: 200,
    headers: { 'content-type': event.headers['content-type'] },
    body: body.toString('base64'),
    isBase64Encoded: true,
  };
}
