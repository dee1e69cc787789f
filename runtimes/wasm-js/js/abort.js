// Events (event-target-shim) and AbortController, whose polyfills on npm lack `reason`, `timeout` and `any`.

import { Event, EventTarget, setWarningHandler } from 'event-target-shim';
import { setTimeout } from './timers.js';

export { Event, EventTarget };

// Its advice on how events are used has no place in a function's log.
setWarningHandler(() => {});

export class CustomEvent extends Event {
  #detail;

  constructor(type, options) {
    super(type, options);
    this.#detail = options?.detail ?? null;
  }

  get detail() {
    return this.#detail;
  }
}

const MAKE = Symbol('make');

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = undefined;
  #handler = null;

  constructor(key) {
    if (key !== MAKE) throw new TypeError('an AbortSignal is made by an AbortController');
    super();
  }

  get aborted() {
    return this.#aborted;
  }

  get reason() {
    return this.#reason;
  }

  get onabort() {
    return this.#handler;
  }

  set onabort(handler) {
    if (this.#handler !== null) this.removeEventListener('abort', this.#handler);
    this.#handler = typeof handler === 'function' ? handler : null;
    if (this.#handler !== null) this.addEventListener('abort', this.#handler);
  }

  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }

  static abort(reason) {
    const signal = new AbortSignal(MAKE);
    signal.#abort(reason);
    return signal;
  }

  static timeout(milliseconds) {
    const signal = new AbortSignal(MAKE);
    setTimeout(() => signal.#abort(new DOMException('the operation took too long', 'TimeoutError')), milliseconds);
    return signal;
  }

  static any(signals) {
    const all = [...signals];
    const joined = new AbortSignal(MAKE);
    const first = all.find((signal) => signal.aborted);
    if (first !== undefined) joined.#abort(first.reason);
    else for (const signal of all) signal.addEventListener('abort', () => joined.#abort(signal.reason), { once: true });
    return joined;
  }

  #abort(reason) {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason === undefined ? new DOMException('the operation was aborted', 'AbortError') : reason;
    this.dispatchEvent(new Event('abort'));
  }

  static [MAKE]() {
    const signal = new AbortSignal(MAKE);
    return [signal, (reason) => signal.#abort(reason)];
  }

  get [Symbol.toStringTag]() {
    return 'AbortSignal';
  }
}

export class AbortController {
  #signal;
  #abort;

  constructor() {
    [this.#signal, this.#abort] = AbortSignal[MAKE]();
  }

  get signal() {
    return this.#signal;
  }

  abort(reason) {
    this.#abort(reason);
  }

  get [Symbol.toStringTag]() {
    return 'AbortController';
  }
}
