const STATUSES = {
  '/text': '200', '/low': 99, '/high': 600, '/null': null, '/fraction': 200.5, '/bool': true, '/informational': 101,
};

export async function handler(event) {
  return { statusCode: STATUSES[event.path], body: 'x' };
}
