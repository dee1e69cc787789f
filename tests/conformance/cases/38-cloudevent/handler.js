export async function handler(event) {
  return 'specversion' in event ? { event } : { http: event.method };
}
