//! Arguments of `sless new`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use sless_core::Runtime;

/// Languages that there is a template for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    Js,
    Python,
    Go,
    C,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The folder has the source, a test, sless.toml, and a README that says what its language needs."
)]
pub(crate) struct NewArgs {
    /// The function's name, or the folder to make, which it is named after
    #[arg(value_name = "NAME", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// What it is written in
    #[arg(long, short, value_name = "LANGUAGE", value_enum)]
    pub(crate) lang: Language,
    /// What runs it [default: wasm-js for js, wasm-python for python, else wasm]
    #[arg(long)]
    pub(crate) runtime: Option<Runtime>,
}
