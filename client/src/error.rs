//! What can go wrong between here and there.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sless_core::auth::AuthError;
use sless_core::problem::FieldError;

/// The platform's answer where it refuses or fails: `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Problem {
    /// A URI for the kind of problem.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and what to do.
    pub detail: String,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The stable word for it.
    pub code: String,
    /// The fields at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Finds the cause in the platform's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// When to try again, by `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The platform said so.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// Something answered that is not the platform, such as a proxy.
    #[error("{endpoint} answered {status} without a problem document, so it may not be the sless API: {body}")]
    NotTheApi {
        /// Where.
        endpoint: String,
        /// With what.
        status: u16,
        /// The beginning of its answer.
        body: String,
        /// The answer's `X-Request-Id`.
        request_id: Option<String>,
    },
    /// Nothing answers.
    #[error("{endpoint} is not reachable: {}", root(.source))]
    Unreachable {
        /// Where.
        endpoint: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The connection broke or timed out.
    #[error("{doing}: {}", root(.source))]
    Transport {
        /// What was attempted.
        doing: &'static str,
        /// Why it failed.
        source: reqwest::Error,
    },
    /// The answer is not what this version of the client understands.
    #[error("the answer of {doing} can't be read: {source}")]
    Unreadable {
        /// Which request.
        doing: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A line of a log is longer than any that the platform sends.
    #[error("the log has a line of more than {limit} bytes")]
    LineTooLong {
        /// The limit.
        limit: usize,
    },
    /// The endpoint is not a URL of an API.
    #[error("the endpoint `{endpoint}` can't be used: {reason}")]
    InvalidEndpoint {
        /// It.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// The token is none.
    #[error("the token can't be used: {0}")]
    InvalidToken(AuthError),
    /// A file that was to be uploaded can't be read.
    #[error("{}: {source}", .path.display())]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn transport(doing: &'static str) -> impl Fn(reqwest::Error) -> Self {
        move |source| Self::Transport { doing, source }
    }

    /// The HTTP status, where there is one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::NotTheApi { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The request's id, where there is one.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => problem.request_id.as_deref(),
            Self::NotTheApi { request_id, .. } => request_id.as_deref(),
            _ => None,
        }
    }
}

/// The innermost cause: `error sending request` says nothing, `Connection refused` does.
fn root(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
