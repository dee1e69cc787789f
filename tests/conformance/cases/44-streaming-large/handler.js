function* pieces() {
  for (let n = 0; n < 1024; n += 1) yield Buffer.from(String(n).padStart(4, '0').repeat(1024));
}

exports.handler = async () => ({ statusCode: 200, body: pieces() });
