'use strict';
// The handler contract is types only: see index.d.ts.
