export async function handler(event, context) {
  console.log('printed', 42, 'ünï');
  console.error('to stderr');
  console.warn('warned about %s', 'pears');
  context.log('plain words');
  context.log.info('with fields', { basket: 3, who: 'ann' });
  context.log.error('it is bad');
  process.stdout.write('no newline');
  return 'ok';
}
