export async function handler(event) {
  return event.path === '/empty' ? '' : 'grüße, 世界 \u{1F600}\n';
}
