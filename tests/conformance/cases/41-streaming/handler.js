async function* pieces() {
  for (let n = 0; n < 6; n += 1) {
    yield `piece ${n}\n`;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export async function handler() {
  return { statusCode: 201, headers: { 'content-type': 'text/x-pieces' }, body: pieces() };
}
