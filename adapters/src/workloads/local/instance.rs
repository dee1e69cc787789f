//! One process that serves calls: started, asked over HTTP on loopback, watched, stopped.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustix::process::Signal;
use sless_core::ports::Stream;
use sless_core::version::Revision;
use sless_core::{Body, Failure, Outcome, Runtime};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::launch::Limits;
use super::output::{Output, Said};
use super::process::{End, Process};
use super::{Shared, image, memory};

/// How long a server may take until it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(20);
/// Below the 120 s that servers keep idle connections, so that it is this side that closes.
const IDLE_CONNECTION: Duration = Duration::from_secs(60);
/// Memory beyond `memoryMb` that a process may ask for but not hold: stacks of threads, reservations.
const UNTOUCHED_BYTES: u64 = 1 << 30;
/// The size of a file that a function writes.
const FILE_BYTES: u64 = 512 << 20;
/// How long the reason for an end is waited for once a connection broke: the process ends a moment before or after.
const END_LIMIT: Duration = Duration::from_millis(300);
/// Exit codes of the servers (`runtimes/README.md`).
const EXIT_HANDLER: i32 = 65;
const EXIT_STUCK: i32 = 70;
/// What V8 says before it ends its process.
const V8_OUT_OF_MEMORY: &str = "heap out of memory";
/// What Node.js' server says before it ends its process.
const BLOCKED: &str = "blocks the event loop";

/// A process that serves.
pub(super) struct Instance {
    pub(super) process: Process,
    pub(super) client: Client<HttpConnector, Body>,
    pub(super) port: u16,
    pub(super) output: Arc<Output>,
    pub(super) started: Instant,
    revision: Arc<Revision>,
    in_flight: AtomicUsize,
    last_used: Mutex<Instant>,
    peak_memory_bytes: AtomicU64,
    over_memory: AtomicBool,
    _folder: Folder,
    _place: OwnedSemaphorePermit,
}

impl Instance {
    /// Starts one; returns when it listens.
    pub(super) async fn start(shared: &Shared, revision: &Arc<Revision>) -> Result<Self, Failure> {
        let internal = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(Outcome::Internal, format!("the function's process can't be started: {what}: {error}"))
        };
        let place = shared.place()?;
        let layout = revision.image.as_deref().and_then(|image| shared.images.layout(image));
        let layout = layout.filter(|layout| layout.0.is_dir()).ok_or_else(|| {
            Failure::new(Outcome::FunctionNotReady, "the function's image is not there; deploy it again")
        })?;
        let runtime = revision.runtime();
        let interpreter =
            shared.interpreter(runtime).await.map_err(|why| Failure::new(Outcome::FunctionNotReady, why))?;
        let folder = Folder::new(shared).map_err(|e| internal("make its folder", &e))?;
        let memory = u64::from(revision.spec.memory_mb) << 20;
        let limits = Limits { memory_bytes: memory + UNTOUCHED_BYTES, file_bytes: FILE_BYTES };
        let mut command = shared.launcher.command(limits, &interpreter.program);
        super::server::environment(&mut command, runtime, &layout, revision.spec.entrypoint.as_deref());
        command.env("HOME", &folder.0).env("TMPDIR", &folder.0);
        command.envs(revision.env.iter().map(|(name, value)| (name, value)));
        command.envs(settings(revision));
        if runtime == Runtime::Nodejs20 {
            command.arg(format!("--max-old-space-size={}", revision.spec.memory_mb));
        }
        command.arg(layout.server(runtime));

        let (process, pipes) = shared.spawner.spawn(command).await.map_err(|e| internal("start it", &e))?;
        let output = Arc::new(Output::new(revision.clone(), shared.logs.clone(), shared.clock.clone()));
        let (tell, mut told) = mpsc::channel(1);
        let out = output.clone();
        let reading = tokio::spawn(async move {
            let said = |said| {
                if let Said::Listening(port) = said {
                    let _ = tell.try_send(port);
                }
            };
            out.read(pipes.out, Stream::Stdout, said).await;
        });
        let err = output.clone();
        tokio::spawn(async move { err.read(pipes.err, Stream::Stderr, |_| {}).await });
        let listening = async {
            tokio::select! {
                biased;
                Some(port) = told.recv() => Ok(port),
                end = process.wait() => Err(end),
            }
        };
        let port = match tokio::time::timeout(LISTEN_LIMIT, listening).await {
            Ok(Ok(port)) => port,
            Ok(Err(end)) => {
                // Its last words are in the pipe.
                let _ = tokio::time::timeout(END_LIMIT, reading).await;
                return Err(not_started(end, &output.last_words()));
            }
            Err(_) => {
                let detail = format!(
                    "the function's process did not listen within {} s; do less at the top of its file",
                    LISTEN_LIMIT.as_secs()
                );
                return Err(Failure::new(Outcome::FunctionTrapped, detail));
            }
        };
        let now = Instant::now();
        Ok(Self {
            process,
            client: client(),
            port,
            output,
            started: now,
            revision: revision.clone(),
            in_flight: AtomicUsize::new(0),
            last_used: Mutex::new(now),
            peak_memory_bytes: AtomicU64::new(0),
            over_memory: AtomicBool::new(false),
            _folder: folder,
            _place: place,
        })
    }

    /// Whether no call has it, and none had it for that long.
    pub(super) fn unused_for(&self, time: Duration) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
            && self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= time
    }

    /// Measures its memory, and ends it where that is over its limit.
    pub(super) fn measure(&self) {
        let Some(bytes) = self.process.pid().and_then(memory::private_bytes) else { return };
        self.peak_memory_bytes.fetch_max(bytes, Ordering::Relaxed);
        if bytes > u64::from(self.revision.spec.memory_mb) << 20 {
            self.over_memory.store(true, Ordering::Release);
            self.process.signal(Signal::KILL);
        }
    }

    /// The most memory that it held at once.
    pub(super) fn peak_memory_bytes(&self) -> u64 {
        self.peak_memory_bytes.load(Ordering::Relaxed)
    }

    /// Ends it: calls under way have the grace.
    pub(super) async fn stop(&self, grace: Duration) {
        self.process.signal(Signal::TERM);
        if tokio::time::timeout(grace, self.process.wait()).await.is_err() {
            self.process.signal(Signal::KILL);
            self.process.wait().await;
        }
    }

    /// Why a call's connection broke: the process's end, if it ended.
    pub(super) async fn why_broken(&self) -> Option<Failure> {
        let end = tokio::time::timeout(END_LIMIT, self.process.wait()).await.ok()?;
        let words = self.output.last_words();
        let memory_mb = self.revision.spec.memory_mb;
        let failure = match end {
            _ if self.over_memory.load(Ordering::Acquire) || words.contains(V8_OUT_OF_MEMORY) => Failure::new(
                Outcome::OutOfMemory,
                format!("the function's process held more than the {memory_mb} MiB of memoryMb"),
            ),
            End::Exited(EXIT_STUCK) => blocked(),
            End::Signalled(_) if words.contains(BLOCKED) => blocked(),
            End::Exited(code) => {
                Failure::new(Outcome::FunctionTrapped, format!("the function's process ended with exit code {code}"))
            }
            End::Signalled(signal) => {
                Failure::new(Outcome::FunctionTrapped, format!("the function's process ended by signal {signal}"))
            }
        };
        Some(failure)
    }
}

fn blocked() -> Failure {
    Failure::new(
        Outcome::DeadlineExceeded,
        "the function blocked its process past timeoutSeconds; it was started again",
    )
}

fn not_started(end: End, words: &str) -> Failure {
    let detail = match end {
        End::Exited(EXIT_HANDLER) => image::refusal(words.as_bytes()),
        end => format!("the function's process ended before it listened ({end:?}); its log says more"),
    };
    Failure::new(Outcome::FunctionTrapped, detail)
}

/// What the platform tells a server, over whatever the function's own environment says.
fn settings(revision: &Revision) -> [(&'static str, String); 12] {
    let spec = &revision.spec;
    [
        ("PORT", "0".to_owned()),
        ("SLESS_HOST", "127.0.0.1".to_owned()),
        ("SLESS_FUNCTION_NAME", revision.function.name.to_string()),
        ("SLESS_NAMESPACE", revision.function.namespace.to_string()),
        ("SLESS_VERSION", revision.version.to_string()),
        ("SLESS_TIMEOUT_SECONDS", spec.timeout_seconds.to_string()),
        ("SLESS_CONCURRENCY", spec.concurrency.to_string()),
        ("SLESS_REQUEST_BYTES", spec.limits.request_bytes.to_string()),
        ("SLESS_RESPONSE_BYTES", spec.limits.response_bytes.to_string()),
        ("SLESS_LOG_BYTES", spec.limits.log_bytes.to_string()),
        // This side ends what takes longer.
        ("SLESS_GRACE_SECONDS", "900".to_owned()),
        ("SLESS_LOG_LEVEL", "info".to_owned()),
    ]
}

fn client() -> Client<HttpConnector, Body> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION)
        .build(connector)
}

/// A call's hold on a process: it is not stopped meanwhile.
pub(super) struct Lease(Arc<Instance>);

impl Lease {
    /// Only under the lock of the server that it is of.
    pub(super) fn new(instance: Arc<Instance>) -> Self {
        instance.in_flight.fetch_add(1, Ordering::AcqRel);
        Self(instance)
    }
}

impl std::ops::Deref for Lease {
    type Target = Arc<Instance>;
    fn deref(&self) -> &Arc<Instance> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.0.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A process's own folder for temporary files; removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(shared: &Shared) -> std::io::Result<Self> {
        let path = shared.run_folder.join(uuid::Uuid::now_v7().simple().to_string());
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "a process's folder could not be removed");
        }
    }
}
