const HEADERS = {
  '/list': ['a', 'b'], '/text': 'a: b', '/name-space': { 'x y': '1' }, '/name-empty': { '': '1' },
  '/value-newline': { 'x-bad': 'a\r\nx-evil: 1' }, '/value-nul': { 'x-bad': 'a\0b' }, '/value-wide': { 'x-bad': '€' },
  '/value-null': { 'x-bad': null }, '/value-bool': { 'x-bad': true }, '/value-float': { 'x-bad': 1.5 },
  '/value-object': { 'x-bad': { a: 1 } }, '/in-list': { 'x-bad': ['ok', null] },
};

export async function handler(event) {
  return { statusCode: 200, headers: HEADERS[event.path], body: 'x' };
}
