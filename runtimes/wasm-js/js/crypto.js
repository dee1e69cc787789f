// Web Crypto: random bytes, digests, HMAC. The algorithms are those of RustCrypto (src/native.rs).

import { native } from './native.js';
import { needBytes } from './values.js';

// What `getRandomValues` takes, by its standard.
const INTEGERS = [
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array,
];
const HASHES = ['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512'];
const BLOCK_BYTES = { 'SHA-1': 64, 'SHA-256': 64, 'SHA-384': 128, 'SHA-512': 128 };

function hashName(algorithm) {
  const given = String(typeof algorithm === 'object' && algorithm !== null ? algorithm.name : algorithm).toUpperCase();
  if (!HASHES.includes(given)) {
    throw new DOMException(`the algorithm ${given} is not supported; there are ${HASHES.join(', ')}`, 'NotSupportedError');
  }
  return given;
}

const bufferOf = (bytes) =>
  bytes.byteOffset === 0 && bytes.byteLength === bytes.buffer.byteLength ? bytes.buffer : bytes.slice().buffer;

const MAKE = Symbol('make');

export class CryptoKey {
  #bytes;

  constructor(key, bytes, algorithm, extractable, usages) {
    if (key !== MAKE) throw new TypeError('a CryptoKey is made by crypto.subtle');
    this.#bytes = bytes;
    this.type = 'secret';
    this.algorithm = algorithm;
    this.extractable = extractable;
    this.usages = usages;
    Object.freeze(this);
  }

  static [MAKE](key) {
    return key.#bytes;
  }

  get [Symbol.toStringTag]() {
    return 'CryptoKey';
  }
}

function needHmac(algorithm) {
  const name = String(typeof algorithm === 'object' && algorithm !== null ? algorithm.name : algorithm).toUpperCase();
  if (name !== 'HMAC') {
    throw new DOMException(`keys for ${name} are not supported; there is HMAC`, 'NotSupportedError');
  }
}

function mac(algorithm, key, data, usage) {
  needHmac(algorithm);
  if (!(key instanceof CryptoKey)) throw new TypeError('the key must be a CryptoKey');
  if (!key.usages.includes(usage)) throw new DOMException(`the key is not for \`${usage}\``, 'InvalidAccessError');
  return native.hmac(key.algorithm.hash.name, CryptoKey[MAKE](key), needBytes(data, 'the data'));
}

/** Compares without telling by its time where the difference is. */
export function equal(a, b) {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i += 1) difference |= a[i] ^ b[i % Math.max(b.length, 1)];
  return difference === 0;
}

export class SubtleCrypto {
  constructor(key) {
    if (key !== MAKE) throw new TypeError('use crypto.subtle');
  }

  async digest(algorithm, data) {
    return bufferOf(native.digest(hashName(algorithm), needBytes(data, 'the data')));
  }

  async importKey(format, data, algorithm, extractable, usages) {
    needHmac(algorithm);
    const hash = hashName(algorithm.hash);
    let bytes;
    if (format === 'raw') bytes = needBytes(data, 'the key').slice();
    else if (format === 'jwk' && data?.kty === 'oct') bytes = Uint8Array.fromBase64(data.k, { alphabet: 'base64url' });
    else throw new DOMException(`the format ${format} is not supported; there are raw and jwk`, 'NotSupportedError');
    if (bytes.length === 0) throw new DOMException('the key is empty', 'DataError');
    return new CryptoKey(MAKE, bytes, { name: 'HMAC', hash: { name: hash }, length: bytes.length * 8 }, Boolean(extractable), [...usages]);
  }

  async exportKey(format, key) {
    if (!key.extractable) throw new DOMException('the key is not extractable', 'InvalidAccessError');
    const bytes = CryptoKey[MAKE](key);
    if (format === 'raw') return bytes.slice().buffer;
    if (format !== 'jwk') throw new DOMException(`the format ${format} is not supported`, 'NotSupportedError');
    const k = bytes.toBase64({ alphabet: 'base64url', omitPadding: true });
    return { kty: 'oct', k, alg: `HS${key.algorithm.hash.name.slice(4)}`, ext: true, key_ops: [...key.usages] };
  }

  async generateKey(algorithm, extractable, usages) {
    needHmac(algorithm);
    const hash = hashName(algorithm.hash);
    const bytes = new Uint8Array(algorithm.length === undefined ? BLOCK_BYTES[hash] : Math.ceil(algorithm.length / 8));
    native.fill(bytes);
    return this.importKey('raw', bytes, { name: 'HMAC', hash }, extractable, usages);
  }

  async sign(algorithm, key, data) {
    return bufferOf(mac(algorithm, key, data, 'sign'));
  }

  async verify(algorithm, key, signature, data) {
    return equal(mac(algorithm, key, data, 'verify'), needBytes(signature, 'the signature'));
  }

  get [Symbol.toStringTag]() {
    return 'SubtleCrypto';
  }
}

const subtle = new SubtleCrypto(MAKE);

export const crypto = {
  subtle,
  getRandomValues(array) {
    if (!INTEGERS.some((type) => array instanceof type)) {
      throw new DOMException('give an array of integers', 'TypeMismatchError');
    }
    if (array.byteLength > 65536) throw new DOMException('at most 65536 bytes at once', 'QuotaExceededError');
    native.fill(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    return array;
  },
  randomUUID() {
    const bytes = new Uint8Array(16);
    native.fill(bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = bytes.toHex();
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  },
  get [Symbol.toStringTag]() {
    return 'Crypto';
  },
};
