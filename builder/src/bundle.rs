//! Several JavaScript files become one, by esbuild.
//!
//! esbuild is a program that reads paths which a stranger's files name, so it is confined to the folder of these files, and
//! a process of its own unpacks them there: both without network and privileges, and neither where Landlock is missing.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use sless_core::build_protocol::{BUNDLE_FILE, Reply};

use crate::js;
use crate::source::Context;

/// The most bytes of what esbuild says that are read.
const MAX_SAID_BYTES: u64 = 64 << 10;
/// The most errors that are told.
const MAX_ERRORS: usize = 5;

/// Writes the user's files of a context into a folder.
pub(crate) fn unpack(input: impl io::Read, folder: &Path) -> Result<Reply, Reply> {
    let context = Context::read(io::BufReader::new(input)).map_err(|error| crate::child::source::refused(&error))?;
    for (path, bytes) in context.function.iter() {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| failed(format!("unpack {}: {error}", path.display())))?;
    }
    Ok(Reply::Done {})
}

/// Bundles what is in a folder.
pub(crate) fn bundle(bundler: &Path, folder: &Path, entrypoint: &str) -> Result<Reply, Reply> {
    let exists = |name: &str| folder.join(name).is_file();
    let (entry, _) = js::entry(exists, entrypoint).map_err(|reason| Reply::Rejected { reason })?;
    let external = js::NODE_MODULES.iter().map(|name| format!("--external:{name}"));
    let mut child = Command::new(bundler)
        .arg(format!("./{entry}"))
        .args(["--bundle", "--format=esm", "--platform=neutral", "--main-fields=module,main", "--target=es2023"])
        .args(["--sourcemap=external", "--sources-content=false", "--charset=utf8"])
        .args(["--log-level=error", "--log-limit=10", "--color=false"])
        // Packages look at it; it would make them depend on each instance's environment.
        .arg("--define:process.env.NODE_ENV=\"production\"")
        .arg("--external:node:*")
        .args(external)
        .arg(format!("--outfile={BUNDLE_FILE}"))
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("start the bundler {}: {error}", bundler.display())))?;
    let mut said = Vec::new();
    if let Some(err) = child.stderr.take() {
        err.take(MAX_SAID_BYTES)
            .read_to_end(&mut said)
            .map_err(|error| failed(format!("hear the bundler: {error}")))?;
    }
    let status = child.wait().map_err(|error| failed(format!("wait for the bundler: {error}")))?;
    if status.success() {
        return Ok(Reply::Done {});
    }
    let said = String::from_utf8_lossy(&said);
    match errors(&said) {
        reasons if reasons.is_empty() => Err(failed(format!("the bundler ended with {status}: {said}"))),
        reasons => Err(Reply::Rejected { reason: reasons.join("; ") }),
    }
}

fn failed(reason: String) -> Reply {
    Reply::Failed { reason }
}

/// What esbuild says of each error, `file:line: what; remedy`.
fn errors(said: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        let Some((_, what)) = line.split_once("[ERROR] ") else { continue };
        if errors.len() == MAX_ERRORS {
            break;
        }
        let place = lines.clone().map(str::trim).find(|line| !line.is_empty()).and_then(|line| {
            let mut parts = line.trim_end_matches(':').rsplitn(3, ':');
            let (_, line, file) = (parts.next()?, parts.next()?, parts.next()?);
            line.parse::<u32>().ok().map(|line| format!("{file}:{line}: "))
        });
        let remedy = match what.strip_prefix("Could not resolve \"") {
            Some(name) if name.starts_with('.') => "; add that file",
            Some(name) if name.starts_with('/') => "; import files of the function by relative paths",
            Some(_) => "; add the package to the dependencies in package.json, with its package-lock.json",
            None => "",
        };
        errors.push(format!("{}{what}{remedy}", place.unwrap_or_default()));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_esbuild_says_becomes_file_line_and_remedy() {
        let said = "✘ [ERROR] Could not resolve \"./lib/no\"\n\n    handler.js:1:16:\n      1 │ import { a } from './lib/no';\n        ╵                 ~~~~~~~~~~\n\n\
                    ✘ [ERROR] Could not resolve \"left-pad\"\n\n    src/b.js:7:20:\n      7 │ x\n\n  You can mark…\n\n\
                    ✘ [ERROR] Expected \";\" but found \"}\"\n\n    c.js:3:1:\n      3 │ x\n";
        assert_eq!(
            errors(said),
            [
                "handler.js:1: Could not resolve \"./lib/no\"; add that file",
                "src/b.js:7: Could not resolve \"left-pad\"; add the package to the dependencies in package.json, with its package-lock.json",
                "c.js:3: Expected \";\" but found \"}\"",
            ]
        );
        assert!(errors("panic: out of memory").is_empty());
    }
}
