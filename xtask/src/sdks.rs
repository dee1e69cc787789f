//! Tests the libraries for functions, each with its language's own tools. A language that is not there is named.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::ci::Done;
use crate::{sh, workspace};

const FOLDER: &str = "guest-sdks";

/// Runs the tests of all of them.
pub(crate) fn run(root: &Path) -> Result<Done> {
    let folder = root.join(FOLDER);
    let mut missing = Vec::new();
    rust(&folder)?;
    for test in [javascript, python, go, c] {
        missing.extend(test(&folder)?);
    }
    Ok(match missing.is_empty() {
        true => Done::Passed,
        false => Done::PassedBut(format!("skipped: {}", missing.join(", "))),
    })
}

/// Builds the program that makes components of core modules; the templates' tests use it.
pub(crate) fn componentize(root: &Path) -> Result<()> {
    let folder = root.join(FOLDER).join("componentize");
    sh::run(sh::cargo(&folder).args(["build", "--quiet"]).env("CARGO_TARGET_DIR", target("componentize")?))
}

fn target(name: &str) -> Result<std::path::PathBuf> {
    Ok(workspace::cache()?.join(name))
}

fn rust(folder: &Path) -> Result<()> {
    // With lock files of their own, so their dependencies would evict the workspace's from its target folder.
    for (name, target_name) in [("componentize", "componentize"), ("rust", "sdk-target")] {
        let folder = folder.join(name);
        sh::run(sh::cargo(&folder).args(["fmt", "--check"]))?;
        sh::run(sh::cargo(&folder).args(["test", "--quiet"]).env("CARGO_TARGET_DIR", target(target_name)?))?;
    }
    Ok(())
}

type Missing = Vec<&'static str>;

fn javascript(folder: &Path) -> Result<Missing> {
    let folder = folder.join("js");
    if !sh::works(sh::command(&folder, "node").arg("--version")) {
        return Ok(vec!["JavaScript: there is no node"]);
    }
    sh::run(sh::command(&folder, "node").args(["--test", "test/"]))?;
    let types = folder.join("test");
    let compiler = types.join("node_modules/.bin/tsc");
    if !compiler.is_file() && !sh::works(sh::command(&types, "npm").args(["ci", "--silent"])) {
        return Ok(vec!["the types of JavaScript: npm can't install TypeScript"]);
    }
    sh::run(sh::command(&types, "node_modules/.bin/tsc").args(["--project", "."]))?;
    Ok(Vec::new())
}

fn python(folder: &Path) -> Result<Missing> {
    let folder = folder.join("python");
    let python = || {
        let mut command = sh::command(&folder, "python3");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    if !sh::works(python().args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"])) {
        return Ok(vec!["Python: there is no python3 of 3.11 or newer"]);
    }
    sh::run(python().args(["-m", "unittest", "discover", "--quiet", "tests"]))?;
    if !sh::works(python().args(["-m", "mypy", "--version"])) {
        return Ok(vec!["the types of Python: there is no mypy"]);
    }
    sh::run(python().args(["-m", "mypy", "--cache-dir"]).arg(target("mypy")?))?;
    Ok(Vec::new())
}

fn go(folder: &Path) -> Result<Missing> {
    let folder = folder.join("go");
    if !sh::works(sh::command(&folder, "go").arg("version")) {
        return Ok(vec!["Go: there is no go"]);
    }
    sh::run(sh::command(&folder, "go").args(["vet", "."]))?;
    sh::run(sh::command(&folder, "go").args(["test", "."]))?;
    Ok(Vec::new())
}

fn c(folder: &Path) -> Result<Missing> {
    let folder = folder.join("c");
    let built = target("sdk-c")?;
    fs::create_dir_all(&built).with_context(|| format!("make {}", built.display()))?;
    let program = built.join("test");
    let flags = ["-Wall", "-Wextra", "-Werror", "-g", "-fsanitize=address,undefined"];
    sh::run(sh::command(&folder, "cc").args(flags).args(["tests/test.c", "sless.c", "-o"]).arg(&program))?;
    sh::run(&mut Command::new(&program))?;
    Ok(Vec::new())
}
