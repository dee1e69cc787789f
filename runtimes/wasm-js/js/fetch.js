// fetch, Headers, Request, Response (the Fetch standard, as far as a server needs it) over src/fetch.rs.

import { native } from './native.js';
import { TextDecoder } from './encoding.js';
import { ReadableStream } from './streams.js';
import { URL, URLSearchParams } from './url.js';
import { bytesOf } from './values.js';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// eslint-disable-next-line no-control-regex
const VALUE = /^[^\0\r\n]*$/;
const NOTHING = new Uint8Array(0);
const MAX_REDIRECTS = 20;
const NO_BODY_STATUS = new Set([101, 103, 204, 205, 304]);
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const NORMALIZED = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);
// Of a request that goes to another origin than the one it was meant for.
const PRIVATE = ['authorization', 'cookie', 'proxy-authorization'];

function headerName(name) {
  const text = String(name);
  if (!TOKEN.test(text)) throw new TypeError(`${JSON.stringify(text)} is no header name`);
  return text.toLowerCase();
}

function headerValue(name, value) {
  const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  if (!VALUE.test(text)) throw new TypeError(`the header \`${name}\` has a character that headers can't carry`);
  return text;
}

export class Headers {
  #map = new Map(); // name → values

  constructor(init) {
    if (init === undefined || init === null) return;
    if (typeof init !== 'object') throw new TypeError('headers are made of an object or of pairs');
    if (typeof init[Symbol.iterator] === 'function') {
      for (const pair of init) {
        const list = [...pair];
        if (list.length !== 2) throw new TypeError('each header must be a pair of a name and a value');
        this.append(list[0], list[1]);
      }
    } else for (const name of Object.keys(init)) this.append(name, init[name]);
  }

  append(name, value) {
    const key = headerName(name);
    const text = headerValue(key, value);
    const known = this.#map.get(key);
    if (known === undefined) this.#map.set(key, [text]);
    else known.push(text);
  }

  set(name, value) {
    const key = headerName(name);
    this.#map.set(key, [headerValue(key, value)]);
  }

  get(name) {
    return this.#map.get(headerName(name))?.join(', ') ?? null;
  }

  getSetCookie() {
    return [...(this.#map.get('set-cookie') ?? [])];
  }

  has(name) {
    return this.#map.has(headerName(name));
  }

  delete(name) {
    this.#map.delete(headerName(name));
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries() {
    for (const name of [...this.#map.keys()].sort()) {
      const values = this.#map.get(name) ?? [];
      if (name === 'set-cookie') for (const value of values) yield [name, value];
      else yield [name, values.join(', ')];
    }
  }

  *keys() {
    for (const [name] of this.entries()) yield name;
  }

  *values() {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  [Symbol.for('nodejs.util.inspect.custom')](_depth, options, inspect) {
    return `Headers ${inspect(Object.fromEntries(this), options)}`;
  }

  get [Symbol.toStringTag]() {
    return 'Headers';
  }
}

/** A body as given → `{ bytes or stream, type }`. */
function extract(body) {
  if (typeof body === 'string') return { bytes: native.utf8Encode(body), type: 'text/plain;charset=UTF-8' };
  const bytes = bytesOf(body);
  if (bytes !== undefined) return { bytes: bytes.slice() };
  if (body instanceof URLSearchParams) {
    return { bytes: native.utf8Encode(body.toString()), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  }
  if (body instanceof ReadableStream) {
    if (body.locked) throw new TypeError('the stream is in use');
    return { stream: body };
  }
  if (typeof body?.[Symbol.asyncIterator] === 'function') return { stream: ReadableStream.from(body) };
  return { bytes: native.utf8Encode(String(body)), type: 'text/plain;charset=UTF-8' };
}

const pieceOf = (chunk) => {
  const bytes = typeof chunk === 'string' ? native.utf8Encode(chunk) : bytesOf(chunk);
  if (bytes === undefined) throw new TypeError('a body is made of bytes');
  return bytes;
};

/** What Request and Response share. */
class Body {
  #bytes;
  #stream;
  #used = false;

  _take(body, headers) {
    if (body === undefined || body === null) return;
    const { bytes, stream, type } = extract(body);
    this.#bytes = bytes;
    this.#stream = stream;
    if (type !== undefined && !headers.has('content-type')) headers.set('content-type', type);
  }

  /** The body for whoever sends it: bytes, a stream, or null. It counts as used then. */
  _give() {
    if (this.#bytes === undefined && this.#stream === undefined) return null;
    if (this.bodyUsed) throw new TypeError('the body was read already');
    this.#used = true;
    return this.#stream ?? this.#bytes;
  }

  /** A second body with the same content. */
  _copy() {
    if (this.bodyUsed) throw new TypeError('the body was read already');
    if (this.#stream === undefined) return this.#bytes ?? null;
    const [one, two] = this.#stream.tee();
    this.#stream = one;
    return two;
  }

  get body() {
    if (this.#stream === undefined && this.#bytes !== undefined) {
      const bytes = this.#bytes;
      const used = this.#used;
      this.#stream = new ReadableStream({
        type: 'bytes',
        start(controller) {
          if (bytes.length > 0 && !used) controller.enqueue(bytes.slice());
          controller.close();
        },
      });
      if (used) this.#stream.getReader();
    }
    return this.#stream ?? null;
  }

  get bodyUsed() {
    return this.#used || (this.#stream?._disturbed ?? false);
  }

  async bytes() {
    if (this.bodyUsed || this.#stream?.locked) throw new TypeError('the body was read already');
    if (this.#stream === undefined) {
      this.#used = this.#bytes !== undefined;
      return this.#bytes ?? NOTHING;
    }
    this.#used = true;
    const pieces = [];
    let length = 0;
    for await (const chunk of this.#stream) {
      const piece = pieceOf(chunk);
      pieces.push(piece);
      length += piece.length;
    }
    if (pieces.length === 1) return pieces[0];
    const all = new Uint8Array(length);
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }

  async arrayBuffer() {
    const bytes = await this.bytes();
    return bytes.byteLength === bytes.buffer.byteLength ? bytes.buffer : bytes.slice().buffer;
  }

  async text() {
    return new TextDecoder().decode(await this.bytes());
  }

  async json() {
    return JSON.parse(await this.text());
  }

  async formData() {
    throw new TypeError('FormData is not supported in this runtime; read text() into URLSearchParams, or use nodejs20');
  }

  async blob() {
    throw new TypeError('Blob is not supported in this runtime; use bytes() or arrayBuffer()');
  }
}

export class Request extends Body {
  constructor(input, init = {}) {
    super();
    const from = input instanceof Request ? input : undefined;
    const url = from === undefined ? new URL(input) : new URL(from.url);
    if (url.username !== '' || url.password !== '') throw new TypeError('a URL of a request has no user name in it');
    url.hash = '';
    const method = String(init.method ?? from?.method ?? 'GET');
    if (!TOKEN.test(method)) throw new TypeError(`${JSON.stringify(method)} is no method`);
    const upper = method.toUpperCase();
    if (upper === 'CONNECT' || upper === 'TRACE' || upper === 'TRACK') throw new TypeError(`the method ${upper} is not allowed`);
    this.method = NORMALIZED.has(upper) ? upper : method;
    this.url = url.href;
    this.headers = new Headers(init.headers ?? from?.headers);
    this.redirect = init.redirect ?? from?.redirect ?? 'follow';
    if (!['follow', 'error', 'manual'].includes(this.redirect)) throw new TypeError(`\`redirect\` is ${this.redirect}`);
    this.signal = init.signal ?? from?.signal ?? null;
    const body = init.body !== undefined ? init.body : from?._give();
    if (body !== undefined && body !== null && (this.method === 'GET' || this.method === 'HEAD')) {
      throw new TypeError(`a request with method ${this.method} has no body`);
    }
    this._take(body, this.headers);
  }

  clone() {
    const copy = new Request(this.url, { method: this.method, headers: this.headers, redirect: this.redirect, signal: this.signal });
    copy._take(this._copy(), copy.headers);
    return copy;
  }

  get [Symbol.toStringTag]() {
    return 'Request';
  }
}

export class Response extends Body {
  #url = '';
  #redirected = false;
  #type = 'default';

  constructor(body, init = {}) {
    super();
    const status = init.status ?? 200;
    if (!Number.isInteger(status) || status < 200 || status > 599) throw new RangeError(`the status ${status} is not from 200 to 599`);
    this.status = status;
    this.statusText = String(init.statusText ?? '');
    this.headers = new Headers(init.headers);
    if (body !== undefined && body !== null && NO_BODY_STATUS.has(status)) {
      throw new TypeError(`a response with status ${status} has no body`);
    }
    this._take(body, this.headers);
  }

  static json(value, init = {}) {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError('the value is not JSON');
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(text, { ...init, headers });
  }

  static redirect(url, status = 302) {
    if (!REDIRECTS.has(status)) throw new RangeError(`the status ${status} is no redirect`);
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }

  static error() {
    const response = new Response(null);
    response.#type = 'error';
    response.status = 0;
    return response;
  }

  /** A response that came over the network. */
  static _received(status, headers, stream, url, redirected) {
    const response = new Response(null, { status: 200, headers });
    response.status = status;
    response.#url = url;
    response.#redirected = redirected;
    response.#type = 'basic';
    if (stream !== null) response._take(stream, response.headers);
    return response;
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  get url() {
    return this.#url;
  }

  get redirected() {
    return this.#redirected;
  }

  get type() {
    return this.#type;
  }

  clone() {
    const body = this._copy();
    const copy = Response._received(this.status, this.headers, null, this.#url, this.#redirected);
    copy.statusText = this.statusText;
    copy.#type = this.#type;
    copy._take(body, copy.headers);
    return copy;
  }

  get [Symbol.toStringTag]() {
    return 'Response';
  }
}

/** `[status, headers (flat list), body]` of a response that a handler returned. */
export const responseParts = (response) => [response.status, [...response.headers].flat(), response._give()];

const failed = (cause) => new TypeError('fetch failed', { cause });

/** Sends a body; a failure shows in the response, which comes or does not. */
async function send(id, body) {
  if (body instanceof Uint8Array) await native.httpWrite(id, body);
  else for await (const chunk of body) await native.httpWrite(id, pieceOf(chunk));
  native.httpFinish(id);
}

/** One exchange, without redirects. */
async function exchange(method, url, headers, body, signal) {
  const list = [...headers].flat();
  if (body instanceof Uint8Array && !headers.has('content-length')) list.push('content-length', String(body.length));
  let id;
  try {
    id = native.httpStart(method, url.protocol.slice(0, -1), url.host, url.pathname + url.search, list, body !== null);
  } catch (error) {
    if (error instanceof TypeError) throw error;
    throw failed(error);
  }
  let onAbort;
  const aborted = signal && new Promise((_, reject) => {
    onAbort = () => {
      native.httpClose(id);
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
  });
  aborted?.catch(() => {});
  const done = () => signal?.removeEventListener('abort', onAbort);
  const either = (promise) => (aborted ? Promise.race([promise, aborted]) : promise);
  try {
    if (body !== null) {
      const sent = send(id, body);
      // The answer may come before all of the body is sent; then the rest is of no interest.
      sent.catch(() => {});
    }
    const [status, flat] = await either(native.httpResponse(id));
    const pairs = [];
    for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i], flat[i + 1]]);
    return { id, status, headers: new Headers(pairs), either, done };
  } catch (error) {
    native.httpClose(id);
    done();
    throw signal?.aborted ? signal.reason : failed(error);
  }
}

const bodyOf = ({ id, either, done }) =>
  new ReadableStream(
    {
      type: 'bytes',
      async pull(controller) {
        let bytes;
        try {
          bytes = await either(native.httpRead(id));
        } catch (error) {
          done();
          native.httpClose(id);
          throw error.code === undefined ? error : new TypeError('terminated', { cause: error });
        }
        if (bytes !== null) controller.enqueue(bytes);
        else {
          done();
          controller.close();
          controller.byobRequest?.respond(0);
        }
      },
      cancel() {
        done();
        native.httpClose(id);
      },
    },
    { highWaterMark: 0 },
  );

export async function fetch(input, init) {
  const request = new Request(input, init);
  const { signal, redirect } = request;
  let { method } = request;
  let url = new URL(request.url);
  const headers = new Headers(request.headers);
  let body = request._give();
  for (let hops = 0; ; hops += 1) {
    signal?.throwIfAborted();
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw failed(new Error(`the scheme ${url.protocol} is not supported; there are http: and https:`));
    }
    const answer = await exchange(method, url, headers, body, signal);
    const location = answer.headers.get('location');
    if (!REDIRECTS.has(answer.status) || location === null || redirect === 'manual') {
      const none = method === 'HEAD' || NO_BODY_STATUS.has(answer.status);
      if (none) {
        answer.done();
        native.httpClose(answer.id);
      }
      return Response._received(answer.status, answer.headers, none ? null : bodyOf(answer), url.href, hops > 0);
    }
    answer.done();
    native.httpClose(answer.id);
    if (redirect === 'error') throw failed(new Error('unexpected redirect'));
    if (hops === MAX_REDIRECTS) throw failed(new Error('redirect count exceeded'));
    const next = new URL(location, url);
    const toGet = (answer.status === 303 && method !== 'HEAD') || (answer.status < 303 && method === 'POST');
    if (toGet) {
      method = 'GET';
      body = null;
      for (const name of ['content-encoding', 'content-language', 'content-location', 'content-type', 'content-length']) {
        headers.delete(name);
      }
    } else if (body !== null && !(body instanceof Uint8Array)) {
      throw failed(new Error('a body that streams can not be sent a second time'));
    }
    if (next.origin !== url.origin) for (const name of PRIVATE) headers.delete(name);
    url = next;
  }
}
