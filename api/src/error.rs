//! The only place that makes API errors of others' refusals: a [`Problem`] becomes problem+json, its cause goes to the log.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use sless_core::auth::AuthError;
use sless_core::problem::{Document, MEDIA_TYPE};
use sless_core::{Code, Problem};

/// A refusal on its way out. It carries the problem to [`crate::context`], which knows the request and writes it.
#[derive(Debug)]
pub(crate) struct ApiError {
    problem: Problem,
    authenticate: Option<HeaderValue>,
}

/// What handlers answer.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    pub(crate) fn code(&self) -> Code {
        self.problem.code
    }

    pub(crate) fn with_code(mut self, code: Code) -> Self {
        self.problem.code = code;
        self
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self { problem, authenticate: None }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let authenticate = HeaderValue::from_str(&error.www_authenticate()).ok();
        Self {
            problem: Problem::new(Code::Unauthenticated, error.to_string()),
            authenticate: authenticate.or(Some(HeaderValue::from_static("Bearer error=\"invalid_token\""))),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = status_of(self.problem.code).into_response();
        if let Some(value) = self.authenticate {
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response.extensions_mut().insert(Arc::new(self.problem));
        response
    }
}

fn status_of(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).expect("the table of codes has statuses of HTTP only")
}

/// When to come back to a part of the platform that does not answer.
const UNAVAILABLE_RETRY: HeaderValue = HeaderValue::from_static("1");

/// Writes the problem of a response, if it has one, and logs what the client must not see.
pub(crate) fn write(response: &mut Response, instance: &str, request_id: &str) {
    let Some(problem) = response.extensions_mut().remove::<Arc<Problem>>() else { return };
    let code = problem.code;
    match (&problem.source, code) {
        (source, Code::Internal) => {
            let error = source.as_deref().map_or_else(|| problem.detail.clone(), |source| chain(source));
            tracing::error!(code = code.name(), error, "request failed");
        }
        (Some(source), Code::Unavailable) => {
            tracing::warn!(code = code.name(), error = chain(source.as_ref()), "request failed")
        }
        (Some(source), _) => tracing::debug!(code = code.name(), error = chain(source.as_ref()), "request refused"),
        (None, _) => tracing::debug!(code = code.name(), error = problem.detail, "request refused"),
    }
    let document = Document {
        kind: Document::kind(code.name()),
        title: code.title().to_owned(),
        status: code.status(),
        detail: problem.detail.clone(),
        instance: instance.to_owned(),
        code: code.name().to_owned(),
        errors: problem.errors.clone(),
        request_id: request_id.to_owned(),
    };
    let body = serde_json::to_vec(&document).expect("texts and numbers can be written as JSON");
    let headers = response.headers_mut();
    headers.remove(http::header::CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if code == Code::Unavailable {
        headers.insert(RETRY_AFTER, UNAVAILABLE_RETRY);
    }
    *response.body_mut() = body.into();
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
