//! Engines of languages: found beside the program, prepared once for this release, their modules kept in the object store.
//!
//! A prepared engine is the platform's own: it is made by a builder that sees no tenant's code, into a folder that builders
//! of tenants can read only. What hosts are told of its modules is read from there, never from a builder's answer.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt as _;
use sless_core::artifact::ArtifactRef;
use sless_core::build_protocol::{ENGINE_FILE, Job, Limits, PREPARED_FORMAT, PreparedEngine, Reply, Task};
use sless_core::ports::{self, BlobKey, Blobs, BuildError, BuiltModule};
use sless_core::{Digest, Runtime};
use tokio::sync::OnceCell;
use tokio_util::io::ReaderStream;

use super::child::{self, Program};
use super::desk::Desks;
use super::{failed, verdict};

/// Runtimes whose source is built over an engine.
const LANGUAGES: [Runtime; 2] = [Runtime::WasmJs, Runtime::WasmPython];
/// The folder of engines may have prepared ones in this one, each named after its runtime, as releases do.
const PREPARED: &str = "prepared";
/// The bundler's file.
const BUNDLER: &str = "esbuild";

/// All engines there are.
pub(super) struct Engines {
    found: HashMap<Runtime, Engine>,
    /// Where engines are looked for; for messages.
    folder: Option<PathBuf>,
    /// Where prepared ones are kept.
    cache: PathBuf,
    /// What artifacts are compiled for.
    engine: Digest,
    program: Arc<Program>,
    limits: Limits,
}

struct Engine {
    component: PathBuf,
    /// SHA-256 of the component.
    source: Digest,
    ready: OnceCell<Arc<Ready>>,
}

/// An engine that is prepared.
pub(super) struct Ready {
    pub(super) folder: PathBuf,
    prepared: PreparedEngine,
}

impl Engines {
    /// Looks for engines, `{runtime}.wasm` in `folder`, and for what was prepared of them earlier.
    pub(super) fn find(
        folder: Option<PathBuf>,
        cache: PathBuf,
        engine: Digest,
        program: Arc<Program>,
        limits: Limits,
    ) -> io::Result<Self> {
        let mut engines = Self { found: HashMap::new(), folder, cache, engine, program, limits };
        let Some(folder) = engines.folder.clone() else { return Ok(engines) };
        for runtime in LANGUAGES {
            let component = folder.join(format!("{runtime}.wasm"));
            let bytes = match std::fs::read(&component) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let found = Engine { component, source: Digest::of(&bytes), ready: OnceCell::new() };
            let name = engines.name(runtime, &found);
            for folder in [folder.join(PREPARED).join(runtime.name()), engines.cache.join(&name)] {
                if let Some(ready) = engines.read(runtime, &found, &folder) {
                    let _ = found.ready.set(Arc::new(ready));
                    break;
                }
            }
            engines.found.insert(runtime, found);
        }
        Ok(engines)
    }

    /// Whether there is an engine for a runtime.
    pub(super) fn has(&self, runtime: Runtime) -> bool {
        self.found.contains_key(&runtime)
    }

    /// Whether an artifact is over the modules that builds are made over now. Without the engine nothing can be built
    /// anew, so all are; while it is not prepared yet, none is.
    pub(super) fn is_current(&self, runtime: Runtime, artifact: &ArtifactRef) -> bool {
        let Some(engine) = self.found.get(&runtime) else { return true };
        let Some(ready) = engine.ready.get() else { return false };
        let now = ready.prepared.modules.iter().map(|module| (module.wasm, module.artifact));
        now.eq(artifact.modules.iter().map(|module| (module.wasm, module.digest)))
    }

    /// A runtime's engine, prepared now if it was not before.
    pub(super) async fn get(&self, runtime: Runtime, desks: &Desks) -> Result<Arc<Ready>, BuildError> {
        let engine = self
            .found
            .get(&runtime)
            .ok_or_else(|| BuildError::Rejected { reason: self.missing(runtime), log: String::new() })?;
        engine.ready.get_or_try_init(|| self.prepare(runtime, engine, desks)).await.cloned()
    }

    /// The bundler, which is beside the engines.
    pub(super) fn bundler(&self) -> Result<PathBuf, BuildError> {
        let bundler = self.folder.as_ref().map(|folder| folder.join(BUNDLER));
        bundler.filter(|path| path.is_file()).ok_or_else(|| BuildError::Rejected {
            reason: "the source has several files or uses packages, and the bundler that makes one file of them is not here; \
                     `cargo xtask engines` puts it beside the engines"
                .to_owned(),
            log: String::new(),
        })
    }

    fn missing(&self, runtime: Runtime) -> String {
        let looked = match &self.folder {
            Some(folder) => format!("there is no `{}`", folder.join(format!("{runtime}.wasm")).display()),
            None => "there is no folder of engines".to_owned(),
        };
        format!(
            "`runtime`: `{runtime}` needs its engine, and {looked}; build it with `cargo xtask engines`, or name a folder that \
             has it (`sless dev --engines DIR`, SLESS_ENGINES)"
        )
    }

    fn name(&self, runtime: Runtime, engine: &Engine) -> String {
        let both = [engine.source.as_bytes().as_slice(), self.engine.as_bytes()].concat();
        format!("{runtime}-{}", &Digest::of(&both).to_string()[..16])
    }

    fn read(&self, runtime: Runtime, engine: &Engine, folder: &Path) -> Option<Ready> {
        let text = std::fs::read(folder.join(ENGINE_FILE)).ok()?;
        let prepared: PreparedEngine = serde_json::from_slice(&text).ok()?;
        let fits = prepared.format == PREPARED_FORMAT
            && (prepared.runtime, prepared.source, prepared.engine) == (runtime, engine.source, self.engine);
        fits.then(|| Ready { folder: folder.to_owned(), prepared })
    }

    async fn prepare(&self, runtime: Runtime, engine: &Engine, desks: &Desks) -> Result<Arc<Ready>, BuildError> {
        let doing = "prepare the engine";
        let started = std::time::Instant::now();
        let desk = desks.desk().map_err(failed(doing))?;
        let task = Task::PrepareEngine { runtime, input: engine.component.clone(), output: desk.output() };
        let job = Job { task, limits: self.limits.clone(), parent: Some(std::process::id()) };
        let (ended, desk) = child::run(&self.program, &job, desk).await.map_err(failed(doing))?;
        // An engine that is refused is the platform's fault, not that of the function which asked for it first.
        let reply = verdict::reply(ended, &self.limits).map_err(|error| failed(doing)(error))?;
        if !matches!(reply, (Reply::Prepared(_), _)) {
            return Err(failed(doing)(format!("the builder answered {:?}", reply.0)));
        }
        let folder = self.cache.join(self.name(runtime, engine));
        let made = std::fs::create_dir_all(&self.cache)
            // What is left of one that was not whole.
            .and_then(|()| if folder.exists() { std::fs::remove_dir_all(&folder) } else { Ok(()) })
            .and_then(|()| std::fs::rename(desk.output(), &folder));
        made.map_err(failed(doing))?;
        let ready = self.read(runtime, engine, &folder);
        let ready = ready.ok_or_else(|| failed(doing)("what was prepared is of another engine"))?;
        tracing::info!(%runtime, elapsed_ms = started.elapsed().as_millis() as u64, "engine prepared");
        Ok(Arc::new(ready))
    }
}

impl Ready {
    /// Its modules, in the object store. They are looked for at every build, as nothing else keeps them there until a
    /// version refers to them.
    pub(super) async fn store(&self, blobs: &dyn Blobs) -> Result<Vec<BuiltModule>, BuildError> {
        let doing = "store the engine's modules";
        let mut modules = Vec::with_capacity(self.prepared.modules.len());
        for module in &self.prepared.modules {
            let key = BlobKey::artifact(&module.artifact);
            if !blobs.exists(&key).await.map_err(failed(doing))? {
                let file = tokio::fs::File::open(self.folder.join(module.artifact.to_string())).await;
                let bytes = ReaderStream::new(file.map_err(failed(doing))?);
                let bytes = Box::pin(bytes.map_err(ports::Error::unavailable("read an engine's module")));
                let stored = blobs.put(&key, bytes, module.size_bytes).await.map_err(failed(doing))?;
                if stored.digest != module.artifact {
                    return Err(failed(doing)("a prepared engine's module is damaged; remove the cache of engines"));
                }
            }
            modules.push(BuiltModule { artifact: module.artifact, size_bytes: module.size_bytes, wasm: module.wasm });
        }
        Ok(modules)
    }
}
