exports.handler = (event) => new Promise((resolve) => setTimeout(() => resolve(event.body), 200));
