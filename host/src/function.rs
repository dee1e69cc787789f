//! One version of one function in this host: what it needs beyond its revision is made at its first call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Instant;

use async_trait::async_trait;
use sless_core::ColdGrade;
use sless_core::body::Body;
use sless_core::call::{Call, Target};
use sless_core::outcome::{Failure, Outcome};
use sless_core::version::Revision;
use tokio::sync::Semaphore;

use crate::code::{self, Code};
use crate::egress::Egress;
use crate::host::Inner;
use crate::instance::Instance;
use crate::invoke;

/// One version of one function. Nobody calls most of the functions there are, so this is small.
pub(crate) struct Function {
    pub(crate) host: Arc<Inner>,
    pub(crate) revision: Arc<Revision>,
    used: OnceLock<Box<Used>>,
}

/// What a function that is called needs.
pub(crate) struct Used {
    pub(crate) permits: Arc<Semaphore>,
    /// The host's cache owns the code; a call in flight holds it too.
    code: RwLock<Weak<Code>>,
    /// Whether the artifact's signature was found good: it is checked once, not at each mapping.
    verified: AtomicBool,
    egress: OnceLock<Egress>,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    instance: Instance,
    since: Instant,
}

impl Function {
    pub(crate) fn new(host: Arc<Inner>, revision: Arc<Revision>) -> Self {
        Self { host, revision, used: OnceLock::new() }
    }

    pub(crate) fn used(&self) -> &Used {
        self.used.get_or_init(|| {
            Box::new(Used {
                permits: Arc::new(Semaphore::new(self.revision.spec.concurrency as usize)),
                code: RwLock::new(Weak::new()),
                verified: AtomicBool::new(false),
                egress: OnceLock::new(),
                idle: Mutex::new(Vec::new()),
            })
        })
    }

    pub(crate) fn egress(&self) -> &Egress {
        self.used().egress.get_or_init(|| Egress::new(&self.revision.spec.egress, &self.host))
    }

    /// The code to run, and how cold it was.
    pub(crate) async fn code(&self) -> Result<(Arc<Code>, ColdGrade), Failure> {
        let used = self.used();
        let held = used.code.read().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(code) = held {
            if self.host.codes.touch(&code, Instant::now()) {
                self.host.codes.keep(&code).await;
            }
            return Ok((code, ColdGrade::Instance));
        }
        let artifact = self.revision.artifact.as_ref().ok_or_else(|| {
            Failure::new(Outcome::FunctionNotReady, "this version has no artifact; deploy the function again")
        })?;
        let engine = sless_engine::digest();
        if artifact.engine != engine || artifact.modules.iter().any(|module| module.engine != engine) {
            return Err(Failure::new(
                Outcome::FunctionNotReady,
                "this version was built for another engine; it is built again, or deploy it again",
            ));
        }
        // Before any byte of it is trusted, and long before it is mapped.
        if !used.verified.load(Ordering::Relaxed) {
            let key = &self.host.public_key;
            let modules = || artifact.modules.iter().try_for_each(|module| module.verify(key));
            artifact.verify(&self.revision.function, key).and_then(|()| modules()).map_err(|error| {
                tracing::error!(function = %self.revision.function, digest = %artifact.digest, "artifact refused");
                Failure::new(Outcome::FunctionNotReady, format!("{error}; deploy the function again"))
            })?;
            used.verified.store(true, Ordering::Relaxed);
        }
        let (code, cold) = self.host.codes.get(artifact).await.map_err(|error| self.no_code(&error))?;
        *used.code.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&code);
        Ok((code, cold))
    }

    fn no_code(&self, error: &code::Error) -> Failure {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(function = %self.revision.function, version = %self.revision.version, %error, cause, "no code");
        match error {
            code::Error::Module(error) => self.no_code(error),
            code::Error::Fetch { .. } | code::Error::Disk { .. } => {
                Failure::new(Outcome::FunctionNotReady, "the function's code can't be had at the moment; try again")
                    .retry_after(std::time::Duration::from_secs(1))
            }
            code::Error::Load { reason, .. } => {
                Failure::new(Outcome::FunctionNotReady, format!("the function's code does not fit this host: {reason}"))
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.used().idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An instance that has served before, if the function allows it and there is one.
    pub(crate) fn reuse(&self) -> Option<Instance> {
        if !self.revision.spec.reuse {
            return None;
        }
        let idle = self.idle().pop()?;
        self.host.idle_instances.fetch_sub(1, Ordering::Relaxed);
        Some(idle.instance)
    }

    /// Keeps an instance for the next call, if the function allows it and there is room.
    pub(crate) fn keep(self: &Arc<Self>, mut instance: Instance) {
        if !self.revision.spec.reuse || !self.host.take_idle_place() {
            return;
        }
        instance.store.data_mut().serve(None);
        let first = {
            let mut idle = self.idle();
            idle.push(Idle { instance, since: Instant::now() });
            idle.len() == 1
        };
        if first {
            self.host.watch_idle(self);
        }
    }

    /// Drops instances that have waited since before `before`. Says whether some are left.
    pub(crate) fn drop_idle(&self, before: Instant) -> bool {
        // The newest are at the end and taken from there, so the old ones are at the front. Dropped outside the lock.
        let (gone, left) = {
            let mut idle = self.idle();
            let old = idle.partition_point(|idle| idle.since < before);
            let gone: Vec<_> = idle.drain(..old).collect();
            (gone, !idle.is_empty())
        };
        self.host.idle_instances.fetch_sub(gone.len() as u32, Ordering::Relaxed);
        left
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        if let Some(used) = self.used.get_mut() {
            let idle = std::mem::take(used.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
            self.host.idle_instances.fetch_sub(idle.len() as u32, Ordering::Relaxed);
        }
    }
}

/// A [`Function`] as the gateway has it.
pub(crate) struct HostTarget(pub(crate) Arc<Function>);

#[async_trait]
impl Target for HostTarget {
    async fn prepare(&self) -> Result<(), Failure> {
        self.0.code().await.map(drop)
    }

    async fn call(&self, call: Call) -> Result<http::Response<Body>, Failure> {
        invoke::call(&self.0, call).await
    }
}
