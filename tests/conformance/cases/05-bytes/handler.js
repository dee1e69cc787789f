export function handler(event) {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  return event.path === '/mutable' ? bytes.buffer : bytes;
}
