//! The process: reads one job, opens what it names, enters the sandbox, works, answers.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use sless_core::Runtime;
use sless_core::build_protocol::{
    ARTIFACT_FILE, CONTEXT_FILE, Job, Limits, MAX_JOB_BYTES, PACK_FILE, Reply, SOURCE_FILE, Task,
};

use crate::cache::{PackFile, PackWriter, Packs};
use crate::check::{self, Checked, check};
use crate::compile::{self, compile};
use crate::sandbox::{self, Layers};
use crate::source::{self, prepare::Prepared};

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
struct Opened {
    input: Option<File>,
    output: Option<(File, File)>,
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
    let input = |path: &Path| File::open(path).map_err(|e| format!("open the component {}: {e}", path.display()));
    let create = |folder: &Path, name: &str| {
        let path = folder.join(name);
        File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| format!("create {}: {e}", path.display()))
    };
    Ok(match task {
        Task::Engine {} => Opened { input: None, output: None, packs: Vec::new() },
        Task::Check { input: path } => Opened { input: Some(input(path)?), output: None, packs: Vec::new() },
        Task::PrepareContext { input: path, output, .. } => Opened {
            input: Some(input(path)?),
            output: Some((create(output, CONTEXT_FILE)?, create(output, SOURCE_FILE)?)),
            packs: Vec::new(),
        },
        Task::Build { input: path, output, caches } => Opened {
            input: Some(input(path)?),
            output: Some((create(output, ARTIFACT_FILE)?, create(output, PACK_FILE)?)),
            packs: PackFile::find(caches),
        },
    })
}

fn work(job: &Job, opened: Opened) -> Reply {
    let degraded = match sandbox::enter(&job.limits, job.parent, Layers::ALL) {
        Ok(degraded) => degraded,
        Err(error) => return Reply::Failed { reason: with_causes(&error) },
    };
    // From here on the tenant's bytes are read.
    catch_unwind(AssertUnwindSafe(|| {
        if let Err(reason) = threads(&job.limits) {
            return Reply::Failed { reason };
        }
        if let Task::Engine {} = job.task {
            return Reply::Engine { engine: crate::engine(), degraded };
        }
        for layer in &degraded {
            log(&format!("this machine does not have a layer of the sandbox: {layer}"));
        }
        if let Task::PrepareContext { runtime, entrypoint, .. } = &job.task {
            return prepare_context(*runtime, entrypoint.as_deref(), &job.limits, opened);
        }
        run(&job.limits, opened)
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

fn run(limits: &Limits, opened: Opened) -> Reply {
    let wasm = match opened.input.map(|file| read_component(file, limits)) {
        Some(Ok(bytes)) => bytes,
        Some(Err(error)) => return Reply::Failed { reason: format!("read the component: {error}") },
        None => return Reply::Failed { reason: "the job names no component".to_owned() },
    };
    let started = Instant::now();
    let checked = match check(&wasm, &check::Limits::with_component_bytes(limits.component_bytes)) {
        Ok(checked) => checked,
        Err(rejection) if rejection.is_size() => return Reply::TooLarge { reason: rejection.to_string() },
        Err(rejection) => return Reply::Rejected { reason: rejection.to_string() },
    };
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
    match opened.output {
        None => Reply::Checked { wasm: checked.wasm, notes: checked.notes },
        Some((artifact, pack)) => build(limits, &wasm, &checked, opened.packs, artifact, pack),
    }
}

/// An upload becomes a build context, and the user's files as they go back to their owner.
fn prepare_context(runtime: Runtime, entrypoint: Option<&str>, limits: &Limits, opened: Opened) -> Reply {
    let (Some(input), Some((context_file, source_file))) = (opened.input, opened.output) else {
        return Reply::Failed { reason: "the job names no archive".to_owned() };
    };
    let archive = match read_component(input, limits) {
        Ok(archive) => archive,
        Err(error) => return Reply::Failed { reason: format!("read the archive: {error}") },
    };
    let Prepared { context, notes } = match source::prepare::prepare(&archive, runtime, entrypoint) {
        Ok(prepared) => prepared,
        Err(error) if error.is_size() => return Reply::TooLarge { reason: error.to_string() },
        Err(source::Error::Read(error)) => return Reply::Failed { reason: format!("read the archive: {error}") },
        Err(error) => return Reply::Rejected { reason: error.to_string() },
    };
    let written = context
        .write(BufWriter::new(context_file))
        .and_then(|()| source::zip::write(&context.function, BufWriter::new(source_file)));
    match written {
        Ok(()) => Reply::Context {
            source: context.function.digest(),
            files: context.function.len() as u64,
            size_bytes: context.function.size_bytes(),
            notes,
        },
        Err(error) => Reply::Failed { reason: format!("write the context: {error}") },
    }
}

fn read_component(file: File, limits: &Limits) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more than allowed, so that the check sees that there is more.
    file.take(limits.component_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn build(
    limits: &Limits,
    wasm: &[u8],
    checked: &Checked,
    packs: Vec<PackFile>,
    mut artifact: File,
    pack: File,
) -> Reply {
    let started = Instant::now();
    let engine = crate::engine();
    let write = match PackWriter::new(pack, &engine, limits.pack_bytes) {
        Ok(write) => write,
        Err(error) => return Reply::Failed { reason: with_causes(&error) },
    };
    let cache = Packs::new(packs, Some(write), &engine);
    let compiled = match compile(wasm, &cache) {
        Ok(compiled) => compiled,
        Err(error @ compile::Error::Compile(_)) => return Reply::Rejected { reason: with_causes(&error) },
        Err(error) => return Reply::Failed { reason: with_causes(&error) },
    };
    let size_bytes = compiled.artifact.len() as u64;
    log(&format!(
        "compiled to {} of {size_bytes} bytes in {} ms; {} functions compiled, {} from the cache",
        compiled.digest,
        started.elapsed().as_millis(),
        compiled.cache.misses,
        compiled.cache.hits
    ));
    if size_bytes > limits.artifact_bytes {
        return Reply::TooLarge {
            reason: format!(
                "the compiled code has {size_bytes} bytes, over the limit of {} bytes; leave out code and data that is not used",
                limits.artifact_bytes
            ),
        };
    }
    if let Err(error) = artifact.write_all(&compiled.artifact) {
        return Reply::Failed { reason: format!("write the artifact: {error}") };
    }
    Reply::Built { wasm: checked.wasm, artifact: compiled.digest, size_bytes, engine, cache: cache.usage() }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text.chars().take(MAX_REASON_CHARS).collect()
}

fn log(line: &str) {
    // A parent that stopped reading does not stop a build.
    let _ = writeln!(io::stderr(), "{line}");
}
