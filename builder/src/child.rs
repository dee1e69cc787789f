//! The process: reads one job, opens what it names, enters the sandbox, works, answers.

pub(crate) mod source;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use sless_core::Runtime;
use sless_core::build_protocol::{
    ARTIFACT_FILE, BUNDLE_FILE, CONTEXT_FILE, Job, Limits, MAX_JOB_BYTES, PACK_FILE, PACKAGES_FILE, Reply, SOURCE_FILE,
    Task,
};

use crate::bundle;
use crate::cache::{PackFile, PackWriter, Packs};
use crate::check::{self, Checked, check_over};
use crate::compile::{self, compile};
use crate::language::{self, Bundle};
use crate::sandbox::{self, Layers};

/// The most characters of a reason that comes from elsewhere, such as the compiler.
const MAX_REASON_CHARS: usize = 2_000;

/// Runs one job: the whole of a builder process. To be called first in `main`, before anything is opened or any thread is
/// started; `args` is a job file, or nothing for a job on standard input. The reply is on standard output, the log on
/// standard error, and the exit code is the reply's.
pub fn run_child(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let reply = match prepare(args) {
        Ok((job, opened)) => work(&job, opened),
        Err(reason) => Reply::Failed { reason },
    };
    let code = reply.exit_code();
    let text = serde_json::to_vec(&reply).unwrap_or_default();
    let mut out = io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Everything a job needs, opened while there are paths.
enum Opened {
    Engine,
    Check {
        input: File,
    },
    PrepareContext {
        input: File,
        runtime: Runtime,
        entrypoint: Option<String>,
        context: File,
        source: File,
    },
    Build {
        input: File,
        to: Output,
    },
    BuildSource {
        input: File,
        language: language::Opened,
        entrypoint: String,
        /// The bundle and, of JavaScript, its source map.
        bundle: Option<(File, Option<File>)>,
        to: Output,
    },
    Unpack {
        input: File,
        output: PathBuf,
    },
    Bundle {
        entrypoint: String,
        bundler: PathBuf,
        folder: PathBuf,
        packages: Option<PathBuf>,
    },
    PrepareEngine {
        runtime: Runtime,
        input: File,
        output: PathBuf,
    },
}

/// Where a build writes to, and what it looks into.
struct Output {
    artifact: File,
    pack: File,
    packs: Vec<PackFile>,
}

fn prepare(args: impl IntoIterator<Item = OsString>) -> Result<(Job, Opened), String> {
    sandbox::close_inherited_files().map_err(|e| format!("close inherited files: {e}"))?;
    let job = read_job(args)?;
    let opened = open(&job.task)?;
    Ok((job, opened))
}

fn read_job(args: impl IntoIterator<Item = OsString>) -> Result<Job, String> {
    let mut args = args.into_iter();
    let mut text = Vec::new();
    let read = match args.next() {
        Some(path) => File::open(path).and_then(|file| file.take(MAX_JOB_BYTES).read_to_end(&mut text)),
        None => io::stdin().lock().take(MAX_JOB_BYTES).read_to_end(&mut text),
    };
    read.map_err(|e| format!("read the job: {e}"))?;
    if args.next().is_some() {
        return Err("one argument at most: a file with the job as JSON".to_owned());
    }
    serde_json::from_slice(&text).map_err(|e| format!("the job is not valid: {e}"))
}

fn open(task: &Task) -> Result<Opened, String> {
    let input = |path: &Path| File::open(path).map_err(|e| format!("open the input {}: {e}", path.display()));
    Ok(match task {
        Task::Engine {} => Opened::Engine,
        Task::Check { input: path } => Opened::Check { input: input(path)? },
        Task::PrepareContext { runtime, entrypoint, input: path, output } => Opened::PrepareContext {
            input: input(path)?,
            runtime: *runtime,
            entrypoint: entrypoint.clone(),
            context: create(output, CONTEXT_FILE)?,
            source: create(output, SOURCE_FILE)?,
        },
        Task::Build { input: path, output, caches } => {
            Opened::Build { input: input(path)?, to: Output::open(output, caches)? }
        }
        Task::BuildSource { runtime, entrypoint, input: path, engine, bundle, output, caches } => Opened::BuildSource {
            input: input(path)?,
            language: language::open(*runtime, engine)?,
            entrypoint: entrypoint.clone(),
            bundle: bundle.as_ref().map(|folder| open_bundle(*runtime, folder)).transpose()?,
            to: Output::open(output, caches)?,
        },
        Task::Unpack { input: path, output } => Opened::Unpack { input: input(path)?, output: output.clone() },
        Task::Bundle { entrypoint, bundler, folder, packages } => Opened::Bundle {
            entrypoint: entrypoint.clone(),
            bundler: bundler.clone(),
            folder: folder.clone(),
            packages: packages.clone(),
        },
        Task::PrepareEngine { runtime, input: path, output } => {
            Opened::PrepareEngine { runtime: *runtime, input: input(path)?, output: output.clone() }
        }
    })
}

/// The bundle and its source map, or Python's packages. Not through links: the folder was a stranger's to write.
fn open_bundle(runtime: Runtime, folder: &Path) -> Result<(File, Option<File>), String> {
    let open = |name: &str| {
        let path = folder.join(name);
        let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path);
        file.map_err(|e| format!("open {}: {e}", path.display()))
    };
    match runtime {
        Runtime::WasmPython => Ok((open(PACKAGES_FILE)?, None)),
        _ => Ok((open(BUNDLE_FILE)?, Some(open(&format!("{BUNDLE_FILE}.map"))?))),
    }
}

fn create(folder: &Path, name: &str) -> Result<File, String> {
    let path = folder.join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    file.map_err(|e| format!("create {}: {e}", path.display()))
}

impl Output {
    fn open(folder: &Path, caches: &[PathBuf]) -> Result<Self, String> {
        let (artifact, pack) = (create(folder, ARTIFACT_FILE)?, create(folder, PACK_FILE)?);
        Ok(Self { artifact, pack, packs: PackFile::find(caches) })
    }
}

fn work(job: &Job, opened: Opened) -> Reply {
    let entered = match &opened {
        // The platform's own code: no tenant's is near, and what it compiles it also runs.
        Opened::PrepareEngine { .. } => sandbox::enter(&job.limits, job.parent, Layers::NONE),
        Opened::Unpack { output, .. } => sandbox::enter_folder(&job.limits, job.parent, output, &[]),
        Opened::Bundle { bundler, folder, packages, .. } => {
            let read: Vec<&Path> = std::iter::once(bundler.as_path()).chain(packages.as_deref()).collect();
            sandbox::enter_folder(&job.limits, job.parent, folder, &read)
        }
        _ => sandbox::enter(&job.limits, job.parent, Layers::ALL),
    };
    let degraded = match entered {
        Ok(degraded) => degraded,
        Err(error) => return Reply::Failed { reason: with_causes(&error) },
    };
    // From here on the tenant's bytes are read.
    catch_unwind(AssertUnwindSafe(|| {
        if let Err(reason) = threads(&job.limits) {
            return Reply::Failed { reason };
        }
        if let Opened::Engine = opened {
            return Reply::Engine { engine: crate::engine(), degraded };
        }
        for layer in &degraded {
            log(&format!("this machine does not have a layer of the sandbox: {layer}"));
        }
        run(&job.limits, opened).unwrap_or_else(|refusal| refusal)
    }))
    .unwrap_or_else(|_| Reply::Rejected {
        reason: "the compiler crashed on this component, which is a fault of the platform; its build log has the place"
            .to_owned(),
    })
}

/// Threads are started here and not by the first parallel loop, so that their number is the job's.
fn threads(limits: &Limits) -> Result<(), String> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(limits.threads as usize)
        .thread_name(|n| format!("compile-{n}"))
        .build_global()
        .map_err(|e| format!("start threads: {e}"))
}

/// The answer, which is a refusal where it is an error.
fn run(limits: &Limits, opened: Opened) -> Result<Reply, Reply> {
    match opened {
        Opened::Engine => Err(failed("the engine is told before")),
        Opened::Check { input } => {
            let checked = checked(&read_component(input, limits)?, limits, &[])?;
            Ok(Reply::Checked { wasm: checked.wasm, notes: checked.notes })
        }
        Opened::Build { input, to } => {
            let wasm = read_component(input, limits)?;
            let checked = checked(&wasm, limits, &[])?;
            build(limits, &wasm, &checked, to)
        }
        Opened::PrepareContext { input, runtime, entrypoint, context, source } => {
            let archive = read_component(input, limits)?;
            source::prepare_context(&archive, runtime, entrypoint.as_deref(), context, source)
        }
        Opened::Unpack { input, output } => bundle::unpack(input, &output),
        Opened::Bundle { entrypoint, bundler, folder, .. } => bundle::bundle(&bundler, &folder, &entrypoint),
        Opened::BuildSource { input, language, entrypoint, bundle, to } => {
            let bundle = match bundle {
                Some((code, map)) => {
                    let map = map.map(|map| read_component(map, limits)).transpose()?;
                    Some(Bundle { code: read_component(code, limits)?, map: map.unwrap_or_default() })
                }
                None => None,
            };
            let wasm = source::component(input, &language, &entrypoint, bundle.as_ref())?;
            let checked = checked(&wasm, limits, &language.imports)?;
            build(limits, &wasm, &checked, to)
        }
        Opened::PrepareEngine { runtime, input, output } => {
            let component = read_component(input, limits)?;
            language::prepare(runtime, &component, &output).map(Reply::Prepared).map_err(failed)
        }
    }
}

fn failed(reason: impl ToString) -> Reply {
    Reply::Failed { reason: reason.to_string() }
}

fn read_component(file: File, limits: &Limits) -> Result<Vec<u8>, Reply> {
    let mut bytes = Vec::new();
    // One more than allowed, so that the check sees that there is more.
    let read = file.take(limits.component_bytes.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| failed(format!("read the component: {error}")))?;
    Ok(bytes)
}

fn checked(wasm: &[u8], limits: &Limits, modules: &[String]) -> Result<Checked, Reply> {
    let started = Instant::now();
    let checked = check_over(wasm, &check::Limits::with_component_bytes(limits.component_bytes), modules);
    let checked = checked.map_err(|rejection| match rejection.is_size() {
        true => Reply::TooLarge { reason: rejection.to_string() },
        false => Reply::Rejected { reason: rejection.to_string() },
    })?;
    log(&format!(
        "component {} of {} bytes with {} functions checked in {} ms",
        checked.wasm,
        wasm.len(),
        checked.functions,
        started.elapsed().as_millis()
    ));
    for note in &checked.notes {
        log(note);
    }
    Ok(checked)
}

fn build(limits: &Limits, wasm: &[u8], checked: &Checked, to: Output) -> Result<Reply, Reply> {
    let started = Instant::now();
    let engine = crate::engine();
    let write = PackWriter::new(to.pack, &engine, limits.pack_bytes).map_err(|error| failed(with_causes(&error)))?;
    let cache = Packs::new(to.packs, Some(write), &engine);
    let compiled = compile(wasm, &cache).map_err(|error| match error {
        compile::Error::Compile(_) => Reply::Rejected { reason: with_causes(&error) },
        error => failed(with_causes(&error)),
    })?;
    let size_bytes = compiled.artifact.len() as u64;
    log(&format!(
        "compiled to {} of {size_bytes} bytes in {} ms; {} functions compiled, {} from the cache",
        compiled.digest,
        started.elapsed().as_millis(),
        compiled.cache.misses,
        compiled.cache.hits
    ));
    if size_bytes > limits.artifact_bytes {
        return Err(Reply::TooLarge {
            reason: format!(
                "the compiled code has {size_bytes} bytes, over the limit of {} bytes; leave out code and data that is not used",
                limits.artifact_bytes
            ),
        });
    }
    let mut artifact = to.artifact;
    artifact.write_all(&compiled.artifact).map_err(|error| failed(format!("write the artifact: {error}")))?;
    Ok(Reply::Built { wasm: checked.wasm, artifact: compiled.digest, size_bytes, engine, cache: cache.usage() })
}

/// An error with what caused it.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    cut(&text)
}

fn cut(reason: &str) -> String {
    reason.chars().take(MAX_REASON_CHARS).collect()
}

fn log(line: &str) {
    // A parent that stopped reading does not stop a build.
    let _ = writeln!(io::stderr(), "{line}");
}
