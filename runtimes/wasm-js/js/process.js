// The part of Node's `process` that handlers and packages use.

import { native } from './native.js';

// What the packages that look at it expect of Node 20.
const VERSION = '20.19.0';

let env;

/** The environment, read from the host when it is first asked for. */
function environment() {
  if (env !== undefined) return env;
  const read = {};
  const list = native.env();
  for (let i = 0; i < list.length; i += 2) read[list[i]] = list[i + 1];
  // Not kept before the snapshot: an instance has an environment of its own.
  if (native.serving()) env = read;
  return read;
}

const writer = (stream) => ({
  isTTY: false,
  fd: stream,
  write(chunk, encoding, done) {
    native.print(stream, typeof chunk === 'string' ? chunk : native.utf8Decode(chunk, false));
    const given = typeof encoding === 'function' ? encoding : done;
    if (given) queueMicrotask(() => given());
    return true;
  },
});

function hrtime(since) {
  const now = native.now();
  let seconds = Math.floor(now / 1e3);
  let nanoseconds = Math.floor((now % 1e3) * 1e6);
  if (since !== undefined) {
    seconds -= since[0];
    nanoseconds -= since[1];
    if (nanoseconds < 0) [seconds, nanoseconds] = [seconds - 1, nanoseconds + 1e9];
  }
  return [seconds, nanoseconds];
}
hrtime.bigint = () => BigInt(Math.round(native.now() * 1e6));

const process = {
  get env() {
    return environment();
  },
  argv: ['sless', 'handler'],
  argv0: 'sless',
  execArgv: [],
  execPath: '/sless',
  arch: 'wasm32',
  platform: 'wasi',
  pid: 1,
  ppid: 0,
  title: 'sless',
  version: `v${VERSION}`,
  versions: { node: VERSION, sless: 'wasm-js' },
  release: { name: 'node' },
  features: {},
  exitCode: undefined,
  stdout: writer(1),
  stderr: writer(2),
  cwd: () => '/',
  chdir() {
    throw new Error('a function has no folder to change to');
  },
  exit() {
    throw Object.assign(new Error("a function can't end its process; return or throw"), { name: 'ProcessExit' });
  },
  abort() {
    process.exit();
  },
  hrtime,
  uptime: () => native.now() / 1e3,
  nextTick: (callback, ...rest) => queueMicrotask(() => callback(...rest)),
  memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
  cpuUsage: () => ({ user: 0, system: 0 }),
  emitWarning: (warning) => native.print(2, `${warning instanceof Error ? warning.stack : warning}\n`),
  // There is nothing outside of a call that could happen to it.
  on: () => process,
  once: () => process,
  off: () => process,
  addListener: () => process,
  removeListener: () => process,
  removeAllListeners: () => process,
  emit: () => false,
  listeners: () => [],
  listenerCount: () => 0,
};

export { process };
