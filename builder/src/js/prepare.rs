//! What is done once a release: the engine with its globals made, instrumented, split, and both compiled.

use std::time::Duration;

use sless_core::Digest;
use wasmtime::component::Component;
use wasmtime_wizer::Wizer;

use super::snapshot::take;
use super::split::{self, Split};
use super::state::{self, Ticker};
use crate::cache::Packs;
use crate::compile;

/// Memory and time that making the globals takes, many times over. The code is the platform's own.
const MEMORY_BYTES: usize = 64 << 20;
const TIME: Duration = Duration::from_secs(60);

/// Why the engine can't be prepared. All of these are faults of the platform.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The compiler can't be made, or refuses the engine.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// wasmtime or wizer refuses it.
    #[error("{what}: {source:#}")]
    Wasm {
        /// What was attempted.
        what: &'static str,
        /// Why not.
        source: wasmtime::Error,
    },
    /// Its globals could not be made.
    #[error("make the globals: {0}")]
    Globals(String),
    /// It can't be taken apart.
    #[error(transparent)]
    Split(#[from] split::Error),
    /// No thread for the clock.
    #[error("start the ticker")]
    Ticker(#[source] std::io::Error),
}

/// An engine ready to build functions: four files that belong together.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The component with its globals made: what functions are snapshots of.
    pub base: Vec<u8>,
    /// The same, instrumented and compiled: what a build runs.
    pub builder: Vec<u8>,
    /// The engine's module, which functions import.
    pub module: Vec<u8>,
    /// The same, compiled: what hosts bind.
    pub artifact: Vec<u8>,
}

impl Prepared {
    /// Prepares the engine of `runtimes/wasm-js`. `cache` makes a second time faster.
    ///
    /// # Errors
    /// When the component is not that engine.
    pub fn make(component: &[u8], cache: &Packs) -> Result<Self, Error> {
        let wasm = |what: &'static str| move |source: wasmtime::Error| Error::Wasm { what, source };
        let engine = compile::engine(cache).map_err(compile::Error::Engine)?;
        let _ticker = Ticker::start(&engine).map_err(Error::Ticker)?;
        let wizer = Wizer::new();
        let (context, instrumented) = wizer.instrument_component(component).map_err(wasm("instrument the engine"))?;
        let compiled = Component::new(&engine, &instrumented).map_err(wasm("compile the engine"))?;
        let linker = state::linker(&engine, &compiled).map_err(wasm("link the engine"))?;
        let mut store = state::store(&engine, MEMORY_BYTES, TIME);
        let instance = linker.instantiate(&mut store, &compiled).map_err(wasm("start the engine"))?;
        let prepare = instance
            .get_typed_func::<(), (Result<(), String>,)>(&mut store, "prepare")
            .map_err(wasm("find the engine's `prepare`"))?;
        let (made,) = prepare.call(&mut store, ()).map_err(wasm("make the globals"))?;
        made.map_err(Error::Globals)?;
        let base = take(&wizer, &context, &mut store, instance).map_err(wasm("take the engine's snapshot"))?;

        let split = Split::new(&base)?;
        let (_, instrumented) = wizer.instrument_component(&base).map_err(wasm("instrument the prepared engine"))?;
        let builder = engine.precompile_component(&instrumented).map_err(wasm("compile the prepared engine"))?;
        let artifact = engine.precompile_module(&split.module).map_err(wasm("compile the engine's module"))?;
        Ok(Self { base, builder, module: split.module, artifact })
    }

    /// The digest by which functions name the engine's module.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.module)
    }
}
