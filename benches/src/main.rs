//! `sless-benches`: measures sless against peers, and says so in a table, JSON, Markdown and a plot.
//!
//! `cargo xtask bench` is the door: it builds what is measured and the peers, and calls this with their paths. What the
//! figures mean is in docs/guides/benchmark.md.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod artifact;
mod bare;
mod figure;
mod figures;
mod languages;
mod load;
mod output;
mod servers;
mod stats;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;

/// The same allocator as in `sless`, so that in-process figures and their peers have what is shipped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures sless against peers.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Figures to measure; all when none is named
    names: Vec<String>,
    /// The folder with `sless` and `sless-host`
    #[arg(long)]
    binaries: PathBuf,
    /// The component that is called
    #[arg(long)]
    component: PathBuf,
    /// A larger component, and the same after a small edit
    #[arg(long, num_args = 2)]
    similar: Vec<PathBuf>,
    /// The program `wasmtime`
    #[arg(long)]
    peer: PathBuf,
    /// How often ours and the peer take turns
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each load
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Functions that are registered for the figures with that word
    #[arg(long, default_value_t = 10_000)]
    registered: usize,
    /// Also requests/s and latencies of every server at 1, 8 and 64 connections
    #[arg(long)]
    loads: bool,
    /// Also deploys, sizes, cold starts and requests/s of the four runtimes for source
    #[arg(long)]
    languages: bool,
    /// Writes the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draws the ratios as SVG
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Writes the table as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
}

fn main() -> ExitCode {
    // A child of ours: the peer that does nothing but HTTP.
    if std::env::args().nth(1).as_deref() == Some(servers::HYPER_WORD) {
        return report(servers::serve_hyper());
    }
    report(run(&Args::parse()))
}

fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let unknown = args.names.iter().find(|name| !figures::ALL.iter().any(|(known, _)| known == name));
    if let Some(unknown) = unknown {
        let known: Vec<_> = figures::ALL.iter().map(|(name, _)| *name).collect();
        bail!("there is no figure `{unknown}`; there are {}", known.join(", "));
    }
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|wanted| wanted == name);
    let mut measured = Vec::new();
    for (name, measure) in figures::ALL.iter().filter(|(name, _)| wanted(name)) {
        eprintln!("measuring {name}");
        measured.push(measure(args, name)?);
    }
    let loads = if args.loads { figures::loads(args)? } else { Vec::new() };
    let languages = if args.languages { languages::rows(args)? } else { Vec::new() };
    output::write(args, &measured, &[output::loads(&loads), output::languages(&languages)])
}
