export async function handler(event) {
  if (event.type === 'fails') {
    const error = new Error('not today');
    error.name = 'RuntimeError';
    throw error;
  }
  return event.type === 'retry' ? { statusCode: 503, body: 'later' } : undefined;
}
