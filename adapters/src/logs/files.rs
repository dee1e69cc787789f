//! Function logs as files of JSON lines, `{namespace}/{function}/{segment}.ndjson`, in segments that go round.
//!
//! One thread writes. [`FileLogs::append`] only puts lines into its queue, and drops and counts them when that is full.
//! A line is written whole by one `write`; what the end of the process cuts in half is cut off before the next line is
//! added, and readers pass over it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sless_core::FunctionKey;
use sless_core::ports::{Clock, Error, LogLine, LogQuery, LogStream, Logs, Result};
use tokio::sync::{mpsc, oneshot, watch};

mod follow;
mod reader;
mod segments;
mod writer;

/// Calls whose lines wait to be written. At 25,000 calls a second, some 150 ms.
const QUEUE_CALLS: usize = 4096;
/// Bytes of lines that wait to be written.
const QUEUE_BYTES: usize = 32 << 20;
/// The longest line: what one call may log in all.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Functions of whose dropped lines a count is kept; lines of more are dropped uncounted.
const MAX_DROPPING: usize = 1024;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments of a function.
    pub segments: usize,
    /// Bytes of all functions together; the oldest segments go first.
    pub total_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        // 16 MiB a function, as container runtimes keep by default; 1 GiB fits any developer's disk.
        Self { segment_bytes: 4 << 20, segments: 4, total_bytes: 1 << 30 }
    }
}

/// Function logs in a folder. One process at a time may open it.
pub struct FileLogs {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Command>,
}

/// What the writer, the readers and the queue share.
struct Shared {
    root: PathBuf,
    /// Who follows which function.
    followers: Mutex<HashMap<FunctionKey, watch::Sender<()>>>,
    /// Lines that were dropped and not yet spoken of.
    dropped: Mutex<HashMap<FunctionKey, Dropped>>,
    queued_bytes: AtomicUsize,
}

/// Lines that were dropped: how many, and the last of them without its text.
struct Dropped {
    lines: u64,
    last: LogLine,
}

enum Command {
    Append(FunctionKey, Vec<LogLine>),
    /// Look at what was dropped.
    Wake,
    Flush(oneshot::Sender<()>),
    Delete(FunctionKey, oneshot::Sender<std::io::Result<()>>),
    Stop(oneshot::Sender<()>),
}

impl Shared {
    fn followers(&self) -> MutexGuard<'_, HashMap<FunctionKey, watch::Sender<()>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dropped(&self) -> MutexGuard<'_, HashMap<FunctionKey, Dropped>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, function: &FunctionKey) -> PathBuf {
        self.root.join(function.namespace.to_string()).join(function.name.as_str())
    }

    /// Counts lines that can't be kept.
    fn count_dropped(&self, function: &FunctionKey, lines: &[LogLine]) {
        let Some(last) = lines.last() else { return };
        let mut dropped = self.dropped();
        if let Some(counted) = dropped.get_mut(function) {
            counted.lines += lines.len() as u64;
            counted.last = LogLine { line: String::new(), ..last.clone() };
        } else if dropped.len() < MAX_DROPPING {
            let last = LogLine { line: String::new(), ..last.clone() };
            dropped.insert(function.clone(), Dropped { lines: lines.len() as u64, last });
        }
    }
}

impl FileLogs {
    /// Opens or makes the folder and starts the thread that writes. It ends when this is dropped.
    pub fn open(root: &Path, bounds: Bounds, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        std::fs::create_dir_all(root)?;
        let shared = Arc::new(Shared {
            root: root.to_owned(),
            followers: Mutex::default(),
            dropped: Mutex::default(),
            queued_bytes: AtomicUsize::new(0),
        });
        let (queue, commands) = mpsc::channel(QUEUE_CALLS);
        let writer = writer::Writer::open(Arc::clone(&shared), bounds, clock)?;
        std::thread::Builder::new().name("sless-logs".to_owned()).spawn(move || writer.run(commands))?;
        Ok(Self { shared, queue })
    }

    /// Writes what was taken and ends the thread. Lines that come later are dropped.
    pub async fn close(&self) {
        let (done, when_done) = oneshot::channel();
        if self.queue.send(Command::Stop(done)).await.is_ok() {
            let _ = when_done.await;
        }
    }
}

/// What a queued line counts for.
fn queued_bytes(lines: &[LogLine]) -> usize {
    lines.iter().map(|line| size_of::<LogLine>() + line.line.len()).sum()
}

#[async_trait]
impl Logs for FileLogs {
    fn append(&self, function: &FunctionKey, lines: Vec<LogLine>) {
        if lines.is_empty() {
            return;
        }
        let bytes = queued_bytes(&lines);
        let before = self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A lone call may always log what it may log.
        let refused = if before > 0 && before + bytes > QUEUE_BYTES {
            lines
        } else {
            match self.queue.try_send(Command::Append(function.clone(), lines)) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(Command::Append(_, lines))) => lines,
                Err(_) => return,
            }
        };
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.shared.count_dropped(function, &refused);
        // Where the queue is still full, the writer looks at the count after what is queued.
        let _ = self.queue.try_send(Command::Wake);
    }

    async fn read(&self, function: &FunctionKey, query: LogQuery) -> Result<LogStream> {
        follow::read(Arc::clone(&self.shared), function.clone(), query).await
    }

    async fn delete(&self, function: &FunctionKey) -> Result<()> {
        let (done, when_done) = oneshot::channel();
        self.queue
            .send(Command::Delete(function.clone(), done))
            .await
            .map_err(|_| Error::unavailable("delete a log")("the log is closed"))?;
        when_done.await.map_err(Error::unavailable("delete a log"))?.map_err(Error::unavailable("delete a log"))
    }

    async fn flush(&self) -> Result<()> {
        let (done, when_done) = oneshot::channel();
        self.queue
            .send(Command::Flush(done))
            .await
            .map_err(|_| Error::unavailable("flush logs")("the log is closed"))?;
        when_done.await.map_err(Error::unavailable("flush logs"))
    }
}

#[cfg(test)]
mod tests;
