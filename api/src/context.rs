//! Around every request to `/v1`: its id, its span, its metrics, and the writing of problems.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use http::Method;
use sless_core::{Code, InvocationId};
use tracing::Instrument;

use crate::App;
use crate::error::{self, ApiError};
use crate::gateway::{RequestId, X_REQUEST_ID};

/// The label of requests that match no route.
const UNMATCHED: &str = "unmatched";

pub(crate) async fn layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let _gauge = app.metrics.request_begins();
    let id = RequestId::of(request.headers(), InvocationId::now());
    request.headers_mut().insert(X_REQUEST_ID, id.value.clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let method = method_label(request.method());
    let instance = request.uri().clone();
    let span = tracing::info_span!("request", request_id = id.as_str(), method, route);

    async {
        // A panic is a defect of one handler; it must not take the connection's other requests with it.
        let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        let mut response = answered.unwrap_or_else(|_| {
            ApiError::new(Code::Internal, "the platform failed; the request id finds the cause in its log")
                .into_response()
        });
        error::write(&mut response, instance.path(), id.as_str());
        response.headers_mut().insert(X_REQUEST_ID, id.value.clone());
        let (status, took) = (response.status().as_u16(), started.elapsed());
        app.metrics.request_ended(method, route, status, took);
        tracing::debug!(status, elapsed_ms = took.as_secs_f64() * 1e3, "request answered");
        response
    }
    .instrument(span)
    .await
}

/// Methods are the client's to invent, labels are not.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// For routes that are not there.
pub(crate) async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "there is no such route; /v1/openapi.json has all of them")
}

/// For methods that a route does not have; `Allow` says which it has.
pub(crate) async fn method_not_allowed(method: Method) -> ApiError {
    ApiError::new(
        Code::MethodNotAllowed,
        format!("this route does not have {method}; the Allow header has its methods"),
    )
}
