// console and context.log. What they print are lines of the function's log: below `warn` of standard output, else of
// standard error. Values look as in Node, whose own `util.inspect` this uses.

import { format, inspect } from 'node-inspect-extracted';
import { native } from './native.js';
import { process } from './process.js';

const OUT = 1;
const ERR = 2;
const RANK = { debug: 0, info: 1, warn: 2, error: 3 };
const RESERVED = new Set(['level', 'message']);

let indent = '';
const counts = new Map();
const starts = new Map();
let threshold;

function wanted(level) {
  threshold ??= RANK[process.env.SLESS_LOG_LEVEL] ?? RANK.info;
  return RANK[level] >= threshold;
}

function write(level, text) {
  // `info` is the default threshold, so only for other levels is it worth to look at the environment.
  if (level !== 'error' && (level === 'debug' || threshold !== undefined || native.serving()) && !wanted(level)) return;
  const lines = indent === '' ? text : indent + text.replaceAll('\n', `\n${indent}`);
  native.print(RANK[level] >= RANK.warn ? ERR : OUT, `${lines}\n`);
}

const text = (args) => (args.length === 1 && typeof args[0] === 'string' ? args[0] : format(...args));
const at = (level) => (...args) => write(level, text(args));
const label = (name) => (name === undefined ? 'default' : String(name));

function elapsed(name) {
  const start = starts.get(name);
  if (start === undefined) return undefined;
  return `${name}: ${(native.now() - start).toFixed(3)}ms`;
}

export const console = {
  log: at('info'),
  info: at('info'),
  debug: at('debug'),
  warn: at('warn'),
  error: at('error'),
  trace(...args) {
    const where = { name: 'Trace', message: text(args) };
    Error.captureStackTrace(where, console.trace);
    write('error', where.stack);
  },
  assert(condition, ...args) {
    if (condition) return;
    write('warn', args.length === 0 ? 'Assertion failed' : `Assertion failed: ${text(args)}`);
  },
  dir(value, options) {
    write('info', inspect(value, { customInspect: false, ...options }));
  },
  dirxml: at('info'),
  table(value) {
    write('info', inspect(value));
  },
  group(...args) {
    if (args.length > 0) write('info', text(args));
    indent += '  ';
  },
  groupCollapsed(...args) {
    console.group(...args);
  },
  groupEnd() {
    indent = indent.slice(2);
  },
  count(name) {
    const key = label(name);
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    write('info', `${key}: ${count}`);
  },
  countReset(name) {
    counts.delete(label(name));
  },
  time(name) {
    starts.set(label(name), native.now());
  },
  timeLog(name, ...rest) {
    const line = elapsed(label(name));
    if (line !== undefined) write('info', rest.length === 0 ? line : `${line} ${text(rest)}`);
  },
  timeEnd(name) {
    const line = elapsed(label(name));
    starts.delete(label(name));
    if (line !== undefined) write('info', line);
  },
};

const isFields = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Error);

const plain = (_key, value) => {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Error ? (value.stack ?? String(value)) : value;
};

/** A line with fields is one JSON object. */
function record(level, message, fields) {
  const entry = { level, message };
  for (const [key, value] of Object.entries(fields)) entry[RESERVED.has(key) ? `${key}_` : key] = value;
  try {
    write(level, JSON.stringify(entry, plain));
  } catch (error) {
    write(level, JSON.stringify({ level, message, fieldsError: error.message }));
  }
}

const logAt = (level) => (message, ...rest) =>
  rest.length === 1 && isFields(rest[0]) ? record(level, text([message]), rest[0]) : write(level, text([message, ...rest]));

/** `context.log`: `log('text', { key: value })`, `log.debug`, `.info`, `.warn`, `.error`. */
export const log = Object.assign(logAt('info'), {
  debug: logAt('debug'),
  info: logAt('info'),
  warn: logAt('warn'),
  error: logAt('error'),
});
