//! Modules of languages' engines: mapped once, and in a linker that the functions over them are linked by.
//!
//! Which modules a function runs over is decided by its component, which imports each by its SHA-256; that import is in the
//! bytes that are signed. What is offered under that name was signed as a module of that digest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sless_core::artifact::ModuleRef;
use sless_core::{ColdGrade, Digest};
use wasmtime::Module;
use wasmtime::component::Linker;

use super::{Codes, Error};
use crate::instance::State;

/// Sets of modules that are kept: some languages, each in the releases that functions were not built anew for yet.
const MAX_ENGINES: u64 = 32;

/// What the interfaces of the host are linked by, and with the modules of each engine.
pub(super) struct Engines {
    plain: Arc<Linker<State>>,
    /// By the digests of the modules and of their compiled bytes, in order.
    cache: moka::future::Cache<Vec<[Digest; 2]>, Arc<Engine>>,
}

struct Engine {
    linker: Arc<Linker<State>>,
    _mapped: Vec<Mapped>,
}

impl Engines {
    pub(super) fn new(linker: Linker<State>) -> Self {
        Self { plain: Arc::new(linker), cache: moka::future::Cache::new(MAX_ENGINES) }
    }

    /// A linker with these modules, whose signatures the caller has checked.
    pub(super) async fn linker(&self, codes: &Codes, modules: &[ModuleRef]) -> Result<Arc<Linker<State>>, Error> {
        if modules.is_empty() {
            return Ok(self.plain.clone());
        }
        let key = modules.iter().map(|module| [module.wasm, module.digest]).collect();
        let load = self.load(codes, modules);
        let engine = self.cache.try_get_with(key, load).await.map_err(Error::Module)?;
        Ok(engine.linker.clone())
    }

    async fn load(&self, codes: &Codes, modules: &[ModuleRef]) -> Result<Arc<Engine>, Error> {
        let mut linker = Linker::clone(&self.plain);
        let mut mapped = Vec::with_capacity(modules.len());
        for module in modules {
            let digest = module.digest;
            let (verified, grade) = codes.verified(digest, module.size_bytes).await?;
            mapped.push(Mapped::new(verified.bytes, &codes.mapped_bytes));
            let code = codes.map(digest, verified, Module::deserialize_file, Ok).await?;
            let offered = linker.root().module(&module.import(), &code);
            offered.map_err(|error| Error::Load { digest, reason: format!("{error:#}") })?;
            tracing::info!(%digest, wasm = %module.wasm, fetched = grade == ColdGrade::Artifact, "engine module mapped");
        }
        Ok(Arc::new(Engine { linker: Arc::new(linker), _mapped: mapped }))
    }
}

/// Counts bytes as mapped until it is dropped.
pub(super) struct Mapped {
    bytes: u64,
    total: Arc<AtomicU64>,
}

impl Mapped {
    pub(super) fn new(bytes: u64, total: &Arc<AtomicU64>) -> Self {
        total.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, total: total.clone() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
