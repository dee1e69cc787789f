//! Errors of the REST API as problem+json (RFC 9457): one table of codes, one shape.

use std::fmt;

use serde::{Deserialize, Serialize};

// Names are `tt`: derives see a `literal` that went through a macro as a group and overlook it.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $name:tt $status:literal $title:literal;)*) => {
        /// A stable word for what went wrong: clients decide by it, never by the text.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// The stable word.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// The HTTP status it goes with.
            pub const fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)* }
            }

            /// The problem's title.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }
        }
    };
}

codes! {
    /// The body, a parameter or a header can't be read.
    BadRequest "bad_request" 400 "The request can't be read";
    /// No token, or one that is not valid.
    Unauthenticated "unauthenticated" 401 "A valid token is needed";
    /// The token is of another tenant, or may only read.
    Forbidden "forbidden" 403 "Not allowed";
    /// No such route or object.
    NotFound "not_found" 404 "Not found";
    /// `POST …/ensure` was not called yet.
    NamespaceNotFound "namespace_not_found" 404 "The namespace is not there yet";
    /// The route does not have this method.
    MethodNotAllowed "method_not_allowed" 405 "Method not allowed";
    /// An object of this name is there already.
    AlreadyExists "already_exists" 409 "Already exists";
    /// The object's state does not allow it.
    Conflict "conflict" 409 "Not possible now";
    /// `If-Match` names an older state of the object.
    PreconditionFailed "precondition_failed" 412 "Changed by someone else";
    /// The body is over its limit.
    PayloadTooLarge "payload_too_large" 413 "The body is too large";
    /// The body is not of a type that this route takes.
    UnsupportedMediaType "unsupported_media_type" 415 "Media type not supported";
    /// A field has a value that is not allowed.
    Invalid "invalid" 422 "A value is not allowed";
    /// The component is refused: not a component, imports what is not given, exports no handler.
    InvalidComponent "invalid_component" 422 "The component is refused";
    /// The archive is refused.
    InvalidSource "invalid_source" 422 "The source is refused";
    /// Too many requests to the API.
    RateLimited "rate_limited" 429 "Too many requests";
    /// The platform itself failed.
    Internal "internal" 500 "The platform failed";
    /// A part of the platform does not answer; try again.
    Unavailable "unavailable" 503 "Try again later";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FieldError {
    /// JSON Pointer (RFC 6901) into the request's body.
    pub pointer: String,
    /// What is wrong with it and what would be right.
    pub detail: String,
}

impl FieldError {
    /// An error of the field at `pointer`.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// The media type of a [`Document`].
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A problem as it goes out (RFC 9457): of the API, and of the platform's own answers to calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct Document {
    /// `urn:sless:problem:{code}`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and what to do.
    pub detail: String,
    /// The path of the request.
    pub instance: String,
    /// A stable word: clients decide by it, never by the text.
    pub code: String,
    /// The fields at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Finds the request in the platform's log.
    pub request_id: String,
}

impl Document {
    /// The URN of a code, for `type`.
    pub fn kind(code: &str) -> String {
        format!("urn:sless:problem:{code}")
    }
}

/// A use-case's refusal or failure. `api` adds `instance` and `requestId` and writes it out.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    /// For the reader: what happened and what to do.
    pub detail: String,
    /// The fields at fault.
    pub errors: Vec<FieldError>,
    /// What caused it, for the platform's log only.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Problem {
    /// A problem that names no field.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), source: None }
    }

    /// A problem of fields: 422 `invalid`.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] => format!("{}: {}", one.pointer, one.detail),
            many => format!("{} fields have values that are not allowed", many.len()),
        };
        Self { code: Code::Invalid, detail, errors, source: None }
    }
}

impl From<crate::ports::Error> for Problem {
    fn from(error: crate::ports::Error) -> Self {
        use crate::ports::Error;
        let (code, detail) = match &error {
            Error::NotFound { .. } => (Code::NotFound, error.to_string()),
            Error::AlreadyExists { .. } => (Code::AlreadyExists, error.to_string()),
            Error::Conflict { .. } => (Code::PreconditionFailed, error.to_string()),
            Error::InvalidCursor => (Code::BadRequest, error.to_string()),
            Error::TooLarge { .. } => (Code::PayloadTooLarge, error.to_string()),
            Error::Interrupted { .. } => (Code::BadRequest, error.to_string()),
            Error::Unavailable { .. } => {
                (Code::Unavailable, "a part of the platform does not answer; try again".to_owned())
            }
            Error::Corrupt { .. } => {
                (Code::Internal, "the platform failed; the request id finds the cause in its log".to_owned())
            }
        };
        Self { code, detail, errors: Vec::new(), source: Some(Box::new(error)) }
    }
}
