//! Builds languages' engines, which functions deployed as source run over, and prepares them for this release.
//!
//! A build takes minutes and tools that most changes don't need, so it is kept by the digest of its sources. The same for
//! preparing, which the builder does itself: the folder beside the programs has both, as a release has it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::{sh, workspace};

/// An engine: the runtime that it is for. Its folder in `runtimes/` has the same name and a script `build.sh OUT.wasm`.
const ENGINES: &[&str] = &["wasm-js", "wasm-python"];
/// Scripts and folders that builds read besides their own.
const SHARED: &[(&str, &str)] =
    &[("wasm-js", "tools/wasm-rust.sh"), ("wasm-python", "runtimes/python3.11/sless_runtime")];
/// What makes one JavaScript file of several.
const BUNDLER: &str = "esbuild";
/// Builds of an engine that are kept.
const KEPT: usize = 4;

/// What building them needs and this machine lacks; `tools/setup.sh` says which packages have it.
pub(crate) fn missing(root: &Path) -> Option<String> {
    let lacks = |program: &&str| !sh::works(sh::command(root, program).arg("--version"));
    let lacking: Vec<&str> = ["npm", "clang-19", "python3"].into_iter().filter(lacks).collect();
    (!lacking.is_empty()).then(|| format!("there is no {}, which building engines needs", lacking.join(" and no ")))
}

/// Builds all of them into `engines/` beside the programs of `profile`; gives the files' paths.
pub(crate) fn run(root: &Path, profile: &str) -> Result<Vec<PathBuf>> {
    let programs = workspace::target_folder(root)?.join(profile);
    let folder = programs.join("engines");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let mut made = Vec::new();
    for runtime in ENGINES {
        let built = built(root, runtime)?;
        let place = folder.join(format!("{runtime}.wasm"));
        publish(&built, &place)?;
        made.push(place);
    }
    // The engine's script leaves it there.
    let bundler = workspace::cache()?.join("engines").join(BUNDLER);
    publish(&bundler, &folder.join(BUNDLER))?;
    fs::set_permissions(folder.join(BUNDLER), fs::Permissions::from_mode(0o755))?;
    prepare(&programs, &folder)?;
    Ok(made)
}

/// The engine out of the cache, built if its sources have changed.
fn built(root: &Path, runtime: &str) -> Result<PathBuf> {
    let source = root.join("runtimes").join(runtime);
    let cache = workspace::cache()?.join("engines");
    fs::create_dir_all(&cache).with_context(|| format!("make {}", cache.display()))?;
    let digest = digest(root, runtime, &source)?;
    let place = cache.join(format!("{runtime}-{}.wasm", &digest[..16]));
    if place.is_file() && (runtime != "wasm-js" || cache.join(BUNDLER).is_file()) {
        return Ok(place);
    }
    eprintln!("engine {runtime}");
    let unfinished = place.with_extension(format!("{}.part", std::process::id()));
    let mut script = sh::command(root, source.join("build.sh").to_str().context("a path in UTF-8")?);
    // Like guests, an engine has another target and may have another compiler: not this workspace's folders.
    script.arg(&unfinished).env_remove("CARGO").env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_BUILD_DIR");
    sh::run(&mut script).with_context(|| format!("build the engine {runtime}"))?;
    fs::rename(&unfinished, &place).with_context(|| format!("write {}", place.display()))?;
    trim(&cache, runtime)?;
    Ok(place)
}

/// SHA-256 over all files that a build reads.
fn digest(root: &Path, runtime: &str, source: &Path) -> Result<String> {
    let mut files = Vec::new();
    walk(source, &mut files)?;
    for (_, path) in SHARED.iter().filter(|(reader, _)| *reader == runtime) {
        let path = root.join(path);
        if path.is_dir() { walk(&path, &mut files)? } else { files.push(path) }
    }
    files.sort();
    let mut all = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        let path = file.strip_prefix(root).unwrap_or(&file);
        all.update(format!("{} {}\n", path.display(), bytes.len()));
        all.update(&bytes);
    }
    Ok(all.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        // What tools leave, and what does not change an engine.
        if ["node_modules", "target", "tests", "README.md", "__pycache__"].iter().any(|skipped| name == *skipped) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Removes the oldest builds.
fn trim(cache: &Path, runtime: &str) -> Result<()> {
    let mut builds = Vec::new();
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{runtime}-")) && name.ends_with(".wasm") {
            builds.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    builds.sort();
    for (_, old) in builds.iter().rev().skip(KEPT) {
        fs::remove_file(old)?;
    }
    Ok(())
}

/// Lets the builder prepare every engine, where that was not done for these very ones.
fn prepare(programs: &Path, folder: &Path) -> Result<()> {
    let builder = programs.join("sless-builder");
    if !builder.is_file() {
        // Then the first deploy does it.
        return Ok(());
    }
    for runtime in ENGINES {
        let input = folder.join(format!("{runtime}.wasm"));
        let prepared = folder.join("prepared");
        let stamp = format!("{:?}\n{:?}\n", identity(&input)?, identity(&builder)?);
        let place = prepared.join(runtime);
        if fs::read_to_string(place.join("stamp")).is_ok_and(|old| old == stamp) {
            continue;
        }
        eprintln!("engine {runtime}: preparing");
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).with_context(|| format!("make {}", place.display()))?;
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a path in UTF-8");
        let task = serde_json::json!({
            "task": { "mode": "prepareEngine", "runtime": runtime, "input": text(&input)?, "output": text(&place)? }
        });
        let mut child = std::process::Command::new(&builder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the builder")?;
        child.stdin.take().context("a pipe")?.write_all(task.to_string().as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("the engine {runtime} can't be prepared: {}", String::from_utf8_lossy(&output.stdout).trim());
        }
        fs::write(place.join("stamp"), stamp)?;
    }
    Ok(())
}

/// Changes when the file is written.
fn identity(file: &Path) -> Result<(SystemTime, u64)> {
    let metadata = fs::metadata(file).with_context(|| format!("examine {}", file.display()))?;
    Ok((metadata.modified()?, metadata.len()))
}

/// Puts a file in its place at once, and leaves it alone when it is the same.
fn publish(built: &Path, place: &Path) -> Result<()> {
    let bytes = fs::read(built).with_context(|| format!("read {}", built.display()))?;
    if fs::read(place).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let unfinished = place.with_extension(format!("{}.part", std::process::id()));
    fs::write(&unfinished, bytes).with_context(|| format!("write {}", unfinished.display()))?;
    fs::rename(&unfinished, place).with_context(|| format!("write {}", place.display()))
}
