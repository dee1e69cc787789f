//! `/fn/{namespace}/{name}…`: calls of functions. One look-up, no lock, no database; bodies stream both ways.
//!
//! It refuses to know what a path, a query or a body means: they reach the function byte for byte.

mod address;
mod body;
mod headers;
mod trace;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, UPGRADE};
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use sless_core::call::{Call, CallRecord};
use sless_core::ports::{Clock, Limits};
use sless_core::services::{Live, Recorder, Route, Routes, Services};
use sless_core::{Failure, InvocationId, Outcome, TriggerKind, body as bodies};

use crate::metrics::Metrics;
use address::Address;
use body::{FunctionBody, InFlight, RequestBody};

pub(crate) use address::is_gateway;
pub(crate) use body::ResponseBody;
pub(crate) use headers::{Peer, RequestId, X_INVOCATION_ID, X_REQUEST_ID, id_value};

/// When to come back to a function that is not ready: about what a build takes.
const NOT_READY_RETRY: Duration = Duration::from_secs(2);

/// The gateway. One for all connections.
pub(crate) struct Gateway {
    routes: Arc<Routes>,
    recorder: Recorder,
    limits: Arc<dyn Limits>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// A call's origin: what is known before the function is looked up.
struct Origin<'a> {
    trigger: TriggerKind,
    id: InvocationId,
    request_id: RequestId,
    peer: &'a Peer,
    /// The path as the client has it, for problems.
    instance: Uri,
}

impl Gateway {
    pub(crate) fn new(services: &Services, metrics: Arc<Metrics>) -> Self {
        Self {
            routes: services.routes.clone(),
            recorder: services.recorder.clone(),
            limits: services.limits.clone(),
            clock: services.clock.clone(),
            metrics,
        }
    }

    /// Answers a request whose path [`is_gateway`].
    pub(crate) async fn handle<B>(&self, mut request: Request<B>, peer: &Peer) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: fmt::Display,
    {
        let original = request.uri().clone();
        let id = InvocationId::now();
        let request_id = RequestId::of(request.headers(), id);
        let path = original.path_and_query().map_or("", PathAndQuery::as_str);
        let found = Address::parse(path).and_then(|address| {
            let route = self.routes.get(address.namespace, address.name).filter(|route| route.exposed)?;
            Some((address.uri().ok()?, address.prefix, route))
        });
        let origin = Origin { trigger: TriggerKind::Http, id, request_id, peer, instance: original.clone() };
        match found {
            Some((uri, prefix, route)) => {
                *request.uri_mut() = uri;
                self.call(&route, request, origin, &original, prefix).await
            }
            None => {
                // The same words whether it is not there or not exposed: who may not call it may not know it.
                let failure = Failure::new(Outcome::FunctionNotFound, "no function answers at this address");
                self.refuse(&failure, &origin)
            }
        }
    }

    /// `POST …/invoke`: a call by an authenticated caller; `request` is as the function shall see it.
    pub(crate) async fn invoke<B>(
        &self,
        route: &Route,
        request: Request<B>,
        peer: &Peer,
        instance: &Uri,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: fmt::Display,
    {
        let id = InvocationId::now();
        let request_id = RequestId::of(request.headers(), id);
        let origin = Origin { trigger: TriggerKind::Invoke, id, request_id, peer, instance: instance.clone() };
        self.call(route, request, origin, instance, "").await
    }

    async fn call<B>(
        &self,
        route: &Route,
        mut request: Request<B>,
        origin: Origin<'_>,
        uri: &Uri,
        prefix: &str,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: fmt::Display,
    {
        let Some(live) = &route.live else {
            let detail =
                format!("function `{}` has no version that can serve: {}", route.key.name, route.why_not_ready);
            return self.refuse(&Failure::new(Outcome::FunctionNotReady, detail).retry_after(NOT_READY_RETRY), &origin);
        };
        let slot = self.recorder.slot().await;
        let kept = origin.request_id.from_client.then(|| origin.request_id.as_str().to_owned());
        let record = CallRecord::new(origin.id, live.revision.clone(), origin.trigger, kept, self.clock.now(), slot);
        let read = (!request.body().is_end_stream()).then(|| Arc::new(AtomicU64::new(0)));
        let call = InFlight::new(record.clone(), read.clone(), self.metrics.call_begins());

        let head = self.admit(live, &request).and_then(|()| {
            headers::of_request(request.headers_mut(), origin.peer, uri, prefix).map_err(|headers::TooLarge| {
                let detail = format!("all headers together have at most {} bytes", headers::MAX_HEADER_BYTES);
                Failure::new(Outcome::HeadersTooLarge, detail)
            })
        });
        if let Err(failure) = head {
            return self.end(call, record, &failure, &origin);
        }
        request.headers_mut().insert(X_REQUEST_ID, origin.request_id.value.clone());
        trace::propagate(request.headers_mut(), origin.id);

        let method = request.method().clone();
        let request = request.map(|body| match read {
            Some(read) => RequestBody::new(body, read).boxed_unsync(),
            None => bodies::empty(),
        });
        match live.target.call(Call { request, record: record.clone() }).await {
            Ok(response) if response.status().is_informational() => {
                let detail =
                    format!("the function answered with status {}, which ends no request", response.status().as_u16());
                self.end(call, record, &Failure::new(Outcome::BadResponse, detail), &origin)
            }
            Ok(response) => answer(response, call, &method, &origin),
            Err(failure) => self.end(call, record, &failure, &origin),
        }
    }

    /// What can be refused before the function costs anything.
    fn admit<B: http_body::Body>(&self, live: &Live, request: &Request<B>) -> Result<(), Failure> {
        let spec = &live.revision.spec;
        if request.headers().get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket")) {
            let detail = format!("runtime `{}` takes no WebSockets and other upgrades", spec.runtime);
            return Err(Failure::new(Outcome::UpgradeNotSupported, detail));
        }
        let limit = spec.limits.request_bytes;
        if request.body().size_hint().lower() > limit {
            let detail = format!("the body is larger than the {limit} bytes of limits.requestBytes");
            return Err(Failure::new(Outcome::PayloadTooLarge, detail));
        }
        if let Some(rate) = spec.limits.rate_per_second
            && let Err(wait) = self.limits.take(&live.revision.function, rate)
        {
            let detail = format!("more than the {rate} calls a second of limits.ratePerSecond");
            return Err(Failure::new(Outcome::RateLimited, detail).retry_after(wait));
        }
        Ok(())
    }

    /// Ends a call that has a record with the platform's words.
    fn end(
        &self,
        call: InFlight,
        record: Arc<CallRecord>,
        failure: &Failure,
        origin: &Origin<'_>,
    ) -> Response<ResponseBody> {
        if failure.outcome == Outcome::Internal {
            let function = &record.revision.function;
            tracing::warn!(invocation = %origin.id, %function, request_id = origin.request_id.as_str(), error = %failure, "call failed");
        } else {
            tracing::debug!(invocation = %origin.id, request_id = origin.request_id.as_str(), error = %failure, "call refused or failed");
        }
        call.failed(failure);
        let mut response = document(failure, origin);
        response.headers_mut().insert(X_INVOCATION_ID, id_value(origin.id));
        response
    }

    /// Answers where there is no version that a row could be of.
    fn refuse(&self, failure: &Failure, origin: &Origin<'_>) -> Response<ResponseBody> {
        self.metrics.call_refused(failure.outcome);
        document(failure, origin)
    }
}

fn document(failure: &Failure, origin: &Origin<'_>) -> Response<ResponseBody> {
    let mut response = failure.response(origin.instance.path(), origin.request_id.as_str()).map(ResponseBody::document);
    response.headers_mut().insert(X_REQUEST_ID, origin.request_id.value.clone());
    response
}

fn answer(
    response: Response<sless_core::Body>,
    mut call: InFlight,
    method: &Method,
    origin: &Origin<'_>,
) -> Response<ResponseBody> {
    let (mut parts, body) = response.into_parts();
    headers::of_response(&mut parts.headers);
    parts.headers.insert(X_REQUEST_ID, origin.request_id.value.clone());
    let id = if origin.request_id.from_client { id_value(origin.id) } else { origin.request_id.value.clone() };
    parts.headers.insert(X_INVOCATION_ID, id);
    parts.extensions.clear();
    call.head(parts.status.as_u16());
    let bodiless = *method == Method::HEAD || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let declared = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let declared = declared.or_else(|| body.size_hint().exact()).filter(|_| !bodiless);
    let body = FunctionBody::new(body, call, declared);
    let body = if !bodiless {
        ResponseBody::function(body)
    } else {
        if !body.is_end_stream() {
            // Bounded by the function's own limits: it holds its place among its concurrent calls until it ends.
            tokio::spawn(body.drain());
        }
        ResponseBody::none()
    };
    Response::from_parts(parts, body)
}
