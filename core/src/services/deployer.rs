//! The deployer: makes what serves agree with what was asked for. For each function whose newest generation was not
//! looked at yet it builds what has to be built, tries it, makes it live, and says so in the status.
//!
//! One worker a function: a newer generation or a deletion ends the build of an older one. A version that fails leaves
//! the last good one serving. What was under way when the process ended is taken up again at the next start.

mod sign;
mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::janitor::Gate;
use super::{Routes, Settings};
use crate::artifact::PrivateKey;
use crate::function::{Function, Phase};
use crate::names::SecretName;
use crate::page::{MAX_LIMIT, PageRequest};
use crate::ports::{Blobs, Builds, Clock, Event, Logs, Records, Secrets, Store, Workloads};
use crate::tenant::Namespace;

/// The first pause after a failure of the platform; it doubles up to [`MAX_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// The longest pause between tries.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

pub(super) struct Deps {
    pub(super) functions: Arc<dyn Store<Function>>,
    pub(super) records: Arc<dyn Records>,
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) secrets: Arc<dyn Secrets>,
    pub(super) logs: Arc<dyn Logs>,
    pub(super) builds: Arc<dyn Builds>,
    pub(super) workloads: Arc<dyn Workloads>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) signing_key: Arc<PrivateKey>,
    pub(super) routes: Arc<Routes>,
    pub(super) gate: Gate,
    pub(super) settings: Arc<Settings>,
}

/// The deployer.
pub struct Deployer {
    deps: Arc<Deps>,
    building: Arc<Semaphore>,
}

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    /// Rises whenever there is something to do anew.
    turn: u64,
    /// The newest generation known.
    generation: u64,
    /// Whether to look again though the status says that nothing is to be done.
    again: bool,
    /// The function was deleted.
    gone: bool,
}

/// A worker that has ended: of which function, and the last turn it knew of.
type Ended = (Uuid, u64);

struct Workers {
    known: HashMap<Uuid, (Function, watch::Sender<Wanted>)>,
    tasks: JoinSet<Ended>,
}

impl Deployer {
    pub(super) fn new(deps: Deps) -> Self {
        let building = Arc::new(Semaphore::new(deps.settings.builds_at_once.max(1)));
        Self { deps: Arc::new(deps), building }
    }

    pub(super) async fn run(self, shutdown: CancellationToken) {
        let mut functions = self.deps.functions.watch();
        let mut secrets = self.deps.secrets.watch();
        let mut workers = Workers { known: HashMap::new(), tasks: JoinSet::new() };
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(ended) = workers.tasks.join_next() => match ended {
                    Ok((uid, turn)) => self.ended(uid, turn, &mut workers),
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a deployer's worker failed"),
                },
                Some(event) = functions.next() => match event {
                    Event::Applied(function) => {
                        if !work::settled(&function, self.deps.builds.as_ref()) {
                            self.start(function, false, &mut workers);
                        }
                    }
                    Event::Deleted(function) => {
                        if let Some((_, worker)) = workers.known.get(&function.metadata.uid) {
                            worker.send_modify(|wanted| *wanted = Wanted { gone: true, turn: wanted.turn + 1, ..*wanted });
                        }
                        self.forget(function, &mut workers.tasks);
                    }
                    Event::Synced => {}
                },
                Some((namespace, secret)) = secrets.next() => {
                    for function in self.waiting_for(namespace, &secret).await {
                        self.start(function, true, &mut workers);
                    }
                }
                else => break,
            }
        }
        // Builds end with their futures; what they had not finished is taken up at the next start.
        workers.tasks.shutdown().await;
    }

    /// Starts a function's worker, or tells it of a newer generation.
    fn start(&self, function: Function, again: bool, workers: &mut Workers) {
        let generation = function.metadata.generation;
        if let Some((known, worker)) = workers.known.get_mut(&function.metadata.uid) {
            worker.send_if_modified(|wanted| {
                let anew = again || generation > wanted.generation;
                if anew {
                    *wanted = Wanted { turn: wanted.turn + 1, generation, again, ..*wanted };
                }
                anew
            });
            *known = function;
            return;
        }
        self.spawn(function, Wanted { turn: 0, generation, again, gone: false }, workers);
    }

    fn spawn(&self, function: Function, wanted: Wanted, workers: &mut Workers) {
        let uid = function.metadata.uid;
        let (sender, changes) = watch::channel(wanted);
        let worker =
            work::Worker { deps: self.deps.clone(), building: self.building.clone(), key: function.key(), uid };
        workers.known.insert(uid, (function, sender));
        workers.tasks.spawn(async move { (uid, worker.run(changes).await) });
    }

    /// A worker ended; what it was told after its last look is done by another one.
    fn ended(&self, uid: Uuid, turn: u64, workers: &mut Workers) {
        let Some((function, worker)) = workers.known.remove(&uid) else { return };
        let wanted = *worker.borrow();
        if wanted.turn > turn && !wanted.gone {
            self.spawn(function, wanted, workers);
        }
    }

    /// Removes what is known of a deleted function.
    fn forget(&self, function: Function, tasks: &mut JoinSet<Ended>) {
        let deps = self.deps.clone();
        tasks.spawn(async move {
            let key = function.key();
            let replaced = matches!(deps.functions.get(key.namespace, key.name.as_str()).await, Ok(Some(_)));
            let gone = async {
                deps.records.delete_function(function.metadata.uid).await?;
                if replaced { Ok(()) } else { deps.logs.delete(&key).await }
            };
            if let Err(error) = gone.await {
                tracing::warn!(function = %key, error = &error as &dyn std::error::Error, "rows of a deleted function are left to the collector");
            }
            (Uuid::nil(), 0)
        });
    }

    /// Functions that failed since a secret was not there, which is there now.
    async fn waiting_for(&self, namespace: Namespace, secret: &SecretName) -> Vec<Function> {
        let mut waiting = Vec::new();
        let mut page = PageRequest { limit: MAX_LIMIT, cursor: None };
        loop {
            let functions = match self.deps.functions.list(namespace, page).await {
                Ok(functions) => functions,
                Err(error) => {
                    tracing::warn!(%namespace, error = &error as &dyn std::error::Error, "functions that wait for a secret can't be looked for");
                    return waiting;
                }
            };
            waiting.extend(functions.items.into_iter().filter(|function| {
                function.status.phase == Phase::Failed && function.spec.secret_refs.values().any(|name| name == secret)
            }));
            match functions.next {
                Some(next) => page = PageRequest { limit: MAX_LIMIT, cursor: Some(next) },
                None => return waiting,
            }
        }
    }
}

/// Pauses that grow.
struct Backoff(Duration);

impl Backoff {
    fn new() -> Self {
        Self(FIRST_BACKOFF)
    }

    fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (self.0 * 2).min(MAX_BACKOFF);
        pause
    }
}
