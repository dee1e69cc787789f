//! Functions compiled earlier, for wasmtime's incremental compilation.
//!
//! A build looks functions up in packs, which it only reads, and writes what it compiles into one new pack in its output
//! folder. Its parent moves that pack into the tenant's cache folder and throws the least used ones out: so a builder that
//! was taken over can harm no other tenant, and a killed one leaves nothing half-written.

mod pack;
mod store;

pub use pack::{Error, Pack, PackWriter};
pub use store::{PackFile, Packs, Stats};
