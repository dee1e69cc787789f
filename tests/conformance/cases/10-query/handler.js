export async function handler(event) {
  return { query: event.query, raw: event.rawQuery };
}
