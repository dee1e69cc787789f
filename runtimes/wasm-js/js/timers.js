// Timers, over those of src/pump.rs.

import { native } from './native.js';

const DISPOSE = Symbol.dispose ?? Symbol.for('Symbol.dispose');

/** What Node gives for a timer. */
class Timeout {
  #id;

  constructor(id) {
    this.#id = id;
  }

  [Symbol.toPrimitive]() {
    return this.#id;
  }

  // A call ends with its answer, whatever timers are left.
  ref() {
    return this;
  }

  unref() {
    return this;
  }

  hasRef() {
    return true;
  }

  close() {
    native.stopTimer(this.#id);
    return this;
  }

  [DISPOSE]() {
    this.close();
  }
}

function start(callback, delay, rest, repeat) {
  if (typeof callback !== 'function') throw new TypeError('the callback must be a function');
  const run = rest.length === 0 ? () => callback() : () => callback(...rest);
  return new Timeout(native.startTimer(run, Number(delay ?? 0), repeat));
}

export const setTimeout = (callback, delay, ...rest) => start(callback, delay, rest, false);
export const setInterval = (callback, delay, ...rest) => start(callback, delay, rest, true);
export const setImmediate = (callback, ...rest) => start(callback, 0, rest, false);

export function clearTimer(timer) {
  const id = timer instanceof Timeout || typeof timer === 'string' ? Number(timer) : timer;
  if (Number.isInteger(id) && id > 0) native.stopTimer(id);
}
