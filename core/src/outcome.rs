//! How a call can end: one table of what each outcome is called and which status it has.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use crate::problem::{self, Document};

/// The header that tells the platform's own answers from the function's.
pub const OUTCOME_HEADER: HeaderName = HeaderName::from_static("x-sless-outcome");

// Names are `tt`: derives see a `literal` that went through a macro as a group and overlook it.
macro_rules! outcomes {
    ($($(#[$doc:meta])* $variant:ident $name:tt $status:literal $title:literal;)*) => {
        /// How a call ended. All but [`Outcome::Ok`] are the platform's own words: they go out as problem+json with
        /// `X-Sless-Outcome`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum Outcome {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Outcome {
            /// Every outcome there is.
            pub const ALL: &'static [Outcome] = &[$(Outcome::$variant),*];

            /// The stable word for it, as in JSON, SQL, headers and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Outcome::$variant => $name,)* }
            }

            /// The HTTP status it is answered with.
            pub const fn status(self) -> u16 {
                match self { $(Outcome::$variant => $status,)* }
            }

            /// The problem's title.
            pub const fn title(self) -> &'static str {
                match self { $(Outcome::$variant => $title,)* }
            }
        }
    };
}

outcomes! {
    /// The function answered, whatever its status.
    Ok "ok" 200 "Answered";
    /// No such function, or none that answers here.
    FunctionNotFound "function_not_found" 404 "No such function";
    /// The function has no version that can serve yet.
    FunctionNotReady "function_not_ready" 503 "The function is not ready";
    /// The request body is larger than `limits.requestBytes`.
    PayloadTooLarge "payload_too_large" 413 "The request is too large";
    /// The request's headers are larger than the platform passes on.
    HeadersTooLarge "headers_too_large" 431 "The request's headers are too large";
    /// More calls a second than `limits.ratePerSecond`.
    RateLimited "rate_limited" 429 "Too many calls";
    /// More calls at once than `concurrency`, for longer than the bounded wait.
    ConcurrencyExceeded "concurrency_exceeded" 429 "Too many calls at once";
    /// The function's code trapped.
    FunctionTrapped "function_trapped" 500 "The function crashed";
    /// The function wanted more than `memoryMb`.
    OutOfMemory "out_of_memory" 500 "The function ran out of memory";
    /// The function broke HTTP: no response, a wrong `content-length`, more than `limits.responseBytes`.
    BadResponse "bad_response" 502 "The function's response is not valid";
    /// The host has no free instance.
    PoolExhausted "pool_exhausted" 503 "The host is full";
    /// The host is being replaced.
    ShuttingDown "shutting_down" 503 "The host is shutting down";
    /// Longer than `timeoutSeconds`, or more processor time than `limits.cpuMs`.
    DeadlineExceeded "deadline_exceeded" 504 "The function took too long";
    /// The client went away before the answer ended. Only in rows and metrics: nobody is left to be answered.
    ClientClosed "client_closed" 499 "The client closed the connection";
    /// The function can't take over the connection: WebSockets and other upgrades.
    UpgradeNotSupported "upgrade_not_supported" 501 "The function takes no upgrades";
    /// The platform itself failed.
    Internal "internal" 500 "The platform failed";
}

impl Outcome {
    /// The outcome of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|outcome| outcome.name() == name)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call that the platform ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", outcome.name())]
pub struct Failure {
    /// How it ended.
    pub outcome: Outcome,
    /// One sentence for the caller: which limit, whose fault. Never the function's own data.
    pub detail: String,
    /// When trying again makes sense.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure without advice on trying again.
    pub fn new(outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { outcome, detail: detail.into(), retry_after: None }
    }

    /// Adds when to try again.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// The answer to the call: problem+json with [`OUTCOME_HEADER`], and `Retry-After` in whole seconds.
    /// `instance` is the path of the request.
    pub fn response(&self, instance: &str, request_id: &str) -> http::Response<Bytes> {
        let code = self.outcome.name();
        let document = Document {
            kind: Document::kind(code),
            title: self.outcome.title().to_owned(),
            status: self.outcome.status(),
            detail: self.detail.clone(),
            instance: instance.to_owned(),
            code: code.to_owned(),
            errors: Vec::new(),
            request_id: request_id.to_owned(),
        };
        let body = serde_json::to_vec(&document).expect("texts and numbers can be written as JSON");
        let mut response = http::Response::new(Bytes::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.outcome.status()).expect("the table of outcomes has statuses of HTTP only");
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(problem::MEDIA_TYPE));
        headers.insert(OUTCOME_HEADER, HeaderValue::from_static(code));
        if let Some(after) = self.retry_after {
            // Rounded up: a client that comes back at that second is not too early.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_and_read_back() {
        for &outcome in Outcome::ALL {
            assert_eq!(Outcome::from_name(outcome.name()), Some(outcome));
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
        }
        let contract = [
            ("function_not_found", 404),
            ("function_not_ready", 503),
            ("payload_too_large", 413),
            ("rate_limited", 429),
            ("concurrency_exceeded", 429),
            ("function_trapped", 500),
            ("out_of_memory", 500),
            ("bad_response", 502),
            ("pool_exhausted", 503),
            ("deadline_exceeded", 504),
        ];
        for (name, status) in contract {
            assert_eq!(Outcome::from_name(name).map(Outcome::status), Some(status), "{name}");
        }
    }

    #[test]
    fn a_failure_is_answered_as_a_problem() {
        let failure =
            Failure::new(Outcome::RateLimited, "at most 5 calls a second").retry_after(Duration::from_millis(1200));
        let response = failure.response("/fn/ns/f/", "id-1");
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["x-sless-outcome"], "rate_limited");
        assert_eq!(response.headers()["retry-after"], "2");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        let expected = serde_json::json!({
            "type": "urn:sless:problem:rate_limited", "title": "Too many calls", "status": 429,
            "detail": "at most 5 calls a second", "instance": "/fn/ns/f/", "code": "rate_limited", "requestId": "id-1",
        });
        assert_eq!(body, expected);
        assert!(Outcome::ALL.iter().all(|outcome| StatusCode::from_u16(outcome.status()).is_ok()));
    }
}
