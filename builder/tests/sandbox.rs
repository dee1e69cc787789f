//! Every layer of the sandbox alone, from inside: what it takes away is really gone. Started again as `__probe`, this
//! program enters some layers, tries one thing and says how it went.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Failed, Trial};
use sless_builder::sandbox::{Layers, enter};
use sless_core::build_protocol::Limits;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == "__probe") {
        return probe(&args[2], &args[3], args.get(4).map_or("", String::as_str));
    }
    let missing = run("all", "degraded", "");
    let missing = String::from_utf8_lossy(&missing.stdout).into_owned();
    let has = |layer: &str| !missing.contains(layer);
    let trials = vec![
        Trial::test("without_layers_everything_is_there", everything_is_there),
        Trial::test("memory_is_limited", memory_is_limited),
        Trial::test("processor_time_is_limited", processor_time_is_limited),
        Trial::test("no_core_dumps_and_few_files", no_core_dumps_and_few_files),
        Trial::test("threads_compute_inside", threads_compute_inside),
        Trial::test("a_builder_whose_parent_is_gone_does_not_start", parent_gone),
        Trial::test("a_process_with_threads_is_not_let_in", threads_first),
        // A layer that this machine does not have is shown as ignored, not as passed.
        Trial::test("user_is_not_root", user_is_not_root).with_ignored_flag(!has("unprivileged user")),
        Trial::test("network_is_empty", network_is_empty).with_ignored_flag(!has("network namespace")),
        Trial::test("landlock_closes_all_paths_and_ports", landlock).with_ignored_flag(!has("Landlock")),
        Trial::test("seccomp_kills_what_opens_sockets", sockets_kill).with_ignored_flag(!has("seccomp")),
        Trial::test("seccomp_kills_what_starts_programs", exec_kills).with_ignored_flag(!has("seccomp")),
        Trial::test("seccomp_refuses_processes_paths_and_code", seccomp_refuses).with_ignored_flag(!has("seccomp")),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run(layers: &str, action: &str, detail: &str) -> Output {
    Command::new(std::env::current_exe().unwrap()).args(["__probe", layers, action, detail]).output().unwrap()
}

/// What the probe said; fails where it was killed.
fn said(layers: &str, action: &str, detail: &str) -> Result<String, Failed> {
    let output = run(layers, action, detail);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(format!("{} {text}", output.status).into()) }
}

fn expect(layers: &str, action: &str, detail: &str, what: &str) -> Result<(), Failed> {
    let text = said(layers, action, detail)?;
    if text.contains(what) { Ok(()) } else { Err(format!("{layers} {action}: wanted `{what}`, got `{text}`").into()) }
}

fn expect_signal(layers: &str, action: &str, signal: i32) -> Result<(), Failed> {
    let status = run(layers, action, "").status;
    if status.signal() == Some(signal) { Ok(()) } else { Err(format!("{layers} {action}: {status}").into()) }
}

/// The control: each probe works where nothing forbids it, so the others can fail.
fn everything_is_there() -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    expect("none", "connect", &listener.local_addr()?.to_string(), "done")?;
    expect("none", "read", "/etc/passwd", "done")?;
    let folder = tempfile::tempdir()?;
    expect("none", "write", folder.path().join("new").to_str().unwrap(), "done")?;
    for action in ["listen", "spawn", "exec", "map-code"] {
        expect("none", action, "", "done")?;
    }
    Ok(())
}

fn memory_is_limited() -> Result<(), Failed> {
    expect_signal("all", "memory", libc::SIGABRT)
}

fn processor_time_is_limited() -> Result<(), Failed> {
    expect_signal("all", "spin", libc::SIGXCPU)
}

fn no_core_dumps_and_few_files() -> Result<(), Failed> {
    expect("none", "limits", "", "core 0 files 512")
}

fn threads_compute_inside() -> Result<(), Failed> {
    expect("all", "threads", "", "499999500000")
}

fn parent_gone() -> Result<(), Failed> {
    expect("all", "orphan", "", "the parent process ended")
}

fn threads_first() -> Result<(), Failed> {
    expect("all", "threads-first", "", "2 threads already")
}

fn user_is_not_root() -> Result<(), Failed> {
    let text = said("user", "whoami", "")?;
    if text.contains("uid 0") || !text.contains("capabilities 0") {
        return Err(text.into());
    }
    Ok(())
}

fn network_is_empty() -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    expect("network", "connect", &listener.local_addr()?.to_string(), "refused")
}

fn landlock() -> Result<(), Failed> {
    expect("files", "read", "/etc/passwd", "refused: Permission denied")?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("new");
    expect("files", "write", path.to_str().unwrap(), "refused: Permission denied")?;
    assert!(!path.exists());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    expect("files", "connect", &listener.local_addr()?.to_string(), "refused: Permission denied")
}

fn sockets_kill() -> Result<(), Failed> {
    expect_signal("syscalls", "listen", libc::SIGSYS)
}

fn exec_kills() -> Result<(), Failed> {
    expect_signal("syscalls", "exec", libc::SIGSYS)
}

fn seccomp_refuses() -> Result<(), Failed> {
    expect("syscalls", "read", "/etc/passwd", "refused: Operation not permitted")?;
    expect("syscalls", "spawn", "", "refused: Operation not permitted")?;
    expect("syscalls", "map-code", "", "refused: Operation not permitted")
}

#[allow(clippy::print_stdout, reason = "the probe's answer")]
fn probe(layers: &str, action: &str, detail: &str) -> ExitCode {
    let layers = match layers {
        "all" => Layers::ALL,
        "user" => Layers { user: true, ..Layers::NONE },
        "network" => Layers { network: true, ..Layers::NONE },
        "files" => Layers { files: true, ..Layers::NONE },
        "syscalls" => Layers { syscalls: true, ..Layers::NONE },
        _ => Layers::NONE,
    };
    let limits =
        Limits { memory_bytes: 256 << 20, cpu_seconds: if action == "spin" { 1 } else { 60 }, ..Limits::default() };
    // Process 1 is not this one's parent, or this test would have to be the system's first process.
    let parent = (action == "orphan").then_some(1);
    if action == "threads-first" {
        std::thread::spawn(std::thread::park);
    }
    let degraded = match enter(&limits, parent, layers) {
        Ok(degraded) => degraded,
        Err(error) => {
            println!("{error}");
            return ExitCode::SUCCESS;
        }
    };
    match attempt(action, detail, &degraded) {
        Ok(text) => println!("done {text}"),
        Err(error) => println!("refused: {error}"),
    }
    ExitCode::SUCCESS
}

fn attempt(action: &str, detail: &str, degraded: &[String]) -> std::io::Result<String> {
    Ok(match action {
        "degraded" => degraded.join("; "),
        "listen" => TcpListener::bind("127.0.0.1:0").map(|_| String::new())?,
        "connect" => TcpStream::connect(detail).map(|_| String::new())?,
        "read" => std::fs::read(detail).map(|_| String::new())?,
        "write" => std::fs::write(detail, "x").map(|()| String::new())?,
        "spawn" => Command::new("/bin/true").status().map(|status| status.to_string())?,
        "exec" => return Err(Command::new("/bin/echo").arg("done").exec()),
        "memory" => vec![1u8; 1 << 30].iter().map(|b| u64::from(*b)).sum::<u64>().to_string(),
        "threads" => {
            use rayon::prelude::*;
            rayon::ThreadPoolBuilder::new().num_threads(4).build_global().map_err(std::io::Error::other)?;
            (0..1_000_000u64).into_par_iter().sum::<u64>().to_string()
        }
        "spin" => loop {
            std::hint::spin_loop();
        },
        "limits" => {
            let of = |r| rustix::process::getrlimit(r).current.unwrap_or(u64::MAX);
            format!("core {} files {}", of(rustix::process::Resource::Core), of(rustix::process::Resource::Nofile))
        }
        "whoami" => {
            let held = rustix::thread::capabilities(None)?;
            format!(
                "uid {} capabilities {}",
                rustix::process::getuid().as_raw(),
                (held.effective | held.permitted).bits()
            )
        }
        "map-code" => {
            // SAFETY: a new private mapping, which nothing uses.
            #[expect(unsafe_code, reason = "executable memory can't be asked for safely")]
            let at = unsafe {
                let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
                libc::mmap(std::ptr::null_mut(), 4096, prot, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
            };
            if at == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            String::new()
        }
        other => format!("no such probe: {other}"),
    })
}
