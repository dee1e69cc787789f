const BODIES = { '/png': 'iVBORw0KGgo=', '/text': 'aMOkbGxv', '/empty': '', '/pad': 'YQ==' };

export async function handler(event) {
  return { statusCode: 200, body: BODIES[event.path], isBase64Encoded: true };
}
