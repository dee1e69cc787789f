//! Builds the guests: every package in examples/ and tests/guests/ that makes a component.
//!
//! Guests have another target and may have another compiler, so they have a target folder of their own in the cache.
//! Whether anything has to be built again is for cargo to say.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{sh, workspace};

const TARGET: &str = "wasm32-wasip2";

/// Builds all of them; gives the components' paths, `<cache>/guests/<name>.wasm`.
pub(crate) fn run(root: &Path) -> Result<Vec<PathBuf>> {
    let cache = workspace::cache()?;
    let components = cache.join("guests");
    fs::create_dir_all(&components).with_context(|| format!("make {}", components.display()))?;
    sh::run(sh::command(root, "tools/wasm-rust.sh").arg("setup"))?;
    let mut made = Vec::new();
    for folder in folders(root)? {
        made.push(build(root, &folder, &cache.join("guest-target"), &components)?);
    }
    Ok(made)
}

/// The folders of guests, in order of name.
pub(crate) fn folders(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for parent in ["examples", "tests/guests"] {
        let parent = root.join(parent);
        if !parent.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&parent).with_context(|| format!("list {}", parent.display()))? {
            let folder = entry?.path();
            let manifest = folder.join("Cargo.toml");
            if manifest.is_file() && fs::read_to_string(&manifest)?.contains("\"cdylib\"") {
                folders.push(folder);
            }
        }
    }
    folders.sort();
    Ok(folders)
}

/// Builds one into `components`.
pub(crate) fn build(root: &Path, folder: &Path, target: &Path, components: &Path) -> Result<PathBuf> {
    // The script's words set the compiler; without effect where rustup has the target.
    let script = format!(
        "eval \"$('{}' env)\"; exec cargo build --quiet --release --target {TARGET}",
        root.join("tools/wasm-rust.sh").display()
    );
    let name = folder.file_name().and_then(|name| name.to_str()).context("a guest's folder has a name in UTF-8")?;
    eprintln!("guest {name}");
    // In the guest's own folder, since its `.cargo/config.toml` counts. `CARGO` is this process's cargo.
    let mut command = sh::command(folder, "bash");
    command.args(["-euo", "pipefail", "-c", &script]).env("CARGO_TARGET_DIR", target).env_remove("CARGO");
    if !command.status().context("start bash")?.success() {
        bail!("guest {name} does not build");
    }
    let built = target.join(TARGET).join("release").join(format!("{}.wasm", name.replace('-', "_")));
    let component = components.join(format!("{name}.wasm"));
    publish(&built, &component)?;
    if folder.join("sless.toml").is_file() {
        // Where cargo would have put it for a user, so that `sless deploy` of the folder finds it.
        let own = folder.join("target").join(TARGET).join("release");
        fs::create_dir_all(&own).with_context(|| format!("make {}", own.display()))?;
        publish(&built, &own.join(built.file_name().context("a component has a name")?))?;
    }
    Ok(component)
}

/// Puts a built component in its place at once, and leaves it alone when it is the same.
fn publish(built: &Path, component: &Path) -> Result<()> {
    let bytes = fs::read(built)
        .with_context(|| format!("read {}; a guest's package is named like its folder", built.display()))?;
    if fs::read(component).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let unfinished = component.with_extension(format!("wasm.{}", std::process::id()));
    fs::write(&unfinished, bytes).with_context(|| format!("write {}", unfinished.display()))?;
    fs::rename(&unfinished, component).with_context(|| format!("write {}", component.display()))
}
