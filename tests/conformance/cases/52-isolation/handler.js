export async function handler(event) {
  const seen = { headers: 'x-leak' in event.headers, query: { ...event.query }, path: event.path };
  event.headers['x-leak'] = '1';
  event.query.leak = '1';
  event.path = '/changed';
  return seen;
}
