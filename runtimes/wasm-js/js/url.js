// URL and URLSearchParams over the Rust crate `url` (src/url.rs).

import { native } from './native.js';

const PARTS = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash', 'origin'];

const usv = (value) => String(value).toWellFormed();

let link; // Ties a URLSearchParams to its URL.

export class URLSearchParams {
  #pairs = [];
  #changed = undefined;

  static {
    link = (params, changed) => {
      params.#changed = changed;
    };
  }

  constructor(init = '') {
    if (init === null || typeof init !== 'object') this.#parse(usv(init).replace(/^\?/, ''));
    else if (typeof init[Symbol.iterator] === 'function') {
      for (const pair of init) {
        const list = [...pair];
        if (list.length !== 2) throw new TypeError('each pair must have a name and a value');
        this.#pairs.push([usv(list[0]), usv(list[1])]);
      }
    } else for (const [name, value] of Object.entries(init)) this.#pairs.push([usv(name), usv(value)]);
  }

  #parse(text) {
    const flat = native.formParse(text);
    this.#pairs = [];
    for (let i = 0; i < flat.length; i += 2) this.#pairs.push([flat[i], flat[i + 1]]);
  }

  #update() {
    this.#changed?.(this.toString());
  }

  /** Follows a change of the URL. */
  [Symbol.for('sless.follow')](text) {
    this.#parse(text);
  }

  get size() {
    return this.#pairs.length;
  }

  append(name, value) {
    this.#pairs.push([usv(name), usv(value)]);
    this.#update();
  }

  delete(name, value) {
    const key = usv(name);
    const only = value === undefined ? undefined : usv(value);
    this.#pairs = this.#pairs.filter(([n, v]) => n !== key || (only !== undefined && v !== only));
    this.#update();
  }

  get(name) {
    const key = usv(name);
    return this.#pairs.find(([n]) => n === key)?.[1] ?? null;
  }

  getAll(name) {
    const key = usv(name);
    return this.#pairs.filter(([n]) => n === key).map(([, v]) => v);
  }

  has(name, value) {
    const key = usv(name);
    const only = value === undefined ? undefined : usv(value);
    return this.#pairs.some(([n, v]) => n === key && (only === undefined || v === only));
  }

  set(name, value) {
    const [key, text] = [usv(name), usv(value)];
    const at = this.#pairs.findIndex(([n]) => n === key);
    if (at < 0) this.#pairs.push([key, text]);
    else {
      this.#pairs[at][1] = text;
      this.#pairs = this.#pairs.filter(([n], i) => n !== key || i <= at);
    }
    this.#update();
  }

  sort() {
    this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#update();
  }

  forEach(callback, self) {
    for (const [name, value] of this.#pairs) callback.call(self, value, name, this);
  }

  *entries() {
    for (let i = 0; i < this.#pairs.length; i += 1) yield [...this.#pairs[i]];
  }

  *keys() {
    for (let i = 0; i < this.#pairs.length; i += 1) yield this.#pairs[i][0];
  }

  *values() {
    for (let i = 0; i < this.#pairs.length; i += 1) yield this.#pairs[i][1];
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return native.formWrite(this.#pairs.flat());
  }

  get [Symbol.toStringTag]() {
    return 'URLSearchParams';
  }
}

export class URL {
  #parts;
  #params;

  constructor(url, base) {
    const parts = native.urlParse(usv(url), base === undefined ? undefined : usv(base));
    if (parts === undefined || parts === null) {
      throw Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input: String(url) });
    }
    this.#parts = parts;
  }

  static canParse(url, base) {
    const parts = native.urlParse(usv(url), base === undefined ? undefined : usv(base));
    return parts !== undefined && parts !== null;
  }

  static parse(url, base) {
    return URL.canParse(url, base) ? new URL(url, base) : null;
  }

  #set(part, value, follow = true) {
    const parts = native.urlSet(this.#parts[0], part, value);
    if (parts === undefined || parts === null) {
      throw Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input: value });
    }
    this.#parts = parts;
    if (follow && (part === 'href' || part === 'search')) this.#params?.[Symbol.for('sless.follow')](this.search.slice(1));
  }

  get searchParams() {
    if (this.#params === undefined) {
      this.#params = new URLSearchParams(this.search);
      link(this.#params, (text) => this.#set('search', text, false));
    }
    return this.#params;
  }

  toString() {
    return this.#parts[0];
  }

  toJSON() {
    return this.#parts[0];
  }

  [Symbol.for('nodejs.util.inspect.custom')]() {
    return `URL { ${this.href} }`;
  }

  get [Symbol.toStringTag]() {
    return 'URL';
  }

  static {
    PARTS.forEach((part, index) => {
      const property = {
        get() {
          return this.#parts[index];
        },
        configurable: true,
        enumerable: true,
      };
      if (part !== 'origin') {
        property.set = function set(value) {
          this.#set(part, usv(value));
        };
      }
      Object.defineProperty(URL.prototype, part, property);
    });
  }
}
