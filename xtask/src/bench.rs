//! Builds what is measured as it is shipped, and the peers, and runs `sless-benches`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{guests, sh, workspace};

/// The peer has the host's own version, built outside of the workspace so that its features don't leak in.
const PEER_VERSION: &str = "48.0.8";
const PEER_FEATURES: &str = "serve,run,cranelift,pooling-allocator,parallel-compilation,component-model-async";

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Figures to measure; all when none is named.
    names: Vec<String>,
    /// Writes the figures as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draws the ratios as SVG.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Writes the table as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// How often ours and the peer take turns; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=101))]
    rounds: u32,
    /// Seconds that each load takes.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// The build profile; `dev` to try the benchmark itself.
    #[arg(long, default_value = "dist")]
    profile: String,
}

/// Builds and measures.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let cache = workspace::cache()?;
    guests::run(root)?;
    peer(root, &cache)?;
    // Each on its own: cargo unifies features over a build, and the host has to be built without a compiler in it.
    for package in ["sless-host", "sless-cli", "sless-benches"] {
        sh::run(sh::cargo(root).args(["build", "--profile", &args.profile, "--package", package]))?;
    }
    let folder = target_folder(root)?.join(if args.profile == "dev" { "debug" } else { &args.profile });
    let mut command = sh::command(root, folder.join("sless-benches").to_str().context("a path in UTF-8")?);
    command.args(&args.names).arg("--binaries").arg(&folder);
    command.arg("--component").arg(cache.join("guests/hello.wasm")).arg("--peer").arg(cache.join("peers/bin/wasmtime"));
    command.args(["--rounds", &args.rounds.to_string(), "--seconds", &args.seconds.to_string()]);
    for (flag, path) in [("--json", &args.json), ("--plot", &args.plot), ("--markdown", &args.markdown)] {
        if let Some(path) = path {
            command.arg(flag).arg(std::path::absolute(path).context("an output's path")?);
        }
    }
    sh::run(&mut command)
}

fn peer(root: &Path, cache: &Path) -> Result<()> {
    let peers = cache.join("peers");
    if sh::works(std::process::Command::new(peers.join("bin/wasmtime")).arg("--version")) {
        return Ok(());
    }
    let mut command = sh::cargo(root);
    command.args(["install", "--locked", "wasmtime-cli", "--version", PEER_VERSION, "--no-default-features"]);
    command.args(["--features", PEER_FEATURES, "--root"]).arg(&peers);
    sh::run(command.env("CARGO_TARGET_DIR", peers.join("target")))
}

fn target_folder(root: &Path) -> Result<PathBuf> {
    let text = sh::output(sh::cargo(root).args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("read cargo's metadata")?;
    Ok(PathBuf::from(metadata["target_directory"].as_str().context("cargo's metadata has no target folder")?))
}
