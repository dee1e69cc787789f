//! What is to be deployed: flags over `sless.toml` over what the function has.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sless_core::Runtime;
use sless_core::function::{CodeKind, FunctionSpec};
use sless_core::names::{FunctionName, MAX_NAME_BYTES, TriggerName};
use sless_core::trigger::HttpTrigger;

use super::{build, pack};
use crate::args::DeployArgs;
use crate::failure::{Exit, Failure};
use crate::manifest::{self, Manifest};

/// Where cargo leaves components.
const CARGO_OUTPUT: &str = "target/wasm32-wasip2/release";
/// How to make one.
const CARGO_BUILD: &str = "cargo build --release --target wasm32-wasip2";

/// A trigger to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedTrigger {
    pub(super) name: TriggerName,
    pub(super) http: HttpTrigger,
}

/// What is to be deployed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) name: FunctionName,
    pub(super) code: Code,
    pub(super) triggers: Vec<PlannedTrigger>,
    /// What its owner should know of how this was settled.
    pub(super) notes: Vec<String>,
    manifest: Option<Manifest>,
    /// What was found out of the files, where neither flags nor manifest say it.
    entrypoint: Option<String>,
    flags: DeployArgs,
}

/// What is uploaded.
#[derive(Debug)]
pub(super) enum Code {
    /// A component, where its build left it.
    Component(PathBuf),
    /// Source, packed into a folder that goes with the plan.
    Source { file: PathBuf, _folder: tempfile::TempDir },
}

impl Code {
    /// The file to send.
    pub(super) fn file(&self) -> &Path {
        match self {
            Self::Component(file) | Self::Source { file, .. } => file,
        }
    }
}

/// Where code is.
enum Place {
    /// A component.
    Component(PathBuf),
    /// A folder of source.
    Folder(PathBuf),
    /// One file of source.
    File(PathBuf),
}

/// The code and what was found beside it.
struct Found {
    code: Place,
    manifest: Option<Manifest>,
    /// What the function is named after, if nothing says it.
    stem: String,
}

impl Plan {
    /// Settles it from the arguments and the files that they name.
    pub(super) fn make(args: &DeployArgs) -> Result<Self, Failure> {
        let Found { code, manifest, stem } = find(&args.path, args.runtime, !args.no_build)?;
        let mut notes = Vec::new();
        let named = args.name.clone().or_else(|| manifest.as_ref().and_then(|m| m.name.clone()));
        let name = match named {
            Some(name) => name,
            None => {
                let name = name_of(&stem)?;
                if name.as_str() != stem {
                    notes.push(format!("the function is named {name}, after `{stem}`; --name names it otherwise"));
                }
                name
            }
        };
        let default =
            || TriggerName::try_from(name.to_string()).expect("names of functions and triggers have one rule");
        let triggers = match manifest.as_ref().and_then(|m| m.triggers.as_ref()) {
            _ if args.no_http => Vec::new(),
            None => vec![PlannedTrigger { name: default(), http: HttpTrigger::default() }],
            Some(triggers) => triggers
                .iter()
                .map(|t| PlannedTrigger { name: t.name.clone().unwrap_or_else(default), http: t.http.clone() })
                .collect(),
        };
        if let Some(twice) = triggers.iter().enumerate().find(|(i, t)| triggers[..*i].iter().any(|o| o.name == t.name))
        {
            let text = format!("{} has two triggers named {}", manifest::FILE_NAME, twice.1.name);
            return Err(Failure::new(Exit::Invalid, text).remedy("give each a `name` of its own"));
        }
        let (code, entrypoint) = match code {
            Place::Component(path) => (Code::Component(path), None),
            Place::Folder(folder) => (packed(&name, |into| pack::folder(&folder, into))?, None),
            Place::File(file) => {
                let entrypoint = (stem != "handler").then(|| format!("{stem}.handler"));
                (packed(&name, |into| pack::file(&file, into))?, entrypoint)
            }
        };
        Ok(Self { name, code, triggers, notes, manifest, entrypoint, flags: args.clone() })
    }

    /// The settings wanted, where `present` is what the function has.
    pub(super) fn spec(&self, present: Option<&FunctionSpec>) -> FunctionSpec {
        let mut spec = match (&self.manifest, present) {
            // A file says all there is to say; without one, what is not given stays.
            (Some(manifest), _) => manifest.spec(),
            (None, Some(present)) => present.clone(),
            (None, None) => FunctionSpec::new(Runtime::Wasm),
        };
        if spec.entrypoint.is_none() {
            spec.entrypoint = self.entrypoint.clone();
        }
        // Set by uploads only, and no part of what is wanted here.
        spec.s3_key = present.and_then(|p| p.s3_key.clone());
        spec.sha256 = present.and_then(|p| p.sha256);
        let flags = &self.flags;
        fn set<T: Clone>(field: &mut T, flag: &Option<T>) {
            if let Some(value) = flag {
                *field = value.clone();
            }
        }
        set(&mut spec.runtime, &flags.runtime);
        if flags.entrypoint.is_some() {
            spec.entrypoint = flags.entrypoint.clone();
        }
        set(&mut spec.memory_mb, &flags.memory);
        set(&mut spec.timeout_seconds, &flags.timeout);
        set(&mut spec.concurrency, &flags.concurrency);
        set(&mut spec.reuse, &flags.reuse);
        set(&mut spec.limits.cpu_ms, &flags.cpu);
        if flags.rate.is_some() {
            spec.limits.rate_per_second = flags.rate;
        }
        // A variable has one source: the flag's.
        for (key, value) in &flags.env {
            spec.secret_refs.remove(key);
            spec.env.insert(key.clone(), value.clone());
        }
        for (key, secret) in &flags.secret {
            spec.env.remove(key);
            spec.secret_refs.insert(key.clone(), secret.clone());
        }
        if !flags.allow.is_empty() {
            spec.egress.allow = flags.allow.clone();
        }
        spec
    }
}

/// Packs source under the function's name.
fn packed(name: &FunctionName, pack: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<Code, Failure> {
    let folder =
        tempfile::tempdir().map_err(|e| Failure::new(Exit::Failure, format!("make a temporary folder: {e}")))?;
    let file = folder.path().join(format!("{name}.zip"));
    pack(&file)?;
    Ok(Code::Source { file, _folder: folder })
}

/// What takes source that a file like this is.
fn language(path: &Path) -> Option<CodeKind> {
    match path.extension()?.to_str()? {
        "py" => Some(CodeKind::Python),
        "js" | "mjs" | "cjs" => Some(CodeKind::JavaScript),
        _ => None,
    }
}

/// What to say where source has no runtime.
fn choose_runtime(what: &Path, kind: CodeKind) -> Failure {
    let there: Vec<_> = Runtime::ALL.iter().filter(|r| r.code() == kind).map(|r| format!("--runtime {r}")).collect();
    Failure::new(Exit::Invalid, format!("{} is source, and nothing says what runs it", what.display())).remedy(format!(
        "choose {}, or write it into {}",
        there.join(" or "),
        manifest::FILE_NAME
    ))
}

fn find(path: &Path, runtime: Option<Runtime>, build: bool) -> Result<Found, Failure> {
    let metadata = std::fs::metadata(path).map_err(|e| Failure::file(path, &e))?;
    if metadata.is_dir() {
        return in_folder(path, runtime, build);
    }
    if path.file_name().is_some_and(|name| name == manifest::FILE_NAME) {
        return in_folder(parent(path), runtime, build);
    }
    if let Some(kind) = language(path) {
        return match runtime {
            Some(runtime) if runtime.code() == kind => {
                let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
                Ok(Found { code: Place::File(path.to_owned()), manifest: None, stem })
            }
            _ => Err(choose_runtime(path, kind)),
        };
    }
    check_component(path)?;
    let beside = read_manifest(&parent(path).join(manifest::FILE_NAME))?;
    // A file beside describes this component, unless it names another one.
    let manifest = beside.filter(|m| match &m.component {
        Some(component) => same_file(&parent(path).join(component), path),
        None => true,
    });
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Found { code: Place::Component(path.to_owned()), manifest, stem })
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn in_folder(folder: &Path, runtime: Option<Runtime>, build: bool) -> Result<Found, Failure> {
    let manifest = read_manifest(&folder.join(manifest::FILE_NAME))?;
    if let Some(command) = manifest.as_ref().and_then(|m| m.build.as_deref()).filter(|_| build) {
        build::run(folder, command)?;
    }
    let whole = folder.canonicalize().map_err(|e| Failure::file(folder, &e))?;
    let stem = whole.file_name().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let component = manifest.as_ref().and_then(|m| m.component.as_ref());
    match runtime.or_else(|| manifest.as_ref().and_then(|m| m.runtime)) {
        Some(runtime) if runtime.code().is_source() => {
            return Ok(Found { code: Place::Folder(folder.to_owned()), manifest, stem });
        }
        None if component.is_none() => {
            let handlers = ["handler.py", "handler.js", "handler.mjs", "handler.cjs"];
            let handler = handlers.iter().map(|name| folder.join(name)).find(|path| path.is_file());
            if let Some(kind) = handler.and_then(|path| language(&path)) {
                return Err(choose_runtime(folder, kind));
            }
        }
        _ => {}
    }
    let component = match component {
        Some(component) => {
            let path = folder.join(component);
            if !path.is_file() {
                let text =
                    format!("{} names the component {}, which is not there", manifest::FILE_NAME, path.display());
                let remedy =
                    if folder.join("Cargo.toml").is_file() { build_first(folder) } else { "build it first".into() };
                return Err(Failure::new(Exit::Invalid, text).remedy(remedy));
            }
            path
        }
        None if folder.join("Cargo.toml").is_file() => built_by_cargo(folder)?,
        None => {
            let text = format!("{} has neither a {} nor a Cargo.toml", folder.display(), manifest::FILE_NAME);
            let remedy = format!(
                "name a component: `sless deploy FILE.wasm`, or `component = \"FILE.wasm\"` in {}; or deploy source with --runtime",
                manifest::FILE_NAME
            );
            return Err(Failure::new(Exit::Invalid, text).remedy(remedy));
        }
    };
    check_component(&component)?;
    Ok(Found { code: Place::Component(component), manifest, stem })
}

fn build_first(folder: &Path) -> String {
    format!("build it first: cd {} && {CARGO_BUILD}", folder.display())
}

/// The newest component of a Rust project: cargo names it after the crate, and there may be several.
fn built_by_cargo(folder: &Path) -> Result<PathBuf, Failure> {
    let outputs = folder.join(CARGO_OUTPUT);
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for entry in std::fs::read_dir(&outputs).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "wasm") {
            continue;
        }
        if let Ok(modified) = entry.metadata().and_then(|m| m.modified())
            && newest.as_ref().is_none_or(|(at, _)| modified > *at)
        {
            newest = Some((modified, path));
        }
    }
    newest.map(|(_, path)| path).ok_or_else(|| {
        Failure::new(Exit::Invalid, format!("{} has no component in {CARGO_OUTPUT}", folder.display()))
            .remedy(format!("{}; or name the component where the build leaves it", build_first(folder)))
    })
}

fn read_manifest(path: &Path) -> Result<Option<Manifest>, Failure> {
    let size = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file(path, &error)),
    };
    if size > manifest::MAX_BYTES {
        return Err(Failure::new(Exit::Invalid, format!("{} has {size} bytes, which is too large", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, &e))?;
    let manifest =
        manifest::parse(&text).map_err(|e| Failure::new(Exit::Invalid, format!("{}: {e}", path.display())))?;
    Ok(Some(manifest))
}

/// Tells what is plainly something else before it is sent; the platform checks the rest.
fn check_component(path: &Path) -> Result<(), Failure> {
    use std::io::Read as _;
    let mut magic = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(4).read_to_end(&mut magic))
        .map_err(|e| Failure::file(path, &e))?;
    if magic == b"\0asm" {
        return Ok(());
    }
    let text = format!("{} is not a WebAssembly component", path.display());
    Err(Failure::new(Exit::Invalid, text).remedy(format!("build one first, for Rust with `{CARGO_BUILD}`")))
}

/// A valid name as close to a file's as the rule allows.
fn name_of(stem: &str) -> Result<FunctionName, Failure> {
    let mut name = String::new();
    for c in stem.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => name.push(c),
            _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    name.truncate(MAX_NAME_BYTES);
    let name = name.trim_end_matches('-');
    name.parse().map_err(|error: sless_core::names::InvalidName| {
        let example = if name.is_empty() { "hello".to_owned() } else { format!("f-{name}") };
        let example: String = example.chars().take(MAX_NAME_BYTES).collect();
        Failure::new(Exit::Invalid, format!("no function can be named after `{stem}`: {error}"))
            .remedy(format!("name it, for example --name {}", example.trim_end_matches('-')))
    })
}

#[cfg(test)]
mod tests;
