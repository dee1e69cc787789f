//! `cargo deny`: licences, bans and sources always; advisories where their database can be had.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::ci::Done;
use crate::{sh, workspace};

/// One version for everyone, so that a new one's opinions come with a commit.
const VERSION: &str = "0.20.2";

/// How long the database of advisories may take; a machine without a way to it may wait for ever.
const FETCH_SECONDS: &str = "120";

/// Runs the checks.
pub(crate) fn run(root: &Path) -> Result<Done> {
    let tools = workspace::cache()?.join("tools");
    let binary = tools.join("bin/cargo-deny");
    if !sh::works(Command::new(&binary).arg("--version")) && install(root, &tools).is_err() {
        return Ok(Done::Skipped(format!("cargo-deny {VERSION} could not be built here")));
    }
    let deny = |words: &[&str]| {
        let mut command = sh::command(root, "timeout");
        command.arg(FETCH_SECONDS).arg(&binary).args(["--log-level", "error", "--all-features"]).args(words);
        command
    };
    sh::run(&mut deny(&["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]))?;
    if !sh::works(&mut deny(&["fetch", "db"])) {
        return Ok(Done::PassedBut("advisories skipped: their database could not be had".to_owned()));
    }
    sh::run(&mut deny(&["check", "--hide-inclusion-graph", "--disable-fetch", "advisories"]))?;
    Ok(Done::Passed)
}

fn install(root: &Path, tools: &Path) -> Result<()> {
    eprintln!("building cargo-deny {VERSION} once, into {}", tools.display());
    let mut command = sh::command(root, "nice");
    command.args(["-n", "19", "cargo", "install", "--quiet", "--locked", "cargo-deny", "--version", VERSION, "--root"]);
    sh::run(command.arg(tools).env("CARGO_TARGET_DIR", tools.join("target")))
}
