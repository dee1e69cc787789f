//! The load itself: one task a connection, HTTP/1.1 with keep-alive, each with a histogram of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use http::header::HOST;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::REQUEST_TIMEOUT;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that can't be made or breaks is made again after this, so that a dead server is not hammered.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Latency is kept in microseconds up to the longest request, with three digits.
const LONGEST_MICROS: u64 = REQUEST_TIMEOUT.as_secs() * 1_000_000;
/// Different errors that are told apart; the rest is counted together.
const MAX_ERRORS: usize = 16;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Where the load goes.
#[derive(Clone)]
pub(super) struct Target {
    host: String,
    port: u16,
    tls: Option<(tokio_rustls::TlsConnector, ServerName<'static>)>,
    path: Uri,
    authority: String,
}

impl Target {
    pub(super) fn new(url: &Uri) -> Result<Self, String> {
        let https = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("it must begin with http:// or https://".to_owned()),
        };
        let host = url.host().ok_or("it has no host")?.trim_matches(['[', ']']).to_owned();
        let path = url.path_and_query().map_or("/", |p| p.as_str());
        let tls = if https {
            let name = ServerName::try_from(host.clone()).map_err(|e| e.to_string())?;
            Some((tokio_rustls::TlsConnector::from(Arc::new(tls_config())), name))
        } else {
            None
        };
        Ok(Self {
            port: url.port_u16().unwrap_or(if https { 443 } else { 80 }),
            host,
            tls,
            path: path.parse().map_err(|_| "its path can't be used")?,
            authority: url.authority().map(|a| a.as_str().to_owned()).unwrap_or_default(),
        })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Error> {
        let connected = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            match &self.tls {
                None => handshake(stream).await,
                Some((connector, name)) => handshake(connector.connect(name.clone(), stream).await?).await,
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connected).await.map_err(|_| "connecting takes too long")?
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its errors come out of the requests too.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn tls_config() -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// When it is enough.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    Requests(u64),
    After(Duration),
}

/// What is to be sent, and how much of it.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) connections: u32,
    pub(super) stop: Stop,
}

impl Plan {
    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.path.clone();
        *request.headers_mut() = self.headers.clone();
        if !request.headers().contains_key(HOST)
            && let Ok(host) = self.target.authority.parse()
        {
            request.headers_mut().insert(HOST, host);
        }
        request
    }
}

/// What came back.
pub(super) struct Measured {
    pub(super) latency: Histogram<u64>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
}

impl Measured {
    fn new() -> Self {
        Self {
            latency: Histogram::new_with_max(LONGEST_MICROS, 3).expect("the bounds are valid for a histogram"),
            statuses: BTreeMap::new(),
            errors: BTreeMap::new(),
            bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Requests that were answered, whatever the status.
    pub(super) fn answered(&self) -> u64 {
        self.latency.len()
    }

    fn answer(&mut self, status: StatusCode, bytes: u64, took: Duration) {
        self.latency.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST_MICROS));
        *self.statuses.entry(status.as_u16()).or_default() += 1;
        self.bytes += bytes;
    }

    fn error(&mut self, error: &Error) {
        let mut cause: &dyn std::error::Error = error.as_ref();
        while let Some(source) = cause.source() {
            cause = source;
        }
        self.count_error(cause.to_string(), 1);
    }

    fn count_error(&mut self, text: String, count: u64) {
        let known = self.errors.contains_key(&text) || self.errors.len() < MAX_ERRORS;
        *self.errors.entry(if known { text } else { "other errors".to_owned() }).or_default() += count;
    }

    fn merge(&mut self, other: Self) {
        self.latency += &other.latency;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (text, count) in other.errors {
            self.count_error(text, count);
        }
        self.bytes += other.bytes;
    }
}

/// One request, to see that somebody answers.
pub(super) async fn probe(plan: &Plan) -> Result<StatusCode, Error> {
    let mut connection = plan.target.connect().await?;
    Ok(once(&mut connection, plan).await?.0)
}

/// Loads until it is enough, or Ctrl-C; what was measured until then counts.
pub(super) async fn run(plan: &Plan) -> Measured {
    let started = Instant::now();
    let left = Arc::new(AtomicU64::new(match plan.stop {
        Stop::Requests(requests) => requests,
        Stop::After(_) => u64::MAX,
    }));
    let deadline = match plan.stop {
        Stop::Requests(_) => None,
        Stop::After(duration) => Some(started + duration),
    };
    let mut workers = JoinSet::new();
    for _ in 0..plan.connections {
        workers.spawn(work(plan.clone(), left.clone(), deadline));
    }
    let mut measured = Measured::new();
    loop {
        tokio::select! {
            worker = workers.join_next() => match worker {
                Some(part) => if let Ok(part) = part { measured.merge(part) },
                None => break,
            },
            _ = tokio::signal::ctrl_c() => left.store(0, Ordering::Relaxed),
        }
    }
    measured.elapsed = started.elapsed();
    measured
}

async fn work(plan: Plan, left: Arc<AtomicU64>, deadline: Option<Instant>) -> Measured {
    let mut measured = Measured::new();
    let mut connection = None;
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
    while deadline.is_none_or(|at| Instant::now() < at) && take() {
        let started = Instant::now();
        let answer = async {
            let open = match &mut connection {
                Some(open) => open,
                closed => closed.insert(plan.target.connect().await?),
            };
            once(open, &plan).await
        };
        match answer.await {
            Ok((status, bytes, reusable)) => {
                measured.answer(status, bytes, started.elapsed());
                if !reusable {
                    connection = None;
                }
            }
            Err(error) => {
                measured.error(&error);
                connection = None;
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
        }
    }
    measured
}

/// Sends a request and reads its whole answer. Also says whether the connection takes another one.
async fn once(connection: &mut SendRequest<Full<Bytes>>, plan: &Plan) -> Result<(StatusCode, u64, bool), Error> {
    let answered = async {
        connection.ready().await?;
        let response = connection.send_request(plan.request()).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok::<_, Error>((status, bytes))
    };
    let (status, bytes) = tokio::time::timeout(REQUEST_TIMEOUT, answered).await.map_err(|_| "no answer in time")??;
    // A server that closes says so by the time its answer has ended; where it does not, the next request notices.
    Ok((status, bytes, !connection.is_closed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::service::service_fn;
    use std::convert::Infallible;

    /// Answers `200 ok`, and every tenth request `503`.
    async fn server() -> (Uri, tokio::task::JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/x?y=1", listener.local_addr().unwrap()).parse().unwrap();
        let count = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let count = count.clone();
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let tenth = count.fetch_add(1, Ordering::Relaxed) % 10 == 9;
                    let wrong = request.uri() != "/x?y=1" || !request.headers().contains_key(HOST);
                    let status = if wrong {
                        400
                    } else if tenth {
                        503
                    } else {
                        200
                    };
                    let response = http::Response::builder().status(status).body(Full::<Bytes>::from("ok"));
                    async move { Ok::<_, Infallible>(response.unwrap()) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        (url, task)
    }

    fn plan(url: &Uri, stop: Stop) -> Plan {
        Plan {
            target: Target::new(url).unwrap(),
            method: Method::GET,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            connections: 4,
            stop,
        }
    }

    #[tokio::test]
    async fn exactly_the_asked_number_of_requests_is_sent() {
        let (url, task) = server().await;
        let measured = run(&plan(&url, Stop::Requests(101))).await;
        assert_eq!(measured.answered(), 101);
        assert_eq!(measured.statuses, BTreeMap::from([(200, 91), (503, 10)]));
        assert_eq!(measured.bytes, 202);
        assert!(measured.errors.is_empty());
        task.abort();
    }

    #[tokio::test]
    async fn time_ends_it() {
        let (url, task) = server().await;
        let measured = run(&plan(&url, Stop::After(Duration::from_millis(50)))).await;
        assert!(measured.answered() > 0 && measured.elapsed >= Duration::from_millis(50));
        task.abort();
    }

    #[tokio::test]
    async fn a_dead_server_is_counted_and_not_hammered() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        drop(listener);
        assert!(probe(&plan(&url, Stop::Requests(1))).await.is_err());
        let measured = run(&plan(&url, Stop::Requests(6))).await;
        assert_eq!((measured.answered(), measured.errors.values().sum::<u64>()), (0, 6));
        assert!(measured.elapsed >= RECONNECT_PAUSE);
    }

    #[test]
    fn only_http_urls_can_be_loaded() {
        for bad in ["/x", "ftp://x/", "localhost:80"] {
            assert!(Target::new(&bad.parse().unwrap()).is_err(), "{bad}");
        }
        let target = Target::new(&"https://[::1]".parse().unwrap()).unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path.path()), ("::1", 443, "/"));
    }
}
