//! `Builds` on this machine: a builder process for every check and build.
//!
//! The builder reads a stranger's code in its sandbox; this side fetches the source, waits for the answer with all limits
//! in hand, checks whatever can be checked of it, and stores the artifact. It does not sign: core does.

mod bundle;
mod cache;
mod child;
mod desk;
mod engines;
mod requirements;
mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use sless_core::build_protocol::{ARTIFACT_FILE, CONTEXT_FILE, Job, Limits, PACK_FILE, Reply, SOURCE_FILE, Task};
use sless_core::ports::{self, BlobKey, Blobs, BuildError, BuildJob, Builds, Built, Checked, Prepared, SourceUpload};
use sless_core::{ArtifactRef, Digest, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::child::{Ended, Program};
use self::desk::{Desk, Desks};
use self::engines::Engines;

/// How many checks, and how many builds, may wait for their turn. A deploy of a thousand functions at once is well
/// within; beyond it the platform says that it is busy instead of growing.
const MAX_WAITING: usize = 1_024;
/// `file.export` where a function names none.
const DEFAULT_ENTRYPOINT: &str = "handler.handler";

/// The most bytes of a build context, and of its source packed anew: more than the source itself may have.
const MAX_CONTEXT_BYTES: u64 = 320 << 20;

/// How builds are run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The builder's program, or one that has the builder in it.
    pub program: PathBuf,
    /// What makes the program a builder, such as `__builder`.
    pub args: Vec<OsString>,
    /// Where builds have their folders. Of this process alone: what is left in it by a killed one is removed.
    pub work_dir: PathBuf,
    /// Where compiled functions are kept, a folder for each namespace. Best on the file system of `work_dir`.
    pub cache_dir: PathBuf,
    /// A folder of packs that everybody's builds read and none writes.
    pub base_cache: Option<PathBuf>,
    /// The folder of languages' engines, `{runtime}.wasm`. Without it no source can be built.
    pub engines: Option<PathBuf>,
    /// `PATH` for the package managers that builds start, where source asks for packages.
    pub search_path: OsString,
    /// Where prepared engines are kept. Of this release's own: what is in it is run.
    pub engine_cache: PathBuf,
    /// What the cache of one namespace may hold.
    pub cache_bytes: u64,
    /// How many builds run at once, and as many checks. Each may use `limits`.
    pub max_parallel: usize,
    /// What one builder may use.
    pub limits: Limits,
}

/// Why builds can't be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folders can't be used.
    #[error("prepare the work folder {}", path.display())]
    WorkDir {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process builds there.
    #[error("the work folder {} is used by another process; give each its own", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// The builder does not answer as one.
    #[error("ask the builder {} for its engine", program.display())]
    Builder {
        /// Which program.
        program: PathBuf,
        /// What it did instead.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Builds in child processes.
pub struct LocalBuilds {
    settings: Settings,
    blobs: Arc<dyn Blobs>,
    program: Arc<Program>,
    desks: Desks,
    engine: Digest,
    engines: Engines,
    checks: Turns,
    builds: Turns,
}

impl LocalBuilds {
    /// Takes the work folder, removes what an earlier process left in it, and asks the builder which engine it makes
    /// artifacts for.
    ///
    /// # Errors
    /// When the folder can't be used, or the program is no builder.
    pub async fn start(mut settings: Settings, blobs: Arc<dyn Blobs>) -> Result<Self, Error> {
        let work_dir = |source| Error::WorkDir { path: settings.work_dir.clone(), source };
        settings.program = std::path::absolute(&settings.program).map_err(work_dir)?;
        settings.cache_dir = std::path::absolute(&settings.cache_dir).map_err(work_dir)?;
        let desks = Desks::open(&settings.work_dir)?;
        let program = Arc::new(Program { path: settings.program.clone(), args: settings.args.clone() });
        let failed = |source| Error::Builder { program: settings.program.clone(), source };
        let desk = desks.desk().map_err(work_dir)?;
        let job = Job { task: Task::Engine {}, limits: settings.limits.clone(), parent: Some(std::process::id()) };
        let (ended, _desk) = child::run(&program, &job, desk).await.map_err(|e| failed(e.into()))?;
        let engine = match verdict::reply(ended, &settings.limits) {
            Ok((Reply::Engine { engine, degraded }, _)) => {
                for layer in degraded {
                    tracing::warn!(
                        layer,
                        "builds are isolated less than they could be: this machine lacks a layer of the sandbox"
                    );
                }
                engine
            }
            Ok((other, _)) => return Err(failed(format!("it answered {other:?}").into())),
            Err(error) => return Err(failed(error.into())),
        };
        let turns = || Turns::new(settings.max_parallel);
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(work_dir);
        let engines = Engines::find(
            settings.engines.as_ref().map(absolute).transpose()?,
            absolute(&settings.engine_cache)?,
            engine,
            program.clone(),
            settings.limits.clone(),
        );
        let engines = engines.map_err(work_dir)?;
        Ok(Self { checks: turns(), builds: turns(), program, desks, engine, engines, blobs, settings })
    }

    /// Brings the source into a file of the desk; answers its digest.
    async fn fetch(&self, source: &BlobKey, desk: &Desk) -> Result<Digest, BuildError> {
        let limit = self.settings.limits.component_bytes;
        let stream = self.blobs.get(source).await.map_err(blob_error("read the source", limit))?;
        desk.save(stream, limit).await.map_err(blob_error("read the source", limit))
    }

    async fn run(&self, task: Task, desk: Desk) -> Result<(Ended, Desk), BuildError> {
        let job = Job { task, limits: self.settings.limits.clone(), parent: Some(std::process::id()) };
        child::run(&self.program, &job, desk).await.map_err(failed("run the builder"))
    }

    /// Runs a builder to an answer that is no error.
    async fn step(&self, task: Task, desk: Desk) -> Result<(Reply, String, Desk), BuildError> {
        let (ended, desk) = self.run(task, desk).await?;
        let (reply, log) = verdict::reply(ended, &self.settings.limits)?;
        Ok((reply, log, desk))
    }

    /// Builds source over its language's engine, bundled first where the builder says that it has to be.
    async fn build_source(
        &self,
        job: &BuildJob,
        ready: &engines::Ready,
        caches: Vec<PathBuf>,
        desk: Desk,
    ) -> Result<(Reply, String, Desk), BuildError> {
        let entrypoint = job.entrypoint.as_deref().unwrap_or(DEFAULT_ENTRYPOINT);
        let task = |desk: &Desk, bundle: Option<PathBuf>| Task::BuildSource {
            runtime: job.runtime,
            entrypoint: entrypoint.to_owned(),
            input: desk.input(),
            engine: ready.folder.clone(),
            bundle,
            output: desk.output(),
            caches: caches.clone(),
        };
        let (reply, log, desk) = self.step(task(&desk, None), desk).await?;
        let Reply::NeedsBundle { packages } = reply else { return Ok((reply, log, desk)) };
        let (desk, said) = match job.runtime {
            Runtime::WasmPython => self.requirements(desk).await?,
            _ => self.bundle(entrypoint, packages, desk).await?,
        };
        desk.renew_output().map_err(failed("make a work folder"))?;
        let folder = desk.source();
        let (reply, log, desk) = self.step(task(&desk, Some(folder)), desk).await?;
        Ok((reply, said + &log, desk))
    }

    /// Checks what the builder said of its artifact, and stores it.
    async fn store(&self, desk: &Desk, said: &Digest, size: u64) -> Result<(), BuildError> {
        let limit = self.settings.limits.artifact_bytes;
        let (digest, artifact) = desk.made(ARTIFACT_FILE, limit).await.map_err(failed("read the artifact"))?;
        if digest != *said {
            return Err(failed("read the artifact")("the builder answered with another digest than its artifact has"));
        }
        let key = BlobKey::artifact(&digest);
        let meta = self.blobs.put(&key, artifact, limit).await.map_err(failed("store the artifact"))?;
        if meta.digest != digest || meta.size_bytes != size {
            return Err(failed("store the artifact")("what was stored is not what was built"));
        }
        Ok(())
    }
}

#[async_trait]
impl Builds for LocalBuilds {
    fn engine(&self) -> Digest {
        self.engine
    }

    fn supports(&self, runtime: Runtime) -> bool {
        runtime == Runtime::Wasm || self.engines.has(runtime)
    }

    fn is_current(&self, runtime: Runtime, artifact: &ArtifactRef) -> bool {
        artifact.engine == self.engine && self.engines.is_current(runtime, artifact)
    }

    async fn check(&self, runtime: Runtime, source: &BlobKey) -> Result<Checked, BuildError> {
        supported(runtime)?;
        let _turn = self.checks.take().await?;
        let desk = self.desks.desk().map_err(failed("make a work folder"))?;
        self.fetch(source, &desk).await?;
        let input = desk.input();
        let (ended, _desk) = self.run(Task::Check { input }, desk).await?;
        match verdict::reply(ended, &self.settings.limits)? {
            (Reply::Checked { notes, .. }, _) => Ok(Checked { notes }),
            (other, _) => Err(failed("check the component")(format!("the builder answered {other:?}"))),
        }
    }

    async fn prepare(&self, upload: SourceUpload) -> Result<Prepared, BuildError> {
        let _turn = self.checks.take().await?;
        let desk = self.desks.desk().map_err(failed("make a work folder"))?;
        self.fetch(&upload.archive, &desk).await?;
        let SourceUpload { runtime, entrypoint, archive, context } = upload;
        let task = Task::PrepareContext { runtime, entrypoint, input: desk.input(), output: desk.output() };
        let (ended, desk) = self.run(task, desk).await?;
        let (source, notes) = match verdict::reply(ended, &self.settings.limits)? {
            (Reply::Context { source, notes, .. }, _) => (source, notes),
            (other, _) => return Err(failed("check the source")(format!("the builder answered {other:?}"))),
        };
        for (file, key) in [(CONTEXT_FILE, &context), (SOURCE_FILE, &archive)] {
            let (_, bytes) = desk.made(file, MAX_CONTEXT_BYTES).await.map_err(failed("read the build context"))?;
            self.blobs.put(key, bytes, MAX_CONTEXT_BYTES).await.map_err(failed("store the build context"))?;
        }
        Ok(Prepared { source, notes })
    }

    async fn build(&self, job: BuildJob) -> Result<Built, BuildError> {
        let over = match job.runtime {
            Runtime::WasmJs | Runtime::WasmPython => Some(self.engines.get(job.runtime, &self.desks).await?),
            runtime => {
                supported(runtime)?;
                None
            }
        };
        let _turn = self.builds.take().await?;
        let started = Instant::now();
        let desk = self.desks.desk().map_err(failed("make a work folder"))?;
        let source = self.fetch(&job.source, &desk).await?;
        if over.is_none() && source != job.sha256 {
            return Err(failed("read the source")("its digest is not the one that it was uploaded with"));
        }
        let cache = self.settings.cache_dir.join(job.function.namespace.to_string());
        let caches = std::iter::once(cache.clone()).chain(self.settings.base_cache.clone()).collect();
        let (reply, log, desk) = match &over {
            None => self.step(Task::Build { input: desk.input(), output: desk.output(), caches }, desk).await?,
            Some(ready) => self.build_source(&job, ready, caches, desk).await?,
        };
        let Reply::Built { wasm, artifact, size_bytes, engine, cache: used } = reply else {
            return Err(failed("build the component")(format!("the builder answered {reply:?}")));
        };
        if engine != self.engine || (over.is_none() && wasm != job.sha256) {
            return Err(failed("build the component")(
                "the builder answered for another component or engine; was it replaced? restart",
            ));
        }
        self.store(&desk, &artifact, size_bytes).await?;
        let modules = match &over {
            None => Vec::new(),
            Some(ready) => ready.store(&*self.blobs).await?,
        };
        let limit = self.settings.cache_bytes;
        let kept = tokio::task::spawn_blocking(move || {
            let kept = cache::keep(&cache, &desk.output().join(PACK_FILE), &used.packs, limit);
            drop(desk);
            kept
        });
        // Without its cache the next build is slower, not wrong.
        if let Err(error) = kept.await.map_err(std::io::Error::other).and_then(|kept| kept) {
            tracing::warn!(%error, namespace = %job.function.namespace, "compiled functions could not be kept");
        }
        Ok(Built { artifact, size_bytes, wasm, engine, modules, log, took: started.elapsed() })
    }
}

fn supported(runtime: Runtime) -> Result<(), BuildError> {
    if runtime == Runtime::Wasm {
        return Ok(());
    }
    Err(BuildError::Rejected {
        reason: format!(
            "runtime `{runtime}` is not available in this release yet: it builds components that were made elsewhere (runtime `wasm`)"
        ),
        log: String::new(),
    })
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(doing: &'static str) -> impl Fn(E) -> BuildError {
    move |source| BuildError::Failed { doing: doing.to_owned(), source: source.into() }
}

fn blob_error(doing: &'static str, limit: u64) -> impl Fn(ports::Error) -> BuildError {
    move |error| match error {
        ports::Error::TooLarge { .. } => {
            BuildError::TooLarge { reason: format!("the upload is over the limit of {limit} bytes") }
        }
        other => failed(doing)(other),
    }
}

/// How many run at once, and how many wait.
struct Turns {
    running: Semaphore,
    waiting: Semaphore,
}

/// Holds a place until it is dropped.
struct Turn<'a>(#[expect(dead_code, reason = "held for its drop")] (SemaphorePermit<'a>, SemaphorePermit<'a>));

impl Turns {
    fn new(parallel: usize) -> Self {
        let parallel = parallel.max(1);
        Self { running: Semaphore::new(parallel), waiting: Semaphore::new(parallel + MAX_WAITING) }
    }

    async fn take(&self) -> Result<Turn<'_>, BuildError> {
        let place = self
            .waiting
            .try_acquire()
            .map_err(|_| failed("wait for a turn")("too many builds are waiting; try again"))?;
        let turn = self.running.acquire().await.map_err(failed("wait for a turn"))?;
        Ok(Turn((turn, place)))
    }
}
