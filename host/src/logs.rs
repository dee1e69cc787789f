//! What a guest prints, and what the platform says about it: cut into lines, bounded a call, handed to the [`Logs`] port.

use std::sync::Arc;

use bytes::Bytes;
use sless_core::Timestamp;
use sless_core::invocation::{InvocationId, LOG_TAIL_BYTES};
use sless_core::ports::logs::{LogLine, Logs, Stream};
use sless_core::version::Revision;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::call::CallState;

/// A longer line is cut into several: readers and stores take lines, not streams.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Lines of one call, whatever their length: an empty line costs a row too.
const MAX_LINES: u32 = 10_000;
/// Lines that the platform may add beyond what the guest used up.
const MAX_PLATFORM_LINES: u32 = 64;
/// Lines that wait before they are handed on while the guest computes.
const FLUSH_LINES: usize = 256;
/// What a guest may write at once.
const WRITE_BYTES: usize = 64 << 10;

/// The log of one call.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    ready: Vec<LogLine>,
    partial: [Vec<u8>; 2],
    used_bytes: u64,
    lines: u32,
    platform_lines: u32,
    dropped_lines: u64,
    dropped_bytes: u64,
    /// The newline of a dropped line is still to come, for each stream.
    dropping: [bool; 2],
    tail: String,
}

/// What lines of a call have in common.
pub(crate) struct Origin<'a> {
    pub(crate) revision: &'a Revision,
    pub(crate) invocation: InvocationId,
    pub(crate) limit_bytes: u64,
}

impl CallLog {
    /// Takes bytes of one of the guest's streams.
    pub(crate) fn print(&mut self, origin: &Origin<'_>, stream: Stream, bytes: &[u8], now: impl Fn() -> Timestamp) {
        let index = usize::from(stream == Stream::Stderr);
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = origin.limit_bytes.saturating_sub(self.used_bytes);
            if self.dropping[index] || self.lines >= MAX_LINES || piece.len() as u64 > room {
                self.dropped_bytes += piece.len() as u64;
                self.dropping[index] = !ended;
                self.dropped_lines += u64::from(ended);
                continue;
            }
            self.used_bytes += piece.len() as u64;
            self.partial[index].extend_from_slice(text);
            if ended {
                self.end_line(origin, stream, &now);
            }
            while self.partial[index].len() >= MAX_LINE_BYTES {
                let rest = self.partial[index].split_off(MAX_LINE_BYTES);
                let full = std::mem::replace(&mut self.partial[index], rest);
                self.push(origin, stream, &full, &now);
            }
        }
    }

    fn end_line(&mut self, origin: &Origin<'_>, stream: Stream, now: &impl Fn() -> Timestamp) {
        let index = usize::from(stream == Stream::Stderr);
        let mut line = std::mem::take(&mut self.partial[index]);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        for part in line.chunks(MAX_LINE_BYTES).chain(line.is_empty().then_some(&[][..])) {
            self.push(origin, stream, part, now);
        }
    }

    fn push(&mut self, origin: &Origin<'_>, stream: Stream, line: &[u8], now: &impl Fn() -> Timestamp) {
        self.lines += 1;
        self.add(origin, stream, String::from_utf8_lossy(line).into_owned(), now());
    }

    /// Adds a line of the platform's own.
    pub(crate) fn say(&mut self, origin: &Origin<'_>, line: String, now: Timestamp) {
        if self.platform_lines < MAX_PLATFORM_LINES {
            self.platform_lines += 1;
            self.add(origin, Stream::Platform, line, now);
        } else {
            self.dropped_lines += 1;
        }
    }

    fn add(&mut self, origin: &Origin<'_>, stream: Stream, line: String, at: Timestamp) {
        self.tail.push_str(&line);
        self.tail.push('\n');
        if self.tail.len() > 2 * LOG_TAIL_BYTES {
            self.tail = tail_of(&self.tail).to_owned();
        }
        self.ready.push(LogLine { at, version: origin.revision.version, invocation: origin.invocation, stream, line });
    }

    /// Hands on what is there, if it is much or `all` of it is wanted.
    pub(crate) fn flush(&mut self, origin: &Origin<'_>, logs: &dyn Logs, all: bool) {
        if !self.ready.is_empty() && (all || self.ready.len() >= FLUSH_LINES) {
            logs.append(&origin.revision.function, std::mem::take(&mut self.ready));
        }
    }

    /// Ends the log: unfinished lines, then what was dropped, then all of it to the port.
    pub(crate) fn end(&mut self, origin: &Origin<'_>, logs: &dyn Logs, now: impl Fn() -> Timestamp) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let index = usize::from(stream == Stream::Stderr);
            if !self.partial[index].is_empty() {
                self.end_line(origin, stream, &now);
            }
            self.dropped_lines += u64::from(std::mem::take(&mut self.dropping[index]));
        }
        if self.dropped_lines > 0 {
            let line = format!(
                "{} lines ({} bytes) were dropped: a call may log limits.logBytes = {} bytes and {MAX_LINES} lines",
                self.dropped_lines, self.dropped_bytes, origin.limit_bytes
            );
            (self.dropped_lines, self.dropped_bytes) = (0, 0);
            self.add(origin, Stream::Platform, line, now());
        }
        self.flush(origin, logs, true);
    }

    /// The end of the log, for the call's row.
    pub(crate) fn take_tail(&mut self) -> String {
        let tail = std::mem::take(&mut self.tail);
        let cut = tail_of(&tail);
        if cut.len() == tail.len() { tail } else { cut.to_owned() }
    }
}

/// The last [`LOG_TAIL_BYTES`] of a text, from a character's start on.
fn tail_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(LOG_TAIL_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Which call an instance serves now; none while it waits for its next one.
pub(crate) type CurrentCall = std::sync::Mutex<Option<Arc<CallState>>>;

/// A guest's standard output or error.
pub(crate) struct LogStream {
    pub(crate) call: Arc<CurrentCall>,
    pub(crate) stream: Stream,
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let call = self.call.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Some(call) = call {
            call.print(self.stream, &bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

#[async_trait::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}
