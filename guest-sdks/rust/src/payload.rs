//! Reading bodies whole. How large they may be is for the host to say (`limits.requestBytes`).

use bytes::Bytes;
use serde::de::DeserializeOwned;
use wstd::http::Body;

use crate::{Context as _, Problem, Result, StatusCode};

/// The body of a request or of a response to [`crate::fetch`]. Read once, it stays, so it can be read again.
#[allow(async_fn_in_trait, reason = "components have one thread")]
pub trait Payload {
    /// All of it.
    async fn bytes(&mut self) -> Result<Bytes>;
    /// All of it as UTF-8.
    async fn text(&mut self) -> Result<String>;
    /// All of it as JSON.
    async fn json<T: DeserializeOwned>(&mut self) -> Result<T>;
}

/// What is wrong with a request's body is its sender's fault: a problem with status 400.
impl Payload for http::Request<Body> {
    async fn bytes(&mut self) -> Result<Bytes> {
        self.body_mut().bytes_contents().await.context("read the request's body")
    }

    async fn text(&mut self) -> Result<String> {
        let bytes = self.bytes().await?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8: {error}")))?;
        Ok(text.to_owned())
    }

    async fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        let bytes = self.bytes().await?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not as expected: {error}")))?;
        Ok(value)
    }
}

impl Payload for http::Response<Body> {
    async fn bytes(&mut self) -> Result<Bytes> {
        self.body_mut().bytes_contents().await.context("read the response's body")
    }

    async fn text(&mut self) -> Result<String> {
        let bytes = self.bytes().await?;
        Ok(std::str::from_utf8(&bytes).context("the response's body is not UTF-8")?.to_owned())
    }

    async fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes).context("the response's body is not the JSON expected")
    }
}
