//! The builder: checks a tenant's component and compiles it to an artifact that hosts map.
//!
//! It runs as a process of its own for one job, then exits ([`run_child`]). Because it reads what a stranger made, it
//! holds no key, has no network, and writes into its output folder only: [`sandbox`] takes the rest away before the
//! first byte of the component is read. It does not sign, it does not fetch and it does not store; its parent does.
//!
//! - [`check`]: is this a component that a host here can serve, and one that can be compiled within bounds?
//! - [`compile`]: component → artifact, function by function over a cache of what was compiled earlier.
//! - `language`: source → component, over an engine that all functions in that language share; [`js`] is the first.
//! - [`source`]: a user's files out of an upload, bounded, and the build context that is made of them.
//! - `bundle`: several JavaScript files → one, by esbuild.
//! - [`cache`]: that cache: read-only packs, and one new pack a build.

mod bundle;
pub mod cache;
pub mod check;
mod child;
pub mod compile;
pub mod js;
mod language;
pub mod python;
pub mod sandbox;
pub mod source;

pub use check::{Checked, Rejection, check};
pub use child::run_child;
pub use compile::{Compiled, compile};

/// The digest of the engine that artifacts are made for.
pub fn engine() -> sless_core::Digest {
    sless_engine::digest()
}
