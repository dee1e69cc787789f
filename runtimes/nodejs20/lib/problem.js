'use strict';
// The runtime's own answers: problem+json (RFC 9457), in the platform's shape and words.

const MEDIA_TYPE = 'application/problem+json';
// An exception's message goes to the client up to here; the log has all of it.
const MAX_DETAIL_CHARS = 2000;

// code → [status, title, whether it is an outcome of the platform and so goes into X-Sless-Outcome].
const CODES = {
  bad_request: [400, "The request can't be read", false],
  request_timeout: [408, 'The request came too slowly', false],
  payload_too_large: [413, 'The request is too large', true],
  concurrency_exceeded: [429, 'Too many calls at once', true],
  headers_too_large: [431, "The request's headers are too large", true],
  function_error: [500, 'The function raised an error', false],
  out_of_memory: [500, 'The function ran out of memory', true],
  bad_response: [502, "The function's response is not valid", true],
  shutting_down: [503, 'The host is shutting down', true],
  deadline_exceeded: [504, 'The function took too long', true],
};

/** `{ status, headers (flat list), body }` of a problem. */
function answer(code, detail, instance, requestId) {
  const [status, title, outcome] = CODES[code];
  if (detail.length > MAX_DETAIL_CHARS) detail = `${detail.slice(0, MAX_DETAIL_CHARS)}…`;
  const type = `urn:sless:problem:${code}`;
  const headers = ['content-type', MEDIA_TYPE];
  if (outcome) headers.push('x-sless-outcome', code);
  if (code === 'concurrency_exceeded' || code === 'shutting_down') headers.push('retry-after', '1');
  const document = { type, title, status, detail, instance, code, requestId };
  return { status, headers, body: Buffer.from(JSON.stringify(document)) };
}

module.exports = { answer };
