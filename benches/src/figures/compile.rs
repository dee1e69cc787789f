//! How much faster a component compiles after a similar one: most functions of a new version are those of the old.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use sless_builder::cache::{PackFile, PackWriter, Packs};

use crate::Args;
use crate::figure::{Bar, Figure};
use crate::stats::{time, turns};

/// Far more than the functions of one component take.
const PACK_BYTES: u64 = 256 << 20;

/// The first compile with an empty cache against the second with what the first left.
pub(super) fn second(args: &Args, name: &'static str) -> Result<Figure> {
    let [first, second] = &args.similar[..] else { anyhow::bail!("--similar names the two components") };
    let (first, second) = (read(first)?, read(second)?);
    ensure!(first != second, "the two components are the same");
    let warm = tempfile::tempdir().context("make a folder")?;
    // Cold: nothing to look up. What it compiles is kept, as in a build.
    compile(&first, None, Some(warm.path()))?;
    let cold = || {
        let folder = tempfile::tempdir().context("make a folder")?;
        compile(&first, None, Some(folder.path()))
    };
    let again = || {
        let folder = tempfile::tempdir().context("make a folder")?;
        compile(&second, Some(warm.path()), Some(folder.path()))
    };
    let (second_ms, first_ms) = turns(args.rounds, again, cold)?;
    eprintln!("the first compile takes {first_ms:.0} ms, the second {second_ms:.0} ms");
    let figure = Figure::ratio(name, "times as fast", first_ms / second_ms, "the first compile", 1.0);
    Ok(figure.bar(Bar::RatioAtLeast(5.0)))
}

/// Milliseconds of one compile that looks into the packs of `cache` and leaves a pack in `output`.
fn compile(wasm: &[u8], cache: Option<&Path>, output: Option<&Path>) -> Result<f64> {
    let engine = sless_builder::engine();
    let (took, compiled) = time(|| {
        let files = cache.map(|folder| PackFile::find(&[folder.to_owned()])).unwrap_or_default();
        let writer = output.map(|folder| {
            let path = folder.join(format!("new.{}", sless_core::build_protocol::PACK_EXTENSION));
            let file = File::options().read(true).write(true).create_new(true).open(path)?;
            Ok::<_, anyhow::Error>(PackWriter::new(file, &engine, PACK_BYTES)?)
        });
        let packs = Packs::new(files, writer.transpose()?, &engine);
        Ok::<_, anyhow::Error>(sless_builder::compile(wasm, &packs)?)
    });
    compiled?;
    Ok(took.as_secs_f64() * 1e3)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}
