export const handler = (event) => event.path;
