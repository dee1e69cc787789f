//! What functions print: read and followed, as NDJSON or server-sent events.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt, future, stream};
use http::HeaderMap;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use serde::Deserialize;
use sless_core::ports::{self, LogLine, LogQuery, LogStream};
use sless_core::{Code, FunctionName, Timestamp};
use utoipa::IntoParams;

use super::paths::OfFunction;
use crate::App;
use crate::auth::Ns;
use crate::error::{self, ApiError, ApiResult};
use crate::extract::{Named, Params, instant, switch};

/// How long a followed log is silent at most: proxies close what is idle for a minute, and a client sees that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The most lines that `tail` may ask for.
const MAX_TAIL: u32 = 10_000;
/// Lines that are there already and go out as one piece.
const LINES_A_PIECE: usize = 128;

/// Which lines.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// Go on with new lines as they come. A heartbeat comes every 15 seconds: an empty line, or a comment.
    #[serde(default, deserialize_with = "switch")]
    #[param(default = false)]
    follow: bool,
    /// Only lines at or after this instant.
    #[serde(default, deserialize_with = "instant")]
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Only the last so many of those that are there.
    #[serde(default)]
    #[param(minimum = 0, maximum = 10_000)]
    tail: Option<u32>,
}

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Ndjson,
    Sse,
}

/// Read a function's log, oldest first
///
/// One JSON object a line, or server-sent events where `Accept` asks for `text/event-stream`.
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/functions/{name}/logs", tag = "logs", operation_id = "read_logs", params(OfFunction, LogParams),
    responses((
        status = 200, description = "Lines",
        content((LogLine = "application/x-ndjson"), (String = "text/event-stream")),
    )),
)]
pub(crate) async fn read(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    Params(query): Params<LogParams>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    if query.tail.is_some_and(|tail| tail > MAX_TAIL) {
        return Err(ApiError::new(Code::Invalid, format!("query parameter tail: at most {MAX_TAIL} lines")));
    }
    let follow = query.follow;
    let wanted = LogQuery { tail: query.tail.map(|tail| tail as usize), since: query.since, follow };
    let lines = app.services.logs.read(ns, &name, wanted).await?;
    let format = Format::of(&headers);
    // A followed log would hold a shutdown up for its whole grace.
    let end = app.closing.clone();
    let end = async move { if follow { end.cancelled_owned().await } else { future::pending().await } };
    let body = Body::from_stream(written(lines, format, follow).take_until(Box::pin(end)));
    let head = [(CONTENT_TYPE, format.media_type()), (CACHE_CONTROL, "no-store")];
    // nginx collects answers unless it is told not to.
    Ok((head, [("x-accel-buffering", "no")], body).into_response())
}

impl Format {
    fn of(headers: &HeaderMap) -> Self {
        let wanted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let sse = wanted.flat_map(|value| value.split(',')).any(|range| {
            range.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("text/event-stream"))
        });
        if sse { Self::Sse } else { Self::Ndjson }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Sse => "text/event-stream",
        }
    }

    fn heartbeat(self) -> Bytes {
        Bytes::from_static(match self {
            Self::Ndjson => b"\n",
            Self::Sse => b":\n\n",
        })
    }

    fn write(self, line: &LogLine, to: &mut Vec<u8>) -> serde_json::Result<()> {
        // JSON has no line break of its own, so one line is one event.
        if self == Self::Sse {
            to.extend_from_slice(b"data: ");
        }
        serde_json::to_writer(&mut *to, line)?;
        to.extend_from_slice(if self == Self::Sse { b"\n\n" } else { b"\n" });
        Ok(())
    }
}

fn written(lines: LogStream, format: Format, follow: bool) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send {
    let pieces = lines.ready_chunks(LINES_A_PIECE);
    stream::unfold(Some(pieces), move |pieces| async move {
        let mut pieces = pieces?;
        let next = if follow { tokio::time::timeout(HEARTBEAT, pieces.next()).await } else { Ok(pieces.next().await) };
        match next {
            Err(_) => Some((Ok(format.heartbeat()), Some(pieces))),
            Ok(None) => None,
            Ok(Some(lines)) => match piece(lines, format) {
                Ok(bytes) => Some((Ok(bytes), Some(pieces))),
                Err(error) => {
                    // The head is out: breaking off is how the client learns that something is missing.
                    tracing::warn!(error = error::chain(error.as_ref()), "log broke off");
                    Some((Err(std::io::Error::other("the log broke off")), None))
                }
            },
        }
    })
}

fn piece(
    lines: Vec<ports::Result<LogLine>>,
    format: Format,
) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let mut bytes = Vec::new();
    for line in lines {
        format.write(&line?, &mut bytes)?;
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sless_core::ports::Stream as From;
    use sless_core::{InvocationId, VersionNumber};

    fn line(text: &str) -> LogLine {
        let invocation = InvocationId(uuid::Uuid::nil());
        LogLine {
            at: Timestamp::UNIX_EPOCH,
            version: VersionNumber(1),
            invocation,
            stream: From::Stdout,
            line: text.into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_log_beats_every_fifteen_seconds() {
        for (format, beat) in [(Format::Ndjson, "\n"), (Format::Sse, ":\n\n")] {
            let lines = stream::iter([Ok(line("a\nb"))]).chain(stream::pending()).boxed();
            let mut written = Box::pin(written(lines, format, true));
            let first = written.next().await.unwrap().unwrap();
            assert!(first.ends_with(if format == Format::Sse { b"\n\n" } else { b"}\n" }));
            assert_eq!(first.starts_with(b"data: {"), format == Format::Sse);
            let started = tokio::time::Instant::now();
            for beats in 1..=3 {
                assert_eq!(written.next().await.unwrap().unwrap(), beat);
                assert_eq!(started.elapsed().as_secs(), 15 * beats);
            }
        }
    }

    #[tokio::test]
    async fn a_log_that_breaks_off_is_not_taken_for_whole() {
        let broken = ports::Error::Corrupt { doing: "read log", source: "bad".into() };
        let mut written = Box::pin(written(stream::iter([Ok(line("a")), Err(broken)]).boxed(), Format::Ndjson, false));
        assert!(written.next().await.unwrap().is_err());
        assert!(written.next().await.is_none());
    }
}
