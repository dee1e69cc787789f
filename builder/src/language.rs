//! Languages whose source becomes a component over an engine of the platform's own.
//!
//! An engine is prepared once a release, in a process that sees no tenant's code ([`prepare`]): what it gives is a folder
//! with compiled modules for hosts, which [`PreparedEngine`] lists, and whatever the language needs to build over them. A
//! build maps that before the sandbox is entered ([`Language::open`]), since no memory becomes executable afterwards.

use std::fs;
use std::path::Path;

use sless_core::build_protocol::{ENGINE_FILE, PREPARED_FORMAT, PreparedEngine, PreparedModule};
use sless_core::{Digest, Runtime};

use crate::child::with_causes;
use crate::js;
use crate::python;
use crate::source::Tree;

/// The most bytes of [`ENGINE_FILE`]: some digests.
const MAX_ENGINE_FILE_BYTES: u64 = 64 << 10;

/// A language with its engine mapped, which makes components.
pub(crate) trait Language {
    /// Makes a component of a user's files. It imports no module but the prepared engine's.
    fn make(&self, input: &Input<'_>) -> Result<Made, Refused>;
}

/// What a component is made of.
pub(crate) struct Input<'a> {
    /// The user's files.
    pub(crate) files: &'a Tree,
    /// `file.export`.
    pub(crate) entrypoint: &'a str,
    /// The files as one, where the language asked for that.
    pub(crate) bundle: Option<&'a Bundle>,
}

/// One file that several became.
pub(crate) struct Bundle {
    /// The file.
    pub(crate) code: Vec<u8>,
    /// Its source map.
    pub(crate) map: Vec<u8>,
}

/// A component.
pub(crate) struct Made {
    /// Its bytes.
    pub(crate) component: Vec<u8>,
    /// What its owner should know.
    pub(crate) notes: Vec<String>,
}

/// Why there is none.
pub(crate) enum Refused {
    /// The source is at fault: where, what and what to do.
    Source(String),
    /// The platform is.
    Platform(String),
    /// It has to be bundled first.
    NeedsBundle {
        /// With packages, which a lock file names.
        packages: bool,
    },
}

/// A prepared engine, opened.
pub(crate) struct Opened {
    /// The language.
    pub(crate) language: Box<dyn Language>,
    /// The names by which components may import its modules.
    pub(crate) imports: Vec<String>,
}

/// Opens a prepared engine.
///
/// # Errors
/// When the folder is of another release, or the runtime takes no source.
pub(crate) fn open(runtime: Runtime, folder: &Path) -> Result<Opened, String> {
    let path = folder.join(ENGINE_FILE);
    let text = fs::File::open(&path)
        .and_then(|file| {
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_ENGINE_FILE_BYTES), &mut text)?;
            Ok(text)
        })
        .map_err(|e| format!("read {}: {e}", path.display()))?;
    let prepared: PreparedEngine =
        serde_json::from_slice(&text).map_err(|e| format!("read {}: {e}", path.display()))?;
    if (prepared.format, prepared.runtime, prepared.engine) != (PREPARED_FORMAT, runtime, crate::engine()) {
        return Err(format!("{} is of another runtime or release", folder.display()));
    }
    let imports =
        prepared.modules.iter().map(|m| format!("{}{}", sless_core::artifact::MODULE_IMPORT_PREFIX, m.wasm)).collect();
    let language: Box<dyn Language> = match runtime {
        Runtime::WasmJs => Box::new(js::open(folder)?),
        Runtime::WasmPython => Box::new(python::open(folder).map_err(|error| with_causes(&error))?),
        other => return Err(no_language(other)),
    };
    Ok(Opened { language, imports })
}

/// Prepares an engine: writes all of it into the folder, [`ENGINE_FILE`] last.
///
/// # Errors
/// When the component is not that language's engine, or the folder can't be written.
pub(crate) fn prepare(runtime: Runtime, component: &[u8], folder: &Path) -> Result<PreparedEngine, String> {
    let modules = match runtime {
        Runtime::WasmJs => js::prepare(component, folder)?,
        Runtime::WasmPython => python::prepare(component, folder).map_err(|error| with_causes(&error))?,
        other => return Err(no_language(other)),
    };
    let prepared = PreparedEngine {
        format: PREPARED_FORMAT,
        runtime,
        source: Digest::of(component),
        engine: crate::engine(),
        modules,
    };
    let text = serde_json::to_vec(&prepared).map_err(|e| e.to_string())?;
    write(folder, ENGINE_FILE, &text)?;
    Ok(prepared)
}

fn no_language(runtime: Runtime) -> String {
    format!("runtime `{runtime}` has no engine for source")
}

/// Writes a compiled module beside the others.
///
/// # Errors
/// When the folder can't be written.
pub(crate) fn write_module(folder: &Path, wasm: Digest, compiled: &[u8]) -> Result<PreparedModule, String> {
    let artifact = Digest::of(compiled);
    write(folder, &artifact.to_string(), compiled)?;
    Ok(PreparedModule { wasm, artifact, size_bytes: compiled.len() as u64 })
}

/// Writes a file of the prepared engine.
///
/// # Errors
/// When the folder can't be written.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = folder.join(name);
    fs::write(&path, bytes).map_err(|e| format!("write {}: {e}", path.display()))
}
