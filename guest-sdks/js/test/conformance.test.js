'use strict';
// The project's conformance cases without a server: the test helper answers as every runtime does.

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const { existsSync, readdirSync, readFileSync } = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const { call } = require('../testing.js');

const CASES = path.join(__dirname, '../../../tests/conformance/cases');
// What is not about requests and answers: limits, time, the wire, and the process.
const OTHERS = /timeout|limit|streaming-errors|concurrency|isolation|env|context|module-state|content-length/;

function bytes(body = '') {
  if (typeof body === 'string') return Buffer.from(body);
  if ('hex' in body) return Buffer.from(body.hex, 'hex');
  if ('base64' in body) return Buffer.from(body.base64, 'base64');
  if ('json' in body) return Buffer.from(JSON.stringify(body.json));
  return Buffer.from(body.repeat.repeat(body.times));
}

const comparable = (request) => {
  const { expect } = request;
  const plain = expect && !expect.anyOf && !expect.broken && !expect.body?.subset && !request.chunked && !request.parallel;
  return plain && expect.status >= 200 && expect.status < 400 && !JSON.stringify(expect).includes('"$');
};

let compared = 0;
for (const name of readdirSync(CASES).filter((name) => !OTHERS.test(name))) {
  const { requests, settings = {} } = JSON.parse(readFileSync(path.join(CASES, name, 'case.json'), 'utf8'));
  const [file, exported] = (settings.entrypoint ?? 'handler.handler').split(/\.(?=[^.]*$)/);
  const wanted = requests.filter(comparable);
  if (wanted.length === 0 || !existsSync(path.join(CASES, name, `${file}.js`))) continue;
  test(name, async () => {
    const module = await import(path.join(CASES, name, `${file}.js`));
    for (const request of wanted) {
      const { expect } = request;
      const body = bytes(request.body);
      const answer = await call(module[exported] ?? module.default[exported], {
        method: request.method ?? 'GET', path: request.path ?? '/', headers: request.headers, body,
      });
      assert.equal(answer.status, expect.status, request.path);
      for (const [header, value] of Object.entries(expect.headers ?? {})) {
        if (['content-length', 'date', 'connection', 'transfer-encoding'].includes(header)) continue;
        assert.deepEqual(answer.headers[header] ?? null, value, `${request.path}: ${header}`);
      }
      if (expect.body?.sha256) assert.equal(createHash('sha256').update(answer.body).digest('hex'), expect.body.sha256);
      else if (expect.body?.json !== undefined) assert.deepEqual(answer.json(), expect.body.json, request.path);
      else if (expect.body !== undefined) assert.equal(answer.text(), bytes(expect.body).toString(), request.path);
      compared += 1;
    }
  });
}

test('enough of the cases apply', () => {
  assert.ok(compared > 100, `${compared} requests were compared`);
});
