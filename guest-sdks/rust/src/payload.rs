//! Reading bodies whole, within a bound.

use anyhow::anyhow;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use wstd::http::Body;
use wstd::http::body::util::{BodyExt as _, LengthLimitError, Limited};

use crate::{Context as _, Problem, Result, StatusCode};

/// The most that is read of a response unless it is said: what the platform takes of a request unless it is set.
const MAX_RESPONSE_BYTES: usize = 6 << 20;

/// The body of a request or of a response to [`crate::fetch`]. Read once, it stays, so it can be read again.
///
/// A request is as large as the platform lets it be (`limits.requestBytes`); of a response at most 6 MiB are read.
#[allow(async_fn_in_trait, reason = "components have one thread")]
pub trait Payload {
    /// All of it, if it has at most so many bytes.
    async fn bytes_within(&mut self, limit: usize) -> Result<Bytes>;
    /// All of it.
    async fn bytes(&mut self) -> Result<Bytes>;
    /// All of it as UTF-8.
    async fn text(&mut self) -> Result<String>;
    /// All of it as JSON.
    async fn json<T: DeserializeOwned>(&mut self) -> Result<T>;
}

/// What is wrong with a request's body is its sender's fault: a problem with status 400, or 413 if it is too large.
impl Payload for http::Request<Body> {
    async fn bytes_within(&mut self, limit: usize) -> Result<Bytes> {
        let read = collect(self.body_mut(), limit).await.context("read the request's body")?;
        read.ok_or_else(|| {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {limit} bytes")).into()
        })
    }

    async fn bytes(&mut self) -> Result<Bytes> {
        self.bytes_within(usize::MAX).await
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
    async fn bytes_within(&mut self, limit: usize) -> Result<Bytes> {
        let read = collect(self.body_mut(), limit).await.context("read the response's body")?;
        read.ok_or_else(|| anyhow!("the response has more than {limit} bytes"))
    }

    async fn bytes(&mut self) -> Result<Bytes> {
        self.bytes_within(MAX_RESPONSE_BYTES).await
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

/// Reads a body and leaves it whole where it was; nothing if it has more than `limit` bytes.
async fn collect(body: &mut Body, limit: usize) -> Result<Option<Bytes>> {
    let stream = std::mem::replace(body, Body::empty());
    if stream.content_length().is_some_and(|length| length > limit as u64) {
        return Ok(None);
    }
    match Limited::new(stream.into_boxed_body(), limit).collect().await {
        Ok(collected) => {
            let bytes = collected.to_bytes();
            *body = Body::from(bytes.clone());
            Ok(Some(bytes))
        }
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(anyhow!(error)),
    }
}
