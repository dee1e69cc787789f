//! Functions for sless in Rust.
//!
//! A function is an `async fn` from a request to a response, in the types of the crate [`http`], and [`serve!`] makes it
//! the component's entry. WASI, HTTP out and the event loop are [`wstd`]'s; what is here is what a function adds to them:
//! JSON in and out, errors that become problem documents, settings, and a log whose lines know their request.
//!
//! ```
//! use sless::prelude::*;
//!
//! sless::serve!(handler);
//!
//! async fn handler(request: Request) -> Result<Response> {
//!     let name = request.query("name").unwrap_or("world".into());
//!     Response::from_json(&serde_json::json!({ "hello": name }))
//! }
//! ```
//!
//! [`testing`] calls such a handler without a server, in an ordinary `cargo test`.

pub mod env;
mod fetch;
mod logging;
mod payload;
mod problem;
mod request;
mod response;
mod serve;
pub mod testing;

pub use anyhow::{Context, Error, bail, ensure};
pub use fetch::{fetch, fetch_within};
pub use http::{self, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
pub use log;
pub use payload::Payload;
pub use problem::Problem;
pub use request::RequestExt;
pub use response::ResponseExt;
pub use wstd::{self, http::Body};

/// A request: the head as it came, the body as a stream that is read when it is asked for.
pub type Request = http::Request<Body>;
/// A response. Its body may be whole or a stream ([`Body::from_stream`]), whose pieces leave as they come.
pub type Response = http::Response<Body>;
/// What a handler answers. An error becomes a problem document: a [`Problem`] with its own status, any other with 500.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a handler needs, in one line.
pub mod prelude {
    pub use crate::{
        Body, Context as _, Method, Payload as _, Problem, Request, RequestExt as _, Response, ResponseExt as _,
        Result, StatusCode, fetch, fetch_within, log,
    };
}

#[doc(hidden)]
pub mod __private {
    pub use crate::serve::serve;
    pub use wstd::__internal::wasip2;
}

/// Makes a handler the component's entry: `sless::serve!(handler);` once a crate, where `handler` is
/// `async fn(Request) -> Result<Response>`. Outside of wasm it does nothing, so that tests build.
#[macro_export]
macro_rules! serve {
    ($handler:path) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Function;

            impl $crate::__private::wasip2::exports::http::incoming_handler::Guest for Function {
                fn handle(
                    request: $crate::__private::wasip2::http::types::IncomingRequest,
                    out: $crate::__private::wasip2::http::types::ResponseOutparam,
                ) {
                    $crate::__private::serve(request, out, $handler);
                }
            }

    $crate::__private::wasip2::http::proxy::export!(Function with_types_in $crate::__private::wasip2);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: () = {
            #[allow(dead_code)]
            fn handler() {
                let _ = $handler;
            }
        };
    };
}
