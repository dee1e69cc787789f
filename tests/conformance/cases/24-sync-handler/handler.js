exports.handler = function handler(event, context) {
  return event.path === '/later' ? Promise.resolve({ later: true }) : { later: false };
};
