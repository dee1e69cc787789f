'use strict';
// Notices a handler that blocks the event loop past its deadline. JavaScript can't be interrupted from outside, so the
// process is ended, to be started again: better than never answering any more.

const fs = require('node:fs');
const { isMainThread, Worker, workerData } = require('node:worker_threads');

const BEAT_MILLISECONDS = 250;
// After the deadline the loop gets this long to say so itself.
const LATE_MILLISECONDS = 2000;

function watch(timeoutSeconds) {
  const beats = new Int32Array(new SharedArrayBuffer(4));
  setInterval(() => Atomics.add(beats, 0, 1), BEAT_MILLISECONDS).unref();
  const worker = new Worker(__filename, { workerData: { beats, patience: timeoutSeconds * 1000 + LATE_MILLISECONDS } });
  worker.unref();
}

function work({ beats, patience }) {
  const never = new Int32Array(new SharedArrayBuffer(4));
  let seen = -1;
  let since = Date.now();
  let looked = since;
  for (;;) {
    Atomics.wait(never, 0, 0, BEAT_MILLISECONDS);
    const now = Date.now();
    const beat = Atomics.load(beats, 0);
    // A gap in this thread's own time means that the whole process was stopped: nobody's fault.
    if (beat !== seen || now - looked > patience / 2 + LATE_MILLISECONDS) {
      seen = beat;
      since = now;
    }
    looked = now;
    if (now - since > patience) {
      const record = {
        time: new Date().toISOString(),
        level: 'error',
        message: 'the handler blocks the event loop past its deadline; restarting',
        blockedMs: now - since,
        remedy: 'await between steps of a long computation, or move it to a worker thread',
      };
      fs.writeSync(1, `${JSON.stringify(record)}\n`);
      process.kill(process.pid, 'SIGKILL');
    }
  }
}

if (isMainThread) module.exports = { watch };
else work(workerData);
