// The modules of Node that packages import most, as far as they make sense here. What is missing is refused by name, with
// the runtime that has it.

import { Buffer } from 'buffer';
import events from 'events';
import { format, inspect } from 'node-inspect-extracted';
import path from 'path-browserify';
import { crypto, equal } from './crypto.js';
import { native } from './native.js';
import { performance } from './performance.js';
import { process } from './process.js';
import { clearTimer, setImmediate, setInterval, setTimeout } from './timers.js';
import { URL, URLSearchParams } from './url.js';
import { bytesOf } from './values.js';
import { structuredClone } from './clone.js';
import { TextDecoder, TextEncoder } from './encoding.js';

const HASHES = { sha1: 'SHA-1', sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512' };

function hashOf(name) {
  const hash = HASHES[String(name).toLowerCase().replace('-', '')];
  if (hash === undefined) throw new Error(`the digest ${name} is not supported; there are ${Object.keys(HASHES).join(', ')}`);
  return hash;
}

const dataOf = (data, encoding) => (typeof data === 'string' ? Buffer.from(data, encoding) : bytesOf(data));

/** Hash and Hmac: they differ in what is done with all that was given. */
class Digest {
  #pieces = [];
  #finish;

  constructor(finish) {
    this.#finish = finish;
  }

  update(data, encoding) {
    const bytes = dataOf(data, encoding);
    if (bytes === undefined) throw new TypeError('the data must be text or bytes');
    this.#pieces.push(bytes.slice());
    return this;
  }

  digest(encoding) {
    const result = Buffer.from(this.#finish(Buffer.concat(this.#pieces)));
    return encoding === undefined || encoding === 'buffer' ? result : result.toString(encoding);
  }
}

function randomBytes(size, callback) {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size; at += 65536) native.fill(new Uint8Array(bytes.buffer, bytes.byteOffset + at, Math.min(65536, size - at)));
  if (callback === undefined) return bytes;
  queueMicrotask(() => callback(null, bytes));
  return undefined;
}

const nodeCrypto = {
  createHash: (name) => {
    const hash = hashOf(name);
    return new Digest((data) => native.digest(hash, data));
  },
  createHmac: (name, key) => {
    const hash = hashOf(name);
    const bytes = dataOf(key);
    return new Digest((data) => native.hmac(hash, bytes, data));
  },
  getRandomValues: (array) => crypto.getRandomValues(array),
  randomBytes,
  randomInt: (low, high) => {
    const [from, to] = high === undefined ? [0, low] : [low, high];
    const range = to - from;
    if (!Number.isSafeInteger(range) || range <= 0) throw new RangeError('the upper bound must be above the lower one');
    // 48 bits, as in Node, without the values at the end that would favour some numbers.
    const limit = 2 ** 48 - (2 ** 48 % range);
    for (;;) {
      const value = randomBytes(6).readUIntBE(0, 6);
      if (value < limit) return from + (value % range);
    }
  },
  randomUUID: () => crypto.randomUUID(),
  subtle: crypto.subtle,
  timingSafeEqual: (a, b) => {
    const [one, two] = [bytesOf(a), bytesOf(b)];
    if (one.length !== two.length) throw new RangeError('both must have the same length');
    return equal(one, two);
  },
  webcrypto: crypto,
};

const sleep = (milliseconds, value) => new Promise((resolve) => setTimeout(resolve, milliseconds, value));

const promisifyCustom = Symbol.for('nodejs.util.promisify.custom');

function promisify(original) {
  if (original[promisifyCustom]) return original[promisifyCustom];
  return function promised(...args) {
    return new Promise((resolve, reject) => {
      original.call(this, ...args, (error, value) => (error ? reject(error) : resolve(value)));
    });
  };
}
promisify.custom = promisifyCustom;

const util = {
  format,
  inspect,
  promisify,
  callbackify: (original) => (...args) => {
    const callback = args.pop();
    original(...args).then((value) => callback(null, value), (error) => callback(error));
  },
  deprecate: (f) => f,
  inherits: (child, parent) => Object.setPrototypeOf(child.prototype, parent.prototype),
  isDeepStrictEqual: (a, b) => inspect(a, { depth: Infinity }) === inspect(b, { depth: Infinity }),
  TextDecoder,
  TextEncoder,
  types: {
    isPromise: (value) => value instanceof Promise,
    isDate: (value) => value instanceof Date,
    isRegExp: (value) => value instanceof RegExp,
    isUint8Array: (value) => value instanceof Uint8Array,
    isTypedArray: (value) => ArrayBuffer.isView(value) && !(value instanceof DataView),
    isArrayBuffer: (value) => value instanceof ArrayBuffer,
    isMap: (value) => value instanceof Map,
    isSet: (value) => value instanceof Set,
    isNativeError: (value) => Error.isError(value),
  },
};

const querystring = {
  parse: (text) => {
    const query = Object.create(null);
    for (const [name, value] of new URLSearchParams(text)) {
      if (query[name] === undefined) query[name] = value;
      else query[name] = [query[name], value].flat();
    }
    return query;
  },
  stringify: (object) =>
    new URLSearchParams(Object.entries(object).flatMap(([name, value]) => [value].flat().map((one) => [name, String(one)]))).toString(),
  escape: encodeURIComponent,
  unescape: decodeURIComponent,
};

function ok(value, message) {
  if (value) return;
  throw message instanceof Error ? message : Object.assign(new Error(message ?? 'assertion failed'), { name: 'AssertionError' });
}
const assert = Object.assign((value, message) => ok(value, message), {
  ok,
  equal: (a, b, message) => ok(a == b, message ?? `${inspect(a)} == ${inspect(b)}`), // eslint-disable-line eqeqeq
  strictEqual: (a, b, message) => ok(Object.is(a, b), message ?? `${inspect(a)} === ${inspect(b)}`),
  notStrictEqual: (a, b, message) => ok(!Object.is(a, b), message ?? `${inspect(a)} !== ${inspect(b)}`),
  deepStrictEqual: (a, b, message) => ok(util.isDeepStrictEqual(a, b), message ?? `${inspect(a)} deep equals ${inspect(b)}`),
  fail: (message) => ok(false, message),
});

const modules = {
  assert,
  buffer: { Buffer, kMaxLength: 0x7fffffff, isUtf8: (bytes) => native.utf8Decode(bytesOf(bytes), true) !== null },
  crypto: nodeCrypto,
  events: Object.assign(events, { default: events }),
  path: Object.assign(path, { posix: path }),
  perf_hooks: { performance },
  process,
  querystring,
  timers: { clearImmediate: clearTimer, clearInterval: clearTimer, clearTimeout: clearTimer, setImmediate, setInterval, setTimeout },
  'timers/promises': { setTimeout: sleep, setImmediate: (value) => sleep(0, value) },
  url: { URL, URLSearchParams },
  util,
  'util/types': util.types,
};
Object.assign(modules.util, { structuredClone });

/** The name under which a module is known here; undefined if it is not. */
export function findBuiltin(name) {
  const plain = name.startsWith('node:') ? name.slice(5) : name;
  return Object.hasOwn(modules, plain) ? `node:${plain}` : undefined;
}

/** `require` of what a bundle leaves outside. */
export function requireBuiltin(name) {
  const found = findBuiltin(String(name));
  if (found === undefined) {
    // The words that src/init.rs knows it by.
    throw Object.assign(new Error(`there is no module \`${name}\``), { code: 'MODULE_NOT_FOUND' });
  }
  return modules[found.slice(5)];
}

const KEY = Symbol.for('sless.require');
Object.defineProperty(globalThis, KEY, { value: requireBuiltin, enumerable: false });

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

/** The source of an ES module with a module's exports. */
export function builtinSource(name) {
  const module = requireBuiltin(name);
  const names = Object.keys(module).filter((key) => IDENTIFIER.test(key) && key !== 'default');
  const exports = names.map((key, i) => `const e${i} = m[${JSON.stringify(key)}];\nexport { e${i} as ${key} };`);
  const from = `const m = globalThis[Symbol.for('sless.require')](${JSON.stringify(name)});`;
  return `${from}\nexport default m;\n${exports.join('\n')}\n`;
}
