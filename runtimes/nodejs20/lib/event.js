'use strict';
// What a handler gets: the event of a request.

const { isUtf8 } = require('node:buffer');

const CLOUD_EVENT = 'application/cloudevents+json';
// The media types whose bodies are text if they are valid UTF-8. The same list in every runtime (runtimes/README.md).
const TEXT = new RegExp(
  '^(?:text/.+|.+/(?:json|xml|javascript|ecmascript|yaml|x-yaml|toml|graphql|sql|ndjson|x-ndjson|jsonl' +
    '|x-www-form-urlencoded)|.+\\+(?:json|xml|yaml))$',
);
// Of the connection, not of the request: a handler never sees them.
const HOP_BY_HOP = new Set([
  'connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade',
]);

/** The body is no CloudEvent; the message says why. */
class BadEvent extends Error {}

const mediaType = (contentType) => contentType.split(';', 1)[0].trim().toLowerCase();

/** Names in lower case; repeated ones joined as RFC 9110 says, cookies as RFC 6265 does. */
function joinHeaders(raw) {
  const headers = Object.create(null);
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i].toLowerCase();
    if (HOP_BY_HOP.has(name)) continue;
    const known = headers[name];
    headers[name] = known === undefined ? raw[i + 1] : `${known}${name === 'cookie' ? '; ' : ', '}${raw[i + 1]}`;
  }
  return headers;
}

function hex(code) {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  return code >= 65 && code <= 70 ? code - 55 : -1;
}

function decode(text) {
  const bytes = Buffer.from(text, 'latin1');
  let end = 0;
  for (let i = 0; i < bytes.length; i += 1) {
    let byte = bytes[i];
    if (byte === 0x2b) byte = 0x20;
    else if (byte === 0x25 && i + 2 < bytes.length) {
      const high = hex(bytes[i + 1]);
      const low = hex(bytes[i + 2]);
      if (high >= 0 && low >= 0) {
        byte = high * 16 + low;
        i += 2;
      }
    }
    bytes[end] = byte;
    end += 1;
  }
  return bytes.toString('utf8', 0, end);
}

/** `x=1&x=2&y=` → `{ x: ['1', '2'], y: '' }`: form encoding in UTF-8, wrong bytes replaced, wrong `%` kept. */
function parseQuery(raw) {
  const query = Object.create(null);
  if (raw === '') return query;
  for (const piece of raw.split('&')) {
    if (piece === '') continue;
    const equals = piece.indexOf('=');
    let name = equals < 0 ? piece : piece.slice(0, equals);
    let value = equals < 0 ? '' : piece.slice(equals + 1);
    // eslint-disable-next-line no-control-regex
    if (/[%+\x80-\xff]/.test(piece)) {
      name = decode(name);
      value = decode(value);
    }
    const known = query[name];
    if (known === undefined) query[name] = value;
    else if (Array.isArray(known)) known.push(value);
    else query[name] = [known, value];
  }
  return query;
}

function cloudEvent(body) {
  let event;
  try {
    if (!isUtf8(body)) throw new Error('it is not UTF-8');
    event = JSON.parse(body.toString());
  } catch (error) {
    throw new BadEvent(`the body is not JSON: ${error.message}`);
  }
  if (event === null || typeof event !== 'object' || Array.isArray(event)) {
    throw new BadEvent('a CloudEvent is a JSON object');
  }
  for (const attribute of ['specversion', 'id', 'source', 'type']) {
    if (typeof event[attribute] !== 'string' || event[attribute] === '') {
      throw new BadEvent(`a CloudEvent needs \`${attribute}\`, a string that is not empty`);
    }
  }
  return event;
}

/** The event of a request: a CloudEvent as it is, else the HTTP request. */
function make(method, path, rawQuery, headers, body) {
  const kind = mediaType(headers['content-type'] ?? '');
  if (kind === CLOUD_EVENT) return cloudEvent(body);
  const isBase64Encoded = body.length > 0 && !((kind === '' || TEXT.test(kind)) && isUtf8(body));
  return {
    method,
    path,
    rawQuery,
    query: parseQuery(rawQuery),
    headers,
    body: body.length === 0 ? '' : body.toString(isBase64Encoded ? 'base64' : 'utf8'),
    isBase64Encoded,
  };
}

module.exports = { make, joinHeaders, parseQuery, BadEvent, HOP_BY_HOP };
