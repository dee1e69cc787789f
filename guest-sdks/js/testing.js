'use strict';
// Calls of a handler as the platform makes them, without a server. Requests and answers are read by the runtime's own
// code (contract/), so a test sees what a client would.

const { randomUUID } = require('node:crypto');
const { format } = require('node:util');

const { joinHeaders, make } = require('./contract/event.js');
const { BINARY, TEXT, piece, prepare } = require('./contract/response.js');

// The platform's default for `limits.responseBytes`.
const MAX_RESPONSE_BYTES = 6 << 20;
const WITHOUT_BODY = new Set([204, 304]);

function bodyOf({ body, json }) {
  if (json !== undefined) return Buffer.from(JSON.stringify(json));
  if (body === undefined) return Buffer.alloc(0);
  return typeof body === 'string' ? Buffer.from(body) : Buffer.from(body.buffer ?? body, body.byteOffset, body.byteLength);
}

function eventOf(request) {
  if (request.event !== undefined) return request.event;
  const { path: target = '/', json } = request;
  if (!target.startsWith('/')) throw new TypeError(`path is ${JSON.stringify(target)}; it begins with /`);
  const question = target.indexOf('?');
  const [path, rawQuery] = question < 0 ? [target, ''] : [target.slice(0, question), target.slice(question + 1)];
  const pairs = Array.isArray(request.headers) ? request.headers : Object.entries(request.headers ?? {});
  const headers = joinHeaders(pairs.flat());
  const body = bodyOf(request);
  if (json !== undefined) headers['content-type'] ??= 'application/json';
  const method = request.method ?? (body.length > 0 ? 'POST' : 'GET');
  return make(method, path, rawQuery, headers, body);
}

function contextOf(given, logs) {
  const at = (level) => (message, ...rest) => {
    const [fields] = rest;
    const isFields =
      rest.length === 1 && fields !== null && typeof fields === 'object' && !Array.isArray(fields) && !(fields instanceof Error);
    logs.push(isFields ? { level, message: format(message), ...fields } : { level, message: format(message, ...rest) });
  };
  return {
    requestId: randomUUID(),
    functionName: 'test',
    namespace: 'sless-0000000000000000',
    version: 1,
    deadlineMs: Date.now() + 30_000,
    log: Object.assign(at('info'), { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }),
    ...given,
  };
}

async function collect(prepared) {
  if (prepared.stream === undefined) return prepared.body;
  const pieces = [];
  for await (const chunk of prepared.stream) {
    if (!prepared.typed) {
      prepared.headers.push('content-type', typeof chunk === 'string' ? TEXT : BINARY);
      prepared.typed = true;
    }
    pieces.push(piece(chunk));
  }
  return Buffer.concat(pieces);
}

/** Calls a handler once. What it throws is thrown; what is no response is an error that names the fault. */
async function call(handler, request = {}) {
  const logs = [];
  const event = eventOf(request);
  const result = await handler(event, contextOf(request.context, logs));
  const prepared = prepare(result, MAX_RESPONSE_BYTES);
  const whole = await collect(prepared);
  const body = event.method === 'HEAD' || WITHOUT_BODY.has(prepared.status) ? Buffer.alloc(0) : whole;
  const headers = Object.create(null);
  for (let i = 0; i < prepared.headers.length; i += 2) {
    const [name, value] = [prepared.headers[i], prepared.headers[i + 1]];
    headers[name] = name in headers ? [headers[name], value].flat() : value;
  }
  return { status: prepared.status, headers, body, logs, text: () => body.toString(), json: () => JSON.parse(body.toString()) };
}

/** A CloudEvent, with what is not given filled in. */
function cloudEvent(attributes = {}) {
  return {
    specversion: '1.0',
    id: randomUUID(),
    source: '/test',
    type: 'test',
    time: new Date().toISOString(),
    ...attributes,
  };
}

module.exports = { call, cloudEvent };
