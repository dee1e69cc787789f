// The functions of the Rust side (src/native.rs). Taken here, before any polyfill looks for a global; Rust removes the
// global when all of `js/` has run.

/* global __sless */
export const native = __sless;
