'use strict';
// What a handler returned → status, headers and body. Whatever is not a response is refused with the fault's name.

const { HOP_BY_HOP } = require('./event.js');

const TEXT = 'text/plain; charset=utf-8';
const JSON_TYPE = 'application/json';
const BINARY = 'application/octet-stream';
const FIELDS = ['statusCode', 'headers', 'body', 'isBase64Encoded'];
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const NOTHING = Buffer.alloc(0);

/** The function's fault, named. */
class BadResponse extends Error {}

const kindOf = (value) => {
  if (value === null) return 'null';
  return typeof value === 'object' ? (value.constructor?.name ?? 'object') : typeof value;
};

function toJson(value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    const why = error.message.split('\n', 1)[0];
    throw new BadResponse(`the handler returned a value that can't be written as JSON: ${why}`);
  }
  if (text === undefined) {
    throw new BadResponse(
      `the handler returned a ${kindOf(value)}, which is not JSON; return text, bytes, JSON values or a response`,
    );
  }
  return Buffer.from(text);
}

/** Bytes of a Buffer, typed array, DataView or ArrayBuffer; undefined for anything else. */
function bytesOf(value) {
  if (Buffer.isBuffer(value)) return value;
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? Buffer.from(value) : undefined;
}

/** A piece of a streamed body. */
function piece(chunk) {
  const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : bytesOf(chunk);
  if (bytes === undefined) throw new BadResponse(`the body's stream gave a ${kindOf(chunk)}; give strings or bytes`);
  return bytes;
}

const isStream = (value) =>
  typeof value[Symbol.asyncIterator] === 'function' ||
  (typeof value.next === 'function' && typeof value[Symbol.iterator] === 'function');

function headerText(name, value) {
  let text;
  if (typeof value === 'string') text = value.replace(/^[ \t]+|[ \t]+$/g, '');
  else if (Number.isSafeInteger(value) || typeof value === 'bigint') text = String(value);
  else {
    throw new BadResponse(`header \`${name}\` is a ${kindOf(value)}; use text, a whole number, or a list of them`);
  }
  if (!VALUE.test(text)) {
    throw new BadResponse(
      `header \`${name}\` has a character that headers can't carry; allowed are U+0020 to U+007E and U+0080 to U+00FF`,
    );
  }
  return text;
}

/** Fills `answer.headers`, `.typed`, `.length`. */
function takeHeaders(answer, given) {
  if (given === undefined || given === null) return;
  if (typeof given !== 'object' || Array.isArray(given)) {
    throw new BadResponse(`\`headers\` is a ${kindOf(given)}; use an object of names and values`);
  }
  for (const [name, value] of given instanceof Headers ? given : Object.entries(given)) {
    if (!TOKEN.test(name)) throw new BadResponse(`${JSON.stringify(name)} is no header name`);
    const lower = name.toLowerCase();
    const texts = Array.isArray(value) ? value.map((one) => headerText(name, one)) : [headerText(name, value)];
    // The connection is the runtime's; X-Sless-* are the platform's own words; the date is the server's.
    if (HOP_BY_HOP.has(lower) || lower.startsWith('x-sless-') || lower === 'date') continue;
    if (lower === 'content-length') {
      if (texts.length !== 1 || !/^\d{1,15}$/.test(texts[0])) {
        throw new BadResponse(
          `\`content-length\` is ${JSON.stringify(texts.join(', '))}; use the body's length, or leave it out`,
        );
      }
      answer.length = Number(texts[0]);
      continue;
    }
    if (lower === 'content-type') answer.typed = true;
    for (const text of texts) answer.headers.push(lower, text);
  }
}

function decodeBase64(value) {
  if (typeof value !== 'string') {
    throw new BadResponse(`\`isBase64Encoded\` is true, but \`body\` is a ${kindOf(value)}; use base64 text`);
  }
  const pad = value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0;
  const core = value.slice(0, value.length - pad);
  if (value.length % 4 !== 0 || /[^A-Za-z0-9+/]/.test(core)) {
    throw new BadResponse('`isBase64Encoded` is true, but `body` is not base64');
  }
  return Buffer.from(value, 'base64');
}

/** Fills `answer.body` or `.stream`; gives the content type that goes with it. */
function takeBody(answer, value, isBase64) {
  if (isBase64) {
    answer.body = decodeBase64(value);
    return BINARY;
  }
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') {
    answer.body = Buffer.from(value);
    return TEXT;
  }
  const bytes = bytesOf(value);
  if (bytes !== undefined) {
    answer.body = bytes;
    return BINARY;
  }
  if (typeof value === 'object' && isStream(value)) {
    answer.stream = value;
    return undefined;
  }
  answer.body = toJson(value);
  return JSON_TYPE;
}

function fromResponse(answer, result) {
  answer.status = result.status;
  checkStatus(result.status);
  takeHeaders(answer, result.headers);
  answer.stream = result.body ?? undefined;
}

function checkStatus(status) {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    const shown = typeof status === 'bigint' ? `${status}n` : JSON.stringify(status);
    throw new BadResponse(`\`statusCode\` is ${shown}; use a whole number from 200 to 599`);
  }
}

function fromFields(answer, result) {
  for (const field of Object.keys(result)) {
    if (!FIELDS.includes(field)) {
      throw new BadResponse(
        `\`${field}\` is no field of a response; there are ${FIELDS.join(', ')} ` +
          '(a header with several values has a list)',
      );
    }
  }
  checkStatus(result.statusCode);
  answer.status = result.statusCode;
  takeHeaders(answer, result.headers);
  const isBase64 = result.isBase64Encoded ?? false;
  if (typeof isBase64 !== 'boolean') {
    throw new BadResponse(`\`isBase64Encoded\` is ${JSON.stringify(isBase64)}; use true or false`);
  }
  return takeBody(answer, result.body, isBase64);
}

/**
 * The answer that a handler's return value stands for: `{ status, headers (flat list), body, stream, typed, length }`.
 * `length` is what the function said in content-length; `typed` whether there is a content-type.
 */
function prepare(result, maxBytes) {
  const answer = { status: 200, headers: [], body: NOTHING, stream: undefined, typed: false, length: undefined };
  const isObject = result !== null && typeof result === 'object';
  let type;
  if (result === undefined || result === null) answer.status = 204;
  else if (isObject && Object.hasOwn(result, 'statusCode')) type = fromFields(answer, result);
  else if (isObject && result instanceof Response) fromResponse(answer, result);
  else {
    type = takeBody(answer, result, false);
    if (type !== undefined) answer.headers.push('content-type', type);
    answer.typed = type !== undefined;
    type = undefined;
  }
  if (answer.body.length > maxBytes) {
    throw new BadResponse(
      `the response's body has ${answer.body.length} bytes; at most ${maxBytes} are allowed (limits.responseBytes)`,
    );
  }
  if (type !== undefined && !answer.typed && answer.body.length > 0) answer.headers.push('content-type', type);
  return answer;
}

module.exports = { prepare, piece, BadResponse, TEXT, BINARY };
