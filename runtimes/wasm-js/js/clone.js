// structuredClone, with transfer and with the errors that the standard has.

import clone from '@ungap/structured-clone';

export function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError('structuredClone needs a value');
  const transfer = [...(options?.transfer ?? [])];
  if (!transfer.every((one) => one instanceof ArrayBuffer && !one.detached)) {
    throw new DOMException('only an ArrayBuffer that is not detached can be transferred', 'DataCloneError');
  }
  let copy;
  try {
    copy = clone(value);
  } catch (error) {
    throw new DOMException(error.message, 'DataCloneError');
  }
  // Whoever holds the original finds it detached, as if it had moved.
  for (const buffer of transfer) buffer.transfer();
  return copy;
}
