//! HTTP out, through the host, which decides by `egress.allow` where to.

use std::time::Duration;

use anyhow::anyhow;
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use wstd::http::{Body, Client, error::ErrorCode};

use crate::Result;

/// Sends a request and answers when the response's head is there; any status is an answer. Several can be under way at
/// once. The call's own deadline holds in any case.
///
/// ```no_run
/// # async fn f() -> sless::Result<()> {
/// use sless::prelude::*;
/// let request = sless::http::Request::get("https://example.org/rates").body(())?;
/// let rates: serde_json::Value = fetch(request).await?.json().await?;
/// # Ok(()) }
/// ```
pub async fn fetch(request: Request<impl Into<Body>>) -> Result<Response<Body>> {
    send(Client::new(), request).await
}

/// As [`fetch`], where no wait is longer than `timeout`: for the connection, for the response's head, and for each piece of
/// its body.
pub async fn fetch_within(timeout: Duration, request: Request<impl Into<Body>>) -> Result<Response<Body>> {
    let mut client = Client::new();
    client.set_connect_timeout(timeout);
    client.set_first_byte_timeout(timeout);
    client.set_between_bytes_timeout(timeout);
    send(client, request).await
}

async fn send(client: Client, request: Request<impl Into<Body>>) -> Result<Response<Body>> {
    let host = request.uri().authority().map(|authority| authority.to_string()).unwrap_or_default();
    let mut request: Request<Body> = request.map(Into::into);
    if let Some(length) = request.body().content_length().filter(|length| *length > 0)
        && !request.headers().contains_key(CONTENT_LENGTH)
    {
        // Of a body that is whole; another is sent in chunks.
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    client.send(request).await.map_err(|error| match error.downcast_ref::<ErrorCode>() {
        Some(ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited) => {
            anyhow!("the function may not connect to {host}; name it in `egress.allow` of sless.toml")
        }
        Some(code) => anyhow!("fetch from {host}: {code:?}"),
        None => error.context(format!("fetch from {host}")),
    })
}
