// The handler contract. Both runtimes, `wasm-js` and `nodejs20`, keep it.

/** An HTTP request. */
export interface HttpEvent {
  /** As sent. */
  method: string;
  /** The path after the function's name, byte for byte: `%2F`, `//` and a trailing slash stay as they are. */
  path: string;
  /** What follows `?`, byte for byte; `''` without one. */
  rawQuery: string;
  /** The query decoded as a form: a key that comes once has text, a repeated one a list in order. */
  query: Record<string, string | string[]>;
  /** Names in lower case. Repeated headers are joined with `, `, cookies with `; `. */
  headers: Record<string, string>;
  /** Text, or base64 of the bytes where `isBase64Encoded`; `''` without a body. */
  body: string;
  isBase64Encoded: boolean;
}

/** An event of a schedule, a device or an asynchronous call: a CloudEvent 1.0 in structured mode. */
export interface CloudEvent<Data = unknown> {
  specversion: string;
  id: string;
  source: string;
  type: string;
  time?: string;
  subject?: string;
  datacontenttype?: string;
  data?: Data;
  data_base64?: string;
  [extension: string]: unknown;
}

/** `'specversion' in event` tells the two apart. */
export type Event = HttpEvent | CloudEvent;

/** Writes a line to the function's log: a message with values for `%s`, or a message and an object of fields. */
export interface LogMethod {
  (message: unknown, fields: Record<string, unknown>): void;
  (message: unknown, ...values: unknown[]): void;
}

export interface Log extends LogMethod {
  debug: LogMethod;
  info: LogMethod;
  warn: LogMethod;
  error: LogMethod;
}

export interface Context {
  /** The request's `X-Request-Id`. */
  requestId: string;
  functionName: string;
  namespace: string;
  version: number;
  /** When the call is cut, in milliseconds of Unix time. */
  deadlineMs: number;
  log: Log;
}

export type Bytes = Uint8Array | ArrayBuffer | DataView;
/** Pieces go out as they are made; the first one decides the content type. */
export type Stream =
  | AsyncIterable<string | Uint8Array>
  | Iterator<string | Uint8Array> & Iterable<string | Uint8Array>;
export type Body = string | Bytes | Stream | Json | null;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };

/** A response with a status of its own. */
export interface HttpResponse {
  /** 200 to 599. */
  statusCode: number;
  /** Each value is text, a whole number, or a list of them, which becomes a header for each. */
  headers?: Record<string, string | number | (string | number)[]> | Headers | null;
  /** It decides the content type, unless `headers` has one. */
  body?: Body | object;
  /** `body` is base64 text. */
  isBase64Encoded?: boolean | null;
}

/** A response, a web `Response`, or a body alone with status 200: text, bytes, a stream, JSON. Nothing is 204. */
export type Result = HttpResponse | Response | Body | object | undefined | void;

export type Handler<E = Event> = (event: E, context: Context) => Result | Promise<Result>;
export type HttpHandler = Handler<HttpEvent>;
export type CloudEventHandler<Data = unknown> = Handler<CloudEvent<Data>>;
