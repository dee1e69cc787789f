//! Runs the fuzz targets in fuzz/, each for a bounded time, where the tool and a nightly compiler are.

use std::path::Path;

use anyhow::{Result, bail};

use crate::ci::Done;
use crate::{sh, workspace};

const VERSION: &str = "0.13.2";

/// Runs them.
pub(crate) fn run(root: &Path, seconds: u32) -> Result<Done> {
    if !root.join("fuzz/Cargo.toml").is_file() {
        return Ok(Done::Skipped("there is no fuzz target yet".to_owned()));
    }
    if !sh::works(sh::command(root, "cargo").args(["+nightly", "--version"])) {
        return Ok(Done::Skipped("there is no nightly compiler; libFuzzer needs one".to_owned()));
    }
    let cache = workspace::cache()?;
    let tools = cache.join("tools");
    let binary = tools.join("bin/cargo-fuzz");
    if !binary.is_file() {
        let mut install = sh::command(root, "cargo");
        install.args(["install", "--quiet", "--locked", "cargo-fuzz", "--version", VERSION, "--root"]).arg(&tools);
        if sh::run(install.env("CARGO_TARGET_DIR", tools.join("target"))).is_err() {
            return Ok(Done::Skipped(format!("cargo-fuzz {VERSION} could not be built here")));
        }
    }
    // Another compiler, so another target folder; found inputs stay in the cache and are tried first the next time.
    let fuzz = |words: &[&str]| {
        let mut command = sh::command(root, "cargo");
        let path = format!("{}:{}", tools.join("bin").display(), workspace::variable("PATH").unwrap_or_default());
        command.args(["+nightly", "fuzz"]).args(words).env("PATH", path);
        command.env("CARGO_TARGET_DIR", cache.join("fuzz-target")).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
        command
    };
    let listed = sh::output(&mut fuzz(&["list"]))?;
    let targets: Vec<_> = listed.split_whitespace().collect();
    if targets.is_empty() {
        bail!("fuzz/ names no target");
    }
    for target in targets {
        let corpus = cache.join("fuzz-corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        // Safe Rust needs no address sanitizer, and without one it tries several times as many inputs.
        let mut command = fuzz(&["run", "--sanitizer", "none", target]);
        command.arg(&corpus);
        let seeds = root.join("fuzz/seeds").join(target);
        if seeds.is_dir() {
            command.arg(seeds);
        }
        command.args(["--", &format!("-max_total_time={seconds}"), "-rss_limit_mb=2048", "-timeout=10"]);
        sh::run(&mut command)?;
    }
    Ok(Done::Passed)
}
