//! Checks what no compiler does: the architecture's invariants (docs/architecture.md) and the house's rules for files.
//!
//! It finds everything that is wrong, says where and what to do, and then fails.

mod dependencies;
mod files;
mod sources;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{sh, workspace};

/// What is wrong, one line each.
#[derive(Default)]
pub(crate) struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, place: impl Display, what: impl Display) {
        self.0.push(format!("{place}: {what}"));
    }
}

/// Checks everything.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut findings = Findings::default();
    let packages = workspace::packages(root)?;
    dependencies::check(root, &packages, &mut findings)?;
    let tracked = tracked(root)?;
    for package in &packages {
        sources::check(root, package, &tracked, &mut findings)?;
    }
    files::check(root, &packages, &tracked, &mut findings)?;
    if findings.0.is_empty() {
        return Ok(());
    }
    findings.0.iter().for_each(|finding| println!("{finding}"));
    bail!("{} findings", findings.0.len());
}

/// The files that belong to the project, relative to its root: known to git or about to be.
fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let list =
        sh::output(sh::command(root, "git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let paths = list.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(paths.filter(|path| root.join(path).is_file()).collect())
}

fn read(root: &Path, path: &Path) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("read {}", path.display()))
}
