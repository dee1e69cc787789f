//! `sless`, the command line: develop, deploy, call and look after functions.
//!
//! Results go to standard output and everything else to standard error, so that output can be piped; `--output json`
//! makes both machine-readable. Exit codes are in [`failure::Exit`] and in `sless --help`.

mod args;
mod bench;
mod commands;
mod connection;
mod deploy;
mod failure;
mod folder;
pub mod manifest;
mod output;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command};
use connection::Settings;
use failure::{Exit, Failure};
use output::{Format, Output};

/// The hidden first argument that makes this program a builder.
const BUILDER_COMMAND: &str = "__builder";
/// The hidden first argument that makes this program the start of a function's process.
const LAUNCHER_COMMAND: &str = "__launch";

/// The whole program: reads the arguments, runs the command, prints its failure.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os();
    match args.nth(1) {
        // One build of a `sless dev`: a process of its own, before any runtime, thread or open file is there.
        Some(arg) if arg == BUILDER_COMMAND => return sless_builder::run_child(args),
        Some(arg) if arg == LAUNCHER_COMMAND => return sless_server::dev::launch(args),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" of clap's that go to standard output.
            let code = if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
            let _ = error.print();
            return code;
        }
    };
    let settings = Settings::load(cli.global);
    let format = settings.as_ref().map_or(Format::Table, |settings| settings.output);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Failure::new(Exit::Failure, format!("start the runtime: {error}")).report(format);
        }
    };
    let result = settings.and_then(|settings| runtime.block_on(run(cli.command, settings)));
    // A task that waits for standard input must not hold the program back.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(format),
    }
}

async fn run(command: Command, settings: Settings) -> Result<ExitCode, Failure> {
    let mut out = Output::new(settings.output);
    match command {
        Command::New(args) => commands::new::run(args, &mut out)?,
        Command::Dev(args) => commands::dev::run(args, &settings).await?,
        Command::Deploy(args) => deploy::run(*args, &settings.client()?, &mut out).await?,
        Command::Functions(command) => commands::functions::run(command, &settings.client()?, &mut out).await?,
        Command::Versions(args) => commands::versions::list(args, &settings.client()?, &mut out).await?,
        Command::Rollback(args) => commands::versions::rollback(args, &settings.client()?, &mut out).await?,
        Command::Invoke(args) => commands::invoke::run(args, &settings.client()?, &mut out).await?,
        Command::Logs(args) => commands::logs::run(args, &settings.client()?, &mut out).await?,
        Command::BuildLog(args) => commands::logs::build_log(args, &settings.client()?, &mut out).await?,
        Command::Invocations(args) => commands::invocations::run(args, &settings.client()?, &mut out).await?,
        Command::Secrets(command) => commands::secrets::run(command, &settings.client()?, &mut out).await?,
        Command::Triggers(command) => commands::triggers::run(command, &settings.client()?, &mut out).await?,
        Command::Token(args) => commands::token::run(args, &settings, &mut out)?,
        Command::Bench(args) => bench::run(args, &settings, &mut out).await?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "sless", &mut script);
            out.bytes(&script)?;
        }
        Command::Openapi => out.text(&settings.client()?.openapi().await?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The reference of all commands as Markdown, for `docs/`.
pub fn reference() -> String {
    output::reference(Cli::command())
}
