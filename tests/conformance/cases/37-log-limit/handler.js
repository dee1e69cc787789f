export async function handler() {
  for (let n = 0; n < 100; n += 1) console.log(`line ${String(n).padStart(3, '0')} ${'x'.repeat(91)}`);
  return 'ok';
}
