'use strict';
// Calls of the handler: admission, deadline, running it, its answer, its log.

const { randomUUID } = require('node:crypto');
const events = require('./event.js');
const logs = require('./logs.js');
const problem = require('./problem.js');
const { prepare, piece, BadResponse, TEXT, BINARY } = require('./response.js');

// A call over the concurrency waits this long for its turn, then 429. A burst that is over in a moment is served.
const QUEUE_WAIT_MILLISECONDS = 2000;
const MAX_WAITING = 1024;
const MAX_REQUEST_ID_CHARS = 128;

class Call {
  answered = false; // The head is out.
  over = false; // Nothing more goes out.
  holdsSlot = false;
  timer = undefined;
  stop = undefined; // Ends the stream.
  wake = undefined; // Goes on with a stream that waits for the client.
  lines = { info: '', error: '' };
  dropped = 0;
  sent = 0;

  constructor(res, requestId, method, path, logBytes) {
    this.res = res;
    this.requestId = requestId;
    this.method = method;
    this.path = path;
    this.logBytes = this.logLeft = logBytes;
  }

  /** Whether a line of that size still fits; counts it if not. */
  mayLog(size) {
    if (size > this.logLeft) {
      this.logLeft = 0;
      this.dropped += 1;
      return false;
    }
    this.logLeft -= size;
    return true;
  }

  /** Writes lines that have no end yet, and how many were dropped. */
  endLog() {
    for (const level of ['info', 'error']) {
      if (this.lines[level] !== '') logs.current.run(this, logs.user, level, this.lines[level]);
      this.lines[level] = '';
    }
    if (this.dropped > 0) {
      logs.platform('warn', 'the call logged more than it may; lines were dropped', this.requestId, {
        droppedLines: this.dropped,
        logBytes: this.logBytes,
      });
      this.dropped = 0;
    }
  }
}

const wrongLength = (said, is) =>
  new BadResponse(`\`content-length\` is ${said}, but the body has ${is} bytes; leave the header out`);

/** Runs calls of one handler within the settings. */
class Runner {
  running = 0;
  draining = false;
  calls = new Set();
  waiting = [];

  constructor(settings, handler) {
    this.settings = settings;
    this.handler = handler;
    this.timeoutMilliseconds = settings.timeoutSeconds * 1000;
  }

  /** Takes a request whose body has arrived. */
  start(req, res, path, rawQuery, body) {
    const headers = events.joinHeaders(req.rawHeaders);
    let requestId = headers['x-request-id'] ?? '';
    if (requestId === '' || requestId.length > MAX_REQUEST_ID_CHARS) requestId = randomUUID();
    const call = new Call(res, requestId, req.method, path, this.settings.logBytes);
    try {
      call.event = events.make(req.method, path, rawQuery, headers, body);
    } catch (error) {
      if (!(error instanceof events.BadEvent)) throw error;
      this.#problem(call, 'bad_request', error.message);
      return;
    }
    this.calls.add(call);
    // Nobody is left to answer: a stream stops, anything else runs to its end.
    res.on('close', () => {
      this.calls.delete(call);
      if (res.writableFinished) return;
      call.over = true;
      this.#stop(call);
    });
    if (this.running < this.settings.concurrency) this.#begin(call);
    else if (this.waiting.length < MAX_WAITING) {
      this.waiting.push(call);
      const wait = Math.min(QUEUE_WAIT_MILLISECONDS, this.timeoutMilliseconds);
      call.timer = setTimeout(() => {
        this.waiting.splice(this.waiting.indexOf(call), 1);
        this.#refuseForLoad(call);
      }, wait);
    } else this.#refuseForLoad(call);
  }

  #refuseForLoad(call) {
    const detail = `the function takes at most ${this.settings.concurrency} calls at once (concurrency); try again`;
    this.#problem(call, 'concurrency_exceeded', detail);
  }

  #begin(call) {
    const { functionName, namespace, version } = this.settings;
    this.running += 1;
    call.holdsSlot = true;
    call.timer = setTimeout(() => this.#overdue(call), this.timeoutMilliseconds);
    const deadlineMs = Math.trunc(Date.now() + this.timeoutMilliseconds);
    const context = { requestId: call.requestId, functionName, namespace, version, deadlineMs, log: logs.log };
    logs.current.run(call, () => this.#run(call, context));
  }

  async #run(call, context) {
    try {
      const prepared = prepare(await this.handler(call.event, context), this.settings.responseBytes);
      if (prepared.stream === undefined) this.#send(call, prepared);
      else await this.#pump(call, prepared);
    } catch (error) {
      this.fail(call, error);
    } finally {
      this.#release(call);
    }
  }

  /** Sends a stream's pieces as they come, no faster than the client takes them. */
  async #pump(call, prepared) {
    const { stream } = prepared;
    const iterator = stream[Symbol.asyncIterator]?.() ?? stream;
    call.stop = () => {
      if (typeof stream.destroy === 'function') stream.destroy();
      else Promise.resolve(iterator.return?.()).catch(() => {});
    };
    if (call.over) return this.#stop(call);
    call.res.on('drain', () => call.wake?.());
    for (;;) {
      const { done, value } = await iterator.next();
      if (call.over) return undefined;
      if (done) break;
      const data = piece(value);
      if (data.length > 0 && !this.#piece(call, prepared, data, typeof value === 'string')) {
        await new Promise((resolve) => {
          call.wake = resolve;
        });
      }
      if (call.over) return this.#stop(call);
    }
    return this.#streamEnded(call, prepared);
  }

  #stop(call) {
    const { stop } = call;
    call.stop = undefined;
    stop?.();
    call.wake?.();
  }

  // Answers.

  #head(call, status, headers) {
    if (this.draining) headers.push('connection', 'close');
    call.answered = true;
    call.res.writeHead(status, headers);
  }

  #whole(call, status, headers, body, length = body.length) {
    const bodiless = status === 204 || status === 304;
    if (!bodiless) headers.push('content-length', String(length));
    call.over = true;
    this.#head(call, status, headers);
    if (bodiless || call.method === 'HEAD') call.res.end();
    else call.res.end(body);
  }

  #send(call, { status, headers, body, length }) {
    if (call.over) return;
    if (length !== undefined && length !== body.length && status !== 204 && status !== 304) {
      if (call.method !== 'HEAD' || body.length > 0) {
        throw wrongLength(length, body.length);
      }
    }
    this.#whole(call, status, headers, body, length);
  }

  /** Sends a piece; false if the client should catch up first. */
  #piece(call, { status, headers, typed, length }, data, isText) {
    const total = call.sent + data.length;
    if (length !== undefined && total > length) {
      throw wrongLength(length, 'more');
    }
    if (total > this.settings.responseBytes) {
      const most = this.settings.responseBytes;
      throw new BadResponse(`the response's body has more than ${most} bytes (limits.responseBytes)`);
    }
    if (!call.answered) {
      if (!typed) headers.push('content-type', isText ? TEXT : BINARY);
      const bodiless = status === 204 || status === 304;
      if (length !== undefined && !bodiless) headers.push('content-length', String(length));
      this.#head(call, status, headers);
      if (bodiless || call.method === 'HEAD') {
        call.over = true; // The rest isn't wanted.
        call.res.end();
        return true;
      }
    }
    call.sent = total;
    return call.res.write(data);
  }

  #streamEnded(call, { status, headers, length }) {
    if (length !== undefined && call.sent !== length) {
      throw wrongLength(length, call.sent);
    }
    if (!call.answered) this.#whole(call, status, headers, Buffer.alloc(0));
    else {
      call.over = true;
      call.res.end();
    }
  }

  /** Answers for a handler that failed. */
  fail(call, error) {
    if (error instanceof BadResponse) {
      logs.platform('error', "the handler's response is not valid", call.requestId, { error: error.message });
      this.#problem(call, 'bad_response', error.message);
    } else {
      const { type, text, stack } = describe(error);
      logs.platform('error', 'the handler raised an exception', call.requestId, { errorType: type, error: text, stack });
      if (isOutOfMemory(error)) {
        this.#problem(call, 'out_of_memory', 'the function wanted more memory than there is (memoryMb)');
      } else {
        this.#problem(call, 'function_error', text === '' ? type : `${type}: ${text}`);
      }
    }
    this.#stop(call);
  }

  #problem(call, code, detail) {
    if (call.over) return;
    call.over = true;
    if (call.answered) {
      setImmediate(() => call.res.destroy()); // After the pieces that are on their way.
      return;
    }
    const { status, headers, body } = problem.answer(code, detail, call.path, call.requestId);
    this.#whole(call, status, headers, body);
  }

  #overdue(call) {
    const { timeoutSeconds } = this.settings;
    call.timer = undefined;
    logs.platform('warn', 'the call took too long', call.requestId, { timeoutSeconds });
    this.#problem(call, 'deadline_exceeded', `the function took longer than ${timeoutSeconds} s (timeoutSeconds)`);
    call.over = true;
    this.#stop(call);
    // It can't be stopped, and a promise that never settles must not hold a place for ever.
    this.#free(call);
  }

  #release(call) {
    clearTimeout(call.timer);
    call.timer = undefined;
    call.endLog();
    this.#free(call);
  }

  #free(call) {
    if (!call.holdsSlot) return;
    call.holdsSlot = false;
    this.running -= 1;
    while (this.waiting.length > 0 && this.running < this.settings.concurrency) {
      const next = this.waiting.shift();
      clearTimeout(next.timer);
      if (!next.over) this.#begin(next);
    }
  }

  /** Answers calls that are not waited for any longer. */
  abandon() {
    for (const call of this.calls) {
      this.#problem(call, 'shutting_down', "the function's server is shutting down; try again");
    }
  }
}

/** Name, message and stack (without this runtime's frames) of anything thrown. */
function describe(error) {
  if (!(error instanceof Error) && !(error !== null && typeof error === 'object' && 'message' in error)) {
    let text;
    try {
      text = String(error);
    } catch {
      text = 'a value that has no text';
    }
    return { type: 'Error', text, stack: undefined };
  }
  const own = error.constructor?.name;
  const type = error.name && error.name !== 'Error' ? String(error.name) : own || 'Error';
  const lines = String(error.stack ?? '').split('\n').filter((line) => !line.includes(__dirname));
  return { type, text: String(error.message), stack: lines.join('\n') };
}

/** What V8 throws where a buffer can't be had; where its own heap is full it ends the process. */
function isOutOfMemory(error) {
  return (
    error?.code === 'ERR_MEMORY_ALLOCATION_FAILED' ||
    (error instanceof RangeError && error.message === 'Array buffer allocation failed')
  );
}

module.exports = { Runner, describe };
