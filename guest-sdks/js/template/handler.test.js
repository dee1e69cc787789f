import assert from 'node:assert/strict';
import { test } from 'node:test';

import { handler } from './handler.js';
import { call } from './sless/testing.js';

test('it greets whom the query names', async () => {
  const answer = await call(handler, { path: '/?name=Ada' });
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.json(), { message: 'hello, Ada' });
  assert.deepEqual(answer.logs, [{ level: 'info', message: 'greeting Ada', path: '/' }]);
  assert.deepEqual((await call(handler)).json(), { message: 'hello, world' });
});

test('an empty name is refused', async () => {
  assert.equal((await call(handler, { path: '/?name=' })).status, 400);
});
