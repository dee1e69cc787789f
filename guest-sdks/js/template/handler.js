// {{name}}: greets whom the query names.

/** @type {import('./sless/index.js').HttpHandler} */
export function handler(event, context) {
  const name = event.query.name ?? 'world';
  if (name === '' || Array.isArray(name)) {
    return { statusCode: 400, body: { detail: '`name` is empty or given twice; leave it out or give one' } };
  }
  context.log(`greeting ${name}`, { path: event.path });
  return { message: `hello, ${name}` };
}
