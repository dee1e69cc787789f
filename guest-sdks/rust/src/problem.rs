//! Errors as their callers see them: `application/problem+json` (RFC 9457), in the shape of the platform's own.

use std::borrow::Cow;
use std::fmt;

use http::{HeaderValue, StatusCode, header};

use crate::{Body, Error, Response};

/// What a caller is told of an unforeseen error ends here; the log has all of it.
const MAX_DETAIL_CHARS: usize = 2000;

/// An error that the caller is meant to see: `Err(Problem::new(StatusCode::NOT_FOUND, "there is no order 7").into())`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: Cow<'static, str>,
    detail: String,
}

impl Problem {
    /// With a status of 400 to 599 and a sentence for people. Its code is the status's name in snake case.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let code = status.canonical_reason().unwrap_or("error").to_ascii_lowercase().replace([' ', '-'], "_");
        Self { status, code: code.into(), detail: detail.into() }
    }

    /// Another word for programs, such as `order_not_found`.
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = code.into();
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}

/// The answer that an error stands for. Only what is a [`Problem`] has a status of its own; the rest is the function's
/// fault, and told with its causes in the log.
pub(crate) fn answer(error: &Error, instance: &str, request_id: &str) -> Response {
    let unforeseen = || Problem {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        code: "function_error".into(),
        detail: match error.to_string() {
            text if text.chars().count() > MAX_DETAIL_CHARS => {
                text.chars().take(MAX_DETAIL_CHARS).chain(['…']).collect()
            }
            text => text,
        },
    };
    let problem = error.downcast_ref::<Problem>().cloned().unwrap_or_else(unforeseen);
    if problem.status.is_server_error() {
        log::error!("{error:?}");
    }
    let Problem { status, code, detail } = problem;
    let (kind, title) = match code.as_ref() {
        "function_error" => ("urn:sless:problem:function_error", "The function raised an error"),
        _ => ("about:blank", status.canonical_reason().unwrap_or("Error")),
    };
    let document = serde_json::json!({
        "type": kind, "title": title, "status": status.as_u16(), "detail": detail, "instance": instance,
        "code": code, "requestId": request_id,
    });
    let mut response = Response::new(Body::from(document.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}
