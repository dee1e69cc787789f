const VALUES = {
  '/list': [1, 'two', null], '/zero': 0, '/int': -42, '/float': 1.5, '/true': true, '/false': false,
  '/empty-list': [], '/empty-object': {}, '/nested': [[[{ a: [null] }]]],
};

export function handler(event) {
  return VALUES[event.path];
}
