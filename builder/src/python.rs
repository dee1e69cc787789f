//! Python source → a component whose engine is shared with all other Python functions.
//!
//! The engine (`runtimes/wasm-python`) is CPython, some thirteen core modules linked dynamically. Once a release they are
//! joined into one module that imports its memory ([`prepare`]), so that hosts compile and map it once and instances of it
//! are cheap. A function is a snapshot of memory with its files loaded, around an import of that module ([`Python`]).
//! Why so is in `docs/adr/0010-python-engine-joined.md`.
//!
//! The user's code runs here, at build: inside wasm, with nothing to call but clocks and random bytes (whose use is
//! noticed), under a limit of memory and one of time.

mod join;
mod layout;
mod link;
mod make;
mod parts;
mod reader;
mod snapshot;
mod types;

pub use make::{Error, Python, open, open_with, prepare};
pub use snapshot::{Built, Error as BuildError, Failure, File, Limits, Source};
