exports.handler = async (event) => event.body.length;
