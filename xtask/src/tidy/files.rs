//! Rules for all files: no registry's host is written down, and the architecture's page knows every package.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Findings, read};
use crate::workspace::Package;

/// Registries are reached through their clients, set up as each machine has them; a host written down would tie the
/// project to one network. Kept in halves, so that this file does not name them either.
const REGISTRIES: &[(&str, &str)] = &[
    ("crates", "io"),
    ("registry", "npmjs"),
    ("npmjs", "org"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("proxy.golang", "org"),
    ("maven", "org"),
    ("deb.debian", "org"),
    ("static.rust-lang", "org"),
];

/// Checks all files of the project that are text.
pub(super) fn check(root: &Path, packages: &[Package], tracked: &[PathBuf], findings: &mut Findings) -> Result<()> {
    // Lock files are cargo's and npm's own; they name the registry in their own way.
    for path in tracked.iter().filter(|path| !is_lock(path)) {
        let Ok(text) = read(root, path) else { continue };
        for (index, line) in text.lines().enumerate() {
            if let Some((host, domain)) = REGISTRIES.iter().find(|(host, domain)| names(line, host, domain)) {
                findings.add(format!("{}:{}", path.display(), index + 1), format!("names the host {host} . {domain}"));
            }
        }
    }
    let page = read(root, Path::new("docs/architecture.md")).unwrap_or_default();
    for package in packages {
        let folder = package.folder.strip_prefix(root).unwrap_or(&package.folder).display().to_string();
        if !page.contains(&format!("`{folder}/`")) {
            findings.add("docs/architecture.md", format!("does not say what `{folder}/` is for"));
        }
    }
    Ok(())
}

fn is_lock(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    matches!(name, "Cargo.lock" | "package-lock.json" | "go.sum")
}

fn names(line: &str, host: &str, domain: &str) -> bool {
    line.match_indices(host)
        .any(|(at, _)| line[at + host.len()..].strip_prefix('.').is_some_and(|rest| rest.starts_with(domain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_and_a_word_is_not() {
        let (host, domain) = REGISTRIES[0];
        assert!(names(&format!("see https://static.{host}.{domain}/x"), host, domain));
        assert!(!names("published crates are bounded; io is not", host, domain));
    }

    #[test]
    fn lock_files_are_left_to_their_tools() {
        assert!(is_lock(Path::new("examples/hello/Cargo.lock")));
        assert!(!is_lock(Path::new("Cargo.toml")));
    }
}
