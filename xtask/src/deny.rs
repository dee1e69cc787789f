//! `cargo deny`: licences, bans and sources always; advisories where their database can be had.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{sh, workspace};

/// One version for everyone, so that a new one's opinions come with a commit.
const VERSION: &str = "0.20.2";

/// Runs the checks. Answers why they, or a part of them, were skipped.
pub(crate) fn run(root: &Path) -> Result<Option<String>> {
    let tools = workspace::cache()?.join("tools");
    let binary = tools.join("bin/cargo-deny");
    let deny = || {
        let mut command = Command::new(&binary);
        command.current_dir(root).args(["--log-level", "error", "--all-features"]);
        command
    };
    if !sh::works(Command::new(&binary).arg("--version")) && install(root, &tools).is_err() {
        return Ok(Some(format!("cargo-deny {VERSION} could not be built here")));
    }
    sh::run(deny().args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]))?;
    if !sh::works(deny().args(["fetch", "db"])) {
        return Ok(Some(
            "advisories: their database could not be had; licences, bans and sources are checked".to_owned(),
        ));
    }
    sh::run(deny().args(["check", "--hide-inclusion-graph", "--disable-fetch", "advisories"]))?;
    Ok(None)
}

fn install(root: &Path, tools: &Path) -> Result<()> {
    eprintln!("building cargo-deny {VERSION} once, into {}", tools.display());
    let mut command = sh::command(root, "nice");
    command.args(["-n", "19", "cargo", "install", "--quiet", "--locked", "cargo-deny", "--version", VERSION, "--root"]);
    sh::run(command.arg(tools).env("CARGO_TARGET_DIR", tools.join("target")))
}
