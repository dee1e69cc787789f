import { total } from './lib/prices.js';

export async function handler(event) {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(event.body));
  const sha256 = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return { total: total([1, 2, 3]), sha256, json: JSON.parse(event.body).a };
}
