//! The HTTP face of a stand-alone host: HTTP/1.1 and 2, for the operator only.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::{HeaderName, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use sless_core::body::{Body, BodyError};
use sless_core::call::{Call, CallRecord, Target};
use sless_core::outcome::{Failure, Outcome};
use sless_core::ports::clock::Clock;
use sless_core::version::Revision;
use sless_core::{InvocationId, TriggerKind};
use tokio::net::TcpListener;

use crate::Host;
use crate::settings::{MAX_HEADER_BYTES, MAX_HEADERS};

/// Which function is meant. The gateway sets it and strips it from clients.
const FUNCTION: HeaderName = HeaderName::from_static("x-sless-function");
/// The client's or the gateway's id of the request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is given back.
const MAX_REQUEST_ID_BYTES: usize = 128;
/// What a client may take for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// What a request's head may have in all: its headers and its first line.
const READ_BUFFER_BYTES: usize = 4 * MAX_HEADER_BYTES;
/// Pause after a failed accept (out of descriptors): trying at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The functions of a host by name.
pub struct Routes {
    targets: HashMap<String, (Arc<Revision>, Arc<dyn Target>)>,
    clock: Arc<dyn Clock>,
}

impl Routes {
    /// Makes the targets of all revisions.
    pub fn new(host: &Host, revisions: &[Arc<Revision>], clock: Arc<dyn Clock>) -> Self {
        use sless_core::ports::invoker::Invoker as _;
        let targets = revisions
            .iter()
            .map(|revision| {
                (revision.function.name.as_str().to_owned(), (revision.clone(), host.target(revision.clone())))
            })
            .collect();
        Self { targets, clock }
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let request_id = request
            .headers()
            .get(REQUEST_ID)
            .and_then(|id| id.to_str().ok())
            .filter(|id| id.len() <= MAX_REQUEST_ID_BYTES)
            .map(ToOwned::to_owned);
        let id = InvocationId::now();
        let function = self.find(&request);
        request.headers_mut().remove(FUNCTION);
        let instance = request.uri().path().to_owned();
        let answered = match function {
            None => Err(Failure::new(Outcome::FunctionNotFound, "this host serves no such function")),
            Some((revision, target)) => {
                let now = self.clock.now();
                let record = CallRecord::new(id, revision.clone(), TriggerKind::Http, request_id.clone(), now, None);
                let request =
                    request.map(|body| body.map_err(|error| BodyError::Closed(error.to_string())).boxed_unsync());
                target.call(Call { request, record }).await
            }
        };
        answered.unwrap_or_else(|failure| {
            let request_id = request_id.unwrap_or_else(|| id.to_string());
            failure.response(&instance, &request_id).map(sless_core::body::full)
        })
    }

    fn find<B>(&self, request: &Request<B>) -> Option<&(Arc<Revision>, Arc<dyn Target>)> {
        self.targets.get(function_name(request)?)
    }
}

/// Which function a request is for: the gateway's header, else the first label of the host it was sent to.
pub fn function_name<B>(request: &Request<B>) -> Option<&str> {
    if let Some(name) = request.headers().get(FUNCTION) {
        return name.to_str().ok();
    }
    let host = match request.uri().host() {
        Some(host) => host,
        None => request.headers().get(HOST)?.to_str().ok()?,
    };
    host.split(['.', ':']).next()
}

/// Serves until `stop`, then drains the host within `grace` and returns.
pub async fn serve(
    listener: TcpListener,
    host: Arc<Host>,
    routes: Arc<Routes>,
    stop: impl Future<Output = ()>,
    grace: Duration,
) {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(READ_BUFFER_BYTES);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(2 * MAX_HEADER_BYTES).unwrap_or(u32::MAX));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(error = %error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small, and a call's answer must not wait for an acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "the connection is gone already");
            continue;
        }
        let routes = routes.clone();
        let service = hyper::service::service_fn(move |request| {
            let routes = routes.clone();
            async move { Ok::<_, Infallible>(routes.answer(request).await) }
        });
        let connection = server.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended early");
            }
        });
    }
    drop(listener);
    let connections = graceful.count();
    tracing::info!(connections, "draining");
    let closed = async {
        // Both at once: connections close when their calls are over, and calls end within the grace.
        tokio::join!(host.drain(grace), tokio::time::timeout(grace + DRAIN_MARGIN, graceful.shutdown()))
    };
    let (_, closed) = closed.await;
    if closed.is_err() {
        tracing::warn!("connections were still open after the drain");
    }
}

/// What connections have beyond the calls' grace, to write the last answers.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);
