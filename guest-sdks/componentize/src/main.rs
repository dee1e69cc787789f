//! Wraps a core module, as clang and Go make it for WASI preview 1, into a component of the world `sless:function`.
//!
//! The world and the adapter from preview 1 are inside, so that nothing else has to be at hand.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The world's packages, each after those that it needs.
const PACKAGES: [(&str, &str); 8] = [
    ("io.wit", include_str!("../../wit/deps/io.wit")),
    ("clocks.wit", include_str!("../../wit/deps/clocks.wit")),
    ("random.wit", include_str!("../../wit/deps/random.wit")),
    ("filesystem.wit", include_str!("../../wit/deps/filesystem.wit")),
    ("sockets.wit", include_str!("../../wit/deps/sockets.wit")),
    ("cli.wit", include_str!("../../wit/deps/cli.wit")),
    ("http.wit", include_str!("../../wit/deps/http.wit")),
    ("function.wit", include_str!("../../wit/function.wit")),
];
const WORLD: &str = "function";

/// Make a component of a core module that answers HTTP (`wasi:http/incoming-handler`).
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The core module, made for WASI preview 1 as a reactor (a library, not a command)
    module: PathBuf,
    /// The component to write
    #[arg(long, short)]
    output: PathBuf,
}

fn main() -> Result<()> {
    let Args { module, output } = Args::parse();
    let bytes = fs::read(&module).with_context(|| format!("read {}", module.display()))?;
    let component = componentize(bytes).with_context(|| format!("{} makes no component", module.display()))?;
    fs::write(&output, component).with_context(|| format!("write {}", output.display()))
}

/// The component around a core module; the module's imports decide which interfaces it asks for.
fn componentize(mut module: Vec<u8>) -> Result<Vec<u8>> {
    // Eight bytes: the magic, and a version that is 1 for core modules and has a layer for components.
    if module.get(..8) != Some(b"\0asm\x01\0\0\0") {
        bail!("it is not a core WebAssembly module");
    }
    let mut resolve = Resolve::default();
    let mut package = None;
    for (name, text) in PACKAGES {
        package = Some(resolve.push_source(name, text).with_context(|| format!("read {name}"))?);
    }
    let package = package.expect("there are packages");
    let world = resolve.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_core_module_is_told() {
        for bytes in [&b""[..], b"\0asm", b"\0asm\x0d\0\x01\0", b"text that is long enough"] {
            let error = componentize(bytes.to_vec()).unwrap_err().to_string();
            assert!(error.contains("not a core"), "{error}");
        }
    }

    #[test]
    fn a_module_without_the_handler_is_refused_by_its_name() {
        let error = format!("{:#}", componentize(b"\0asm\x01\0\0\0".to_vec()).unwrap_err());
        assert!(error.contains("incoming-handler"), "{error}");
    }
}
