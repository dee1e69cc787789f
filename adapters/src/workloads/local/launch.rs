//! The first steps of a process that runs a function's code: limits that must hold before any of it runs.
//!
//! The platform's program starts itself under this name, sets what only a process can set for itself, and becomes the
//! program that was asked for. So no step is between a fork and an exec, where hardly anything is allowed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};

/// What is answered where the program could not be started, as shells do.
const EXIT_NOT_STARTED: u8 = 127;

/// What the process may use, as arguments of the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Private memory that can be written (`RLIMIT_DATA`), in bytes.
    pub(super) memory_bytes: u64,
    /// The size of a file that it writes, in bytes.
    pub(super) file_bytes: u64,
}

impl Limits {
    /// The launcher's arguments before the program and its own.
    pub(super) fn args(self) -> [OsString; 3] {
        [self.memory_bytes.to_string(), self.file_bytes.to_string(), std::process::id().to_string()].map(OsString::from)
    }
}

/// Becomes the program that the arguments name: memory and file limits in bytes, the parent's process id, the program,
/// its arguments. To be called first in `main`. Comes back only if that failed.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let error = match prepare(&mut args) {
        Ok(program) => Command::new(program).args(args).exec(),
        Err(error) => error,
    };
    // Nobody but the platform reads it.
    let mut stderr = io::stderr().lock();
    let _ = io::Write::write_fmt(&mut stderr, format_args!("start the function's process: {error}\n"));
    ExitCode::from(EXIT_NOT_STARTED)
}

fn prepare(args: &mut impl Iterator<Item = OsString>) -> io::Result<OsString> {
    let mut number = || {
        let text = args.next().unwrap_or_default();
        text.to_str()
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or_else(|| io::Error::other("its limits are missing"))
    };
    let (memory, file, parent) = (number()?, number()?, number()?);
    // It ends with the platform's process, also where that is killed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(Pid::as_raw_pid) != Some(parent as i32) {
        return Err(io::Error::other("the platform's process is gone"));
    }
    let both = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(Resource::Data, both(memory))?;
    setrlimit(Resource::Fsize, both(file))?;
    setrlimit(Resource::Core, both(0))?;
    rustix::thread::set_no_new_privs(true)?;
    args.next().filter(|program| program != OsStr::new("")).ok_or_else(|| io::Error::other("no program is named"))
}
