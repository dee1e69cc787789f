//! Logs as they come: NDJSON, a line of text a line of log.

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::Method;
use reqwest::header::ACCEPT;
use sless_core::Timestamp;
use sless_core::ports::LogLine;

use crate::{Client, Error};

/// The longest line: what a call may log at all (1 MiB), escaped.
const MAX_LINE_BYTES: usize = 8 << 20;

/// Which lines are wanted.
#[derive(Debug, Clone, Default)]
pub struct LogRequest {
    /// Go on with new lines as they come.
    pub follow: bool,
    /// Only those at or after this instant.
    pub since: Option<Timestamp>,
    /// Only the last so many of those that are there.
    pub tail: Option<usize>,
}

/// Lines of a log, oldest first.
pub struct LogLines {
    pieces: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line's end.
    searched: usize,
    ended: bool,
}

impl Client {
    /// Reads a function's log.
    pub async fn logs(&self, name: &str, request: &LogRequest) -> Result<LogLines, Error> {
        let mut url = self.url(&["functions", name, "logs"]);
        {
            let mut query = url.query_pairs_mut();
            if request.follow {
                query.append_pair("follow", "true");
            }
            if let Some(since) = request.since {
                query.append_pair("since", &since.to_string());
            }
            if let Some(tail) = request.tail {
                query.append_pair("tail", &tail.to_string());
            }
        }
        let make = || Ok(self.request(Method::GET, url.clone()).header(ACCEPT, "application/x-ndjson"));
        Ok(LogLines::new(self.send(make).await?.bytes_stream().boxed()))
    }
}

impl LogLines {
    pub(crate) fn new(pieces: BoxStream<'static, reqwest::Result<bytes::Bytes>>) -> Self {
        Self { pieces, buffer: BytesMut::new(), searched: 0, ended: false }
    }

    /// The next line; none at the end. Safe to drop and call again.
    pub async fn next(&mut self) -> Result<Option<LogLine>, Error> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(self.searched + at);
                self.buffer.advance(1);
                self.searched = 0;
                // Heartbeats are empty lines.
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return parse(&line).map(Some);
            }
            self.searched = self.buffer.len();
            if self.searched > MAX_LINE_BYTES {
                return Err(Error::LineTooLong { limit: MAX_LINE_BYTES });
            }
            if self.ended {
                let rest = self.buffer.split();
                self.searched = 0;
                return if rest.trim_ascii().is_empty() { Ok(None) } else { parse(&rest).map(Some) };
            }
            match self.pieces.next().await {
                Some(piece) => self.buffer.extend_from_slice(&piece.map_err(Error::transport("read the log"))?),
                None => self.ended = true,
            }
        }
    }
}

fn parse(line: &[u8]) -> Result<LogLine, Error> {
    serde_json::from_slice(line).map_err(|source| Error::Unreadable { doing: "logs", source })
}
