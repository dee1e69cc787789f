//! HTTP out, through the host, which decides by `egress.allow` where to.

use anyhow::anyhow;
use http::{Request, Response};
use wstd::http::{Body, Client, error::ErrorCode};

use crate::Result;

/// Sends a request and answers when the response's head is there; any status is an answer. Several can be under way at
/// once. For timeouts of its own use [`wstd::http::Client`]; the call's deadline holds in any case.
///
/// ```no_run
/// # async fn f() -> sless::Result<()> {
/// use sless::prelude::*;
/// let request = sless::http::Request::get("https://example.org/rates").body(())?;
/// let rates: serde_json::Value = fetch(request).await?.json().await?;
/// # Ok(()) }
/// ```
pub async fn fetch<B: Into<Body>>(request: Request<B>) -> Result<Response<Body>> {
    let host = request.uri().authority().map(|authority| authority.to_string()).unwrap_or_default();
    Client::new().send(request).await.map_err(|error| match error.downcast_ref::<ErrorCode>() {
        Some(ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited) => {
            anyhow!("the function may not connect to {host}; name it in `egress.allow` of sless.toml")
        }
        _ => error.context(format!("fetch from {host}")),
    })
}
