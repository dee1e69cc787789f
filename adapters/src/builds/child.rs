//! One builder process, from its start to its end.
//!
//! A thread of its own looks after each, because the kernel ends a builder with the thread that started it (the parent's
//! death signal), and a thread of the runtime may come and go. The number of builders is bounded, so is that of threads.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use sless_core::build_protocol::{Job, MAX_REPLY_BYTES};
use tokio::sync::oneshot;

use super::desk::Desk;

/// What is kept of a build's log. The rest is read, counted and dropped.
const MAX_LOG_BYTES: usize = 256 << 10;

/// What is started.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) args: Vec<OsString>,
}

/// How a builder ended, and what it said.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) reply: Vec<u8>,
    pub(super) log: String,
}

/// How a builder ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, with this exit code.
    Exited(i32),
    /// By a signal that this process did not send.
    Signalled(i32),
    /// By this process: its wall clock ran out.
    OutOfTime,
    /// By this process: it answered without end.
    Flooded,
    /// By this process: nobody waits any more.
    Cancelled,
}

/// Runs a builder. Dropping the future kills the builder; its folder goes when it has ended, in any case.
pub(super) async fn run(program: &Arc<Program>, job: &Job, desk: Desk) -> io::Result<(Ended, Desk)> {
    let text = serde_json::to_vec(job)?;
    let wall = job.limits.wall();
    let (cancelled, alive) = io::pipe()?;
    let (answer, answered) = oneshot::channel();
    let program = program.clone();
    std::thread::Builder::new().name("builder".to_owned()).spawn(move || {
        let ended = start(&program, &text).and_then(|child| watch(child, &cancelled, wall));
        // If nobody waits, the desk comes back with the error and is removed here.
        let _ = answer.send((ended, desk));
    })?;
    let result = answered.await;
    drop(alive);
    let (ended, desk) = result.map_err(io::Error::other)?;
    Ok((ended?, desk))
}

fn start(program: &Program, job: &[u8]) -> io::Result<Child> {
    let mut child = Command::new(&program.path)
        .args(&program.args)
        // The environment has settings of the platform, secrets among them.
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A job fits the pipe, so this does not wait for the builder. One that is gone already says why by its end.
        let _ = stdin.write_all(job);
    }
    Ok(child)
}

/// Waits for the end, reading what it says.
fn watch(mut child: Child, cancelled: &PipeReader, wall: Duration) -> io::Result<Ended> {
    let mut said = Said { reply: Vec::new(), log: Vec::new(), dropped: 0 };
    let forced = follow(&mut child, cancelled, wall, &mut said);
    if !matches!(forced, Ok(None)) {
        kill(&mut child);
    }
    let status = child.wait()?;
    let end = forced?.unwrap_or_else(|| natural(status));
    Ok(Ended { end, reply: std::mem::take(&mut said.reply), log: said.log() })
}

/// Reads until the builder has ended (`None`) or has to be ended.
fn follow(child: &mut Child, cancelled: &PipeReader, wall: Duration, said: &mut Said) -> io::Result<Option<End>> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let deadline = Instant::now() + wall;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Its end is looked at only when nothing is left to read, so that no last words are lost.
        let ready = Ready::wait(cancelled, &ended, &out, &err, left)?;
        if ready.cancelled {
            return Ok(Some(End::Cancelled));
        }
        if ready.out && !said.hear_reply(&mut out)? {
            return Ok(Some(End::Flooded));
        }
        if ready.err {
            said.hear_log(&mut err)?;
        }
        if ready.ended && !ready.out && !ready.err {
            return Ok(None);
        }
        if left.is_zero() {
            return Ok(Some(End::OutOfTime));
        }
    }
}

#[derive(Default)]
struct Ready {
    cancelled: bool,
    ended: bool,
    out: bool,
    err: bool,
}

impl Ready {
    fn wait(
        cancelled: &PipeReader,
        ended: &impl AsFd,
        out: &Option<impl AsFd>,
        err: &Option<impl AsFd>,
        left: Duration,
    ) -> io::Result<Self> {
        let mut fds = vec![PollFd::new(cancelled, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        let out_at = out.as_ref().map(|out| {
            fds.push(PollFd::new(out, PollFlags::IN));
            fds.len() - 1
        });
        let err_at = err.as_ref().map(|err| {
            fds.push(PollFd::new(err, PollFlags::IN));
            fds.len() - 1
        });
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        }
        let ready = |at: usize| !fds[at].revents().is_empty();
        Ok(Self {
            cancelled: ready(0),
            ended: ready(1),
            out: out_at.is_some_and(ready),
            err: err_at.is_some_and(ready),
        })
    }
}

/// What a builder said so far, bounded.
struct Said {
    reply: Vec<u8>,
    log: Vec<u8>,
    dropped: usize,
}

impl Said {
    /// Reads a piece of the reply; false when it is longer than any reply.
    fn hear_reply(&mut self, from: &mut Option<impl Read>) -> io::Result<bool> {
        let piece = hear(from)?;
        self.reply.extend_from_slice(&piece);
        Ok(self.reply.len() as u64 <= MAX_REPLY_BYTES)
    }

    fn hear_log(&mut self, from: &mut Option<impl Read>) -> io::Result<()> {
        let piece = hear(from)?;
        let room = MAX_LOG_BYTES - self.log.len();
        self.log.extend_from_slice(&piece[..piece.len().min(room)]);
        self.dropped += piece.len().saturating_sub(room);
        Ok(())
    }

    fn log(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.log).into_owned();
        if self.dropped > 0 {
            text.push_str(&format!("\n({} bytes more are left out)\n", self.dropped));
        }
        text
    }
}

/// Reads what is there; a stream that ended becomes `None`.
fn hear(from: &mut Option<impl Read>) -> io::Result<Vec<u8>> {
    let Some(stream) = from else { return Ok(Vec::new()) };
    let mut piece = vec![0; 16 << 10];
    let n = stream.read(&mut piece)?;
    if n == 0 {
        *from = None;
    }
    piece.truncate(n);
    Ok(piece)
}

/// Ends the builder and whatever it started. It is not waited for yet, so its number is still its own.
fn kill(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.kill();
}

fn natural(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Signalled(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str) -> Program {
        Program { path: "/bin/sh".into(), args: vec!["-c".into(), script.into()] }
    }

    fn watched(script: &str, wall: Duration) -> Ended {
        let (cancelled, _alive) = io::pipe().unwrap();
        watch(start(&program(script), b"job").unwrap(), &cancelled, wall).unwrap()
    }

    #[test]
    fn what_it_says_and_how_it_ends_is_told() {
        let ended = watched("cat; echo log >&2; exit 7", Duration::from_secs(20));
        assert_eq!((ended.end, &*ended.reply, &*ended.log), (End::Exited(7), &b"job"[..], "log\n"));
        assert_eq!(watched("kill -XCPU $$", Duration::from_secs(20)).end, End::Signalled(24));
    }

    #[test]
    fn the_environment_of_the_platform_is_not_its_own() {
        let ended = watched("echo $HOME$CARGO_MANIFEST_DIR", Duration::from_secs(20));
        assert_eq!(ended.reply, b"\n");
    }

    #[test]
    fn one_that_takes_too_long_is_ended_with_all_it_started() {
        let started = Instant::now();
        let ended = watched("sleep 600 & sleep 600", Duration::from_millis(200));
        assert_eq!(ended.end, End::OutOfTime);
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn one_that_floods_is_ended_or_cut() {
        assert_eq!(watched("yes", Duration::from_secs(20)).end, End::Flooded);
        let ended = watched("head -c 1000000 /dev/zero | tr '\\0' x >&2", Duration::from_secs(20));
        assert_eq!(ended.end, End::Exited(0));
        assert!(ended.log.len() < MAX_LOG_BYTES + 100);
        assert!(ended.log.ends_with("(737856 bytes more are left out)\n"), "{}", &ended.log[MAX_LOG_BYTES..]);
    }
}
