exports.handler = function* handler(event) {
  if (event.path === '/none') return;
  const bytes = event.path === '/bytes';
  yield bytes ? new Uint8Array([0, 255]) : 'erste ';
  yield '';
  yield bytes ? new Uint8Array(0) : 'zwüite';
  yield bytes ? new Uint8Array([1]) : '.';
};
