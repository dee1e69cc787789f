//! JavaScript of several files: unpacked, its packages installed where a lock file asks for them, and bundled.
//!
//! Packages are what the lock file says, kept by its digest for the next build. Their scripts are not run.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sless_core::Digest;
use sless_core::build_protocol::{Job, Reply, Task};
use sless_core::ports::BuildError;

use super::child::{self, End, Program};
use super::desk::Desk;
use super::{LocalBuilds, failed};

/// The most bytes of `package.json` or of its lock file.
const MAX_LIST_BYTES: u64 = 8 << 20;
/// Sets of packages that are kept.
const MAX_KEPT: usize = 64;

impl LocalBuilds {
    /// Leaves the bundle in the desk's source folder; answers what was said on the way.
    pub(super) async fn bundle(
        &self,
        entrypoint: &str,
        packages: bool,
        desk: Desk,
    ) -> Result<(Desk, String), BuildError> {
        let bundler = self.engines.bundler()?;
        let folder = desk.source();
        fs::create_dir(&folder).map_err(failed("make a work folder"))?;
        let unpack = Task::Unpack { input: desk.input(), output: folder.clone() };
        let (mut desk, mut said) = self.done(unpack, desk).await?;
        let mut installed = None;
        if packages {
            let (kept, desk_again, log) = self.install(&folder, desk).await?;
            desk = desk_again;
            said += &log;
            std::os::unix::fs::symlink(&kept, folder.join("node_modules")).map_err(|error| BuildError::Rejected {
                reason: format!(
                    "packages can't be installed beside the uploaded `node_modules` ({error}); leave that folder out of the upload"
                ),
                log: String::new(),
            })?;
            installed = Some(kept);
        }
        let bundle =
            Task::Bundle { entrypoint: entrypoint.to_owned(), bundler, folder: folder.clone(), packages: installed };
        let (desk, log) = self.done(bundle, desk).await?;
        Ok((desk, said + &log))
    }

    pub(super) async fn done(&self, task: Task, desk: Desk) -> Result<(Desk, String), BuildError> {
        match self.step(task, desk).await? {
            (Reply::Done {}, log, desk) => Ok((desk, log)),
            (other, ..) => Err(failed("bundle the source")(format!("the builder answered {other:?}"))),
        }
    }

    /// The `node_modules` that the lock file in `folder` describes.
    async fn install(&self, folder: &Path, desk: Desk) -> Result<(PathBuf, Desk, String), BuildError> {
        let doing = "install packages";
        let lists = ["package.json", "package-lock.json"].map(|name| (name, read(&folder.join(name))));
        let mut digest = Digest::builder();
        let work = desk.packages();
        fs::create_dir(&work).map_err(failed(doing))?;
        for (name, bytes) in lists {
            let bytes = bytes.map_err(failed(doing))?;
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(&bytes);
            fs::write(work.join(name), bytes).map_err(failed(doing))?;
        }
        let cache = self.settings.cache_dir.join("packages");
        let kept = cache.join(digest.finish().to_string()).join("node_modules");
        if kept.is_dir() {
            return Ok((kept, desk, String::new()));
        }
        // The environment of a builder is empty; npm needs to find node, and a home of its own.
        let script = r#"
            cd "$1" && export PATH="$2" HOME="$1" npm_config_cache="$3" npm_config_update_notifier=false
            command -v npm >&2 || { echo "there is no npm on this machine; install Node.js" >&2; exit 9; }
            npm ci --ignore-scripts --omit=dev --no-audit --no-fund --no-progress --loglevel=error >&2 || exit 9
            mkdir -p node_modules"#;
        let text = |path: &Path| path.as_os_str().to_owned();
        let program = Arc::new(Program {
            path: "/bin/sh".into(),
            args: vec![
                "-c".into(),
                script.into(),
                "install".into(),
                text(&work),
                self.settings.search_path.clone(),
                text(&self.settings.cache_dir.join("npm")),
            ],
        });
        // It reads no job; the limit of time is the job's.
        let job = Job { task: Task::Engine {}, limits: self.settings.limits.clone(), parent: None };
        let (ended, desk) = child::run(&program, &job, desk).await.map_err(failed(doing))?;
        match ended.end {
            End::Exited(0) => {}
            End::Exited(9) | End::OutOfTime => {
                let reason =
                    format!("`npm ci` could not install the packages of package-lock.json: {}", tail(&ended.log));
                return Err(BuildError::Rejected { reason, log: ended.log });
            }
            other => return Err(failed(doing)(format!("npm ended with {other:?}: {}", tail(&ended.log)))),
        }
        let target = kept.parent().unwrap_or(&cache);
        let moved = fs::create_dir_all(target).and_then(|()| fs::rename(work.join("node_modules"), &kept));
        if let Err(error) = moved
            // Another build may have been quicker.
            && !kept.is_dir()
        {
            return Err(failed(doing)(error));
        }
        if let Err(error) = trim(&cache) {
            tracing::warn!(%error, "old packages could not be removed");
        }
        Ok((kept, desk, ended.log))
    }
}

/// A list of packages. Not through a link: the folder was a stranger's to write.
pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = fs::File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_LIST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_LIST_BYTES {
        return Err(std::io::Error::other(format!("{} has more than {MAX_LIST_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}

pub(super) fn trim(cache: &Path) -> std::io::Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        kept.push((entry.metadata()?.modified()?, entry.path()));
    }
    kept.sort();
    for (_, old) in kept.iter().rev().skip(MAX_KEPT) {
        fs::remove_dir_all(old)?;
    }
    Ok(())
}

pub(super) fn tail(log: &str) -> &str {
    let log = log.trim();
    let start = log.char_indices().rev().nth(600).map_or(0, |(at, _)| at);
    &log[start..]
}
