//! A host with a function that tests shape, over ports that live in memory.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use sless_core::artifact::{ArtifactRef, PrivateKey, Statement};
use sless_core::body::{self, Body, BodyError};
use sless_core::call::{Answer, Call, CallRecord, Target};
use sless_core::function::{FunctionSpec, Runtime};
use sless_core::ports::blobs::{self, ByteStream};
use sless_core::ports::clock::Clock;
use sless_core::ports::invoker::{Artifacts, Invoker as _};
use sless_core::ports::logs::{LogLine, LogQuery, LogStream, Logs, Stream};
use sless_core::version::Revision;
use sless_core::{
    Digest, Failure, FunctionKey, Invocation, InvocationId, Outcome, Tenant, Timestamp, TriggerKind, VersionNumber,
};
use sless_host::{Deps, Host, Settings};
use tokio::sync::mpsc;
use uuid::Uuid;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A component that was built by `cargo xtask guests`.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    #[expect(clippy::disallowed_methods, reason = "where the guests are is for the developer to say")]
    let folder = std::env::var_os("SLESS_TEST_GUESTS").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").expect("a home");
        PathBuf::from(home).join(".cache/sless/guests")
    });
    let path = folder.join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run cargo xtask guests", path.display()))
}

/// Compiles a component, once a process.
pub(crate) fn compiled(name: &str) -> (Digest, Bytes) {
    static DONE: OnceLock<Mutex<HashMap<String, (Digest, Bytes)>>> = OnceLock::new();
    let mut done = DONE.get_or_init(Mutex::default).lock().unwrap();
    done.entry(name.to_owned())
        .or_insert_with(|| {
            let wasm = guest(name);
            (Digest::of(&wasm), compile(&wasm))
        })
        .clone()
}

pub(crate) fn compile(wasm: &[u8]) -> Bytes {
    let engine = wasmtime::Engine::new(&sless_engine::compiler_config().unwrap()).unwrap();
    engine.precompile_component(wasm).unwrap().into()
}

pub(crate) fn compile_module(wasm: &[u8]) -> Bytes {
    let engine = wasmtime::Engine::new(&sless_engine::compiler_config().unwrap()).unwrap();
    engine.precompile_module(wasm).unwrap().into()
}

pub(crate) fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32])
}

pub(crate) fn function_key(name: &str) -> FunctionKey {
    FunctionKey::new(Tenant::from_subject("test").namespace(), name.parse().unwrap())
}

/// A signed reference to compiled bytes.
pub(crate) fn sign(function: &FunctionKey, wasm: Digest, code: &[u8]) -> ArtifactRef {
    let (digest, engine) = (Digest::of(code), sless_engine::digest());
    let signature = key().sign(&Statement { artifact: digest, wasm, engine, function });
    ArtifactRef { digest, size_bytes: code.len() as u64, wasm, engine, signature, modules: Vec::new() }
}

/// Artifacts in memory, and how often each was fetched.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) blobs: Mutex<HashMap<Digest, Bytes>>,
    pub(crate) fetched: Mutex<u32>,
}

#[async_trait]
impl Artifacts for Store {
    async fn fetch(&self, artifact: &Digest) -> sless_core::ports::Result<ByteStream> {
        *self.fetched.lock().unwrap() += 1;
        match self.blobs.lock().unwrap().get(artifact) {
            Some(bytes) => Ok(blobs::once(bytes.clone())),
            None => Err(sless_core::ports::Error::NotFound { kind: "artifact", name: artifact.to_string() }),
        }
    }
}

/// Log lines in memory; panics when it is told to, as a bug in the host would.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) lines: Mutex<Vec<LogLine>>,
    pub(crate) panics: std::sync::atomic::AtomicBool,
}

impl Lines {
    pub(crate) fn texts(&self, stream: Stream) -> Vec<String> {
        self.lines.lock().unwrap().iter().filter(|l| l.stream == stream).map(|l| l.line.clone()).collect()
    }
}

#[async_trait]
impl Logs for Lines {
    fn append(&self, _: &FunctionKey, lines: Vec<LogLine>) {
        assert!(!self.panics.load(std::sync::atomic::Ordering::Relaxed), "a bug in the host");
        self.lines.lock().unwrap().extend(lines);
    }
    async fn read(&self, _: &FunctionKey, _: LogQuery) -> sless_core::ports::Result<LogStream> {
        unreachable!("the host only writes")
    }
    async fn delete(&self, _: &FunctionKey) -> sless_core::ports::Result<()> {
        Ok(())
    }
    async fn flush(&self) -> sless_core::ports::Result<()> {
        Ok(())
    }
}

struct WallClock;

#[async_trait]
impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
    async fn sleep_until(&self, _: Timestamp) {
        unreachable!("the host sleeps by durations")
    }
}

/// A host and what it reported.
pub(crate) struct World {
    pub(crate) host: Arc<Host>,
    pub(crate) store: Arc<Store>,
    pub(crate) logs: Arc<Lines>,
    pub(crate) cache: Arc<tempfile::TempDir>,
    rows: mpsc::Sender<Invocation>,
    pub(crate) reported: tokio::sync::Mutex<mpsc::Receiver<Invocation>>,
}

/// Few instances: a pool of a thousand costs each test some milliseconds.
pub(crate) fn settings() -> Settings {
    Settings { instances: 64, idle_instances: 8, ..Settings::default() }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::over(settings, Arc::default(), Arc::new(tempfile::tempdir().unwrap()))
    }

    /// A host over a store and a cache that another one may have used before.
    pub(crate) fn over(settings: Settings, store: Arc<Store>, cache: Arc<tempfile::TempDir>) -> Self {
        let logs = Arc::new(Lines::default());
        let deps = Deps {
            artifacts: store.clone(),
            logs: logs.clone(),
            public_key: key().public(),
            clock: Arc::new(WallClock),
            cache_dir: cache.path().join("artifacts"),
        };
        let (rows, reported) = mpsc::channel(4096);
        let host = Host::new(settings, deps).unwrap();
        Self { host, store, logs, cache, rows, reported: tokio::sync::Mutex::new(reported) }
    }

    /// The kitchen, with settings of the test's.
    pub(crate) fn kitchen(&self, change: impl FnOnce(&mut FunctionSpec)) -> TestFunction<'_> {
        let (wasm, code) = compiled("kitchen");
        let artifact = sign(&function_key("kitchen"), wasm, &code);
        self.store.blobs.lock().unwrap().insert(artifact.digest, code);
        self.function("kitchen", Some(artifact), change)
    }

    pub(crate) fn function(
        &self,
        name: &str,
        artifact: Option<ArtifactRef>,
        change: impl FnOnce(&mut FunctionSpec),
    ) -> TestFunction<'_> {
        let revision = Arc::new(revision(name, artifact, change));
        TestFunction { world: self, target: self.host.target(revision.clone()), revision }
    }

    /// The next row that was reported.
    pub(crate) async fn row(&self) -> Invocation {
        let mut reported = self.reported.lock().await;
        tokio::time::timeout(PATIENCE, reported.recv()).await.expect("a row within the patience").expect("a row")
    }

    /// Waits until nothing is in use any more.
    pub(crate) async fn idle(&self) {
        eventually(|| self.host.stats().instances_in_use == 0 && self.host.stats().calls_waiting == 0).await;
    }
}

pub(crate) fn revision(name: &str, artifact: Option<ArtifactRef>, change: impl FnOnce(&mut FunctionSpec)) -> Revision {
    let mut spec = FunctionSpec::new(Runtime::Wasm);
    change(&mut spec);
    assert_eq!(spec.validate("/spec"), []);
    let env = std::mem::take(&mut spec.env).into_iter().collect();
    Revision {
        function: function_key(name),
        uid: Uuid::from_u128(1),
        version: VersionNumber(3),
        spec,
        env,
        artifact,
        image: None,
    }
}

/// Awaits a condition.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < end, "the condition did not come true");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A function of a test.
#[derive(Clone)]
pub(crate) struct TestFunction<'a> {
    pub(crate) world: &'a World,
    pub(crate) target: Arc<dyn Target>,
    pub(crate) revision: Arc<Revision>,
}

impl TestFunction<'_> {
    fn record(&self) -> Arc<CallRecord> {
        let slot = self.world.rows.clone().try_reserve_owned().expect("room for rows");
        let id = InvocationId::now();
        let (revision, now) = (self.revision.clone(), Timestamp::now());
        CallRecord::new(id, revision, TriggerKind::Http, None, now, Some(slot))
    }

    /// Calls up to the head, and reports the answer as the gateway does.
    pub(crate) async fn call(&self, request: Request<Body>) -> Result<Response<Body>, Failure> {
        let record = self.record();
        let answered = self.target.call(Call { request, record: record.clone() }).await;
        let (status, outcome, error) = match &answered {
            Ok(response) => (response.status().as_u16(), Outcome::Ok, None),
            Err(failure) => (failure.outcome.status(), failure.outcome, Some(failure.detail.clone())),
        };
        let duration = record.started.elapsed();
        record.answered(Answer { status, outcome, error, bytes_in: 0, bytes_out: 0, duration });
        answered
    }

    /// Calls and reads the whole answer.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Bytes>, Failure> {
        let (parts, body) = self.call(request).await?.into_parts();
        match body.collect().await {
            Ok(collected) => Ok(Response::from_parts(parts, collected.to_bytes())),
            Err(BodyError::Failed(failure)) => Err(failure),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Response<Bytes>, Failure> {
        self.send(get(path)).await
    }

    /// The text that a GET is answered with.
    pub(crate) async fn text(&self, path: &str) -> String {
        let response = self.get(path).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        String::from_utf8(response.into_body().to_vec()).unwrap()
    }

    /// How a GET fails.
    pub(crate) async fn failure(&self, path: &str) -> Failure {
        match self.get(path).await {
            Err(failure) => failure,
            Ok(response) => panic!("{path} was answered with {} {:?}", response.status(), response.body()),
        }
    }

    /// That a call works, whatever happened before.
    pub(crate) async fn works(&self) {
        assert_eq!(self.text("/hello").await, "hello\n");
    }
}

pub(crate) fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header("host", "example.org")
}

pub(crate) fn get(path: &str) -> Request<Body> {
    request(Method::GET, path).body(body::empty()).unwrap()
}

pub(crate) fn post(path: &str, bytes: impl Into<Bytes>) -> Request<Body> {
    request(Method::POST, path).body(body::full(bytes)).unwrap()
}

/// A body of pieces without a length.
pub(crate) fn pieces(pieces: Vec<Bytes>) -> Body {
    let frames = futures::stream::iter(pieces.into_iter().map(|piece| Ok(http_body::Frame::data(piece))));
    http_body_util::StreamBody::new(frames).boxed_unsync()
}
