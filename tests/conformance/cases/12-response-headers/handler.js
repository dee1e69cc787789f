export async function handler() {
  return {
    statusCode: 200,
    body: 'ok',
    headers: {
      'X-Text': 'a', 'x-number': 42, 'x-list': ['one', 'two', 3], 'x-empty': '', 'x-none': [],
      'x-latin': 'gr\u00fc\u00dfe \u00ff', 'x-big': 'v'.repeat(7000), 'x-trim': '  in side ',
      connection: 'upgrade', 'transfer-encoding': 'gzip', 'keep-alive': 'timeout=1', 'X-Sless-Outcome': 'ok',
    },
  };
}
