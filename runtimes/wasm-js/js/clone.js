// structuredClone, with the errors that the standard has.

import clone from '@ungap/structured-clone';

export function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError('structuredClone needs a value');
  if (options?.transfer?.length > 0) throw new DOMException('there is nobody to transfer to', 'DataCloneError');
  try {
    return clone(value);
  } catch (error) {
    throw new DOMException(error.message, 'DataCloneError');
  }
}
