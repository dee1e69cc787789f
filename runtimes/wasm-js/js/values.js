// Bytes of what JavaScript has for them.

/** A `Uint8Array` over a view or buffer, not copied; undefined for anything else. */
export function bytesOf(value) {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) return new Uint8Array(value);
  return undefined;
}

/** As `bytesOf`, or a TypeError. */
export function needBytes(value, what) {
  const bytes = bytesOf(value);
  if (bytes === undefined) throw new TypeError(`${what} must be an ArrayBuffer or a view of one`);
  return bytes;
}
