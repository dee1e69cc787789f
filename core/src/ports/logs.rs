//! `Logs`: what functions print. Rotated files, or pods and pools.

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::Timestamp;
use crate::invocation::InvocationId;
use crate::names::FunctionKey;
use crate::version::VersionNumber;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The function's standard output.
    Stdout,
    /// The function's standard error.
    Stderr,
    /// The platform, about the function: traps, refused connections, dropped lines.
    Platform,
}

/// One line of a function's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// When it was printed.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// By which version.
    pub version: VersionNumber,
    /// In which call.
    pub invocation: InvocationId,
    /// Where it came from.
    pub stream: Stream,
    /// Its text without the line's end; bytes that are not UTF-8 are replaced.
    pub line: String,
}

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Only the last so many of those that are there.
    pub tail: Option<usize>,
    /// Only those at or after this instant.
    pub since: Option<Timestamp>,
    /// Whether to go on with new lines as they come.
    pub follow: bool,
}

/// Lines, oldest first; endless when following.
pub type LogStream = BoxStream<'static, Result<LogLine>>;

/// Function logs, bounded a function.
#[async_trait]
pub trait Logs: Send + Sync {
    /// Takes lines of one call, in order. Never waits: what can't be kept is dropped, counted, and said in a platform
    /// line later.
    fn append(&self, function: &FunctionKey, lines: Vec<LogLine>);
    /// Reads.
    async fn read(&self, function: &FunctionKey, query: LogQuery) -> Result<LogStream>;
    /// Forgets a function's lines.
    async fn delete(&self, function: &FunctionKey) -> Result<()>;
    /// Returns when all lines taken so far can be read.
    async fn flush(&self) -> Result<()>;
}
