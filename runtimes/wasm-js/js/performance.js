// performance.now: milliseconds since the instance started.

import { native } from './native.js';

export const performance = {
  now: () => native.now(),
  get timeOrigin() {
    return Date.now() - native.now();
  },
  toJSON() {
    return { timeOrigin: this.timeOrigin };
  },
};
