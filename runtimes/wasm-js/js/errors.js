// Errors as text: what was thrown, and a stack in V8's shape that names the user's files and lines.

import { originalPositionFor, TraceMap } from '@jridgewell/trace-mapping';

const rawStack = Object.getOwnPropertyDescriptor(Error.prototype, 'stack');
const captureRaw = Error.captureStackTrace;
// A frame of code that is not the user's: native, or of `js/`, which has no file any more.
const OWN_FRAME = /^\s*at (?:.*\((?:native|<null>[^)]*|sless[^)]*)\)|native|<null>.*|sless.*|<anonymous>)$/;
const FRAME = /^(\s*at (?:.*\()?)([^():]+):(\d+)(?::(\d+))?(\)?)$/;

let mapped; // { name, text } or, once it was needed, { name, map }.

/** Has stack traces of the bundle `name` follow a source map. */
export function setSourceMap(name, text) {
  mapped = { name, text };
}

function original(file, line, column) {
  if (mapped === undefined || file !== mapped.name) return undefined;
  if (mapped.map === undefined) mapped = { name: mapped.name, map: new TraceMap(mapped.text) };
  const found = originalPositionFor(mapped.map, { line, column: Math.max(column - 1, 0) });
  return found.source === null ? undefined : `${found.source}:${found.line}:${found.column + 1}`;
}

function frames(raw) {
  const lines = [];
  for (const line of raw.split('\n')) {
    if (line === '' || OWN_FRAME.test(line)) continue;
    const frame = FRAME.exec(line);
    const place = frame && original(frame[2], Number(frame[3]), Number(frame[4] ?? 1));
    lines.push(place ? `${frame[1]}${place}${frame[5]}` : line);
  }
  return lines.join('\n');
}

function title(error) {
  const name = error.name === undefined ? 'Error' : String(error.name);
  const message = error.message === undefined ? '' : String(error.message);
  if (message === '') return name;
  return name === '' ? message : `${name}: ${message}`;
}

// QuickJS keeps bare frames; V8's stacks begin with the error's title, and libraries count on it.
Object.defineProperty(Error.prototype, 'stack', {
  get() {
    const raw = rawStack.get.call(this);
    if (typeof raw !== 'string') return raw;
    const text = frames(raw);
    return text === '' ? title(this) : `${title(this)}\n${text}`;
  },
  set(value) {
    Object.defineProperty(this, 'stack', { value, writable: true, configurable: true, enumerable: false });
  },
  configurable: true,
});

Error.captureStackTrace = function captureStackTrace(target, above) {
  // On an error it refreshes what the getter above reads; on anything else it makes a property.
  captureRaw.call(Error, target, above);
  const own = Object.getOwnPropertyDescriptor(target, 'stack');
  if (own !== undefined && typeof own.value === 'string') {
    const text = frames(own.value);
    const value = text === '' ? title(target) : `${title(target)}\n${text}`;
    Object.defineProperty(target, 'stack', { value, writable: true, configurable: true, enumerable: false });
  }
};

/** `[type, text, stack]` of anything thrown. */
export function describe(error) {
  const isError = error instanceof Error || (error !== null && typeof error === 'object' && 'message' in error);
  if (!isError) {
    let text;
    try {
      text = String(error);
    } catch {
      text = 'a value that has no text';
    }
    return ['Error', text, ''];
  }
  const own = error.constructor?.name;
  const type = error.name && error.name !== 'Error' ? String(error.name) : own || 'Error';
  return [type, String(error.message), stackOf(error, 0)];
}

// A chain of causes that is longer than this is a cycle, or nobody reads it.
const MAX_CAUSES = 5;

function stackOf(error, depth) {
  let text = String(error.stack ?? title(error));
  const cause = error.cause;
  if (cause instanceof Error && depth < MAX_CAUSES) text += `\ncaused by ${stackOf(cause, depth + 1)}`;
  else if (cause !== undefined && !(cause instanceof Error)) text += `\ncaused by ${String(cause)}`;
  if (Array.isArray(error.errors) && depth < MAX_CAUSES) {
    for (const one of error.errors.slice(0, MAX_CAUSES)) {
      text += `\none of them: ${one instanceof Error ? stackOf(one, depth + 1) : String(one)}`;
    }
  }
  return text;
}

/** Where the user's code is: `file:line`. */
export function place() {
  const frame = /\(?([^\s():]+:\d+)(?::\d+)?\)?$/m.exec(frames(rawStack.get.call(new Error())));
  return frame?.[1];
}
