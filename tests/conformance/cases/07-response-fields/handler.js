const RESPONSES = {
  '/status-only': { statusCode: 202 },
  '/null-body': { statusCode: 200, headers: null, body: null, isBase64Encoded: null },
  '/object-body': { statusCode: 201, body: { made: true } },
  '/number-body': { statusCode: 200, body: 7 },
  '/own-type': { statusCode: 200, headers: { 'Content-Type': 'text/html' }, body: '<p>' },
  '/bytes-body': { statusCode: 200, body: new Uint8Array([0, 255]) },
  '/no-status': { body: 'x', headers: { a: 'b' } },
};

exports.handler = async (event) => RESPONSES[event.path];
