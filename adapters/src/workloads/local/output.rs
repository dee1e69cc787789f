//! What a function's process prints: records of its server become lines of the function's log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value};
use sless_core::Timestamp;
use sless_core::invocation::{InvocationId, LOG_TAIL_BYTES};
use sless_core::ports::{Clock, LogLine, Logs, Stream};
use sless_core::version::Revision;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A longer line is cut: servers cut theirs at a quarter of it.
const MAX_LINE_BYTES: usize = 64 << 10;
/// What of a process's last lines is kept, to say why it ended.
const LAST_WORDS_BYTES: usize = 4 << 10;
/// Lines of a stack that become lines of the log.
const MAX_STACK_LINES: usize = 100;

/// Calls under way by their request id, and where lines go.
pub(super) struct Output {
    revision: Arc<Revision>,
    logs: Arc<dyn Logs>,
    clock: Arc<dyn Clock>,
    /// Whose lines those outside of any call are: the process's own.
    process: InvocationId,
    calls: Mutex<HashMap<String, Tail>>,
    last_words: Mutex<String>,
}

struct Tail {
    invocation: InvocationId,
    text: String,
}

impl Tail {
    /// Adds lines; answers whose they are.
    fn take(&mut self, lines: &[String]) -> InvocationId {
        for line in lines {
            self.text.push_str(line);
            self.text.push('\n');
        }
        cut_front(&mut self.text, LOG_TAIL_BYTES);
        self.invocation
    }
}

/// A record of a server, as `runtimes/README.md` has it.
#[derive(Deserialize)]
struct Record {
    time: Option<Timestamp>,
    level: String,
    message: String,
    #[serde(rename = "requestId")]
    request_id: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// What a server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// It listens at this port.
    Listening(u16),
    /// Anything else.
    Other,
}

impl Output {
    pub(super) fn new(revision: Arc<Revision>, logs: Arc<dyn Logs>, clock: Arc<dyn Clock>) -> Self {
        Self {
            revision,
            logs,
            clock,
            process: InvocationId::now(),
            calls: Mutex::default(),
            last_words: Mutex::default(),
        }
    }

    /// From now on lines with this request id are of this call.
    pub(super) fn begin(&self, request_id: &str, invocation: InvocationId) {
        self.calls().insert(request_id.to_owned(), Tail { invocation, text: String::new() });
    }

    /// The end of what a call logged. Lines that come later are the process's.
    pub(super) fn end(&self, request_id: &str, invocation: InvocationId) -> String {
        let mut calls = self.calls();
        match calls.get(request_id) {
            Some(tail) if tail.invocation == invocation => {
                calls.remove(request_id).map(|tail| tail.text).unwrap_or_default()
            }
            // Another call came with the same id.
            _ => String::new(),
        }
    }

    /// What the process printed last.
    pub(super) fn last_words(&self) -> String {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads a stream to its end, line by line.
    pub(super) async fn read(&self, mut from: impl AsyncRead + Unpin, stream: Stream, mut said: impl FnMut(Said)) {
        let (mut line, mut piece) = (Vec::new(), vec![0; 16 << 10]);
        while let Ok(n @ 1..) = from.read(&mut piece).await {
            for part in piece[..n].split_inclusive(|byte| *byte == b'\n') {
                let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
                let room = MAX_LINE_BYTES - line.len();
                line.extend_from_slice(&text[..text.len().min(room)]);
                if ends {
                    said(self.line(&String::from_utf8_lossy(&line), stream));
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            self.line(&String::from_utf8_lossy(&line), stream);
        }
    }

    fn line(&self, text: &str, stream: Stream) -> Said {
        self.remember(text);
        let now = self.clock.now();
        let Ok(record) = serde_json::from_str::<Record>(text) else {
            self.append(None, now, stream, vec![text.to_owned()]);
            return Said::Other;
        };
        let Record { time, level, message, request_id, mut fields } = record;
        if let (None, "listening", Some(port)) =
            (&request_id, message.as_str(), fields.get("port").and_then(Value::as_u64))
        {
            return u16::try_from(port).map_or(Said::Other, Said::Listening);
        }
        let stack = fields.remove("stack");
        let mut lines: Vec<String> = message.split('\n').map(str::to_owned).collect();
        if !fields.is_empty()
            && let Some(last) = lines.last_mut()
        {
            last.push_str(&format!(" {}", Value::Object(fields)));
        }
        if let Some(stack) = stack.as_ref().and_then(Value::as_str) {
            lines.extend(stack.trim_end().lines().take(MAX_STACK_LINES).map(str::to_owned));
        }
        let stream = if matches!(level.as_str(), "warn" | "error") { Stream::Stderr } else { Stream::Stdout };
        self.append(request_id.as_deref(), time.unwrap_or(now), stream, lines);
        Said::Other
    }

    fn append(&self, request_id: Option<&str>, at: Timestamp, stream: Stream, lines: Vec<String>) {
        let invocation = match request_id.and_then(|id| self.calls().get_mut(id).map(|tail| tail.take(&lines))) {
            Some(invocation) => invocation,
            None => self.process,
        };
        let version = self.revision.version;
        let lines = lines.into_iter().map(|line| LogLine { at, version, invocation, stream, line }).collect();
        self.logs.append(&self.revision.function, lines);
    }

    fn remember(&self, text: &str) {
        let mut words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        words.push_str(text);
        words.push('\n');
        cut_front(&mut words, LAST_WORDS_BYTES);
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<String, Tail>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the last bytes of a text, whole characters.
fn cut_front(text: &mut String, keep: usize) {
    if text.len() > keep {
        let mut from = text.len() - keep;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text.drain(..from);
    }
}
