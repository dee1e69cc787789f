'use strict';
// Structured log: one JSON object a line on standard output, with the request id of the call that wrote it.
// `console`, `process.stdout` and `context.log` all end here. What a call may write is bounded; the rest is counted.

const { AsyncLocalStorage } = require('node:async_hooks');
const { format } = require('node:util');

// A longer line is cut: one record stays well below what log collectors take.
const MAX_LINE_CHARS = 16 << 10;
const RESERVED = new Set(['time', 'level', 'message', 'requestId']);
const RANK = { debug: 0, info: 1, warn: 2, error: 3 };

// The call whose code is running.
const current = new AsyncLocalStorage();
const write = process.stdout.write.bind(process.stdout);
// Lines begun outside of any call.
const outside = { info: '', error: '' };
let threshold = RANK.info;

const plain = (_key, value) => {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Error ? (value.stack ?? String(value)) : value;
};

function record(level, message, requestId, fields) {
  const entry = { time: new Date().toISOString(), level, message };
  if (requestId) entry.requestId = requestId;
  for (const [key, value] of Object.entries(fields ?? {})) entry[RESERVED.has(key) ? `${key}_` : key] = value;
  write(`${JSON.stringify(entry, plain)}\n`);
}

/** A record of the runtime itself: not counted against the call. */
function platform(level, message, requestId, fields) {
  if (RANK[level] >= threshold) record(level, message, requestId, fields);
}

/** A record of the user's code. */
function user(level, message, fields) {
  if (RANK[level] < threshold) return;
  if (message.length > MAX_LINE_CHARS) message = `${message.slice(0, MAX_LINE_CHARS)}… (cut)`;
  const call = current.getStore();
  if (call !== undefined && !call.mayLog(message.length)) return;
  try {
    record(level, message, call?.requestId, fields);
  } catch (error) {
    record(level, message, call?.requestId, { fieldsError: error.message });
  }
}

/** Text of `process.stdout` or `process.stderr`: every line becomes a record. */
function text(level, chunk) {
  const lines = current.getStore()?.lines ?? outside;
  const parts = (lines[level] + chunk).split('\n');
  let rest = parts.pop();
  for (const line of parts) user(level, line);
  if (rest.length > MAX_LINE_CHARS) {
    user(level, rest);
    rest = '';
  }
  lines[level] = rest;
}

function writer(level) {
  return (chunk, encoding, done) => {
    const given = typeof encoding === 'function' ? encoding : done;
    text(level, typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString());
    if (given) process.nextTick(given);
    return true;
  };
}

/** Takes over standard output, standard error and `console`. */
function install(level) {
  threshold = RANK[level];
  process.stdout.write = writer('info');
  process.stderr.write = writer('error');
  // Node prints warnings past `process.stderr`.
  process.removeAllListeners('warning');
  process.on('warning', (warning) => {
    platform('warn', warning.message, current.getStore()?.requestId, { warning: warning.name, stack: warning.stack });
  });
  const levels = { debug: 'debug', log: 'info', info: 'info', warn: 'warn', error: 'error' };
  for (const [method, as] of Object.entries(levels)) console[method] = (...args) => user(as, format(...args));
  console.trace = (...args) => {
    const at = { name: 'Trace', message: format(...args) };
    Error.captureStackTrace(at, console.trace);
    user('error', at.stack);
  };
}

const isFields = (value) =>
  value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Error);
const at = (level) => (message, ...rest) =>
  rest.length === 1 && isFields(rest[0]) ? user(level, format(message), rest[0]) : user(level, format(message, ...rest));

/** `context.log`: `log('text', { key: value })`, `log.debug`, `.info`, `.warn`, `.error`. */
const log = Object.assign(at('info'), { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') });

module.exports = { current, install, log, platform, user };
