//! `sless dev --watch`: a function is built and swapped whenever a file of its folder changes.
//!
//! A round is a deploy like any other, so the version that serves goes on until the next one can, and a build that fails
//! changes nothing. Which files count is decided by what is in them, not by when they were written: what a build leaves
//! behind wakes it once at most.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser as _;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use sless_client::Client;
use sless_core::Digest;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::args::{Cli, Command, DeployArgs};
use crate::deploy::{self, Deployed};
use crate::failure::{Exit, Failure};
use crate::folder;
use crate::manifest;
use crate::output::{Format, Output, say};

/// Editors and version control write several files in a row: a round begins when nothing came for this long,
const QUIET: Duration = Duration::from_millis(100);
/// and at the latest after this.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Larger files are known by size and time: they are data, and reading them each time would take longer than a build.
const MAX_READ_BYTES: u64 = 4 << 20;

/// The folders to watch, checked before anything is started.
pub(super) fn folders(given: Vec<PathBuf>) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = Vec::new();
    for path in given {
        let folder = path.canonicalize().map_err(|e| Failure::file(&path, &e))?;
        if !folder.is_dir() {
            let text = format!("--watch: {} is not a folder", path.display());
            return Err(Failure::new(Exit::Invalid, text).remedy("name the folder of a function"));
        }
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    Ok(folders)
}

/// Watches all of them, for ever.
pub(super) async fn run(folders: Vec<PathBuf>, client: Client, format: Format) {
    let mut all = JoinSet::new();
    for folder in folders {
        let client = client.clone();
        all.spawn(async move {
            if let Err(failure) = follow(&folder, &client, format).await {
                say(&format!("{} is not watched any more", folder.display()));
                let _ = failure.report(format);
            }
        });
    }
    while all.join_next().await.is_some() {}
}

async fn follow(folder: &Path, client: &Client, format: Format) -> Result<(), Failure> {
    // It keeps one permit: a change while a round is under way begins the next one.
    let changed = Arc::new(Notify::new());
    let mut watched = Watched::new(Arc::clone(&changed))?;
    let mut built = None;
    loop {
        let began = Instant::now();
        // Before the files are read, so that no change falls between; what is new may have more in it by now.
        let mut entries = blocking(folder, folder::entries).await?;
        while watched.add(folder, &entries)? {
            entries = blocking(folder, folder::entries).await?;
        }
        let now = blocking(folder, move |folder| fingerprint(folder, &entries)).await?;
        if built != Some(now) {
            built = Some(now);
            round(folder, client, format, began).await?;
        }
        changed.notified().await;
        let latest = tokio::time::Instant::now() + LONGEST_WAIT;
        while tokio::time::Instant::now() < latest && tokio::time::timeout(QUIET, changed.notified()).await.is_ok() {}
    }
}

/// Builds and swaps once. That a build fails is told, and the watch goes on.
async fn round(folder: &Path, client: &Client, format: Format, began: Instant) -> Result<(), Failure> {
    match deploy::deploy(args(folder)?, client).await {
        Ok(deployed) => Output::new(format).result(&deployed, |deployed: &Deployed| {
            let seconds = began.elapsed().as_secs_f64();
            format!("{} in {seconds:.2} s\n", deployed.state())
        }),
        Err(failure) => {
            let _ = failure.report(format);
            say(&format!("waiting for a change in {}", folder.display()));
            Ok(())
        }
    }
}

/// What `sless deploy FOLDER` would do.
fn args(folder: &Path) -> Result<DeployArgs, Failure> {
    let line = [OsStr::new("sless"), OsStr::new("deploy"), OsStr::new("--"), folder.as_os_str()];
    match Cli::try_parse_from(line) {
        Ok(Cli { command: Command::Deploy(args), .. }) => Ok(*args),
        other => Err(Failure::new(Exit::Failure, format!("`sless deploy` can't be run: {other:?}"))),
    }
}

/// Runs what reads files beside the event loop.
async fn blocking<T: Send + 'static>(
    folder: &Path,
    read: impl FnOnce(&Path) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let folder = folder.to_owned();
    tokio::task::spawn_blocking(move || read(&folder))
        .await
        .map_err(|e| Failure::new(Exit::Failure, format!("read the folder: {e}")))?
}

/// Folders under watch, one by one: what is left out may be large, and each watch is the kernel's memory.
struct Watched {
    watcher: RecommendedWatcher,
    known: HashSet<PathBuf>,
}

impl Watched {
    fn new(changed: Arc<Notify>) -> Result<Self, Failure> {
        let wake = move |event: notify::Result<notify::Event>| {
            // An error is a lost event: looking once more finds what it was. Reading is no change.
            if event.is_ok_and(|event| event.kind.is_access()) {
                return;
            }
            changed.notify_one();
        };
        let watcher = notify::recommended_watcher(wake).map_err(|e| unwatched(Path::new("."), &e))?;
        Ok(Self { watcher, known: HashSet::new() })
    }

    /// Adds what is not watched yet, and the folder of a component that is built elsewhere. Whether there was any.
    fn add(&mut self, folder: &Path, entries: &[folder::Entry]) -> Result<bool, Failure> {
        let component =
            component(folder).and_then(|path| path.parent().map(Path::to_owned)).filter(|path| path.is_dir());
        let folders = entries.iter().filter(|entry| entry.is_folder).map(|entry| entry.path.clone()).chain(component);
        let folders: HashSet<PathBuf> = folders.collect();
        // The kernel forgets a folder that is gone; one of the same name is another.
        self.known.retain(|path| folders.contains(path));
        let new: Vec<_> = folders.difference(&self.known).cloned().collect();
        for path in &new {
            match self.watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => _ = self.known.insert(path.clone()),
                // It went away meanwhile, which is an event of the folder that it was in.
                Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) && path != folder => {}
                Err(error) => return Err(unwatched(path, &error)),
            }
        }
        Ok(new.iter().any(|path| self.known.contains(path)))
    }
}

fn unwatched(path: &Path, error: &notify::Error) -> Failure {
    let failure = Failure::new(Exit::Failure, format!("watch {}: {error}", path.display()));
    match error.kind {
        notify::ErrorKind::MaxFilesWatch => failure.remedy(format!(
            "raise the system's limit (sysctl fs.inotify.max_user_watches), or name what is no part of the function in {}",
            folder::IGNORE_FILE
        )),
        _ => failure,
    }
}

/// The component that `sless.toml` names without saying how it is built: then it is a source itself.
fn component(folder: &Path) -> Option<PathBuf> {
    let manifest = manifest_of(folder)?;
    manifest.component.filter(|_| manifest.build.is_none()).map(|component| folder.join(component))
}

/// A manifest that can't be read is told by the deploy.
fn manifest_of(folder: &Path) -> Option<manifest::Manifest> {
    let path = folder.join(manifest::FILE_NAME);
    let size = std::fs::metadata(&path).ok()?.len();
    manifest::parse(&std::fs::read_to_string(path).ok().filter(|_| size <= manifest::MAX_BYTES)?).ok()
}

/// Changes exactly when a file of the function does. What the build makes is none.
fn fingerprint(folder: &Path, entries: &[folder::Entry]) -> Result<Digest, Failure> {
    let made = manifest_of(folder).filter(|m| m.build.is_some()).and_then(|m| m.component).map(|c| folder.join(c));
    let files = entries.iter().filter(|entry| !entry.is_folder && Some(&entry.path) != made.as_ref());
    let mut all = Vec::new();
    for path in files.map(|entry| entry.path.clone()).chain(component(folder)) {
        // A file that went away meanwhile has its own event.
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        all.extend_from_slice(path.as_os_str().as_encoded_bytes());
        all.push(0);
        let small = metadata.is_file() && metadata.len() <= MAX_READ_BYTES;
        match small.then(|| std::fs::read(&path)) {
            Some(Ok(bytes)) => all.extend_from_slice(Digest::of(&bytes).as_bytes()),
            _ => all.extend_from_slice(format!("{} {:?}", metadata.len(), metadata.modified().ok()).as_bytes()),
        }
    }
    Ok(Digest::of(&all))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(folder: &Path) -> Digest {
        fingerprint(folder, &folder::entries(folder).unwrap()).unwrap()
    }

    #[test]
    fn only_what_is_in_the_files_of_a_function_counts() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("sless.toml", "build = \"make\"\ncomponent = \"out.wasm\"\n");
        write(".slessignore", "*.log\n");
        write("main.c", "1");
        let before = of(folder);
        write("out.wasm", "made");
        write("x.log", "noise");
        write("main.c", "1");
        assert_eq!(of(folder), before, "neither what is made nor what is ignored, nor a file written as it was");
        write("main.c", "2");
        let changed = of(folder);
        assert_ne!(changed, before);
        fs::rename(folder.join("main.c"), folder.join("other.c")).unwrap();
        assert_ne!(of(folder), changed);
    }

    #[test]
    fn a_component_that_is_built_elsewhere_counts_though_its_folder_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        fs::create_dir(folder.join("target")).unwrap();
        fs::write(folder.join("sless.toml"), "component = \"target/f.wasm\"\n").unwrap();
        fs::write(folder.join(".slessignore"), "/target/\n").unwrap();
        fs::write(folder.join("target/f.wasm"), "1").unwrap();
        let before = of(folder);
        fs::write(folder.join("target/f.wasm"), "2").unwrap();
        assert_ne!(of(folder), before);
    }

    #[test]
    fn folders_are_checked_before_anything_starts() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(folders(vec![dir.path().join("file")]).unwrap_err().text().contains("not a folder"));
        assert!(folders(vec![dir.path().join("nowhere")]).unwrap_err().text().contains("nowhere"));
        let twice = vec![dir.path().to_owned(), dir.path().join(".")];
        assert_eq!(folders(twice).unwrap().len(), 1);
    }

    #[test]
    fn a_folder_is_deployed_as_the_command_line_would() {
        let args = args(Path::new("--odd name")).unwrap();
        assert_eq!(args.path, Path::new("--odd name"));
        assert!(!args.no_build && !args.no_wait);
    }
}
