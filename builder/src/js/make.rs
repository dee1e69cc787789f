//! JavaScript as a [`Language`]: its prepared engine as files, and a component of a user's files.

use std::fs;
use std::path::Path;

use sless_core::build_protocol::PreparedModule;

use super::snapshot::{Engine, Error, Limits, Source};
use super::{Prepared, uses};
use crate::cache::Packs;
use crate::child::with_causes;
use crate::language::{Input, Language, Made, Refused, write, write_module};

/// [`Prepared::base`].
const BASE_FILE: &str = "base.wasm";
/// [`Prepared::builder`].
const BUILDER_FILE: &str = "builder.cwasm";
/// What a handler's file may end in.
const EXTENSIONS: [&str; 4] = ["js", "mjs", "cjs", "ts"];

/// Prepares the engine into a folder.
///
/// # Errors
/// When the component is not that engine, or the folder can't be written.
pub(crate) fn prepare(component: &[u8], folder: &Path) -> Result<Vec<PreparedModule>, String> {
    let packs = Packs::new(Vec::new(), None, &crate::engine());
    let prepared = Prepared::make(component, &packs).map_err(|error| with_causes(&error))?;
    write(folder, BASE_FILE, &prepared.base)?;
    write(folder, BUILDER_FILE, &prepared.builder)?;
    Ok(vec![write_module(folder, prepared.digest(), &prepared.artifact)?])
}

/// Maps a prepared engine.
///
/// # Errors
/// When the folder is not what [`prepare`] wrote.
pub(crate) fn open(folder: &Path) -> Result<JavaScript, String> {
    let path = folder.join(BASE_FILE);
    let base = fs::read(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
    // The process is for one build: what it reads here it needs to its end.
    let base = Box::leak(base.into_boxed_slice());
    // SAFETY: the folder is the platform's own. A process that has seen a tenant's code can't write there.
    #[expect(unsafe_code, reason = "the platform's own code; see above")]
    let engine = unsafe { Engine::load(base, &folder.join(BUILDER_FILE), Limits::default()) };
    Ok(JavaScript(engine.map_err(|error| with_causes(&error))?))
}

/// The language.
pub(crate) struct JavaScript(Engine<'static>);

impl Language for JavaScript {
    fn make(&self, input: &Input<'_>) -> Result<Made, Refused> {
        let source = source(input)?;
        let built = self.0.build(&source).map_err(|error| match error {
            error @ (Error::Function(_) | Error::Memory { .. } | Error::Time { .. } | Error::Trapped { .. }) => {
                Refused::Source(with_causes(&error))
            }
            error => Refused::Platform(with_causes(&error)),
        })?;
        let mut notes: Vec<String> = built.printed.into_iter().map(|line| format!("printed: {line}")).collect();
        if !built.impure.is_empty() {
            notes.push(format!(
                "the code at the top of {} runs at the start of each call, since it asks for {}; without that its state \
                 would be where calls start, which is faster",
                source.name,
                built.impure.join(", ")
            ));
        }
        notes.push(format!("calls start with {} bytes of JavaScript heap", built.heap_bytes));
        Ok(Made { component: built.component, notes })
    }
}

/// The handler's file. An entry point is the file's path without its extension, a dot, and the export.
pub(crate) fn entry(exists: impl Fn(&str) -> bool, entrypoint: &str) -> Result<(String, String), String> {
    let (stem, handler) = entrypoint
        .rsplit_once('.')
        .filter(|(stem, handler)| !stem.is_empty() && !handler.is_empty())
        .ok_or_else(|| format!("`entrypoint`: `{entrypoint}` has to be `file.export`, e.g. `handler.handler`"))?;
    let mut names = EXTENSIONS.iter().map(|extension| format!("{stem}.{extension}"));
    match names.find(|name| exists(name)) {
        Some(name) => Ok((name, handler.to_owned())),
        None => Err(format!(
            "there is no `{stem}.js` (nor one that ends in {}), which `entrypoint` = `{entrypoint}` names; add the file or set \
             `entrypoint` to `file.export`",
            EXTENSIONS[1..].iter().map(|extension| format!(".{extension}")).collect::<Vec<_>>().join(", ")
        )),
    }
}

fn source(input: &Input<'_>) -> Result<Source, Refused> {
    let (name, handler) = entry(|name| input.files.get(name).is_some(), input.entrypoint).map_err(Refused::Source)?;
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned).map_err(|e| {
            Refused::Source(format!("{name}: byte {} is not UTF-8; save the file as UTF-8", e.valid_up_to()))
        })
    };
    let file = text(input.files.get(&name).unwrap_or_default())?;
    let (text, source_map) = match input.bundle {
        Some(bundle) => (text(&bundle.code)?, Some(text(&bundle.map)?)),
        None if name.ends_with(".ts") || uses::others(&file) => {
            let has = |name: &str| input.files.get(name).is_some();
            return Err(Refused::NeedsBundle { packages: has("package.json") && has("package-lock.json") });
        }
        None => (file, None),
    };
    Ok(Source { name, text, source_map, handler, evaluate: true })
}
