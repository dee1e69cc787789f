//! From `wasi:http` to a handler and back.

use std::future::Future;

use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderValue, StatusCode};
use wstd::__internal::wasip2::http::types::{IncomingRequest, ResponseOutparam};
use wstd::http::request::try_from_incoming;
use wstd::http::server::Responder;

use crate::{Problem, Request, RequestExt as _, Response, Result, logging, problem};

/// Of the connection, not of the response: the host sets them, and refuses a function's.
const HOP_BY_HOP: [HeaderName; 6] = [
    http::header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    http::header::TE,
    http::header::TRANSFER_ENCODING,
    http::header::UPGRADE,
];

/// Answers one request of the host's.
pub fn serve<F>(request: IncomingRequest, out: ResponseOutparam, handler: impl FnOnce(Request) -> F)
where
    F: Future<Output = Result<Response>>,
{
    let responder = Responder::new(out);
    wstd::runtime::block_on(async move {
        let response = match try_from_incoming(request) {
            Ok(request) => answer(request, handler).await,
            Err(error) => {
                let text = format!("the request can't be read: {error:#}");
                problem::answer(&Problem::new(StatusCode::BAD_REQUEST, text).into(), "", "")
            }
        };
        // The client has gone, or a streamed body failed: the host cuts the answer, and there is nobody else to tell.
        if let Err(error) = responder.respond(response).await {
            log::warn!("the response was broken off: {error:#}");
        }
    });
}

/// What a handler answers to a request, errors included, as it leaves.
pub(crate) async fn answer<F>(request: Request, handler: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Result<Response>>,
{
    let (id, instance) = (request.id().to_owned(), request.path().to_owned());
    logging::enter(&id);
    let mut response = match handler(request).await {
        Ok(response) => response,
        Err(error) => problem::answer(&error, &instance, &id),
    };
    for name in &HOP_BY_HOP {
        response.headers_mut().remove(name);
    }
    let bodiless = matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if let Some(length) = response.body().content_length().filter(|_| !bodiless)
        && !response.headers().contains_key(CONTENT_LENGTH)
    {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}
