//! One version's server: a process that is started when it is called, kept while it is used, and replaced when it ends.
//!
//! All changes of its phase are made under one lock, so that no call is given a process that is being stopped.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sless_core::ports::{LogLine, Stream};
use sless_core::version::Revision;
use sless_core::{Failure, InvocationId, Outcome, Runtime};
use tokio::sync::watch;

use super::Shared;
use super::image::Layout;
use super::instance::{Instance, Lease};

/// How long a call waits for a process: an interpreter, its packages and the handler's file take a second or two.
const START_LIMIT: Duration = Duration::from_secs(30);
/// A process that ran this long did not crash at its start.
const STEADY: Duration = Duration::from_secs(30);
/// So many crashes in a row are answered by another process at once.
const FREE_CRASHES: u32 = 2;
/// The pause after that; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A call waits for a pause that ends within this time, and is told to come back for a longer one.
const HOLD: Duration = Duration::from_secs(2);
/// How long a process without calls has after SIGTERM.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(3);

/// A version's server.
pub(super) struct Server {
    pub(super) revision: Arc<Revision>,
    pub(super) shared: Arc<Shared>,
    state: Mutex<State>,
    /// Rises with every change of the phase.
    changed: watch::Sender<u64>,
    /// Targets that lead here.
    pub(super) handles: AtomicUsize,
}

struct State {
    phase: Phase,
    /// In a row.
    crashes: u32,
}

enum Phase {
    Stopped,
    Starting,
    Running(Arc<Instance>),
    Crashed { until: Instant, why: Failure },
}

/// What the keeper has to know.
pub(super) enum Look {
    /// A process runs.
    Running(Arc<Instance>),
    /// None, and none is started.
    Idle,
    /// One is being started, or is not to be started yet.
    Busy,
}

impl Server {
    pub(super) fn new(revision: Arc<Revision>, shared: Arc<Shared>) -> Self {
        let state = State { phase: Phase::Stopped, crashes: 0 };
        Self { revision, shared, state: Mutex::new(state), changed: watch::channel(0).0, handles: AtomicUsize::new(0) }
    }

    /// A process for a call, started where there is none. Answers whether it had to be.
    pub(super) async fn acquire(self: &Arc<Self>) -> Result<(Lease, bool), Failure> {
        let mut changed = self.changed.subscribe();
        let deadline = tokio::time::Instant::now() + START_LIMIT;
        let mut cold = false;
        loop {
            let pause = {
                let mut state = self.state();
                match &state.phase {
                    Phase::Running(instance) => match instance.process.end() {
                        None => return Ok((Lease::new(instance.clone()), cold)),
                        Some(_) => None,
                    },
                    Phase::Starting => None,
                    Phase::Crashed { until, why } => match until.checked_duration_since(Instant::now()) {
                        Some(left) if left > HOLD => return Err(why.clone().retry_after(left)),
                        Some(left) => Some(left),
                        None => {
                            self.begin(&mut state);
                            None
                        }
                    },
                    Phase::Stopped => {
                        self.begin(&mut state);
                        None
                    }
                }
            };
            cold = true;
            let waited = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => {
                        let _ = changed.changed().await;
                    }
                }
            };
            if tokio::time::timeout_at(deadline, waited).await.is_err() {
                let detail = format!("no process of the function was ready within {} s", START_LIMIT.as_secs());
                return Err(Failure::new(Outcome::FunctionNotReady, detail).retry_after(Duration::from_secs(1)));
            }
            // A start that failed is told to all who waited for it.
            if let Phase::Crashed { until, why } = &self.state().phase
                && pause.is_none()
                && *until > Instant::now()
            {
                return Err(why.clone());
            }
        }
    }

    /// Starts a process if none is there, for nobody's call.
    pub(super) fn warm(self: &Arc<Self>) {
        let mut state = self.state();
        let due = match &state.phase {
            Phase::Stopped => true,
            Phase::Crashed { until, .. } => *until <= Instant::now(),
            _ => false,
        };
        if due {
            self.begin(&mut state);
        }
    }

    fn begin(self: &Arc<Self>, state: &mut State) {
        state.phase = Phase::Starting;
        let server = self.clone();
        tokio::spawn(async move {
            match Instance::start(&server.shared, &server.revision).await {
                Ok(instance) => {
                    let instance = Arc::new(instance);
                    server.began(&instance);
                    let end = instance.process.wait().await;
                    server.ended(&instance, &format!("{end:?}"));
                }
                Err(why) => server.not_begun(why),
            }
        });
    }

    fn began(&self, instance: &Arc<Instance>) {
        let mut state = self.state();
        state.phase = Phase::Running(instance.clone());
        drop(state);
        self.tell();
    }

    fn not_begun(&self, why: Failure) {
        let detail = why.detail.clone();
        let mut state = self.state();
        state.crashes += 1;
        // Calls of the next moment get the same answer.
        let until = Instant::now() + pause(state.crashes).max(FIRST_PAUSE);
        state.phase = Phase::Crashed { until, why };
        drop(state);
        self.say(&detail);
        self.tell();
    }

    /// A process ended that was not told to.
    fn ended(&self, instance: &Arc<Instance>, how: &str) {
        let mut state = self.state();
        if !matches!(&state.phase, Phase::Running(running) if Arc::ptr_eq(running, instance)) {
            return;
        }
        state.crashes = if instance.started.elapsed() > STEADY { 1 } else { state.crashes + 1 };
        let (crashes, pause) = (state.crashes, pause(state.crashes));
        state.phase = if pause.is_zero() {
            Phase::Stopped
        } else {
            let detail =
                format!("the function's process ended {crashes} times in a row; it is started again after a pause");
            let why = Failure::new(Outcome::FunctionNotReady, detail);
            Phase::Crashed { until: Instant::now() + pause, why }
        };
        drop(state);
        self.say(&format!("the process of the function ended: {how}"));
        self.tell();
    }

    /// Stops the process if no call has it and it was not used for that long. Answers whether none is there now.
    pub(super) fn stop_unused(&self, unused: Duration) -> bool {
        let mut state = self.state();
        match &state.phase {
            Phase::Running(instance) => {
                if !instance.unused_for(unused) {
                    return false;
                }
                let instance = instance.clone();
                state.phase = Phase::Stopped;
                state.crashes = 0;
                drop(state);
                self.tell();
                tokio::spawn(async move { instance.stop(STOP_GRACE).await });
                true
            }
            Phase::Starting => false,
            Phase::Stopped | Phase::Crashed { .. } => true,
        }
    }

    /// Kills the process, for an end without a grace.
    pub(super) fn kill(&self) {
        if let Phase::Running(instance) = &self.state().phase {
            instance.process.signal(rustix::process::Signal::KILL);
        }
    }

    /// Stops the process, with so much time for calls under way.
    pub(super) async fn stop(&self, grace: Duration) {
        let phase = std::mem::replace(&mut self.state().phase, Phase::Stopped);
        self.tell();
        if let Phase::Running(instance) = phase {
            instance.stop(grace).await;
        }
    }

    pub(super) fn look(&self) -> Look {
        match &self.state().phase {
            Phase::Running(instance) => Look::Running(instance.clone()),
            Phase::Stopped => Look::Idle,
            Phase::Crashed { until, .. } if *until <= Instant::now() => Look::Idle,
            Phase::Starting | Phase::Crashed { .. } => Look::Busy,
        }
    }

    /// Whether nothing leads here any more.
    pub(super) fn forgotten(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    /// A line of the platform in the function's log.
    fn say(&self, text: &str) {
        let line = LogLine {
            at: self.shared.clock.now(),
            version: self.revision.version,
            invocation: InvocationId::now(),
            stream: Stream::Platform,
            line: text.to_owned(),
        };
        self.shared.logs.append(&self.revision.function, vec![line]);
    }

    fn tell(&self) {
        self.changed.send_modify(|turn| *turn += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait after so many crashes in a row.
fn pause(crashes: u32) -> Duration {
    match crashes.checked_sub(FREE_CRASHES + 1) {
        None => Duration::ZERO,
        Some(more) => FIRST_PAUSE.saturating_mul(1 << more.min(16)).min(MAX_PAUSE),
    }
}

/// The environment of every process of a runtime: where its files are, and nothing of the platform's own.
pub(super) fn environment(command: &mut Command, runtime: Runtime, layout: &Layout, entrypoint: Option<&str>) {
    let function = layout.function();
    command
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .env("HOME", "/tmp")
        .env("SLESS_FUNCTION_DIR", &function)
        .current_dir(&function);
    if let Some(entrypoint) = entrypoint {
        command.env("SLESS_ENTRYPOINT", entrypoint);
    }
    match runtime {
        Runtime::Python311 => python(command, &layout.packages()),
        _ => {
            command.env("NODE_ENV", "production");
        }
    }
}

fn python(command: &mut Command, packages: &Path) {
    // Images are not written to.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", packages);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_after_the_first_crashes() {
        assert_eq!([1, 2, 3, 4, 100].map(pause).map(|p| p.as_millis()), [0, 0, 200, 400, 30_000]);
    }
}
