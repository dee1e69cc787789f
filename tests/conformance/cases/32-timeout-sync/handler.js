exports.handler = (event) =>
  new Promise((resolve) => setTimeout(resolve, Number(event.query.s ?? 0) * 1000)).then(() => 'done');
