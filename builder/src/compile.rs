//! Component → artifact: the bytes that a host maps.

use sless_core::Digest;
use wasmtime::Engine;

use crate::cache::{Packs, Stats};

/// What a compile made.
#[derive(Debug)]
pub struct Compiled {
    /// The compiled bytes. The same component gives the same bytes, whatever was in the cache.
    pub artifact: Vec<u8>,
    /// Their SHA-256.
    pub digest: Digest,
    /// How the cache did.
    pub cache: Stats,
}

/// Why a component that passed the check does not compile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine can't be made: the builder itself is at fault.
    #[error("make the engine that compiles: {0:#}")]
    Engine(wasmtime::Error),
    /// The compiler refuses it.
    #[error("the component can't be compiled: {0:#}")]
    Compile(wasmtime::Error),
    /// The new pack of functions can't be written.
    #[error("keep compiled functions")]
    Cache(#[source] crate::cache::Error),
}

/// Compiles a component for the shared engine, with functions from `cache` where it has them. Check it first: this
/// bounds nothing.
///
/// # Errors
/// When the compiler refuses it.
pub fn compile(wasm: &[u8], cache: &Packs) -> Result<Compiled, Error> {
    let before = cache.stats();
    let engine = engine(cache).map_err(Error::Engine)?;
    let artifact = engine.precompile_component(wasm).map_err(Error::Compile)?;
    cache.finish().map_err(Error::Cache)?;
    let after = cache.stats();
    let cache = Stats { hits: after.hits - before.hits, misses: after.misses - before.misses };
    Ok(Compiled { digest: Digest::of(&artifact), artifact, cache })
}

pub(crate) fn engine(cache: &Packs) -> wasmtime::Result<Engine> {
    let mut config = sless_engine::compiler_config()?;
    config.enable_incremental_compilation(std::sync::Arc::new(cache.clone()))?;
    Engine::new(&config)
}
