export async function main(event) {
  return { from: 'src/app', path: event.path };
}
