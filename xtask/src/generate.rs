//! Writes what is made from the code into docs/, or checks that it is there already.
//!
//! The generator itself is the package `sless-gen`, since it links the workspace and this crate does not.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{sh, workspace};

/// Runs the generator; with `check`, into a folder of its own that is then compared.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let docs = root.join("docs/reference");
    if !check {
        return generate(root, &docs);
    }
    let fresh = std::env::temp_dir().join(format!("sless-gen-{}", std::process::id()));
    let differing = generate(root, &fresh).and_then(|()| differences(&fresh, &docs));
    fs::remove_dir_all(&fresh).with_context(|| format!("remove {}", fresh.display()))?;
    let differing = differing?;
    if !differing.is_empty() {
        bail!("not up to date: {}; run `cargo xtask gen` and commit what it writes", differing.join(", "));
    }
    Ok(())
}

fn generate(root: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("make {}", into.display()))?;
    // Of the whole workspace, so that it shares what the tests have built.
    sh::run(sh::cargo(root).args(["build", "--quiet", "--workspace", "--bin", "sless-gen"]))?;
    let generator = workspace::target_folder(root)?.join("debug/sless-gen");
    sh::run(std::process::Command::new(generator).arg(into))
}

/// Names of files that are not the same on both sides.
fn differences(fresh: &Path, docs: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = [fresh, docs].into_iter().flat_map(names).collect();
    names.sort();
    names.dedup();
    names.retain(|name| match (fs::read(fresh.join(name)), fs::read(docs.join(name))) {
        (Ok(fresh), Ok(docs)) => fresh != docs,
        _ => true,
    });
    Ok(names)
}

/// All files below a folder; none where it is not there.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| PathBuf::from(entry.file_name()).display().to_string()).collect()
}
