//! Processes that run functions' code: started by one thread, ended with all that they started.
//!
//! The kernel ends a process together with the thread that started it ([`super::launch`] asks for that). So one thread
//! starts all of them, and lives as long as the platform wants processes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

/// How many starts may wait for the thread; each takes a millisecond.
const MAX_WAITING: usize = 256;
/// A thread that waits for a process needs no more.
const WAITER_STACK_BYTES: usize = 64 << 10;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

type Request = (Command, oneshot::Sender<io::Result<Child>>);

/// Starts processes.
#[derive(Clone)]
pub(super) struct Spawner(SyncSender<Request>);

impl Spawner {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, requests) = sync_channel::<Request>(MAX_WAITING);
        std::thread::Builder::new().name("workloads".to_owned()).spawn(move || {
            for (mut command, answer) in requests {
                let _ = answer.send(command.spawn());
            }
        })?;
        Ok(Self(sender))
    }

    /// Starts a process in a group of its own, its output in pipes. Dropping what comes back kills it.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<(Process, Output)> {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (answer, answered) = oneshot::channel();
        self.0.try_send((command, answer)).map_err(|_| io::Error::other("too many processes are being started"))?;
        let mut child = answered.await.map_err(io::Error::other)??;
        let pipes = (child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from));
        let process = Process::watch(child)?;
        let (Some(out), Some(err)) = pipes else { return Err(io::Error::other("its output has no pipe")) };
        let output = Output { out: pipe::Receiver::from_owned_fd(out)?, err: pipe::Receiver::from_owned_fd(err)? };
        Ok((process, output))
    }
}

/// What a process prints.
pub(super) struct Output {
    pub(super) out: pipe::Receiver,
    pub(super) err: pipe::Receiver,
}

/// A process and its group. Killed when dropped.
pub(super) struct Process {
    /// None once it is reaped: its number may be another's then.
    pid: Arc<Mutex<Option<Pid>>>,
    ended: watch::Receiver<Option<End>>,
}

impl Process {
    fn watch(mut child: Child) -> io::Result<Self> {
        let number = Pid::from_child(&child);
        let pid = Arc::new(Mutex::new(Some(number)));
        let (tell, ended) = watch::channel(None);
        let process = Self { pid: pid.clone(), ended };
        std::thread::Builder::new().name("workload".to_owned()).stack_size(WAITER_STACK_BYTES).spawn(move || {
            // Left unreaped until its group is gone, so that the number is nobody else's.
            while let Err(rustix::io::Errno::INTR) =
                waitid(WaitId::Pid(number), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            {}
            let mut pid = pid.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = kill_process_group(number, Signal::KILL);
            *pid = None;
            let status = child.wait();
            drop(pid);
            let end = status.map_or(End::Signalled(0), |status| match (status.code(), status.signal()) {
                (Some(code), _) => End::Exited(code),
                (None, signal) => End::Signalled(signal.unwrap_or_default()),
            });
            let _ = tell.send(Some(end));
        })?;
        Ok(process)
    }

    /// Signals the process and all that it started.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = *self.pid.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Its number, while it is there.
    pub(super) fn pid(&self) -> Option<Pid> {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it ended, if it did.
    pub(super) fn end(&self) -> Option<End> {
        *self.ended.borrow()
    }

    /// Returns when it has ended.
    pub(super) async fn wait(&self) -> End {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(End::Signalled(0)),
            // Its waiter is gone, which takes a panic.
            Err(_) => End::Signalled(0),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
