//! How a call can end: one table of what each outcome is called and which status it has.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

macro_rules! outcomes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $status:literal $title:literal;)*) => {
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
        let contract = [("function_not_found", 404), ("function_not_ready", 503), ("payload_too_large", 413), ("rate_limited", 429), ("concurrency_exceeded", 429), ("function_trapped", 500), ("out_of_memory", 500), ("bad_response", 502), ("pool_exhausted", 503), ("deadline_exceeded", 504)];
        for (name, status) in contract {
            assert_eq!(Outcome::from_name(name).map(Outcome::status), Some(status), "{name}");
        }
    }
}
