exports.handler = (event, context) => ({ hello: 'world', n: 1, list: [1, 2.5, null, true], nested: { ä: 'ö' } });
