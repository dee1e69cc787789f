//! Rules for Rust files: a head that says what a module is for, a bounded length, one parent a folder, and invariant 3.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Findings, read};
use crate::workspace::Package;

/// A file of more lines, without the tests at its end, holds more than one thing.
const MAX_LINES: usize = 400;

/// Files that are longer, and why that is better than splitting them.
const LONGER: &[(&str, &str)] = &[];

/// Reading the environment, in code. Compile-time `env!` is another thing.
const READS_ENVIRONMENT: &[&str] = &["env::var", "env::vars", "env = \"SLESS_"];

/// Packages whose every file may read the environment. xtask, benches and tests are tools, not roles.
const MAY_READ_ENVIRONMENT: &[&str] =
    &["sless-server", "sless-cli", "xtask", "sless-gen", "sless-benches", "sless-tests"];
/// Packages of which only `main.rs` may.
const MAIN_MAY_READ_ENVIRONMENT: &[&str] = &["sless-host", "sless-builder"];

/// Checks the Rust files of a package.
pub(super) fn check(root: &Path, package: &Package, tracked: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let folder = package.folder.strip_prefix(root).unwrap_or(&package.folder);
    let source = folder.join("src");
    for path in tracked.iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        // Unit tests in a file of their own: their parent says what they are of.
        if path.file_name().is_some_and(|name| name == "tests.rs")
            || path.components().any(|part| part.as_os_str() == "tests") && path.starts_with(&source)
        {
            continue;
        }
        if path.starts_with(&source) {
            let text = read(root, path)?;
            head(path, &text, findings);
            length(path, &text, findings);
            environment(package, path, &text, findings);
            parent(&source, path, tracked, findings);
        } else if path.starts_with(folder.join("tests")) && !path.starts_with(folder.join("tests/guests")) {
            head(path, &read(root, path)?, findings);
        }
    }
    Ok(())
}

fn head(path: &Path, text: &str, findings: &mut Findings) {
    if !text.starts_with("//! ") {
        findings.add(path.display(), "does not begin with `//!`: say what it does, and what it does not");
    }
}

fn length(path: &Path, text: &str, findings: &mut Findings) {
    let lines = before_tests(text).lines().count();
    if lines > MAX_LINES && !LONGER.iter().any(|(longer, _reason)| path == Path::new(longer)) {
        findings.add(path.display(), format!("{lines} lines without its tests; split it at {MAX_LINES}"));
    }
}

/// A file up to the module of unit tests at its end.
fn before_tests(text: &str) -> &str {
    match text.find("\n#[cfg(test)]\nmod ") {
        Some(end) => &text[..end],
        None => text,
    }
}

fn environment(package: &Package, path: &Path, text: &str, findings: &mut Findings) {
    let name = package.name.as_str();
    let is_main = path.ends_with("src/main.rs") && MAIN_MAY_READ_ENVIRONMENT.contains(&name);
    if MAY_READ_ENVIRONMENT.contains(&name) || is_main {
        return;
    }
    for (index, line) in before_tests(text).lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if READS_ENVIRONMENT.iter().any(|reads| code.contains(reads)) {
            findings.add(
                format!("{}:{}", path.display(), index + 1),
                "reads the environment; only server, cli and the main.rs of host and builder do (invariant 3)",
            );
        }
    }
}

/// A folder of modules is described by the file beside it.
fn parent(source: &Path, path: &Path, tracked: &[PathBuf], findings: &mut Findings) {
    if path.file_name().is_some_and(|name| name == "mod.rs") {
        findings.add(path.display(), "a module's file stands beside its folder: `foo.rs` and `foo/`");
    }
    let folder = path.parent().unwrap_or(source);
    if folder != source && !folder.ends_with("bin") && !tracked.contains(&folder.with_extension("rs")) {
        findings.add(path.display(), format!("no {} describes its folder", folder.with_extension("rs").display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str) -> Package {
        Package { name: name.to_owned(), folder: PathBuf::from("/w/api"), dependencies: vec![], tests: vec![] }
    }

    #[test]
    fn reading_the_environment_is_found_outside_of_tests_and_comments() {
        let code = "fn f() {\n    let _ = std::env::var(\"X\"); // env::var\n}\n// env::var\n#[cfg(test)]\nmod tests { fn g() { env::var(\"Y\"); } }\n";
        let mut findings = Findings::default();
        environment(&package("sless-api"), Path::new("api/src/lib.rs"), code, &mut findings);
        assert_eq!(findings.0.len(), 1, "{:?}", findings.0);
        assert!(findings.0[0].starts_with("api/src/lib.rs:2: "));

        let mut none = Findings::default();
        environment(&package("sless-server"), Path::new("server/src/lib.rs"), code, &mut none);
        environment(&package("sless-host"), Path::new("host/src/main.rs"), code, &mut none);
        assert!(none.0.is_empty());
    }

    #[test]
    fn length_does_not_count_the_tests_at_the_end() {
        let mut findings = Findings::default();
        let code = "//! x\n".repeat(MAX_LINES);
        length(Path::new("a.rs"), &(code.clone() + "\n#[cfg(test)]\nmod tests {\n" + &"\n".repeat(300)), &mut findings);
        assert!(findings.0.is_empty(), "{:?}", findings.0);
        length(Path::new("a.rs"), &(code + "//\n"), &mut findings);
        assert_eq!(findings.0.len(), 1);
    }

    #[test]
    fn a_folder_needs_the_file_beside_it() {
        let tracked = [PathBuf::from("a/src/x.rs"), PathBuf::from("a/src/x/y.rs"), PathBuf::from("a/src/z/y.rs")];
        let mut findings = Findings::default();
        for path in &tracked {
            parent(Path::new("a/src"), path, &tracked, &mut findings);
        }
        assert_eq!(findings.0, ["a/src/z/y.rs: no a/src/z.rs describes its folder"]);
    }
}
