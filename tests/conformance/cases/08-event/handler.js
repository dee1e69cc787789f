export async function handler(event) {
  const { method, body, isBase64Encoded, query, rawQuery } = event;
  return { keys: Object.keys(event).sort(), method, body, isBase64Encoded, query, rawQuery };
}
