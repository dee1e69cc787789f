// What polyfills look for while they load.

import { native } from './native.js';
import { TextDecoder, TextEncoder } from './encoding.js';

globalThis.TextEncoder = TextEncoder;
globalThis.TextDecoder = TextDecoder;
// Seeded in each instance; QuickJS's own would be fixed in the snapshot.
Object.defineProperty(Math, 'random', {
  value: function random() {
    return native.random();
  },
  writable: true,
  configurable: true,
});
// This build of QuickJS has no threads and so no Atomics; node-inspect-extracted takes it for granted. main.js removes it.
globalThis.Atomics ??= {};
