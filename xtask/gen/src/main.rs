//! Writes what is made from the code into a folder: the API's OpenAPI document, the command line's reference, the schema
//! of `sless.toml`. `cargo xtask gen` runs it; it is apart from xtask because it links the whole workspace.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).context("name the folder to write into")?);
    let openapi = serde_json::to_string_pretty(&sless_api::openapi()).context("write the OpenAPI document")?;
    for (name, text) in [
        ("openapi.json", openapi),
        ("cli.md", sless_cli::reference()),
        ("sless.toml.schema.json", sless_cli::manifest::schema()),
    ] {
        let path = folder.join(name);
        let text = text.trim_end().to_owned() + "\n";
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
