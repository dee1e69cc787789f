exports.handler = async (event) => 'x'.repeat(Number(event.path.slice(1)));
