//! Calls of a handler without a server and without wasm, for `cargo test`.
//!
//! ```
//! use sless::prelude::*;
//! use sless::testing::{call, get};
//!
//! async fn handler(request: Request) -> Result<Response> {
//!     Ok(Response::from_text(format!("you asked for {}", request.path())))
//! }
//!
//! let answer = call(handler, get("/a%2Fb"));
//! assert_eq!((answer.status, answer.text()), (200, "you asked for /a%2Fb"));
//! ```
//!
//! [`crate::fetch`] and clocks of `wstd` need the host and panic here: keep what calls out apart from what decides.

use std::future::Future;

use http::{HeaderMap, Request as HttpRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wstd::http::Body;

use crate::{Request, Response, Result};

/// What a handler answered, as a client sees it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text. Panics where it is not UTF-8.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// The body as JSON. Panics where it is something else.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&self.body)),
        }
    }
}

/// A GET of a path, which may have a query.
#[track_caller]
pub fn get(path: &str) -> HttpRequest<Body> {
    HttpRequest::get(path).body(Body::empty()).expect("a path begins with / and is visible ASCII")
}

/// A POST of a value as JSON.
#[track_caller]
pub fn post(path: &str, value: &impl Serialize) -> HttpRequest<Body> {
    let body = serde_json::to_vec(value).expect("the value can be written as JSON");
    let request = HttpRequest::post(path).header("content-type", "application/json");
    request.body(Body::from(body)).expect("a path begins with / and is visible ASCII")
}

/// Calls a handler as the platform does, and reads its answer.
pub fn call<F, B>(handler: impl FnOnce(Request) -> F, request: HttpRequest<B>) -> Answer
where
    F: Future<Output = Result<Response>>,
    B: Into<Body>,
{
    futures_lite::future::block_on(async {
        let response = crate::serve::answer(request.map(Into::into), handler).await;
        let (head, mut body) = response.into_parts();
        let body = body.bytes_contents().await.expect("the body's stream ended well").to_vec();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    })
}
