//! What a process has of its own: files, limits, a parent.

use std::io;

use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit,
};
use sless_core::build_protocol::Limits;

use super::Error;

/// Seconds between the signal that can be told apart from others (`SIGXCPU`) and the one that can't be ignored.
const CPU_GRACE_SECONDS: u64 = 5;
/// Files the builder opens: input, output, packs of two caches, and some room.
const MAX_FILES: u64 = 512;

/// Closes every file that was inherited but the three standard ones. To be called before anything is opened: whoever owns
/// a file by then would find it closed.
pub fn close_inherited_files() -> io::Result<()> {
    // SAFETY: no memory is passed. Nothing of this process owns a file yet, as the documentation demands.
    #[expect(unsafe_code, reason = "there is no safe call that closes files of unknown owners")]
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Filters and users are a thread's own: a second thread would stay outside.
pub(super) fn alone() -> Result<(), Error> {
    // Where /proc is not mounted, threads can't be counted; seccomp then covers all of them itself.
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(threads) if threads > 1 => Err(Error::Threads(threads)),
        _ => Ok(()),
    }
}

pub(super) fn limit(limits: &Limits) -> Result<(), Error> {
    let cpu = u64::from(limits.cpu_seconds);
    for (what, resource, soft, hard) in [
        ("processor time", Resource::Cpu, cpu, cpu + CPU_GRACE_SECONDS),
        // Not the address space: that is reserved by the gigabyte without being used.
        ("memory", Resource::Data, limits.memory_bytes, limits.memory_bytes),
        (
            "file size",
            Resource::Fsize,
            limits.artifact_bytes.max(limits.pack_bytes),
            limits.artifact_bytes.max(limits.pack_bytes),
        ),
        ("open files", Resource::Nofile, MAX_FILES, MAX_FILES),
        // A core dump would hold the tenant's code.
        ("core dumps", Resource::Core, 0, 0),
    ] {
        // A limit that is lower already stays: an unprivileged process can't raise it.
        let old = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let new = Rlimit { current: Some(soft.min(old)), maximum: Some(hard.min(old)) };
        setrlimit(resource, new).map_err(|source| Error::Limit { what, source: source.into() })?;
    }
    Ok(())
}

pub(super) fn die_with(parent: Option<u32>) -> Result<(), Error> {
    let Some(parent) = parent else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|source| Error::Limit { what: "life to the parent's", source: source.into() })?;
    // It may have ended before the signal was set.
    if getppid().map(Pid::as_raw_pid) == Some(parent as i32) { Ok(()) } else { Err(Error::ParentGone) }
}

pub(super) fn no_new_privileges() -> Result<(), String> {
    rustix::thread::set_no_new_privs(true).map_err(|e| e.to_string())?;
    // Nobody of the same user may look into its memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| e.to_string())
}
