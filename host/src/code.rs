//! Compiled code in memory: fetched, verified, mapped once for all functions that share it, linked, and let go by weight.

mod disk;
mod engines;

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sless_core::ports::invoker::Artifacts;
use sless_core::{ArtifactRef, ColdGrade, Digest};
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi_http::p2::bindings::ProxyPre;

use crate::instance::State;
use crate::settings::Settings;

pub(crate) use disk::Error as DiskError;
use disk::{Disk, Verified};
use engines::{Engines, Mapped};

/// Artifacts up to this size are mapped on the calling thread (a third of a millisecond); larger ones would hold up
/// the calls beside them.
const MAP_INLINE_BYTES: u64 = 2 << 20;

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The object store does not have it or does not answer.
    #[error("fetch artifact {digest}")]
    Fetch {
        /// Which.
        digest: Digest,
        /// Why.
        source: sless_core::ports::Error,
    },
    /// It is not what was signed, or the local disk failed.
    #[error("keep artifact {digest} on disk")]
    Disk {
        /// Which.
        digest: Digest,
        /// Why.
        source: DiskError,
    },
    /// wasmtime refuses it.
    #[error("load artifact {digest}: {reason}")]
    Load {
        /// Which.
        digest: Digest,
        /// Why, in wasmtime's words.
        reason: String,
    },
    /// A module of its language's engine can't be had; whoever asked for it at the same time has the same error.
    #[error("its engine's module: {0}")]
    Module(Arc<Error>),
}

/// Code in memory, ready to be instantiated.
pub(crate) struct Code {
    pub(crate) pre: ProxyPre<State>,
    digest: Digest,
    mapped: Mapped,
    /// When the cache last heard that it is used, in seconds of the host's life.
    touched_s: AtomicU64,
}

/// All code of a host.
pub(crate) struct Codes {
    engine: Engine,
    engines: Engines,
    artifacts: Arc<dyn Artifacts>,
    disk: Arc<Disk>,
    cache: moka::future::Cache<Digest, Arc<Code>>,
    mapped_bytes: Arc<AtomicU64>,
    started: std::time::Instant,
}

impl Codes {
    pub(crate) fn new(
        engine: Engine,
        linker: Linker<State>,
        artifacts: Arc<dyn Artifacts>,
        directory: &std::path::Path,
        settings: &Settings,
    ) -> Result<Self, DiskError> {
        let disk = Arc::new(Disk::open(directory, settings.disk_cache_bytes)?);
        // Weights are in KiB, since moka has 32 bits for one.
        let cache = moka::future::Cache::builder()
            .max_capacity(settings.code_cache_bytes >> 10)
            .weigher(|_, code: &Arc<Code>| u32::try_from((code.mapped.bytes() >> 10).max(1)).unwrap_or(u32::MAX))
            .build();
        let started = std::time::Instant::now();
        Ok(Self {
            engine,
            engines: Engines::new(linker),
            artifacts,
            disk,
            cache,
            mapped_bytes: Arc::default(),
            started,
        })
    }

    /// The code of an artifact whose signatures the caller has checked, and how cold it was.
    pub(crate) async fn get(&self, artifact: &ArtifactRef) -> Result<(Arc<Code>, ColdGrade), Arc<Error>> {
        let mut grade = ColdGrade::Instance;
        // One flight a digest; whoever waits for it shares its result, and its grade is that of a mapped artifact.
        let code = self
            .cache
            .try_get_with(artifact.digest, async {
                let (code, cold) = self.load(artifact).await?;
                grade = cold;
                Ok::<_, Error>(code)
            })
            .await?;
        Ok((code, grade))
    }

    /// Tells the cache that the code is in use, at most once a second: calls hold it without asking the cache.
    pub(crate) fn touch(&self, code: &Arc<Code>, now: std::time::Instant) -> bool {
        let second = now.saturating_duration_since(self.started).as_secs();
        code.touched_s.load(Ordering::Relaxed) != second && code.touched_s.swap(second, Ordering::Relaxed) != second
    }

    pub(crate) async fn keep(&self, code: &Arc<Code>) {
        if self.cache.get(&code.digest).await.is_none() {
            // It was let go while calls still held it: the cache takes it back instead of mapping it twice.
            self.cache.insert(code.digest, code.clone()).await;
        }
    }

    async fn load(&self, artifact: &ArtifactRef) -> Result<(Arc<Code>, ColdGrade), Error> {
        let linker = self.engines.linker(self, &artifact.modules).await?;
        let (verified, grade) = self.verified(artifact.digest, artifact.size_bytes).await?;
        let mapped = Mapped::new(verified.bytes, &self.mapped_bytes);
        let link = move |component: Component| ProxyPre::new(linker.instantiate_pre(&component)?);
        let pre = self.map(artifact.digest, verified, Component::deserialize_file, link).await?;
        Ok((Arc::new(Code { pre, digest: artifact.digest, mapped, touched_s: AtomicU64::new(0) }), grade))
    }

    /// The private copy of compiled bytes, and how cold it was.
    async fn verified(&self, digest: Digest, size_bytes: u64) -> Result<(Verified, ColdGrade), Error> {
        let disk_error = |source| Error::Disk { digest, source };
        if let Some(verified) = self.disk.get(digest).await.map_err(disk_error)? {
            return Ok((verified, ColdGrade::Code));
        }
        let bytes = self.artifacts.fetch(&digest).await.map_err(|source| Error::Fetch { digest, source })?;
        let verified = self.disk.put(digest, size_bytes, bytes).await.map_err(|error| match error {
            DiskError::Fetch { source } => Error::Fetch { digest, source },
            source => Error::Disk { digest, source },
        })?;
        Ok((verified, ColdGrade::Artifact))
    }

    /// Maps the very file that was verified, by its descriptor, and makes something of it. `load` is
    /// `Component::deserialize_file` or `Module::deserialize_file`.
    async fn map<C, T: Send + 'static>(
        &self,
        digest: Digest,
        verified: Verified,
        load: unsafe fn(&Engine, PathBuf) -> wasmtime::Result<C>,
        then: impl FnOnce(C) -> wasmtime::Result<T> + Send + 'static,
    ) -> Result<T, Error>
    where
        C: 'static,
    {
        let (engine, bytes) = (self.engine.clone(), verified.bytes);
        let map = move || {
            let path = if cfg!(target_os = "linux") {
                PathBuf::from(format!("/proc/self/fd/{}", verified.file.as_raw_fd()))
            } else {
                verified.path.clone()
            };
            // SAFETY: the bytes are those that the platform's builder made: `Verified` only comes from `Disk`, which
            // compared the SHA-256 of this open file with the digest that is signed, and the caller checked that signature
            // for this engine. The file is private to this process, read-only, only ever replaced by rename and never
            // written again.
            #[expect(unsafe_code, reason = "the artifact is signed and verified; see above")]
            let loaded = unsafe { load(&engine, path) }?;
            then(loaded)
        };
        let mapped = if bytes <= MAP_INLINE_BYTES {
            map()
        } else {
            tokio::task::spawn_blocking(map).await.map_err(|error| Error::Load { digest, reason: error.to_string() })?
        };
        mapped.map_err(|error| Error::Load { digest, reason: format!("{error:#}") })
    }

    /// Bytes of code that are mapped now.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes.load(Ordering::Relaxed)
    }

    /// Forgets what is in memory, for measuring code-cold starts.
    pub(crate) async fn unmap(&self) {
        self.cache.invalidate_all();
        self.cache.run_pending_tasks().await;
        // Engines stay: no host that serves a language is ever without its engine.
    }

    /// Artifacts on disk and their bytes.
    pub(crate) fn on_disk(&self) -> (u64, u64) {
        self.disk.totals()
    }
}
