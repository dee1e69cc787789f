//! The responses that most functions give. Any other is made with [`http::Response::builder`].

use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use wstd::http::Body;

use crate::{Context as _, Result};

/// Making responses: `Response::from_json(&value)?.with_status(StatusCode::CREATED)`.
pub trait ResponseExt: Sized {
    /// 200 with a value as JSON.
    fn from_json(value: &impl Serialize) -> Result<Self>;
    /// 200 with text.
    fn from_text(text: impl Into<String>) -> Self;
    /// 200 with bytes.
    fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self;
    /// A status alone, such as 204.
    fn empty(status: StatusCode) -> Self;
    /// With another status.
    fn with_status(self, status: StatusCode) -> Self;
    /// With one more header; several of a name stay apart.
    fn with_header(self, name: &'static str, value: &str) -> Result<Self>;
}

fn typed(body: Vec<u8>, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

impl ResponseExt for Response<Body> {
    fn from_json(value: &impl Serialize) -> Result<Self> {
        Ok(typed(serde_json::to_vec(value).context("write the response as JSON")?, "application/json"))
    }

    fn from_text(text: impl Into<String>) -> Self {
        typed(text.into().into_bytes(), "text/plain; charset=utf-8")
    }

    fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        typed(bytes.into(), "application/octet-stream")
    }

    fn empty(status: StatusCode) -> Self {
        Self::new(Body::empty()).with_status(status)
    }

    fn with_status(mut self, status: StatusCode) -> Self {
        *self.status_mut() = status;
        self
    }

    fn with_header(mut self, name: &'static str, value: &str) -> Result<Self> {
        let value = HeaderValue::from_str(value).with_context(|| format!("header {name}"))?;
        let name = http::HeaderName::from_bytes(name.as_bytes()).with_context(|| format!("header {name}"))?;
        self.headers_mut().append(name, value);
        Ok(self)
    }
}
