//! Builds what is measured as it is shipped, and the peers, and runs `sless-benches`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{engines, guests, sh, workspace};

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
    /// Also requests/s and latencies of every server at 1, 8 and 64 connections.
    #[arg(long)]
    loads: bool,
    /// Also deploys, sizes, cold starts and requests/s of the four runtimes for source.
    #[arg(long)]
    languages: bool,
    /// Functions that are registered for the figures with that word.
    #[arg(long, default_value_t = 10_000)]
    registered: u32,
    /// The build profile; `dev` to try the benchmark itself.
    #[arg(long, default_value = "dist")]
    profile: String,
}

/// Builds and measures.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let cache = workspace::cache()?;
    guests::run(root)?;
    let edited = edited(root, &cache)?;
    peer(root, &cache)?;
    // The host on its own: cargo unifies features over a build, and the host has to be built without a compiler in it.
    for packages in [&["--package", "sless-cli", "--package", "sless-benches"][..], &["--package", "sless-host"]] {
        sh::run(sh::cargo(root).args(["build", "--profile", &args.profile]).args(packages))?;
    }
    let profile = if args.profile == "dev" { "debug" } else { &args.profile };
    if let Some(missing) = engines::missing(root) {
        eprintln!("figures of JavaScript will fail: {missing}");
    } else {
        engines::run(root, profile)?;
    }
    let folder = workspace::target_folder(root)?.join(profile);
    let mut command = sh::command(root, folder.join("sless-benches").to_str().context("a path in UTF-8")?);
    command.args(&args.names).arg("--binaries").arg(&folder);
    command.arg("--component").arg(cache.join("guests/hello.wasm")).arg("--peer").arg(cache.join("peers/bin/wasmtime"));
    command.arg("--similar").arg(cache.join("guests/expenses.wasm")).arg(edited);
    if args.loads {
        command.arg("--loads");
    }
    if args.languages {
        command.arg("--languages");
    }
    command.args(["--rounds", &args.rounds.to_string(), "--seconds", &args.seconds.to_string()]);
    command.args(["--registered", &args.registered.to_string()]);
    for (flag, path) in [("--json", &args.json), ("--plot", &args.plot), ("--markdown", &args.markdown)] {
        if let Some(path) = path {
            command.arg(flag).arg(std::path::absolute(path).context("an output's path")?);
        }
    }
    sh::run(&mut command)
}

/// The example `expenses` after a small edit, built: what a user deploys again is nearly what was deployed before.
fn edited(root: &Path, cache: &Path) -> Result<PathBuf> {
    const BEFORE: &str = "const LARGEST: usize = 5;";
    const AFTER: &str = "const LARGEST: usize = 7;";
    let folder = cache.join("bench/expenses");
    let original = root.join("examples/expenses");
    for name in
        ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "src/lib.rs", "src/sheet.rs", "src/rates.rs", "src/guest.rs"]
    {
        copy(&original.join(name), &folder.join(name), |text| text)?;
    }
    copy(&original.join("src/report.rs"), &folder.join("src/report.rs"), |text| text.replace(BEFORE, AFTER))?;
    if !std::fs::read_to_string(folder.join("src/report.rs"))?.contains(AFTER) {
        bail!("examples/expenses/src/report.rs has no `{BEFORE}` to edit");
    }
    guests::build(root, &folder, &cache.join("bench/target"), &cache.join("bench"))
}

/// Copies a text file, and leaves it alone when it is the same, so that cargo does too.
fn copy(from: &Path, to: &Path, edit: impl FnOnce(String) -> String) -> Result<()> {
    let text = edit(std::fs::read_to_string(from).with_context(|| format!("read {}", from.display()))?);
    if std::fs::read_to_string(to).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    std::fs::write(to, text).with_context(|| format!("write {}", to.display()))
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
