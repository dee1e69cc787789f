//! Outbound HTTP of guests: policy on the resolved address, that very address dialled, a bounded pool a function.
//!
//! wasmtime's own sender is never used: it resolves again, makes a connection and a TLS configuration a request, and
//! waits up to ten minutes.

mod dial;
mod policy;
mod tls;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sless_core::function::Egress as EgressSpec;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use crate::call::CallState;
use crate::host::Inner;
use crate::settings::{EgressSettings, MAX_HEADERS};

use dial::{DialError, Dialer};
use policy::Policy;
pub(crate) use tls::Tls;

/// Idle connections that are kept to one host.
const IDLE_PER_HOST: usize = 16;
/// Bytes of a response's head and of what is read ahead.
const READ_BUFFER_BYTES: usize = 256 << 10;

/// What sending gives: a response, and work that goes on beside its body (none of ours does).
pub(crate) type Sent = Result<(Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

/// The outbound side of one function.
pub(crate) struct Egress {
    client: Client<Dialer, WasiBody>,
    settings: EgressSettings,
}

impl Egress {
    pub(crate) fn new(spec: &EgressSpec, host: &std::sync::Arc<Inner>) -> Self {
        let settings = host.settings.egress.clone();
        let dialer = Dialer::new(Policy::new(&spec.allow), host);
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .pool_idle_timeout(settings.idle_timeout)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http1_max_buf_size(READ_BUFFER_BYTES)
            .http1_max_headers(MAX_HEADERS)
            .build(dialer);
        Self { client, settings }
    }
}

/// Sends a guest's request.
pub(crate) async fn send(call: &CallState, mut request: Request<WasiBody>, options: Option<RequestOptions>) -> Sent {
    let egress = call.function.egress();
    let options = options.unwrap_or_default();
    let within = |asked: Option<Duration>, most: Duration| asked.map_or(most, |asked| asked.min(most));
    // The connection's own bound is in the dialler; a guest may ask for less.
    let connect = within(options.connect_timeout, egress.settings.connect_timeout);
    let first_byte = within(options.first_byte_timeout, egress.settings.first_byte_timeout);
    let between_bytes = within(options.between_bytes_timeout, egress.settings.between_bytes_timeout);
    // A guest's own `host` could name another site than the one that policy looks at.
    request.headers_mut().remove(http::header::HOST);
    let uri = request.uri().clone();
    let sent = tokio::time::timeout(connect.saturating_add(first_byte), egress.client.request(request)).await;
    let response = match sent {
        Err(_) => return Err(Error::HttpResponseTimeout),
        Ok(Err(error)) => return Err(explain(call, &uri, error)),
        Ok(Ok(response)) => response,
    };
    let body = response.map(|body| Paced { body, between_bytes, timer: None }.boxed_unsync());
    Ok((body, Box::new(async { Ok(()) })))
}

/// Finds out why there is no response, and logs what policy refused.
fn explain(call: &CallState, uri: &Uri, error: hyper_util::client::legacy::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(source) = cause {
        if let Some(dial) = source.downcast_ref::<DialError>() {
            if let DialError::Refused(refused) = dial {
                call.function.host.refused.fetch_add(1, Ordering::Relaxed);
                let to = uri.authority().map_or("", |authority| authority.as_str());
                call.say(format!("outbound request to {to} refused: {refused}"));
                tracing::info!(function = %call.record.revision.function, to, %refused, "outbound request refused");
            }
            return dial.to_wasi();
        }
        if let Some(error) = source.downcast_ref::<Error>() {
            // The guest's own body broke the request off.
            return match error {
                Error::HttpRequestBodySize(size) => Error::HttpRequestBodySize(*size),
                _ => Error::HttpProtocolError,
            };
        }
        cause = source.source();
    }
    tracing::debug!(function = %call.record.revision.function, error = %error, "outbound request failed");
    if error.is_connect() { Error::ConnectionRefused } else { Error::HttpProtocolError }
}

/// A response's body that may not pause too long.
struct Paced {
    body: hyper::body::Incoming,
    between_bytes: Duration,
    timer: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Error>>> {
        use std::task::Poll;
        let this = &mut *self;
        match std::pin::Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                this.timer = None;
                Poll::Ready(frame.map(|frame| frame.map_err(Error::Hyper)))
            }
            Poll::Pending => {
                let wait = this.between_bytes;
                let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
                match timer.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(Error::ConnectionReadTimeout))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}
