//! Where things are: the workspace's root, its packages, the caches outside of it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::sh;

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask is a folder of the workspace").to_owned()
}

/// What is built or fetched once and used by every clone: guests, tools, peers.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match variable("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(variable("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache"),
    };
    Ok(base.join("sless"))
}

/// An environment variable that is set and not empty.
#[expect(clippy::disallowed_methods, reason = "a tool for the terminal, not a role")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let folder = metadata(root)?["target_directory"].as_str().map(PathBuf::from);
    folder.context("cargo's metadata has no target folder")
}

fn metadata(root: &Path) -> Result<Value> {
    let text = sh::output(sh::cargo(root).args(["metadata", "--format-version=1", "--no-deps"]))?;
    serde_json::from_str(&text).context("read cargo's metadata")
}

/// A package of the workspace.
pub(crate) struct Package {
    /// Its name, `sless-core`.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What it names in its manifest.
    pub dependencies: Vec<Dependency>,
    /// Its test targets: names of the files in `tests/`.
    pub tests: Vec<String>,
}

/// A direct dependency.
pub(crate) struct Dependency {
    /// The package's name, whatever the manifest renames it to.
    pub name: String,
    /// Whether only tests use it.
    pub dev: bool,
}

/// The packages of the workspace.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    let metadata = metadata(root)?;
    let list = metadata["packages"].as_array().context("cargo's metadata has no packages")?;
    Ok(list.iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_test = |target: &Value| list(&target["kind"]).iter().any(|kind| kind == "test");
    let folder = Path::new(&text(&value["manifest_path"])).parent().map(Path::to_owned).unwrap_or_default();
    Package {
        name: text(&value["name"]),
        folder,
        dependencies: list(&value["dependencies"])
            .iter()
            .map(|dependency| Dependency { name: text(&dependency["name"]), dev: dependency["kind"] == "dev" })
            .collect(),
        tests: list(&value["targets"]).iter().filter(|target| is_test(target)).map(|t| text(&t["name"])).collect(),
    }
}
