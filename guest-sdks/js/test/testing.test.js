'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');

const { call, cloudEvent } = require('../testing.js');

test('a handler gets what a client sent', async () => {
  const answer = await call((event) => event, { path: '/a%2Fb?x=1&x=2', json: { a: 1 }, headers: { 'X-A': 'b' } });
  assert.deepEqual(answer.json(), {
    method: 'POST',
    path: '/a%2Fb',
    rawQuery: 'x=1&x=2',
    query: { x: ['1', '2'] },
    headers: { 'x-a': 'b', 'content-type': 'application/json' },
    body: '{"a":1}',
    isBase64Encoded: false,
  });
  const bytes = await call((event) => event, { body: new Uint8Array([0, 255]), headers: { 'content-type': 'image/png' } });
  assert.deepEqual([bytes.json().body, bytes.json().isBase64Encoded], ['AP8=', true]);
});

test('errors are the test\'s to see', async () => {
  await assert.rejects(call(() => { throw new RangeError('no'); }), RangeError);
  await assert.rejects(call(() => ({ statusCode: 99 })), /`statusCode` is 99; use a whole number from 200 to 599/);
  await assert.rejects(call(() => 1, { path: 'x' }), /begins with \//);
});

test('a context can be given, and what is logged is kept', async () => {
  const answer = await call(
    (_event, context) => {
      context.log.warn('low on %s', 'ink');
      return context.requestId;
    },
    { context: { requestId: 'r1' } },
  );
  assert.equal(answer.text(), 'r1');
  assert.deepEqual(answer.logs, [{ level: 'warn', message: 'low on ink' }]);
});

test('a CloudEvent reaches the handler as it is', async () => {
  const event = cloudEvent({ type: 'cron', data: { n: 1 } });
  const answer = await call((given) => given, { event });
  assert.deepEqual(answer.json(), event);
});
