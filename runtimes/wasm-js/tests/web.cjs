// The web interfaces of a JavaScript server runtime, as a function: it answers `{ passed, failed: [{ name, why }] }`.
// Written anew after web-platform-tests. It has to pass in `nodejs20` too, which is how the checks themselves are checked:
// `node -e "require('./web.cjs').handler({}).then(console.log)"`.

const bytes = (...list) => Uint8Array.from(list);
const text = (data) => new TextDecoder().decode(data);
const hex = (data) => Buffer.from(data).toString('hex');
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function is(got, wanted) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${a}, not ${b}`);
}

async function throws(name, f) {
  try {
    await f();
  } catch (error) {
    return is(error.name, name);
  }
  throw new Error(`no ${name}`);
}

const checks = {
  'UTF-8 both ways': () => is(text(new TextEncoder().encode('grüße 世界 😀')), 'grüße 世界 😀'),
  'a lone surrogate becomes U+FFFD': () => is([...new TextEncoder().encode('a\ud800b')], [97, 239, 191, 189, 98]),
  'UTF-8 in pieces': () => {
    const decoder = new TextDecoder();
    let all = '';
    for (const byte of new TextEncoder().encode('a😀€é')) all += decoder.decode(bytes(byte), { stream: true });
    is(all + decoder.decode(), 'a😀€é');
  },
  'wrong UTF-8 is replaced': () => is(text(bytes(0x61, 0xff, 0xe2, 0x82, 0x62)), 'a\ufffd\ufffdb'),
  'wrong UTF-8 is fatal': () => throws('TypeError', () => new TextDecoder('utf-8', { fatal: true }).decode(bytes(0xff))),
  'a byte order mark': () => {
    is(text(bytes(0xef, 0xbb, 0xbf, 0x61)), 'a');
    is(new TextDecoder('utf8', { ignoreBOM: true }).decode(bytes(0xef, 0xbb, 0xbf, 0x61)), '\ufeffa');
  },
  // Not 0x80 to 0x9F, where Node 20 does not keep to the standard.
  'latin-1': () => is(new TextDecoder('latin1').decode(bytes(0x41, 0xe9, 0xff)), 'Aéÿ'),
  'UTF-16': () => is(new TextDecoder('utf-16le').decode(bytes(0x3d, 0xd8, 0x00, 0xde)), '😀'),
  'an unknown encoding': () => throws('RangeError', () => new TextDecoder('nonsense')),
  encodeInto: () => is(new TextEncoder().encodeInto('a€b', new Uint8Array(3)), { read: 1, written: 1 }),

  'URL: relative, parts': () => {
    const url = new URL('../x?a=1#h', 'http://user:pw@example.org:8080/a/b/c');
    is([url.href, url.origin, url.host, url.port, url.hash], [
      'http://user:pw@example.org:8080/a/x?a=1#h', 'http://example.org:8080', 'example.org:8080', '8080', '#h',
    ]);
  },
  'URL: names in Unicode': () => is(new URL('http://müller.example/ä').href, 'http://xn--mller-kva.example/%C3%A4'),
  'URL: parameters follow, both ways': () => {
    const url = new URL('http://a/?x=1');
    url.searchParams.append('y', '2 3');
    is(url.href, 'http://a/?x=1&y=2+3');
    url.search = '?z=%20';
    is([...url.searchParams], [['z', ' ']]);
  },
  'URL: setters': () => {
    const url = new URL('http://a/b');
    url.protocol = 'https';
    url.port = '81';
    url.pathname = '/ü';
    url.hash = 'x';
    is(url.href, 'https://a:81/%C3%BC#x');
  },
  'URL: none': async () => {
    await throws('TypeError', () => new URL('nope'));
    is(URL.canParse('nope'), false);
  },
  URLSearchParams: () => {
    const parameters = new URLSearchParams({ a: '1', b: 'ö&' });
    parameters.append('a', '2');
    parameters.sort();
    is([parameters.toString(), parameters.getAll('a'), parameters.get('none'), parameters.size], [
      'a=1&a=2&b=%C3%B6%26', ['1', '2'], null, 3,
    ]);
  },

  'Headers: names, joined, cookies apart': () => {
    const headers = new Headers({ 'X-A': ' 1 ' });
    headers.append('x-a', '2');
    headers.append('Set-Cookie', 'a=1');
    headers.append('set-cookie', 'b=2');
    is([...headers], [['set-cookie', 'a=1'], ['set-cookie', 'b=2'], ['x-a', '1, 2']]);
    is(headers.getSetCookie(), ['a=1', 'b=2']);
  },
  'Headers: refused': async () => {
    await throws('TypeError', () => new Headers({ 'a b': '1' }));
    await throws('TypeError', () => new Headers({ a: '1\n2' }));
  },
  'Response: text, clone, used': async () => {
    const response = new Response('hé', { status: 201 });
    is([response.status, response.ok, response.headers.get('content-type')], [201, true, 'text/plain;charset=UTF-8']);
    is(await response.clone().text(), 'hé');
    is(await response.text(), 'hé');
    is(response.bodyUsed, true);
    await throws('TypeError', () => response.text());
  },
  'Response: JSON, bytes, redirect': async () => {
    is(await Response.json({ a: 1 }).json(), { a: 1 });
    is([...new Uint8Array(await new Response(bytes(0, 255)).arrayBuffer())], [0, 255]);
    is(Response.redirect('http://a/b', 303).headers.get('location'), 'http://a/b');
    await throws('RangeError', () => new Response('', { status: 99 }));
  },
  'Response: a stream': async () => {
    const stream = new ReadableStream({
      start(controller) {
        for (const piece of ['ab', 'c']) controller.enqueue(new TextEncoder().encode(piece));
        controller.close();
      },
    });
    is(await new Response(stream).text(), 'abc');
    let all = '';
    for await (const piece of new Response('stream me').body) all += text(piece);
    is(all, 'stream me');
  },
  Request: async () => {
    const request = new Request('http://a/b#c', { method: 'post', body: new URLSearchParams({ x: 'ü' }) });
    is([request.method, request.headers.get('content-type')], ['POST', 'application/x-www-form-urlencoded;charset=UTF-8']);
    is(await request.text(), 'x=%C3%BC');
    await throws('TypeError', () => new Request('http://a', { body: 'x' }));
  },
  'fetch: a scheme that there is none of': () => throws('TypeError', () => fetch('nonsense://x')),

  'streams: transform': async () => {
    const double = new TransformStream({ transform: (n, controller) => controller.enqueue(n * 2) });
    const writer = double.writable.getWriter();
    writer.write(2);
    writer.close();
    const all = [];
    for await (const n of double.readable) all.push(n);
    is(all, [4]);
  },
  'streams: text': async () => {
    const source = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes(0xe2, 0x82));
        controller.enqueue(bytes(0xac));
        controller.close();
      },
    });
    let all = '';
    for await (const piece of source.pipeThrough(new TextDecoderStream())) all += piece;
    is(all, '€');
  },

  'AbortController: once, with a reason': () => {
    const controller = new AbortController();
    let count = 0;
    controller.signal.addEventListener('abort', () => (count += 1));
    controller.abort('why');
    controller.abort('again');
    is([count, controller.signal.aborted, controller.signal.reason], [1, true, 'why']);
  },
  'AbortSignal: timeout and any': async () => {
    const signal = AbortSignal.any([AbortSignal.timeout(5), new AbortController().signal]);
    await sleep(40);
    is([signal.aborted, signal.reason.name], [true, 'TimeoutError']);
    await throws('AbortError', () => AbortSignal.abort().throwIfAborted());
  },
  'EventTarget: once, prevented': () => {
    const target = new EventTarget();
    let count = 0;
    target.addEventListener('x', () => (count += 1), { once: true });
    target.addEventListener('x', (event) => event.preventDefault());
    const more = target.dispatchEvent(new Event('x', { cancelable: true }));
    target.dispatchEvent(new Event('x'));
    is([count, more], [1, false]);
  },

  'crypto: digests': async () => {
    const abc = new TextEncoder().encode('abc');
    is(hex(await crypto.subtle.digest('SHA-1', abc)), 'a9993e364706816aba3e25717850c26c9cd0d89d');
    is(hex(await crypto.subtle.digest({ name: 'sha-256' }, abc)).slice(0, 16), 'ba7816bf8f01cfea');
    is(hex(await crypto.subtle.digest('SHA-512', abc)).slice(0, 16), 'ddaf35a193617aba');
    await throws('NotSupportedError', () => crypto.subtle.digest('MD5', abc));
  },
  // RFC 4231, case 2.
  'crypto: HMAC': async () => {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' };
    const key = await crypto.subtle.importKey('raw', Buffer.from('Jefe'), algorithm, false, ['sign', 'verify']);
    const data = Buffer.from('what do ya want for nothing?');
    const mac = await crypto.subtle.sign('HMAC', key, data);
    is(hex(mac), '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843');
    is(await crypto.subtle.verify('HMAC', key, mac, data), true);
    is(await crypto.subtle.verify('HMAC', key, mac, Buffer.from('other')), false);
  },
  'crypto: random': async () => {
    const [a, b] = [crypto.getRandomValues(new Uint32Array(4)), crypto.getRandomValues(new Uint32Array(4))];
    is(a.join() === b.join(), false);
    is(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()), true);
    await throws('QuotaExceededError', () => crypto.getRandomValues(new Uint8Array(65537)));
    is(new Set(Array.from({ length: 100 }, () => Math.random())).size, 100);
  },

  'structuredClone: a cycle of everything': () => {
    const all = { date: new Date(0), map: new Map([[1, { x: 1 }]]), set: new Set([2]), view: bytes(1, 2), regex: /x/g };
    all.self = all;
    const copy = structuredClone(all);
    is([copy !== all, copy.self === copy, copy.date.getTime(), copy.map.get(1).x, copy.set.has(2), copy.view[1], copy.regex.flags], [
      true, true, 0, 1, true, 2, 'g',
    ]);
  },
  'structuredClone: a function': () => throws('DataCloneError', () => structuredClone(() => {})),
  'base64': async () => {
    is([btoa('hi\xff'), atob('aGn/')], ['aGn/', 'hi\xff']);
    await throws('InvalidCharacterError', () => btoa('€'));
  },
  Buffer: () => {
    is([Buffer.from('aGk', 'base64').toString(), Buffer.from('hé').toString('base64'), Buffer.byteLength('é')], ['hi', 'aMOp', 2]);
    is([Buffer.concat([Buffer.from('a'), Buffer.from('ff', 'hex')]).toString('hex'), Buffer.from('hello').subarray(1, 3).toString()], ['61ff', 'el']);
    is([Buffer.isBuffer(Buffer.alloc(1)), Buffer.from([1, 2, 3, 4]).readUInt32BE(0)], [true, 16909060]);
  },

  'timers: order, arguments, cleared': async () => {
    const seen = [];
    setTimeout((x) => seen.push(x), 20, 'late');
    setTimeout(() => seen.push('early'), 5);
    clearTimeout(setTimeout(() => seen.push('never'), 1));
    queueMicrotask(() => seen.push('micro'));
    await sleep(60);
    is(seen, ['micro', 'early', 'late']);
  },
  'timers: an interval': async () => {
    let count = 0;
    await new Promise((resolve) => {
      const timer = setInterval(() => {
        count += 1;
        if (count === 3) resolve(clearInterval(timer));
      }, 2);
    });
    is(count, 3);
  },
  'performance.now goes on': async () => {
    const start = performance.now();
    await sleep(10);
    is(performance.now() - start >= 9, true);
  },
  'errors: cause, stack': () => {
    const error = new TypeError('no', { cause: new Error('why') });
    is([error.cause.message, error.stack.startsWith('TypeError: no\n'), /web\.cjs|handler\.js/.test(error.stack)], ['why', true, true]);
  },
  'deep recursion is a RangeError': () => throws('RangeError', () => {
    const f = (n) => f(n + 1) + 1;
    f(0);
  }),
  'modules of Node': () => {
    const { createHash, createHmac, timingSafeEqual } = require('node:crypto');
    is(createHash('sha256').update('abc').digest('hex').slice(0, 8), 'ba7816bf');
    is(createHmac('sha1', 'k').update('x').digest('base64').length, 28);
    is([timingSafeEqual(bytes(1), bytes(1)), require('node:path').join('/a', '../b'), require('util').format('%s %d', 'x', 1)], [true, '/b', 'x 1']);
    const { EventEmitter } = require('events');
    const emitter = new EventEmitter();
    let sum = 0;
    emitter.on('x', (n) => (sum += n));
    emitter.emit('x', 2);
    is(sum, 2);
  },
};

exports.handler = async () => {
  const failed = [];
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
    } catch (error) {
      failed.push({ name, why: String(error) });
    }
  }
  return { passed: Object.keys(checks).length - failed.length, failed };
};
