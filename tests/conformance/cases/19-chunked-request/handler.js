export async function handler(event) {
  return { length: event.body.length, start: event.body.slice(0, 5), framed: 'transfer-encoding' in event.headers };
}
