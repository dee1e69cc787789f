import type { CloudEvent, Context, Handler } from './index.js';

/** An HTTP request, or an event as it is. */
export interface TestRequest {
  /** GET, or POST with a body. */
  method?: string;
  /** Path and query; `/` by default. */
  path?: string;
  headers?: Record<string, string> | [string, string][];
  body?: string | Uint8Array | ArrayBuffer;
  /** A body as JSON, with its content type. */
  json?: unknown;
  /** Instead of a request: the event that the handler gets. */
  event?: CloudEvent<any>;
  /** Fields of the context that matter. */
  context?: Partial<Context>;
}

/** What a client would get. */
export interface TestAnswer {
  status: number;
  /** Names in lower case; a list where a header comes several times. */
  headers: Record<string, string | string[]>;
  body: Buffer;
  /** What the handler wrote with `context.log`. */
  logs: { level: string; message: string; [field: string]: unknown }[];
  text(): string;
  json(): any;
}

/** Calls a handler once. What it throws is thrown; what is no response is an error that names the fault. */
export function call(handler: Handler<any>, request?: TestRequest): Promise<TestAnswer>;

/** A CloudEvent, with what is not given filled in. */
export function cloudEvent<Data>(attributes?: Partial<CloudEvent<Data>>): CloudEvent<Data>;
