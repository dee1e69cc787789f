//! `sless-builder [JOB.json]`: does one job and exits. Without a file the job is read from standard input.

use std::process::ExitCode;

fn main() -> ExitCode {
    sless_builder::run_child(std::env::args_os().skip(1))
}
