//! The Terraform provider, a Go module beside the workspace: its generated parts, its tests, its releases.
//!
//! It needs Go and Terraform. Where they are not, its step is skipped and says so; nothing else needs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::ci::Done;
use crate::{generate, sh, workspace};

/// The oldest that has what the module uses.
const GO: (u32, u32) = (1, 26);
/// The oldest with write-only attributes.
const TERRAFORM: (u32, u32) = (1, 11);
/// A hundred functions on a small machine take minutes.
const TEST_TIMEOUT: &str = "30m";
/// What it is generated from, beside its own files.
const DOCUMENT: &str = "docs/reference/openapi.json";

/// What it lacks here; none where it can be built, tested and generated.
pub(crate) fn missing(root: &Path) -> Option<String> {
    let go = version(sh::output(sh::command(root, "go").arg("version")), "go version go", GO);
    let terraform = version(sh::output(sh::command(root, "terraform").arg("version")), "Terraform v", TERRAFORM);
    match (go, terraform) {
        (false, _) => Some(format!("there is no Go {}.{} or newer", GO.0, GO.1)),
        (_, false) => Some(format!("there is no Terraform {}.{} or newer", TERRAFORM.0, TERRAFORM.1)),
        _ => None,
    }
}

fn version(printed: Result<String>, before: &str, least: (u32, u32)) -> bool {
    let number = |text: Option<&str>| text.and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
    printed.is_ok_and(|text| {
        let mut parts = text.split(before).nth(1).unwrap_or_default().split(|c: char| !c.is_ascii_digit());
        (number(parts.next()), number(parts.next())) >= least
    })
}

/// Everything that a change of it has to pass: form, unit tests, generated parts, acceptance tests with the real Terraform
/// against a `sless dev`.
pub(crate) fn check(root: &Path) -> Result<Done> {
    if let Some(why) = missing(root) {
        return Ok(Done::Skipped(why));
    }
    let unformatted = sh::output(command(root, "gofmt").args(["-l", "."]))?;
    if !unformatted.is_empty() {
        bail!(
            "gofmt would change {}; run `gofmt -w terraform`",
            unformatted.split_whitespace().collect::<Vec<_>>().join(", ")
        );
    }
    sh::run(command(root, "go").args(["vet", "./..."]))?;
    generated(root)?;
    sh::run(sh::cargo(root).args(["build", "--workspace", "--bins"]))?;
    let program = workspace::target_folder(root)?.join("debug/sless");
    let guests = workspace::cache()?.join("guests");
    let mut tests = command(root, "go");
    tests.args(["test", "-count=1", "-timeout", TEST_TIMEOUT, "./..."]).env("TF_ACC", "1");
    sh::run(tests.env("SLESS_PROGRAM", program).env("SLESS_GUESTS", guests))?;
    Ok(Done::Passed)
}

/// Writes its client and its documentation.
pub(crate) fn write(root: &Path) -> Result<()> {
    sh::run(command(root, "go").args(["generate", "./..."]))
}

/// Generates in a copy, and compares: what is checked stays as it is.
pub(crate) fn generated(root: &Path) -> Result<()> {
    let copy = std::env::temp_dir().join(format!("sless-terraform-{}", std::process::id()));
    let list = sh::output(sh::command(root, "git").args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "terraform",
        DOCUMENT,
    ]))?;
    let files: Vec<PathBuf> = list.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    let differing =
        copied(root, &copy, &files).and_then(|()| write(&copy)).and_then(|()| differences(root, &copy, &files));
    fs::remove_dir_all(&copy).with_context(|| format!("remove {}", copy.display()))?;
    let differing = differing?;
    if !differing.is_empty() {
        bail!("not up to date: {}; run `cargo xtask gen` and commit what it writes", differing.join(", "));
    }
    Ok(())
}

fn copied(root: &Path, copy: &Path, files: &[PathBuf]) -> Result<()> {
    for file in files.iter().filter(|file| root.join(file).is_file()) {
        let to = copy.join(file);
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::copy(root.join(file), &to).with_context(|| format!("copy {}", file.display()))?;
    }
    Ok(())
}

fn differences(root: &Path, copy: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut differing: Vec<String> = files
        .iter()
        .filter(|file| fs::read(root.join(file)).ok() != fs::read(copy.join(file)).ok())
        .map(|file| file.display().to_string())
        .collect();
    // A page of something new is there in the copy only.
    for page in generate::files_below(&copy.join("terraform/docs"))? {
        let page = page.strip_prefix(copy).unwrap_or(&page).to_owned();
        if !files.contains(&page) {
            differing.push(page.display().to_string());
        }
    }
    Ok(differing)
}

/// Lays a release out for registries and mirrors.
pub(crate) fn release(root: &Path, version: &str, out: &Path) -> Result<()> {
    let out = std::path::absolute(out).context("the output's path")?;
    sh::run(command(root, "go").args(["run", "./internal/release", "-version", version, "-out"]).arg(out))
}

fn command(root: &Path, program: &str) -> Command {
    sh::command(&root.join("terraform"), program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let go = |text: &str| version(Ok(text.to_owned()), "go version go", (1, 25));
        assert!(
            go("go version go1.26.8 linux/amd64") && go("go version go1.25 linux/arm64") && go("go version go2.0 x")
        );
        assert!(!go("go version go1.9.8 linux/amd64") && !go("") && !go("command not found"));
        assert!(!version(Err(anyhow::anyhow!("no")), "Terraform v", (1, 11)));
        assert!(version(Ok("Terraform v1.11.4\non linux_amd64".to_owned()), "Terraform v", (1, 11)));
    }
}
