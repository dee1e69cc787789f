export async function handler({ headers }) {
  const names = Object.keys(headers).sort();
  const own = names.filter((n) => n.startsWith('x-') && !n.startsWith('x-forwarded') && !n.startsWith('x-request'));
  return {
    headers: Object.fromEntries(own.map((n) => [n, headers[n]])),
    cookie: headers.cookie ?? null,
    accept: headers.accept ?? null,
    te: headers.te ?? null,
    connection: headers.connection ?? null,
    transferEncoding: headers['transfer-encoding'] ?? null,
  };
}
