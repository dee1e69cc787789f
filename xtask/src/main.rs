//! `cargo xtask`: the one door to the workspace's tasks. It drives cargo and the project's own tools; it links none of
//! the workspace's crates, so that it builds in seconds.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

mod bench;
mod ci;
mod deny;
mod engines;
mod fuzz;
mod generate;
mod guests;
mod sdks;
mod sh;
mod terraform;
mod tidy;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the sless workspace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that a change has to pass, in steps, with a summary.
    Ci {
        /// Only these steps; `--list` names them.
        steps: Vec<String>,
        /// Names the steps and ends.
        #[arg(long)]
        list: bool,
    },
    /// Writes what is made from the code: docs/reference (OpenAPI, the command line's reference, the schema of sless.toml),
    /// and from that, where Go and Terraform are, the Terraform provider's client and documentation.
    Gen {
        /// Writes nothing; fails when a file would change.
        #[arg(long)]
        check: bool,
    },
    /// Checks the architecture's invariants and the house's rules for files.
    Tidy,
    /// Builds the guests in examples/ and tests/guests/ into the cache.
    Guests,
    /// Builds the engines of functions in JavaScript and Python on wasm, into `engines/` beside the programs.
    Engines {
        /// Beside the programs of this profile.
        #[arg(long, default_value = "debug")]
        profile: String,
    },
    /// Runs each fuzz target for a bounded time.
    Fuzz {
        /// Seconds for each target.
        #[arg(long, default_value_t = 30)]
        seconds: u32,
    },
    /// Builds a release of the Terraform provider, laid out for registries and mirrors.
    TerraformRelease {
        /// Such as 1.2.3.
        version: String,
        /// An empty or new folder.
        out: PathBuf,
    },
    /// Measures against peers; see docs/guides/benchmark.md.
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let root = workspace::root();
    let done = match Args::parse().task {
        Task::Ci { list: true, .. } => {
            ci::list();
            Ok(())
        }
        Task::Ci { steps, .. } => ci::run(&root, &steps),
        Task::Gen { check } => generate::run(&root, check).and_then(|()| match terraform::missing(&root) {
            Some(why) => {
                eprintln!("terraform/ is left as it is: {why}");
                Ok(())
            }
            None if check => terraform::generated(&root),
            None => terraform::write(&root),
        }),
        Task::TerraformRelease { version, out } => terraform::release(&root, &version, &out),
        Task::Tidy => tidy::run(&root),
        Task::Guests => guests::run(&root).map(|made: Vec<PathBuf>| {
            made.iter().for_each(|path| println!("{}", path.display()));
        }),
        Task::Engines { profile } => engines::run(&root, &profile).map(|made| {
            made.iter().for_each(|path| println!("{}", path.display()));
        }),
        Task::Fuzz { seconds } => fuzz::run(&root, seconds).map(|done| {
            if let ci::Done::Skipped(why) = done {
                println!("skipped: {why}");
            }
        }),
        Task::Bench(args) => bench::run(&root, &args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
