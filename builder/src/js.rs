//! JavaScript source → a component whose engine is shared with all other JavaScript functions.
//!
//! The engine (`runtimes/wasm-js`) is prepared once a release ([`Prepared::make`]): its globals are made and snapshotted,
//! and its code is split off into a core module that imports its memory, so that it is compiled once. A function is then a
//! snapshot of memory with its handler loaded ([`Engine::build`]), around an import of that module: a few milliseconds to
//! make, and little to compile. Which host binds the import, and by which right, is in `docs/adr/0008-javascript-engine-shared.md`.
//!
//! The user's code runs here, at build: inside wasm, with nothing to call but clocks and random bytes (whose use is
//! noticed, see [`Built::impure`]), under a limit of memory and one of time.

mod make;
mod prepare;
mod snapshot;
mod split;
pub(crate) mod state;
mod uses;

pub(crate) use make::{entry, open, prepare};
pub use prepare::{Error as PrepareError, Prepared};
pub use snapshot::{Built, Engine, Error, Failure, Limits, Source};
pub use split::Error as SplitError;
pub(crate) use uses::NODE_MODULES;
