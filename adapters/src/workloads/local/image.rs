//! Images: folders with a function's files, its packages and its runtime's server, named by what they were made from.
//!
//! An image's name is a digest of the source hash, the runtime, the entry point and the interpreter's version, so that
//! what was built once is found again: for new settings, for a rollback, for the same files deployed anew.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use serde::Deserialize;
use sless_core::ports::{Blobs, BuildError, BuildJob, Image};
use sless_core::{Digest, Runtime};
use tokio::io::AsyncWriteExt as _;

use super::command::{self, Launcher, Log};
use super::process::{End, Spawner};
use super::toolchain::{Interpreter, Toolchains};
use super::unpack::unpack;

/// The prefix of an image's name.
const NAME_PREFIX: &str = "sha256:";
/// Folders under way are called so; what is left of them at a start is removed.
const WORK_PREFIX: &str = "work-";
/// The context while it is unpacked; no name that is in it.
const CONTEXT_FILE: &str = ".context.tar.gz";
/// The most bytes of an image, packages among them. Containers of functions in the field are below.
const MAX_IMAGE_BYTES: u64 = 2 << 30;
/// Loading the handler is what a cold start does, in a moment.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// The exit code of a server that can't load its handler.
const EXIT_HANDLER: i32 = 65;

/// Where the parts of an image are.
pub(super) struct Layout(pub(super) PathBuf);

impl Layout {
    /// The user's files.
    pub(super) fn function(&self) -> PathBuf {
        self.0.join("function")
    }
    /// The server's main file.
    pub(super) fn server(&self, runtime: Runtime) -> PathBuf {
        self.0.join("runtime").join(if runtime == Runtime::Python311 { "server.py" } else { "server.js" })
    }
    /// Python's packages. Those of Node.js are among the user's files, where it looks for them.
    pub(super) fn packages(&self) -> PathBuf {
        self.0.join("packages")
    }
}

/// The images of this machine.
pub(super) struct Images {
    folder: PathBuf,
    blobs: Arc<dyn Blobs>,
    launcher: Launcher,
    toolchains: Toolchains,
    /// What installers get of the developer's environment: proxies, indexes, certificates, `HOME`.
    build_env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    install_limit: Duration,
}

impl Images {
    /// Opens the folder and removes what an ended process left under way.
    pub(super) fn open(settings: &super::Settings, blobs: Arc<dyn Blobs>) -> io::Result<Self> {
        let folder = std::path::absolute(settings.folder.join("images"))?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(WORK_PREFIX) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Self {
            folder,
            blobs,
            launcher: settings.launcher.clone(),
            toolchains: settings.toolchains.clone(),
            build_env: settings.build_env.clone(),
            install_limit: settings.install_limit,
        })
    }

    /// Where an image is.
    pub(super) fn layout(&self, name: &str) -> Option<Layout> {
        let digest: Digest = name.strip_prefix(NAME_PREFIX)?.parse().ok()?;
        Some(Layout(self.folder.join(digest.to_string())))
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.layout(name).is_some_and(|layout| layout.0.is_dir())
    }

    /// Removes images that are not among those.
    pub(super) fn collect(&self, needed: &BTreeSet<String>) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.parse::<Digest>().is_ok() && !needed.contains(&format!("{NAME_PREFIX}{name}")) {
                // Gone at once, whatever is left of it if this process ends.
                let going = self.folder.join(format!("{WORK_PREFIX}{}", uuid::Uuid::now_v7().simple()));
                fs::rename(entry.path(), &going)?;
                fs::remove_dir_all(&going)?;
            }
        }
        Ok(())
    }

    /// Builds the image of a version, or finds it.
    pub(super) async fn build(&self, spawner: &Spawner, job: BuildJob) -> Result<Image, BuildError> {
        let interpreter = self.interpreter(job.runtime).await?;
        let name = name(&job, &interpreter);
        let layout = self.layout(&name).ok_or_else(|| failed("name the image")("it has no name"))?;
        if layout.0.is_dir() {
            let log = "the image of this source is there already\n".to_owned();
            return Ok(Image { name, size_bytes: size(&layout.0).map_err(failed("read the image"))?, log, took: None });
        }
        let started = Instant::now();
        let work = Work::new(&self.folder).map_err(failed("make a work folder"))?;
        self.unpack(&job, &work).await?;
        let mut log = Log::default();
        let mut build =
            Build { images: self, spawner, job: &job, interpreter, layout: Layout(work.0.clone()), log: &mut log };
        build.log.say(&format!("{} with {}", job.runtime, build.interpreter.version));
        let built = async {
            build.packages().await?;
            build.check().await
        };
        if let Err(error) = built.await {
            return Err(error.with_log(log.text()));
        }
        let size_bytes = size(&work.0).map_err(failed("read the image"))?;
        if size_bytes > MAX_IMAGE_BYTES {
            return Err(BuildError::TooLarge {
                reason: format!(
                    "with its packages the function has {size_bytes} bytes, over the limit of {MAX_IMAGE_BYTES}; leave out packages that it does not need"
                ),
            });
        }
        match fs::rename(&work.0, &layout.0) {
            // Another build of the same was quicker.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            stored => stored.map_err(failed("store the image"))?,
        }
        Ok(Image { name, size_bytes, log: log.text(), took: Some(started.elapsed()) })
    }

    /// Asking an interpreter for its version takes a process, so it is not done on the way of others.
    async fn interpreter(&self, runtime: Runtime) -> Result<Interpreter, BuildError> {
        let toolchains = self.toolchains.clone();
        tokio::task::spawn_blocking(move || toolchains.find(runtime))
            .await
            .map_err(failed("look for the interpreter"))?
            .map_err(|reason| BuildError::Rejected { reason, log: String::new() })
    }

    async fn unpack(&self, job: &BuildJob, work: &Work) -> Result<(), BuildError> {
        let mut stream = self.blobs.get(&job.source).await.map_err(failed("read the build context"))?;
        let packed = work.0.join(CONTEXT_FILE);
        let mut file = tokio::fs::File::create_new(&packed).await.map_err(failed("unpack the build context"))?;
        while let Some(piece) = stream.try_next().await.map_err(failed("read the build context"))? {
            file.write_all(&piece).await.map_err(failed("unpack the build context"))?;
        }
        file.flush().await.map_err(failed("unpack the build context"))?;
        let folder = work.0.clone();
        let source = tokio::task::spawn_blocking(move || {
            let source = unpack(BufReader::new(fs::File::open(&packed)?), &folder)?;
            fs::remove_file(&packed)?;
            Ok::<_, io::Error>(source)
        })
        .await
        .map_err(failed("unpack the build context"))?
        .map_err(failed("unpack the build context"))?;
        if source != job.sha256 {
            return Err(failed("unpack the build context")("its files are not those that were uploaded"));
        }
        Ok(())
    }
}

/// One build under way.
struct Build<'a> {
    images: &'a Images,
    spawner: &'a Spawner,
    job: &'a BuildJob,
    interpreter: Interpreter,
    layout: Layout,
    log: &'a mut Log,
}

/// What a server says last where it can't load the handler.
#[derive(Deserialize)]
struct Refused {
    error: String,
    remedy: Option<String>,
    file: Option<String>,
    line: Option<u64>,
}

impl Build<'_> {
    /// Installs what the user's files ask for.
    async fn packages(&mut self) -> Result<(), BuildError> {
        let function = self.layout.function();
        let has = |name: &str| function.join(name).is_file();
        let program = self.interpreter.program.clone();
        if self.job.runtime == Runtime::Python311 {
            if has("requirements.txt") {
                let packages = self.layout.packages();
                let args = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--target"];
                self.install("requirements.txt", &program, |command| {
                    command.args(args).arg(packages).args(["--requirement", "requirements.txt"]);
                })
                .await?;
            }
            return Ok(());
        }
        let (mode, file) = match () {
            () if has("package-lock.json") || has("npm-shrinkwrap.json") => ("ci", "package.json and its lock file"),
            () if asks_for_packages(&function.join("package.json")) => ("install", "package.json"),
            () => return Ok(()),
        };
        let npm = self.images.toolchains.which(OsStr::new("npm")).ok_or_else(|| {
            rejected(
                "npm is not on this machine, which packages of package.json need; install it beside Node.js".to_owned(),
            )
        })?;
        self.install(file, &npm, |command| {
            command.args([mode, "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier"]);
        })
        .await
    }

    async fn install(&mut self, file: &str, program: &Path, set: impl FnOnce(&mut Command)) -> Result<(), BuildError> {
        self.log.say(&format!("installing packages of {file}"));
        let folder = self.layout.function();
        let images = self.images;
        let set = |command: &mut Command| {
            command
                .envs(images.build_env.iter().map(|(name, value)| (name, value)))
                .env("PATH", &images.toolchains.path);
            command.env("LANG", "C.UTF-8").current_dir(folder);
            set(command);
        };
        let ran = command::run(self.spawner, &images.launcher, program, set, images.install_limit, self.log).await;
        match ran {
            Ok((End::Exited(0), _)) => Ok(()),
            Ok((_, said)) => Err(rejected(install_failed(file, &String::from_utf8_lossy(&said)))),
            Err(command::Error::OutOfTime(limit)) => Err(rejected(format!(
                "installing the packages of {file} took longer than {} s; ask for fewer, or for ones that need no compiling",
                limit.as_secs()
            ))),
            Err(error) => Err(failed("install packages")(error)),
        }
    }

    /// Loads the handler, as a cold start does.
    async fn check(&mut self) -> Result<(), BuildError> {
        let program = self.interpreter.program.clone();
        let (runtime, layout, entrypoint) = (self.job.runtime, &self.layout, self.job.entrypoint.as_deref());
        if !layout.server(runtime).is_file() {
            return Err(rejected(format!(
                "the source was uploaded for another runtime than `{runtime}`; upload it again"
            )));
        }
        let set = |command: &mut Command| {
            // Byte code that is written now is there at the first call.
            super::server::environment(command, runtime, layout, entrypoint);
            command.env_remove("PYTHONDONTWRITEBYTECODE").arg(layout.server(runtime)).arg("--check");
        };
        let ran = command::run(self.spawner, &self.images.launcher, &program, set, CHECK_LIMIT, self.log).await;
        match ran {
            Ok((End::Exited(0), _)) => Ok(()),
            Ok((End::Exited(EXIT_HANDLER), said)) => Err(rejected(refusal(&said))),
            Ok((end, _)) => Err(rejected(format!(
                "the file can't be loaded: its process ended with {end:?}; the build log has what it printed"
            ))),
            Err(command::Error::OutOfTime(limit)) => Err(rejected(format!(
                "loading the file took longer than {} s; do less at its top, and long work in the handler",
                limit.as_secs()
            ))),
            Err(error) => Err(failed("check the handler")(error)),
        }
    }
}

/// File, line, what is wrong and what to do, of a server's last words.
pub(super) fn refusal(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let record = said.lines().rev().find_map(|line| serde_json::from_str::<Refused>(line).ok());
    let Some(Refused { error, remedy, file, line }) = record else {
        return "the handler can't be loaded; the build log says why".to_owned();
    };
    let mut text = match (file, line) {
        (Some(file), Some(line)) => format!("{file}:{line}: {error}"),
        (Some(file), None) => format!("{file}: {error}"),
        _ => error,
    };
    if let Some(remedy) = remedy {
        text.push_str(&format!("; {remedy}"));
    }
    text
}

/// What an installer says is wrong: its own words are at the end of many others.
fn install_failed(file: &str, said: &str) -> String {
    if said.contains("No module named pip") {
        return "this Python has no pip, which requirements.txt needs; install it (`apt-get install python3-pip`), or name another Python with SLESS_PYTHON".to_owned();
    }
    let word =
        |line: &&str| line.starts_with("ERROR: ") || line.starts_with("npm error ") || line.starts_with("npm ERR! ");
    let mut lines: Vec<_> = said.lines().filter(word).take(4).collect();
    if lines.is_empty() {
        lines.extend(said.lines().next_back());
    }
    let words = lines.join("; ");
    let words: String = words.chars().take(1_000).collect();
    format!("the packages of {file} can't be installed: {words}; correct {file}")
}

/// Whether a `package.json` without a lock file names any package.
fn asks_for_packages(file: &Path) -> bool {
    let Ok(text) = fs::read(file) else { return false };
    let Ok(package) = serde_json::from_slice::<serde_json::Value>(&text) else {
        // The installer says what is wrong with it.
        return true;
    };
    ["dependencies", "optionalDependencies"]
        .iter()
        .any(|field| package[field].as_object().is_some_and(|packages| !packages.is_empty()))
}

fn name(job: &BuildJob, interpreter: &Interpreter) -> String {
    let entrypoint = job.entrypoint.as_deref().unwrap_or_default();
    let made_from = format!("sless image v1\n{}\n{}\n{entrypoint}\n{}\n", job.sha256, job.runtime, interpreter.version);
    format!("{NAME_PREFIX}{}", Digest::of(made_from.as_bytes()))
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        total += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(total)
}

/// A folder under way; removed unless it was renamed.
struct Work(PathBuf);

impl Work {
    fn new(folder: &Path) -> io::Result<Self> {
        let work = folder.join(format!("{WORK_PREFIX}{}", uuid::Uuid::now_v7().simple()));
        fs::create_dir(&work)?;
        Ok(Self(work))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, folder = %self.0.display(), "a work folder could not be removed");
            }
            _ => {}
        }
    }
}

fn rejected(reason: String) -> BuildError {
    BuildError::Rejected { reason, log: String::new() }
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(doing: &'static str) -> impl Fn(E) -> BuildError {
    move |source| BuildError::Failed { doing: doing.to_owned(), source: source.into() }
}

/// What a refused build printed goes with the refusal.
trait WithLog {
    fn with_log(self, log: String) -> Self;
}

impl WithLog for BuildError {
    fn with_log(self, log: String) -> Self {
        match self {
            Self::Rejected { reason, .. } => Self::Rejected { reason, log },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_file_line_and_remedy() {
        let said = b"noise\n{\"level\":\"error\",\"error\":\"SyntaxError: '(' was never closed\",\"file\":\"handler.py\",\"line\":3,\"remedy\":\"correct it\"}\n";
        assert_eq!(refusal(said), "handler.py:3: SyntaxError: '(' was never closed; correct it");
        assert!(refusal(b"").contains("build log"));
    }

    #[test]
    fn an_installers_own_words_are_told() {
        let said = "Collecting x\nERROR: Could not find a version that satisfies the requirement x\nERROR: No matching distribution found for x\n";
        let told = install_failed("requirements.txt", said);
        assert!(told.contains("Could not find a version") && told.contains("No matching"), "{told}");
        assert!(install_failed("requirements.txt", "/usr/bin/python3: No module named pip").contains("python3-pip"));
    }

    #[test]
    fn packages_are_asked_for_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("package.json");
        assert!(!asks_for_packages(&file));
        for (text, asks) in [
            (r#"{"type":"module"}"#, false),
            (r#"{"dependencies":{}}"#, false),
            (r#"{"dependencies":{"a":"1"}}"#, true),
            ("{", true),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(asks_for_packages(&file), asks, "{text}");
        }
    }
}
