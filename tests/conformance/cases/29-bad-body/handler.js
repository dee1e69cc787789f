export async function handler(event) {
  if (event.path === '/not-json') return { n: 1n };
  if (event.path === '/not-json-body') {
    const circle = {};
    circle.self = circle;
    return { statusCode: 200, body: circle };
  }
  return {
    '/not-base64': { statusCode: 200, body: 'not base64!', isBase64Encoded: true },
    '/cut-base64': { statusCode: 200, body: 'YQ=', isBase64Encoded: true },
    '/base64-object': { statusCode: 200, body: {}, isBase64Encoded: true },
    '/base64-flag': { statusCode: 200, body: 'YQ==', isBase64Encoded: 'yes' },
    '/unknown-field': { statusCode: 200, body: 'x', multiValueHeaders: {} },
  }[event.path];
}
