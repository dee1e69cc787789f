//! Packages of Python source for `wasm-python`: installed by pip, from wheels in pure Python only.
//!
//! pip runs with network, so it must run nobody's code: wheels are unpacked, never built, and `requirements.txt` may name
//! packages only, no addresses, paths or options. What it says is kept by its digest for the next build.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sless_core::Digest;
use sless_core::build_protocol::{Job, PACKAGES_FILE, Task};
use sless_core::ports::BuildError;

use super::bundle::{read, tail, trim};
use super::child::{self, End, Program};
use super::desk::Desk;
use super::{LocalBuilds, failed};

const LIST: &str = "requirements.txt";
/// The engine's Python; a test of the builder compares it with what the engine says.
const PYTHON: &str = "3.14";
/// Exit codes of the script: pip is not there, and pip refuses.
const NO_PIP: i32 = 8;
const REFUSED: i32 = 9;

/// Installs, packs. The environment of a builder is empty; pip needs a home and a cache.
const SCRIPT: &str = r#"
    cd "$1" && export PATH="$2" HOME="$1" PIP_CACHE_DIR="$3"
    python3 -m pip --version >/dev/null 2>&1 || exit 8
    python3 -m pip install --quiet --disable-pip-version-check --no-input --no-compile --target function \
        --only-binary=:all: --platform any --implementation py --abi none --python-version "$4" -r requirements.txt >&2 || exit 9
    mkdir -p function && rm -rf function/bin
    find function -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z | exec tar --null -T - -czf packages.tar.gz"#;

impl LocalBuilds {
    /// Leaves the packages in the desk's source folder; answers what was said on the way.
    pub(super) async fn requirements(&self, desk: Desk) -> Result<(Desk, String), BuildError> {
        let doing = "install packages";
        let folder = desk.source();
        fs::create_dir(&folder).map_err(failed(doing))?;
        let unpack = Task::Unpack { input: desk.input(), output: folder.clone() };
        let (desk, mut said) = self.done(unpack, desk).await?;
        let list = read(&folder.join(LIST)).map_err(failed(doing))?;
        check(&list).map_err(|reason| BuildError::Rejected { reason, log: said.clone() })?;
        let cache = self.settings.cache_dir.join("python");
        let kept = cache.join(Digest::of(&[PYTHON.as_bytes(), &list].concat()).to_string());
        let desk = if kept.is_file() {
            desk
        } else {
            let (desk, log) = self.pip(&list, &kept, desk).await?;
            said += &log;
            desk
        };
        fs::copy(&kept, folder.join(PACKAGES_FILE)).map_err(failed(doing))?;
        Ok((desk, said))
    }

    async fn pip(&self, list: &[u8], kept: &Path, desk: Desk) -> Result<(Desk, String), BuildError> {
        let doing = "install packages";
        let work = desk.packages();
        fs::create_dir(&work).and_then(|()| fs::write(work.join(LIST), list)).map_err(failed(doing))?;
        let text = |path: &Path| path.as_os_str().to_owned();
        let pip_cache = text(&self.settings.cache_dir.join("pip"));
        let path = self.settings.search_path.clone();
        let arguments = ["-c".into(), SCRIPT.into(), "install".into(), text(&work), path, pip_cache, PYTHON.into()];
        let program = Arc::new(Program { path: PathBuf::from("/bin/sh"), args: arguments.to_vec() });
        // It reads no job; the limit of time is the job's.
        let job = Job { task: Task::Engine {}, limits: self.settings.limits.clone(), parent: None };
        let (ended, desk) = child::run(&program, &job, desk).await.map_err(failed(doing))?;
        match ended.end {
            End::Exited(0) => {}
            End::Exited(NO_PIP) => {
                return Err(failed(doing)("there is no python3 with pip on this machine; install python3-pip"));
            }
            End::Exited(REFUSED) | End::OutOfTime => {
                return Err(BuildError::Rejected { reason: refusal(&ended.log), log: ended.log });
            }
            other => return Err(failed(doing)(format!("pip ended with {other:?}: {}", tail(&ended.log)))),
        }
        let cache = kept.parent().unwrap_or(kept);
        fs::create_dir_all(cache)
            .and_then(|()| fs::rename(work.join("packages.tar.gz"), kept))
            .map_err(failed(doing))?;
        if let Err(error) = trim(cache) {
            tracing::warn!(%error, "old packages could not be removed");
        }
        Ok((desk, ended.log))
    }
}

/// Whether every line names a package, with a version or without.
fn check(list: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(list).map_err(|_| format!("{LIST} is not UTF-8; save it as UTF-8"))?;
    for (index, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim().trim_end_matches('\\').trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("--hash=") {
            continue;
        }
        let named = line.starts_with(|c: char| c.is_ascii_alphanumeric());
        let requirement = line.split(" --hash=").next().unwrap_or_default();
        if !named || requirement.contains(['/', '@', '\\']) || requirement.contains(" -") {
            let number = index + 1;
            return Err(format!(
                "{LIST}:{number}: `{line}` is no package of the index with a version; write it as `name==1.2`, or use the runtime \
                 python3.11"
            ));
        }
    }
    Ok(())
}

/// What pip said, for the function's author.
fn refusal(log: &str) -> String {
    let missing = log.lines().find_map(|line| line.split_once("No matching distribution found for "));
    match missing {
        Some((_, requirement)) => {
            let requirement = requirement.split(" (from").next().unwrap_or_default().trim();
            format!(
                "{LIST}: `{requirement}` has no wheel in pure Python for Python {PYTHON}; use a version that has one, or the runtime \
                 python3.11, which takes native packages"
            )
        }
        None => format!("{LIST}: pip could not install the packages: {}", tail(log)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_of_the_index_are_taken() {
        let good = "# ours\nrequests==2.32.3  # why\nidna>=3,<4; python_version > '3'\nflask[async]\n\nx==1 --hash=sha256:ab\n\
                    y==1 \\\n    --hash=sha256:cd\n";
        assert_eq!(check(good.as_bytes()), Ok(()));
        for bad in [
            "-e .",
            "--index-url https://example.com",
            "git+https://example.com/x.git",
            "./local",
            "x @ https://example.com/x.whl",
            "-r other.txt",
            "https://example.com/x.tar.gz",
            "x==1 --global-option=y",
            "../x.whl",
            "dir/x.whl",
        ] {
            let told = check(format!("idna\n{bad}\n").as_bytes()).unwrap_err();
            assert!(told.starts_with("requirements.txt:2: "), "{bad}: {told}");
        }
        assert!(check(b"\xff").is_err());
    }

    #[test]
    fn a_native_package_is_refused_by_name() {
        let log = "ERROR: Could not find a version that satisfies the requirement numpy==2.1 (from versions: none)\n\
                   ERROR: No matching distribution found for numpy==2.1\n";
        let told = refusal(log);
        assert!(told.contains("`numpy==2.1`") && told.contains("python3.11"), "{told}");
        assert!(refusal("ERROR: no route").contains("no route"));
    }
}
