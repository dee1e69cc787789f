//! Streaming bodies between the gateway and whatever serves a function.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};

use crate::outcome::Failure;

/// A body that streams, of either direction.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BodyError>;

/// Why a body ended before its end.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BodyError {
    /// The platform ended it: a limit, the deadline, a trap.
    #[error("{0}")]
    Failed(Failure),
    /// The other side went away.
    #[error("the connection was closed before the body ended: {0}")]
    Closed(String),
}

/// A body of nothing.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body of bytes that are there already.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
