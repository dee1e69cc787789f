//! The public listener: `/fn` goes to the gateway, all else to the router of `/v1`. HTTP/1.1 and HTTP/2 without TLS, told
//! apart by HTTP/2's preface.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::gateway::{Peer, ResponseBody, is_gateway};
use crate::{Api, App};

/// How long a client may take for a request's head, and how long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest head in HTTP/1: more than any token, so that a token which is far too long is answered with 401 and the
/// reason, not with a bare 431. Buffers grow to it only for those who send so much.
const HTTP1_HEAD_BYTES: usize = 1280 << 10;
/// Headers of a request in HTTP/1. Clients send a dozen, proxies add a dozen; 100 of a client's own must pass.
const HTTP1_HEADERS: usize = 160;
/// The largest head in HTTP/2, where every stream of a connection may have one: what the gateway passes on.
const HTTP2_HEAD_BYTES: u32 = 64 << 10;
/// Streams at once of an HTTP/2 connection.
const HTTP2_STREAMS: u32 = 250;
/// How often a quiet HTTP/2 connection is asked whether it is alive, and how long it may take to say so.
const HTTP2_PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// How long nothing is accepted after the system refused a socket (out of descriptors, of memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often recorded values are moved into buckets.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that had not ended by themselves within the grace.
    pub cut: usize,
}

/// Serves until `shutdown`; then accepts nothing more, lets requests under way end within
/// [`crate::ApiSettings::drain_grace`], cuts the rest, and returns.
pub async fn serve(listener: TcpListener, api: Api, shutdown: CancellationToken) -> Drained {
    let builder = Arc::new(builder());
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(api.app.settings.max_connections));
    let mut connections = JoinSet::new();
    let mut upkeep = tokio::time::interval(METRICS_UPKEEP);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            _ = upkeep.tick() => api.app.metrics.upkeep(),
            (stream, peer, place) = accept(&listener, &places) => {
                let peer = Peer::new(peer, &api.app.settings.trusted_proxies);
                let (api, builder, watcher) = (api.clone(), builder.clone(), graceful.watcher());
                connections.spawn(async move {
                    let begun = AtomicBool::new(false);
                    let service = service_fn(|request| {
                        begun.store(true, Ordering::Relaxed);
                        dispatch(api.clone(), peer.clone(), request)
                    });
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    let mut connection = pin!(watcher.watch(connection));
                    let ended = match tokio::time::timeout(HEAD_TIMEOUT, &mut connection).await {
                        Ok(ended) => ended,
                        Err(_) if begun.load(Ordering::Relaxed) => connection.await,
                        // The server's own timeout begins only when it knows which protocol it is.
                        Err(_) => Ok(()),
                    };
                    if let Err(error) = ended {
                        // Clients that go away and functions that fail after their head: both end like this.
                        tracing::debug!(error = %error, "connection ended early");
                    }
                    drop(place);
                });
            }
        }
    }
    drop(listener);
    api.app.closing.cancel();
    let drained = async {
        graceful.shutdown().await;
        while connections.join_next().await.is_some() {}
    };
    let cut = match tokio::time::timeout(api.app.settings.drain_grace, drained).await {
        Ok(()) => 0,
        Err(_) => connections.len(),
    };
    if cut > 0 {
        tracing::warn!(connections = cut, "connections cut at the end of the grace");
    }
    connections.shutdown().await;
    Drained { cut }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HTTP1_HEAD_BYTES)
        .max_headers(HTTP1_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HTTP2_HEAD_BYTES)
        .max_concurrent_streams(HTTP2_STREAMS)
        .keep_alive_interval(HTTP2_PING.0)
        .keep_alive_timeout(HTTP2_PING.1);
    builder
}

/// The next connection, once there is a place for it. Until then it waits in the system's backlog.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, std::net::IpAddr, OwnedSemaphorePermit) {
    let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        let error = match listener.accept().await {
            Ok((stream, peer)) => match stream.set_nodelay(true) {
                Ok(()) => return (stream, peer.ip(), place),
                // The client is gone already.
                Err(_) => continue,
            },
            Err(error) => error,
        };
        if !is_of_one_connection(&error) {
            tracing::warn!(error = %error, "can't accept connections");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn dispatch(api: Api, peer: Peer, mut request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    if is_gateway(request.uri().path()) {
        return Ok(api.app.gateway.handle(request, &peer).await.map(Answer::Gateway));
    }
    request.extensions_mut().insert(peer);
    // Boxed, so that calls of functions don't carry the size of the router's future.
    let answered: Pin<Box<_>> = Box::pin(of_router(api.router, request));
    Ok(answered.await.map(Answer::Router))
}

async fn of_router(router: Router, request: Request<Incoming>) -> Response<Body> {
    router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {})
}

/// A body of either side.
enum Answer {
    Gateway(ResponseBody),
    Router(Body),
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(match self.get_mut() {
            Self::Gateway(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
            Self::Router(body) => ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(Into::into)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Gateway(body) => body.is_end_stream(),
            Self::Router(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Gateway(body) => body.size_hint(),
            Self::Router(body) => body.size_hint(),
        }
    }
}

/// Whether the process takes requests.
pub(crate) fn is_closing(app: &App) -> bool {
    app.closing.is_cancelled()
}
