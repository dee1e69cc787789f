// The globals of runtime wasm-js, and what the Rust side calls (`core`). All of it runs once, before the first snapshot.

import { native } from './native.js';
import './globals.js';
import { Buffer } from 'buffer';
import { AbortController, AbortSignal, CustomEvent, Event, EventTarget } from './abort.js';
import { builtinSource, findBuiltin, requireBuiltin } from './builtins.js';
import { console, log } from './console.js';
import { crypto, CryptoKey, SubtleCrypto } from './crypto.js';
import { speedUpBuffer } from './buffer.js';
import { TextDecoder, TextEncoder } from './encoding.js';
import { describe, place, setSourceMap } from './errors.js';
import { fetch, Headers, Request, Response, responseParts } from './fetch.js';
import { performance } from './performance.js';
import { process } from './process.js';
import {
  ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableStream, TransformStream, WritableStream,
  TextDecoderStream, TextEncoderStream,
} from './streams.js';
import { structuredClone } from './clone.js';
import { clearTimer, setImmediate, setInterval, setTimeout } from './timers.js';
import { URL, URLSearchParams } from './url.js';
import { bytesOf } from './values.js';

speedUpBuffer(Buffer);
if (Reflect.ownKeys(globalThis.Atomics).length === 0) delete globalThis.Atomics;

const globals = {
  AbortController, AbortSignal, Buffer, ByteLengthQueuingStrategy, CountQueuingStrategy, CryptoKey, CustomEvent, Event,
  EventTarget, Headers, ReadableStream, Request, Response, SubtleCrypto, TextDecoder, TextDecoderStream, TextEncoder,
  TextEncoderStream, TransformStream, URL, URLSearchParams, WritableStream,
  clearImmediate: clearTimer, clearInterval: clearTimer, clearTimeout: clearTimer,
  console, crypto, fetch, global: globalThis, performance, process, require: requireBuiltin, setImmediate, setInterval,
  setTimeout, structuredClone,
};
for (const [name, value] of Object.entries(globals)) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}

const kindOf = (value) => {
  if (value === null) return 'null';
  return typeof value === 'object' ? (value.constructor?.name ?? 'object') : typeof value;
};

const isStream = (value) =>
  typeof value[Symbol.asyncIterator] === 'function' ||
  (typeof value.next === 'function' && typeof value[Symbol.iterator] === 'function');

/** Sends a stream's pieces as they come, no faster than the host takes them. */
async function pump(stream) {
  const iterator = stream[Symbol.asyncIterator]?.() ?? stream;
  try {
    for (;;) {
      const { done, value } = await iterator.next();
      if (done) return;
      if ((await native.answerPiece(value)) === false) break;
    }
  } catch (error) {
    stop(iterator);
    throw error;
  }
  stop(iterator);
}

/** Tells a stream that no more is wanted; what it says to that is of no use. */
function stop(iterator) {
  try {
    Promise.resolve(iterator.return?.()).catch(() => {});
  } catch {
    // As above.
  }
}

/** Runs a CommonJS file in its wrapper; gives its exports. */
function runScript(wrapper, name) {
  const module = { exports: {}, id: name, filename: name, loaded: false, children: [], paths: [] };
  const slash = name.lastIndexOf('/');
  wrapper.call(module.exports, module.exports, requireBuiltin, module, name, slash < 0 ? '.' : name.slice(0, slash));
  module.loaded = true;
  return module.exports;
}

native.core = {
  /** A promise of what a thenable stands for; undefined for anything else. */
  adopt: (value) => (typeof value.then === 'function' ? Promise.resolve(value) : undefined),
  builtinSource,
  bytesOf,
  describe,
  findBuiltin,
  hasOwn: (object, name) => Object.hasOwn(object, name),
  headersList: (headers) => (headers instanceof Headers ? [...headers].flat() : undefined),
  isResponse: (value) => value instanceof Response,
  isStream,
  kindOf,
  log,
  place,
  pump,
  responseParts,
  runScript,
  setSourceMap,
  show: (value) => (typeof value === 'bigint' ? `${value}n` : (JSON.stringify(value) ?? String(value))),
};
