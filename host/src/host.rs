//! The host: everything that calls share, and its life from start to drain.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use sless_core::artifact::PublicKey;
use sless_core::call::Target;
use sless_core::outcome::{Failure, Outcome};
use sless_core::ports::clock::Clock;
use sless_core::ports::invoker::{Artifacts, Invoker};
use sless_core::ports::logs::Logs;
use sless_core::version::Revision;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::code::{Codes, DiskError};
use crate::egress::Tls;
use crate::function::{Function, HostTarget};
use crate::settings::Settings;
use crate::{instance, pool, ticker};

/// How long a caller should wait before it tries a host that is full or going away.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between two looks at idle instances.
const SWEEP: Duration = Duration::from_secs(5);
/// How long calls that were cut have to get out.
const CUT_GRACE: Duration = Duration::from_secs(5);

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No engine.
    #[error(transparent)]
    Pool(#[from] pool::Error),
    /// The cache folder is no use.
    #[error("open the cache of artifacts")]
    Cache(#[source] DiskError),
    /// wasmtime refuses its own interfaces.
    #[error("link the host's interfaces")]
    Link(#[source] wasmtime::Error),
    /// No thread for the ticker.
    #[error("start the ticker")]
    Ticker(#[source] std::io::Error),
}

/// What a host needs from the outside.
pub struct Deps {
    /// Where compiled code comes from.
    pub artifacts: Arc<dyn Artifacts>,
    /// Where what functions print goes to.
    pub logs: Arc<dyn Logs>,
    /// The platform's key: only what it signed is mapped.
    pub public_key: PublicKey,
    /// Dates log lines.
    pub clock: Arc<dyn Clock>,
    /// A folder of the host's own for artifacts.
    pub cache_dir: PathBuf,
}

/// Serves wasm functions.
pub struct Host(Arc<Inner>);

/// Counts of a host, for its metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that have an instance or are about to.
    pub instances_in_use: u64,
    /// The most there can be.
    pub instances_limit: u64,
    /// Instances that wait for their next call.
    pub instances_idle: u64,
    /// Calls that wait for a place.
    pub calls_waiting: u64,
    /// Calls since the start.
    pub calls_total: u64,
    /// Bytes of code that are mapped.
    pub code_mapped_bytes: u64,
    /// Artifacts on local disk.
    pub artifacts_cached: u64,
    /// Their bytes.
    pub artifacts_cached_bytes: u64,
    /// Outbound connections that policy refused.
    pub egress_refused_total: u64,
    /// Panics of the host's own. More than none: it should be replaced.
    pub panics_total: u64,
}

/// What calls share.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) codes: Codes,
    pub(crate) permits: Arc<Semaphore>,
    instances: u32,
    pub(crate) logs: Arc<dyn Logs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) public_key: PublicKey,
    pub(crate) tls: OnceLock<Result<Tls, String>>,
    pub(crate) idle_instances: AtomicU32,
    pub(crate) in_use: AtomicU32,
    pub(crate) waiting: AtomicU32,
    pub(crate) calls: AtomicU64,
    pub(crate) refused: AtomicU64,
    panics: AtomicU64,
    draining: AtomicBool,
    /// Cancelled when calls in flight have to end.
    pub(crate) cut: CancellationToken,
    /// Cancelled when the host panicked.
    unhealthy: CancellationToken,
    with_idle: Mutex<Vec<Weak<Function>>>,
}

impl Host {
    /// Makes a host: reserves its address space, opens its cache, starts its ticker.
    ///
    /// # Errors
    /// When the machine can't give what it needs.
    pub fn new(settings: Settings, deps: Deps) -> Result<Arc<Self>, Error> {
        let pool = pool::pool(&settings)?;
        let linker = instance::linker(&pool.engine).map_err(Error::Link)?;
        ticker::start(&pool.engine).map_err(Error::Ticker)?;
        let codes = Codes::new(pool.engine.clone(), linker, deps.artifacts, &deps.cache_dir, &settings)
            .map_err(Error::Cache)?;
        Ok(Arc::new(Self(Arc::new(Inner {
            settings,
            codes,
            permits: Arc::new(Semaphore::new(pool.instances as usize)),
            instances: pool.instances,
            logs: deps.logs,
            clock: deps.clock,
            public_key: deps.public_key,
            tls: OnceLock::new(),
            idle_instances: AtomicU32::new(0),
            in_use: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            calls: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            cut: CancellationToken::new(),
            unhealthy: CancellationToken::new(),
            with_idle: Mutex::new(Vec::new()),
        }))))
    }

    /// Its counts.
    pub fn stats(&self) -> Stats {
        let inner = &self.0;
        let (artifacts_cached, artifacts_cached_bytes) = inner.codes.on_disk();
        Stats {
            instances_in_use: inner.in_use.load(Ordering::Relaxed).into(),
            instances_limit: inner.instances.into(),
            instances_idle: inner.idle_instances.load(Ordering::Relaxed).into(),
            calls_waiting: inner.waiting.load(Ordering::Relaxed).into(),
            calls_total: inner.calls.load(Ordering::Relaxed),
            code_mapped_bytes: inner.codes.mapped_bytes(),
            artifacts_cached,
            artifacts_cached_bytes,
            egress_refused_total: inner.refused.load(Ordering::Relaxed),
            panics_total: inner.panics.load(Ordering::Relaxed),
        }
    }

    /// Whether it takes calls and has not panicked.
    pub fn is_healthy(&self) -> bool {
        !self.0.is_draining() && !self.0.unhealthy.is_cancelled()
    }

    /// Returns when the host has panicked: one call has failed, and whoever runs the host should drain and replace it.
    pub async fn unhealthy(&self) {
        self.0.unhealthy.cancelled().await;
    }

    /// Refuses new calls, lets those in flight finish within `grace`, cuts the rest. Returns when none is left.
    pub async fn drain(&self, grace: Duration) {
        let inner = &self.0;
        inner.draining.store(true, Ordering::Relaxed);
        let all = || inner.permits.acquire_many(inner.instances);
        if tokio::time::timeout(grace, all()).await.is_err() {
            let left = inner.in_use.load(Ordering::Relaxed);
            tracing::warn!(left, "calls did not finish within the grace and are cut");
            inner.cut.cancel();
            if tokio::time::timeout(CUT_GRACE, all()).await.is_err() {
                tracing::error!("calls did not end after they were cut");
            }
        }
    }

    /// Unmaps all code that no call uses: the next calls start code-cold. For measuring.
    pub async fn unmap_code(&self) {
        self.0.codes.unmap().await;
    }
}

impl Invoker for Host {
    fn target(&self, revision: Arc<Revision>) -> Arc<dyn Target> {
        Arc::new(HostTarget(Arc::new(Function::new(self.0.clone(), revision))))
    }
}

impl Inner {
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn shutting_down(&self) -> Failure {
        Failure::new(Outcome::ShuttingDown, "the host is shutting down; try again").retry_after(RETRY_AFTER)
    }

    /// Notes a panic: the call that it hit has failed, and the host should be replaced.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.unhealthy.cancel();
    }

    /// A place for one more idle instance.
    pub(crate) fn take_idle_place(&self) -> bool {
        let limit = self.settings.idle_instances;
        !self.is_draining()
            && self
                .idle_instances
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1))
                .is_ok()
    }

    /// Drops the function's idle instances when they have waited too long. One task does so for all functions, as
    /// long as there are any.
    pub(crate) fn watch_idle(self: &Arc<Self>, function: &Arc<Function>) {
        let mut functions = self.with_idle.lock().unwrap_or_else(PoisonError::into_inner);
        if functions.iter().any(|known| Weak::as_ptr(known) == Arc::as_ptr(function)) {
            return;
        }
        functions.push(Arc::downgrade(function));
        if functions.len() == 1 {
            let inner = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(SWEEP).await;
                    let Some(inner) = inner.upgrade() else { return };
                    if !inner.sweep_idle() {
                        return;
                    }
                }
            });
        }
    }

    /// Says whether there is something left to sweep.
    fn sweep_idle(&self) -> bool {
        let before = Instant::now().checked_sub(self.settings.idle_timeout);
        let mut functions = self.with_idle.lock().unwrap_or_else(PoisonError::into_inner);
        functions.retain(|function| {
            function.upgrade().is_some_and(|function| before.is_none_or(|before| function.drop_idle(before)))
        });
        !functions.is_empty()
    }
}
