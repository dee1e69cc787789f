// What the server is tried with: does what the path says.
'use strict';

const { Readable } = require('node:stream');

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function* endless(context) {
  try {
    for (;;) {
      yield Buffer.alloc(65536, 'x');
      await sleep(0);
    }
  } finally {
    context.log('stream stopped');
  }
}

const actions = {
  '/sleep': async ({ query }, context) => {
    await sleep(Number(query.s) * 1000);
    context.log('slept', { name: query.name });
    return 'slept';
  },
  '/spin': () => {
    for (;;);
  },
  '/never': () => new Promise(() => {}),
  '/endless': (event, context) => endless(context),
  '/big': ({ query }) => 'x'.repeat(Number(query.n)),
  '/exit': () => process.exit(3),
  '/throw-later': () => {
    setTimeout(() => {
      throw new RangeError('out of nowhere');
    }, 10);
    return new Promise(() => {});
  },
  '/reject-unseen': async () => {
    Promise.reject(new Error('unseen'));
    await sleep(20);
    return 'fine';
  },
  '/web-response': () =>
    new Response('<p>', { status: 203, headers: [['content-type', 'text/html'], ['set-cookie', 'a=1'], ['set-cookie', 'b=2']] }),
  '/web-json': () => Response.json({ a: 1 }),
  '/readable': () => ({ statusCode: 200, body: Readable.from(['a', 'b']) }),
  '/web-stream': () => new Blob(['web ', 'stream']).stream(),
  '/node-globals': () => ({ proto: Object.getPrototypeOf(process.env) !== null }),
};

exports.handler = (event, context) =>
  actions[event.path]?.(event, context) ?? { method: event.method, path: event.path, body: event.body };
