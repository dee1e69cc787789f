//! What the builder gives up before it reads a tenant's code.
//!
//! Every file it needs is open by then, so no path has to stay reachable: afterwards the process can read, write and
//! compile, and nothing else. Layers overlap on purpose, and each is had where the kernel gives it; what could not be had
//! is reported, never hidden.
//!
//! | layer | takes away |
//! |---|---|
//! | resource limits | more memory, processor time, file size and open files than the job has |
//! | user | root, where the builder was started as root; all capabilities |
//! | network namespace | every network interface |
//! | Landlock | every path, every TCP port, signals to others |
//! | seccomp | sockets, programs, processes, paths, executable memory: all but some 40 system calls |
//!
//! Order matters: limits before the user changes, namespaces while it is root, the parent's death signal after the user
//! changed (which clears it), filters last.

mod files;
mod identity;
mod process;
mod syscalls;

use std::path::Path;

use sless_core::build_protocol::Limits;

pub use process::close_inherited_files;

/// Why the builder does not start its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It would leave other threads outside.
    #[error("enter the sandbox: the process has {0} threads already, and must have one")]
    Threads(usize),
    /// A limit that every Linux has was refused.
    #[error("set the limit of {what}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// Files can't be kept apart.
    #[error("confine the process to a folder, which takes Landlock (Linux 5.13): {0}")]
    Landlock(String),
    /// The process that waits for the answer is gone.
    #[error("the parent process ended")]
    ParentGone,
}

/// Which layers to enter besides the limits. All of them, but for tests that look at one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// User and capabilities.
    pub user: bool,
    /// Network namespace.
    pub network: bool,
    /// Landlock.
    pub files: bool,
    /// Seccomp.
    pub syscalls: bool,
}

impl Layers {
    /// Every layer.
    pub const ALL: Self = Self { user: true, network: true, files: true, syscalls: true };
    /// None but the limits.
    pub const NONE: Self = Self { user: false, network: false, files: false, syscalls: false };
}

/// Enters a sandbox for work with files: one folder can be read and written, some paths can be read and run, and there is no
/// network and no privilege. There is no filter of system calls, as another program is started in it; so it is entered only
/// where Landlock holds.
///
/// # Errors
/// As [`enter`], and where this machine has no Landlock.
pub fn enter_folder(limits: &Limits, parent: Option<u32>, folder: &Path, read: &[&Path]) -> Result<Vec<String>, Error> {
    process::alone()?;
    process::limit(limits)?;
    let mut degraded = Vec::new();
    let mut note = |layer: &str, result: Result<(), String>| {
        if let Err(why) = result {
            degraded.push(format!("{layer}: {why}"));
        }
    };
    note("network namespace", identity::leave_network());
    // Another user could not reach the folder, which is the platform's.
    note("capabilities", identity::drop_capabilities());
    process::die_with(parent)?;
    note("no new privileges", process::no_new_privileges());
    files::close_all_paths_but(folder, read).map_err(Error::Landlock)?;
    Ok(degraded)
}

/// Enters the sandbox; there is no way back. Answers which layers this machine does not have, each with why.
///
/// `parent` is the process whose end ends this one.
///
/// # Errors
/// When limits can't be set, when there are threads already, or when the parent is gone.
pub fn enter(limits: &Limits, parent: Option<u32>, layers: Layers) -> Result<Vec<String>, Error> {
    process::alone()?;
    process::limit(limits)?;
    let mut degraded = Vec::new();
    let mut note = |layer: &str, result: Result<(), String>| {
        if let Err(why) = result {
            degraded.push(format!("{layer}: {why}"));
        }
    };
    if layers.network {
        note("network namespace", identity::leave_network());
    }
    if layers.user {
        note("unprivileged user", identity::drop_privileges());
    }
    process::die_with(parent)?;
    note("no new privileges", process::no_new_privileges());
    if layers.files {
        note("Landlock", files::close_all_paths());
    }
    if layers.syscalls {
        note("seccomp", syscalls::filter());
    }
    Ok(degraded)
}
