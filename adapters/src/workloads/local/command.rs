//! One step of a build: a program that runs to its end, watched.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::launch::Limits;
use super::process::{End, Output, Spawner};

/// What is kept of a build's output; the rest is read, counted and dropped.
const MAX_LOG_BYTES: usize = 256 << 10;
/// What a step may use: installers unpack and compile packages.
const LIMITS: Limits = Limits { memory_bytes: 4 << 30, file_bytes: 1 << 30 };

/// What makes the platform's program a launcher ([`super::launch::run`]).
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub args: Vec<OsString>,
}

impl Launcher {
    /// A command that becomes `program` within limits, with nothing of the platform's environment.
    pub(super) fn command(&self, limits: Limits, program: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).args(limits.args()).arg(program).env_clear();
        command
    }
}

/// What builds print, bounded.
#[derive(Default)]
pub(super) struct Log {
    text: Vec<u8>,
    dropped: usize,
}

impl Log {
    /// Adds a line of the platform's.
    pub(super) fn say(&mut self, line: &str) {
        self.add(line.as_bytes());
        self.add(b"\n");
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = MAX_LOG_BYTES - self.text.len();
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.dropped += bytes.len().saturating_sub(room);
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.text).into_owned();
        if self.dropped > 0 {
            text.push_str(&format!("\n({} bytes more are left out)\n", self.dropped));
        }
        text
    }
}

/// Why a step did not come to an end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("start {}", program.display())]
    Start { program: PathBuf, source: std::io::Error },
    #[error("it took longer than {} s", .0.as_secs())]
    OutOfTime(Duration),
}

/// Runs a step; answers how it ended and what it printed last. Dropping the future kills it.
pub(super) async fn run(
    spawner: &Spawner,
    launcher: &Launcher,
    program: &Path,
    set: impl FnOnce(&mut Command),
    limit: Duration,
    log: &mut Log,
) -> Result<(End, Vec<u8>), Error> {
    let mut command = launcher.command(LIMITS, program);
    set(&mut command);
    let failed = |source| Error::Start { program: program.to_owned(), source };
    let (process, Output { mut out, mut err }) = spawner.spawn(command).await.map_err(failed)?;
    let mut tail = Vec::new();
    let reading = async {
        let (mut a, mut b) = (vec![0; 16 << 10], vec![0; 16 << 10]);
        let (mut out_open, mut err_open) = (true, true);
        while out_open || err_open {
            let (piece, open) = tokio::select! {
                n = out.read(&mut a), if out_open => (&a[..n.unwrap_or(0)], &mut out_open),
                n = err.read(&mut b), if err_open => (&b[..n.unwrap_or(0)], &mut err_open),
            };
            *open = !piece.is_empty();
            log.add(piece);
            tail.extend_from_slice(piece);
            let surplus = tail.len().saturating_sub(MAX_LOG_BYTES);
            tail.drain(..surplus);
        }
        process.wait().await
    };
    let end = tokio::time::timeout(limit, reading).await.map_err(|_| Error::OutOfTime(limit))?;
    Ok((end, tail))
}
