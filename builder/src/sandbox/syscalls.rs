//! Seccomp: the system calls that compiling takes, and no others.
//!
//! Three filters; the kernel takes the strictest answer. What is not listed fails with `EPERM`, as on a locked-down
//! system, so that a libc that tries something new falls back. `clone3` fails with `ENOSYS`: its flags are in memory,
//! where a filter can't see them, and libc then uses `clone`. What no compile ever does ends the process.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Allowed with any arguments: memory, threads, time, and files that are open.
const ALLOWED: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
    // Answered by the second filter.
    libc::SYS_clone3,
];

/// A compile that calls one of these has been taken over.
const DEADLY: &[i64] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_add_key,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_connect,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_listen,
    libc::SYS_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Installs the filters for all threads there are and will be.
pub(super) fn filter() -> Result<(), String> {
    let programs = programs().map_err(|e| e.to_string())?;
    for program in &programs {
        apply_filter_all_threads(program).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn programs() -> Result<[BpfProgram; 3], seccompiler::BackendError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let make = |rules: Rules, mismatch, hit| BpfProgram::try_from(SeccompFilter::new(rules, mismatch, hit, arch)?);
    let any = |calls: &[i64]| calls.iter().map(|call| (*call, Vec::new())).collect::<Rules>();
    let mut allowed = any(ALLOWED);
    allowed.extend(conditional()?);
    Ok([
        make(any(DEADLY), SeccompAction::Allow, SeccompAction::KillProcess)?,
        make(any(&[libc::SYS_clone3]), SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?,
        // Last, because it does not allow to install another.
        make(allowed, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)?,
    ])
}

/// Allowed with some arguments only.
fn conditional() -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let when = |argument: u8, op: SeccompCmpOp, value: u64| {
        SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Qword, op, value)?])
    };
    let exec = libc::PROT_EXEC as u64;
    let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
    let namespaces = (libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET) as u64;
    Ok(Rules::from([
        // A compiler makes code but runs none of it.
        (libc::SYS_mmap, vec![when(2, MaskedEq(exec), 0)?]),
        (libc::SYS_mprotect, vec![when(2, MaskedEq(exec), 0)?]),
        // Threads, not processes.
        (libc::SYS_clone, vec![when(0, MaskedEq(thread | namespaces), thread)?]),
        // Names of threads, and of memory (glibc's allocator).
        (libc::SYS_prctl, vec![when(0, Eq, libc::PR_SET_NAME as u64)?, when(0, Eq, libc::PR_SET_VMA as u64)?]),
        // Reading limits, not setting them.
        (libc::SYS_prlimit64, vec![when(2, Eq, 0)?]),
        // `abort` signals itself.
        (libc::SYS_tgkill, vec![when(0, Eq, std::process::id().into())?]),
    ]))
}
