//! A whole API over ports in memory, served on a free port of loopback.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sless_api::{Api, ApiSettings, Drained};
use sless_core::artifact::PrivateKey;
use sless_core::auth::{Config, Mode, Verifier, sign};
use sless_core::ports::{Logs, Resources};
use sless_core::services::{Deps, Services, Settings};
use sless_core::{Invocation, InvocationId, Namespace, Tenant, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::echo::{Caller, Echo};
use crate::memory::{Compiler, Few, Folder, Lines, Objects, Rows, Spaces, Vault, Watch};

pub(crate) const SECRET: &str = "a secret of at least 32 bytes for tests";
pub(crate) const SERVICE: &str = "console";
/// Longer than any of these tests needs on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) rows: Arc<Rows>,
    pub(crate) logs: Arc<Lines>,
    pub(crate) echo: Arc<Echo>,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) server: Option<JoinHandle<Drained>>,
    background: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.background.cancel();
    }
}

pub(crate) fn token(subject: &str) -> String {
    sign(SECRET, subject, Duration::from_secs(600), Timestamp::now()).unwrap()
}

pub(crate) fn namespace(subject: &str) -> Namespace {
    Tenant::from_subject(subject).namespace()
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(ApiSettings::default()).await
    }

    pub(crate) async fn with(settings: ApiSettings) -> Self {
        let (rows, logs, echo, blobs) =
            (Arc::<Rows>::default(), Arc::<Lines>::default(), Arc::<Echo>::default(), Arc::<Folder>::default());
        let resources = Resources {
            namespaces: Arc::<Spaces>::default(),
            functions: Arc::new(Objects::default()),
            triggers: Arc::new(Objects::default()),
        };
        let (services, background) = Services::new(Deps {
            resources,
            records: rows.clone(),
            blobs: blobs.clone(),
            secrets: Arc::<Vault>::default(),
            limits: Arc::<Few>::default(),
            logs: logs.clone(),
            builds: Arc::new(Compiler(blobs)),
            invoker: Arc::new(Caller(echo.clone())),
            workloads: Arc::new(sless_core::ports::NoWorkloads),
            clock: Arc::new(Watch),
            signing_key: Arc::new(PrivateKey::from_bytes(&[7; 32])),
            settings: Settings::default(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(background.run(stop.clone()));
        let config = Config { service_subjects: vec![SERVICE.into()], ..Config::new(Mode::Secret(SECRET.into())) };
        let api = Api::new(services, Arc::new(Verifier::new(config).unwrap()), settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(sless_api::serve(listener, api.clone(), shutdown.clone()));
        Self { api, rows, logs, echo, address, shutdown, server: Some(server), background: stop }
    }

    /// Sends a request to the router.
    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.api.router().oneshot(request).await.unwrap()
    }

    /// A request of a tenant to `/v1/namespaces/{its own}{path}`.
    pub(crate) async fn request(&self, subject: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let uri = format!("/v1/namespaces/{}{path}", namespace(subject));
        let mut request =
            Request::builder().method(method).uri(uri).header("authorization", format!("Bearer {}", token(subject)));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        Answer::of(self.send(request.body(body).unwrap()).await).await
    }

    pub(crate) async fn upload(&self, subject: &str, name: &str, code: &'static [u8]) -> Answer {
        let uri = format!("/v1/namespaces/{}/functions/{name}/upload", namespace(subject));
        let request = Request::post(uri)
            .header("authorization", format!("Bearer {}", token(subject)))
            .header("content-type", "application/wasm")
            .body(Body::from(code));
        Answer::of(self.send(request.unwrap()).await).await
    }

    /// Makes a function of `spec` that serves, and is exposed; answers `/fn/{ns}/{name}`.
    pub(crate) async fn deploy(&self, subject: &str, name: &str, spec: Value) -> String {
        let base = self.deploy_unexposed(subject, name, spec).await;
        let trigger = json!({"name": name, "spec": {"function": name, "http": {}}});
        self.request(subject, "POST", "/triggers", Some(trigger)).await.expect(201);
        base
    }

    pub(crate) async fn deploy_unexposed(&self, subject: &str, name: &str, mut spec: Value) -> String {
        self.request(subject, "POST", "/ensure", None).await.expect(200);
        spec["runtime"] = "wasm".into();
        self.request(subject, "POST", "/functions", Some(json!({"name": name, "spec": spec}))).await.expect(201);
        self.upload(subject, name, b"\0asm one").await.expect(202);
        self.ready(subject, name, 1).await;
        format!("/fn/{}/{name}", namespace(subject))
    }

    /// Waits until this version serves.
    pub(crate) async fn ready(&self, subject: &str, name: &str, version: u32) {
        until("the version serves", async || {
            let function = self.request(subject, "GET", &format!("/functions/{name}"), None).await.expect(200);
            (function["status"]["version"] == version).then_some(())
        })
        .await;
        let called = self.request(subject, "POST", &format!("/functions/{name}/invoke?path=/probe"), None).await;
        assert_eq!(called.headers["x-version"], version.to_string());
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Writes bytes and reads until the server closes.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> Vec<u8> {
        let mut stream = self.connect().await;
        let mut answer = Vec::new();
        let talk = async {
            stream.write_all(bytes.as_ref()).await.unwrap();
            stream.read_to_end(&mut answer).await.unwrap();
        };
        tokio::time::timeout(DEADLINE, talk).await.expect("the server closes");
        answer
    }

    /// A request over HTTP/1.1 on a connection of its own.
    pub(crate) async fn http1<B>(&self, request: Request<B>) -> Response<hyper::body::Incoming>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) =
            hyper::client::conn::http1::Builder::new().max_headers(256).handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = request;
        request.headers_mut().entry("host").or_insert("a.example".parse().unwrap());
        sender.send_request(request).await.unwrap()
    }

    /// The row of an answered call.
    pub(crate) async fn row(&self, id: InvocationId) -> Invocation {
        until("the row is written", async || self.rows.calls.lock().unwrap().get(&id).cloned()).await
    }

    /// Rows, once there are so many that `wanted` holds for.
    pub(crate) async fn rows_where(&self, count: usize, wanted: impl Fn(&Invocation) -> bool) -> Vec<Invocation> {
        until("the rows are written", async || {
            let calls = self.rows.calls.lock().unwrap();
            let found: Vec<_> = calls.values().filter(|row| wanted(row)).cloned().collect();
            (found.len() >= count).then_some(found)
        })
        .await
    }

    pub(crate) async fn no_call_lives(&self) {
        until("every call has ended", async || (self.echo.live.load(Ordering::SeqCst) == 0).then_some(())).await;
    }

    pub(crate) fn log(&self, subject: &str, name: &str, text: &str) {
        let line = sless_core::ports::LogLine {
            at: Timestamp::now(),
            version: sless_core::VersionNumber(1),
            invocation: InvocationId::now(),
            stream: sless_core::ports::Stream::Stdout,
            line: text.into(),
        };
        self.logs.append(&sless_core::FunctionKey::new(namespace(subject), name.parse().unwrap()), vec![line]);
    }
}

/// Asks until there is something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let found = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, found).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// The id of a call from its answer.
pub(crate) fn call_id<B>(response: &Response<B>) -> InvocationId {
    response.headers()["x-sless-invocation-id"].to_str().unwrap().parse().unwrap()
}

pub(crate) async fn bytes<B>(response: Response<B>) -> Bytes
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    tokio::time::timeout(DEADLINE, response.into_body().collect()).await.expect("in time").unwrap().to_bytes()
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn of<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (status, headers) = (response.status(), response.headers().clone());
        Self { status, headers, body: bytes(response).await }
    }

    /// Its JSON, if it has this status.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        if self.body.is_empty() { Value::Null } else { serde_json::from_slice(&self.body).unwrap_or(Value::Null) }
    }

    /// Its problem, if it has this status and code; checks the shape of RFC 9457.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.expect(status);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["type"], format!("urn:sless:problem:{code}"));
        assert_eq!(problem["requestId"], self.headers["x-request-id"].to_str().unwrap());
        assert!(problem["instance"].as_str().is_some_and(|path| path.starts_with('/')), "{problem}");
        assert!(
            ["title", "detail"].iter().all(|field| problem[field].as_str().is_some_and(|text| !text.is_empty())),
            "{problem}"
        );
        problem
    }

    pub(crate) fn etag(&self) -> String {
        self.headers["etag"].to_str().unwrap().to_owned()
    }
}
