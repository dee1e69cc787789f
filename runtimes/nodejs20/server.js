'use strict';
// The server of runtime `nodejs20`: HTTP in, a call of the user's handler, HTTP out. The contract it keeps is in
// `runtimes/README.md`. It uses the standard library only. `node server.js [--check]`; `--check` only loads the handler.

const http = require('node:http');
const { Runner, describe } = require('./lib/calls.js');
const { load, LoadError } = require('./lib/load.js');
const logs = require('./lib/logs.js');
const problem = require('./lib/problem.js');
const settings = require('./lib/settings.js');
const { watch } = require('./lib/watchdog.js');

const EXIT_SETTINGS = 78;
const EXIT_HANDLER = 65;
const EXIT_LISTEN = 71;

const BACKLOG = 1024;
const MAX_CONNECTIONS = 4096;
// Request line and headers together: 100 headers and a 7 KB one fit many times.
const MAX_HEAD_BYTES = 64 << 10;
const MAX_HEADERS = 200;
// Above the 90 s that common clients keep idle connections, so that it is they who close.
const IDLE_MILLISECONDS = 120_000;
const BODY_MILLISECONDS = 300_000;
const SWEEP_MILLISECONDS = 500;
// How long a refused client is still read, so that the answer is not lost to a reset.
const LINGER_MILLISECONDS = 2000;
const DRAIN_POLL_MILLISECONDS = 20;
// A probe is told from a user's request by this header, which the platform takes from clients.
const PROBE_HEADER = 'x-sless-probe';
const NO_BODY = Buffer.alloc(0);

const exit = process.exit.bind(process);

const refused = new WeakSet();

/** Answers without a call and ends the connection, after a moment in which what the client still sends is read over. */
function refuse(req, res, code, detail) {
  const requestId = req.headers['x-request-id'] ?? '';
  const { status, headers, body } = problem.answer(code, detail, req.url.split('?', 1)[0], requestId);
  const { socket } = req;
  headers.push('content-length', String(body.length));
  const bodyFollows = req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;
  // Node ends the connection at once where this is said, and what still comes would turn the answer into a reset.
  if (!bodyFollows) headers.push('connection', 'close');
  res.writeHead(status, headers);
  res.end(req.method === 'HEAD' ? undefined : body);
  refused.add(socket); // What follows must not be taken for a request.
  if (!bodyFollows) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MILLISECONDS);
  socket.on('close', () => clearTimeout(timer));
  req.on('end', () => socket.end());
  req.resume();
}

/** Path and query of a request target, byte for byte; undefined if it is none. */
function target(req) {
  let { url } = req;
  if (url[0] !== '/' && !(url === '*' && req.method === 'OPTIONS')) {
    const absolute = /^https?:\/\/[^/?#]+/i.exec(url);
    if (absolute === null) return undefined;
    url = url.slice(absolute[0].length);
    if (url[0] !== '/') url = `/${url}`;
  }
  const mark = url.indexOf('?');
  return mark < 0 ? [url, ''] : [url.slice(0, mark), url.slice(mark + 1)];
}

function count(rawHeaders, name) {
  let times = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i].length === name.length && rawHeaders[i].toLowerCase() === name) times += 1;
  }
  return times;
}

function listener(runner, config) {
  const tooLarge = (req, res) =>
    refuse(req, res, 'payload_too_large', `the body has more than ${config.requestBytes} bytes (limits.requestBytes)`);

  return function onRequest(req, res) {
    if (refused.has(req.socket)) return undefined;
    const parts = target(req);
    if (parts === undefined) return refuse(req, res, 'bad_request', 'the request target is no path');
    if (req.rawHeaders.length > MAX_HEADERS * 2) {
      return refuse(req, res, 'headers_too_large', `there are more than ${MAX_HEADERS} headers`);
    }
    const hosts = count(req.rawHeaders, 'host');
    if (hosts > 1 || (hosts === 0 && req.httpVersionMinor === 1)) {
      return refuse(req, res, 'bad_request', 'there has to be one Host header');
    }
    const [path, query] = parts;
    const length = req.headers['content-length'];
    if (Number(length) > config.requestBytes) return tooLarge(req, res);
    if (path === '/healthz' && req.headers[PROBE_HEADER] !== undefined) {
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}');
      return undefined;
    }
    if (this === 'continue') res.writeContinue();
    if (length === undefined && req.headers['transfer-encoding'] === undefined) {
      return runner.start(req, res, path, query, NO_BODY);
    }
    const chunks = [];
    let size = 0;
    req.on('data', (chunk) => {
      size += chunk.length;
      if (size <= config.requestBytes) chunks.push(chunk);
      else if (!res.headersSent) {
        chunks.length = 0;
        tooLarge(req, res);
      }
    });
    req.on('end', () => {
      if (!res.headersSent) runner.start(req, res, path, query, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    });
    req.on('error', () => {}); // The client went away while it sent.
    return undefined;
  };
}

/** What is not HTTP gets a problem and the end of the connection. */
function onClientError(error, socket) {
  if (!socket.writable || error.code === 'ECONNRESET') return socket.destroy();
  const [code, detail] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['headers_too_large', `request line and headers have more than ${MAX_HEAD_BYTES} bytes`]
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['request_timeout', 'the request did not arrive in time']
        : ['bad_request', error.reason ?? error.message];
  const { status, headers, body } = problem.answer(code, detail, '-', '');
  const lines = [`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}`];
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`);
  lines.push(`content-length: ${body.length}`, 'connection: close', '', '');
  socket.end(Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), body]));
  const timer = setTimeout(() => socket.destroy(), LINGER_MILLISECONDS);
  socket.on('close', () => clearTimeout(timer));
  return undefined;
}

/** Stops accepting, lets calls finish within the grace, then answers the rest. */
function drain(server, runner, config) {
  const started = Date.now();
  logs.platform('info', 'shutting down', undefined, { calls: runner.running });
  runner.draining = true;
  // Connections that the kernel has accepted already would be reset: a moment takes them in.
  setTimeout(() => {
    let open = true;
    server.close(() => {
      open = false;
    });
    const until = started + config.graceSeconds * 1000;
    const poll = setInterval(() => {
      server.closeIdleConnections();
      if (open && Date.now() < until) return;
      clearInterval(poll);
      runner.abandon();
      // For answers on their way out.
      setTimeout(() => {
        logs.platform('info', 'stopped', undefined, { elapsedMs: Date.now() - started, abandonedCalls: runner.running });
        exit(0);
      }, open ? 100 : 0);
    }, DRAIN_POLL_MILLISECONDS);
  }, DRAIN_POLL_MILLISECONDS);
}

/** Errors that no `await` sees: one call's fault must not take down the others. */
function catchStray(runner) {
  process.on('uncaughtException', (error) => {
    const call = logs.current.getStore();
    if (call !== undefined) return runner.fail(call, error);
    const { type, text, stack } = describe(error);
    logs.platform('error', 'an error outside of any call', undefined, { errorType: type, error: text, stack });
    return undefined;
  });
  process.on('unhandledRejection', (error) => {
    const { type, text, stack } = describe(error);
    logs.platform('error', 'a promise was rejected and nothing awaited it', logs.current.getStore()?.requestId, {
      errorType: type,
      error: text,
      stack,
    });
  });
  process.exit = (code) => {
    if (logs.current.getStore() === undefined) exit(code);
    throw Object.assign(new Error("a function can't end its process; return or throw"), { name: 'ProcessExit' });
  };
}

function serve(config, handler) {
  const runner = new Runner(config, handler);
  const onRequest = listener(runner, config);
  const server = http.createServer({
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: config.headSeconds * 1000,
    requestTimeout: BODY_MILLISECONDS,
    keepAliveTimeout: IDLE_MILLISECONDS,
    connectionsCheckingInterval: SWEEP_MILLISECONDS,
    noDelay: true,
    requireHostHeader: false, // `onRequest` says it in our words, and refuses two as well.
  });
  server.maxHeadersCount = 0; // Node would drop what is over; `onRequest` says 431.
  server.maxConnections = MAX_CONNECTIONS;
  server.on('request', onRequest);
  server.on('checkContinue', onRequest.bind('continue'));
  server.on('clientError', onClientError);
  server.on('error', (error) => {
    logs.platform('error', "can't listen", undefined, {
      error: error.message,
      host: config.host,
      port: config.port,
      remedy: 'free the port, or set PORT to another',
    });
    exit(EXIT_LISTEN);
  });
  server.listen({ host: config.host, port: config.port, backlog: BACKLOG }, () => {
    catchStray(runner);
    watch(config.timeoutSeconds);
    const { port } = server.address();
    logs.platform('info', 'listening', undefined, {
      host: config.host,
      port,
      function: config.functionName,
      version: config.version,
    });
  });
  let draining = false;
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, () => {
      if (!draining) drain(server, runner, config);
      draining = true;
    });
  }
}

async function main() {
  const check = process.argv[2] === '--check';
  // Before anything is read, so that every word of this process is a record.
  logs.install('info');
  let config;
  try {
    config = settings.read(process.env);
  } catch (error) {
    if (!(error instanceof settings.SettingError)) throw error;
    logs.platform('error', 'a setting is not allowed', undefined, { error: error.message });
    exit(EXIT_SETTINGS);
  }
  logs.install(config.logLevel);
  const unsettled = () => {
    logs.platform('error', "the handler can't be loaded", undefined, {
      error: 'a top-level await never settles',
      remedy: 'await only what ends',
    });
    process.exitCode = EXIT_HANDLER;
  };
  process.once('exit', unsettled);
  process.exit = () => {
    throw new Error('process.exit() was called while the file was loaded');
  };
  let handler;
  try {
    handler = await load(config.functionDir, config.entrypoint);
  } catch (error) {
    process.off('exit', unsettled);
    if (!(error instanceof LoadError)) throw error;
    if (check && !error.certain) {
      const message = "the handler can't be judged at build: its code needs its surroundings";
      logs.platform('warn', message, undefined, error.fields);
      exit(0);
    }
    logs.platform('error', "the handler can't be loaded", undefined, error.fields);
    exit(EXIT_HANDLER);
  }
  process.off('exit', unsettled);
  if (check) exit(0);
  serve(config, handler);
}

main();
