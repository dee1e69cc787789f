// Buffer is the npm package `buffer`; its slowest parts, in an engine that does not compile, go to the Rust side.

import { native } from './native.js';

const isUtf8 = (encoding) => encoding === undefined || /^utf-?8$/i.test(encoding);
const isBase64 = (encoding) => /^base64$/i.test(encoding ?? '');
const isLatin1 = (encoding) => /^(?:latin1|binary)$/i.test(encoding ?? '');

export function speedUpBuffer(Buffer) {
  const over = (bytes) => Object.setPrototypeOf(bytes, Buffer.prototype);
  const { from, byteLength } = Buffer;
  Buffer.from = function (value, encoding, length) {
    if (typeof value === 'string') {
      if (isUtf8(encoding)) return over(native.utf8Encode(value));
      if (isBase64(encoding)) {
        // Node takes what is not quite base64 too; the package does that.
        const bytes = native.base64Decode(value);
        if (bytes !== undefined) return over(bytes);
      }
    }
    return from(value, encoding, length);
  };
  Buffer.byteLength = function (value, encoding) {
    return typeof value === 'string' && isUtf8(encoding) ? native.utf8Encode(value).length : byteLength(value, encoding);
  };
  const { toString } = Buffer.prototype;
  Buffer.prototype.toString = function (encoding, start, end) {
    const part = start === undefined && end === undefined ? this : this.subarray(start, end);
    if (isUtf8(encoding)) return native.utf8Decode(part, false);
    if (isBase64(encoding)) return native.base64Encode(part);
    if (isLatin1(encoding)) return native.latin1Decode(part);
    return toString.call(this, encoding, start, end);
  };
  return Buffer;
}
