//! Python as a [`Language`]: its prepared engine as files, and a component of a user's files.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sless_core::Digest;
use sless_core::artifact::MODULE_IMPORT_PREFIX;
use sless_core::build_protocol::PreparedModule;
use wasmtime::component::Component;
use wasmtime::{Engine as Wasmtime, Module};

use super::link::{self, Linked, Shape, Template};
use super::snapshot::{self, Builder, Built, File, Limits, Source};
use crate::cache::Packs;
use crate::child::with_causes;
use crate::compile;
use crate::language::{Input, Language, Made, Refused, write, write_module};
use crate::source::Context;

/// The engine's component with what a builder needs, compiled.
const BUILDER_FILE: &str = "builder.cwasm";
/// A function's component before and after its image.
const TEMPLATE_FILES: [&str; 2] = ["before.bin", "after.bin"];
/// [`Layout`].
const LAYOUT_FILE: &str = "layout.json";
/// What names packages.
const REQUIREMENTS: &str = "requirements.txt";

/// Why an engine can't be prepared or opened. All of these are faults of the platform.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It can't be taken apart.
    #[error(transparent)]
    Link(#[from] link::Error),
    /// The compiler can't be made.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// wasmtime refuses it.
    #[error("{what}: {source:#}")]
    Wasm {
        /// What was attempted.
        what: &'static str,
        /// Why not.
        source: wasmtime::Error,
    },
    /// Its parts do not fit together.
    #[error(transparent)]
    Builder(#[from] snapshot::Error),
    /// Its folder can't be read or written.
    #[error("{0}")]
    Folder(String),
}

fn wasm(what: &'static str) -> impl Fn(wasmtime::Error) -> Error {
    move |source| Error::Wasm { what, source }
}

/// What a builder has to know about the engine.
#[derive(Debug, Serialize, Deserialize)]
struct Layout {
    module: Digest,
    artifact: Digest,
    shape: Shape,
}

/// Prepares the engine of `runtimes/wasm-python` into a folder: half a minute of compiling.
///
/// # Errors
/// When the component is not that engine, or the folder can't be written.
pub fn prepare(component: &[u8], folder: &Path) -> Result<Vec<PreparedModule>, Error> {
    let packs = Packs::new(Vec::new(), None, &crate::engine());
    let engine = compile::engine(&packs).map_err(compile::Error::Engine)?;
    let linked = Linked::new(component)?;
    let builder = engine.precompile_component(&linked.builder).map_err(wasm("compile the engine"))?;
    let artifact = engine.precompile_module(&linked.module).map_err(wasm("compile the engine's module"))?;
    let keep = |name: &str, bytes: &[u8]| write(folder, name, bytes).map_err(Error::Folder);
    keep(BUILDER_FILE, &builder)?;
    keep(TEMPLATE_FILES[0], &linked.function.before)?;
    keep(TEMPLATE_FILES[1], &linked.function.after)?;
    let module = write_module(folder, linked.digest, &artifact).map_err(Error::Folder)?;
    let layout = Layout { module: linked.digest, artifact: module.artifact, shape: linked.shape };
    keep(LAYOUT_FILE, &serde_json::to_vec(&layout).map_err(|e| Error::Folder(e.to_string()))?)?;
    Ok(vec![module])
}

/// Maps a prepared engine. To be done before the sandbox is entered: it maps executable memory, which nothing does
/// afterwards.
///
/// # Errors
/// When the folder is not what [`prepare`] wrote.
pub fn open(folder: &Path) -> Result<Python, Error> {
    open_with(folder, Limits::default())
}

/// The same with other limits.
///
/// # Errors
/// See [`open`].
pub fn open_with(folder: &Path, limits: Limits) -> Result<Python, Error> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(|e| Error::Folder(format!("read {}: {e}", path.display())))
    };
    let layout: Layout = serde_json::from_slice(&read(LAYOUT_FILE)?)
        .map_err(|e| Error::Folder(format!("read {LAYOUT_FILE} of the engine: {e}")))?;
    let template = Template { before: read(TEMPLATE_FILES[0])?, after: read(TEMPLATE_FILES[1])? };
    let config = sless_engine::compiler_config().map_err(wasm("configure the engine"))?;
    let wasmtime = Wasmtime::new(&config).map_err(wasm("make the engine"))?;
    // SAFETY: the folder is the platform's own. A process that has seen a tenant's code can't write there.
    #[expect(unsafe_code, reason = "the platform's own code; see above")]
    let (component, module) = unsafe {
        let component = Component::deserialize_file(&wasmtime, folder.join(BUILDER_FILE));
        let module = Module::deserialize_file(&wasmtime, folder.join(layout.artifact.to_string()));
        (component.map_err(wasm("load the engine"))?, module.map_err(wasm("load the engine's module"))?)
    };
    let import = format!("{MODULE_IMPORT_PREFIX}{}", layout.module);
    let builder = Builder::new(wasmtime, &component, (&import, &module), template, layout.shape, limits)?;
    Ok(Python(builder))
}

/// The language.
pub struct Python(Builder);

impl std::fmt::Debug for Python {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Python").finish_non_exhaustive()
    }
}

impl Python {
    /// Builds a function. Where the code at the top of its files depends on what differs between instances (environment,
    /// clocks, random numbers, network), it is built so that this code runs in each instance.
    ///
    /// # Errors
    /// When the files have no handler, or take more than they may.
    pub fn build(&self, mut source: Source) -> Result<Built, snapshot::Error> {
        self.0.build(&mut source)
    }
}

impl Language for Python {
    fn make(&self, input: &Input<'_>) -> Result<Made, Refused> {
        use snapshot::Error;
        let built = self.build(source(input)?).map_err(|error| match error {
            Error::Function(failure) => Refused::Source(match &failure.stack {
                Some(stack) => format!("{failure}\n{stack}"),
                None => failure.to_string(),
            }),
            error @ (Error::Memory { .. } | Error::Time { .. } | Error::Trapped { .. }) => {
                Refused::Source(with_causes(&error))
            }
            error => Refused::Platform(with_causes(&error)),
        })?;
        let mut notes: Vec<String> = built.printed.into_iter().map(|line| format!("printed: {line}")).collect();
        if !built.impure.is_empty() {
            notes.push(format!(
                "the code at the top of the files runs at the start of each call, since it asks for {}; without that its \
                 state would be where calls start, which is faster",
                built.impure.join(", ")
            ));
        }
        notes.push(format!("calls start with {} KiB of memory", built.memory_bytes >> 10));
        Ok(Made { component: built.component, notes })
    }
}

fn source(input: &Input<'_>) -> Result<Source, Refused> {
    let file = |(path, content): (&str, &[u8])| File { path: path.to_owned(), content: content.to_vec() };
    let packages = match input.bundle {
        Some(bundle) => {
            let packages = Context::read(bundle.code.as_slice())
                .map_err(|error| Refused::Source(format!("{REQUIREMENTS}: its packages: {}", with_causes(&error))))?;
            packages.function.iter().map(file).collect()
        }
        None if input.files.get(REQUIREMENTS).is_some() => return Err(Refused::NeedsBundle { packages: true }),
        None => Vec::new(),
    };
    let files = input.files.iter().map(file).collect();
    Ok(Source { files, packages, entrypoint: input.entrypoint.to_owned(), evaluate: true })
}
