//! A function: its file loaded in the engine, then the snapshot.

use std::future::Future as _;
use std::path::Path;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use sless_core::Digest;
use wasmtime::component::{Component, ComponentType, Instance, InstancePre, Lift, Lower};
use wasmtime::{Engine as Wasmtime, Store, Trap};
use wasmtime_wizer::{ComponentContext, Wizer};

use super::split::{self, Split};
use super::state::{self, Reading, State, Ticker};

/// A JavaScript file: a module of its own, or the bundle of several.
#[derive(Debug, Clone, ComponentType, Lower)]
#[component(record)]
pub struct Source {
    /// What stack traces call it, e.g. `handler.js`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The source map (JSON) of a bundle.
    #[component(name = "source-map")]
    pub source_map: Option<String>,
    /// The name of the export that handles calls.
    pub handler: String,
    /// Whether the file's code runs at build. See [`Engine::build`].
    pub evaluate: bool,
}

/// Why there is no handler, for its author.
#[derive(Debug, Clone, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct Failure {
    /// What is wrong.
    pub error: String,
    /// What to do.
    pub remedy: String,
    /// Where: the file.
    pub file: Option<String>,
    /// Where: the line, from 1.
    pub line: Option<u32>,
    /// The stack of what was thrown.
    pub stack: Option<String>,
    /// False where it may come from the surroundings.
    pub certain: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(file) = &self.file {
            f.write_str(file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}; {}", self.error, self.remedy)
    }
}

#[derive(Debug, ComponentType, Lift)]
#[component(record)]
struct Report {
    impure: Vec<String>,
    printed: Vec<String>,
    #[component(name = "heap-bytes")]
    heap_bytes: u32,
}

/// Why a function can't be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file has no handler.
    #[error("{0}")]
    Function(Failure),
    /// It wants more memory than a build may use.
    #[error("{name}: loading the file wants more than {limit_mb} MB of memory; load less at the top of it")]
    Memory {
        /// The file.
        name: String,
        /// The limit.
        limit_mb: usize,
    },
    /// It takes too long.
    #[error("{name}: the code at the top of the file runs longer than {seconds} s; move it into the handler")]
    Time {
        /// The file.
        name: String,
        /// The limit.
        seconds: u64,
    },
    /// It made the engine fail.
    #[error("{name}: loading the file ended in a trap: {reason}")]
    Trapped {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
    /// The platform is at fault.
    #[error("{what}: {source:#}")]
    Wasm {
        /// What was attempted.
        what: &'static str,
        /// Why not.
        source: wasmtime::Error,
    },
    /// The snapshot can't be taken apart.
    #[error(transparent)]
    Split(#[from] split::Error),
    /// No thread for the clock.
    #[error("start the ticker")]
    Ticker(#[source] std::io::Error),
}

fn wasm(what: &'static str) -> impl Fn(wasmtime::Error) -> Error {
    move |source| Error::Wasm { what, source }
}

/// A function's component.
pub struct Built {
    /// Imports the engine's module, exports `wasi:http/incoming-handler`.
    pub component: Vec<u8>,
    /// What the code at the top of the file asked of its surroundings, each with where. If there is something, the code
    /// runs in each instance; else its state is part of the snapshot.
    pub impure: Vec<String>,
    /// What it printed.
    pub printed: Vec<String>,
    /// The JavaScript heap that instances start with.
    pub heap_bytes: u32,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built")
            .field("component_bytes", &self.component.len())
            .field("impure", &self.impure)
            .field("printed", &self.printed)
            .field("heap_bytes", &self.heap_bytes)
            .finish()
    }
}

/// What the code at the top of a file may use at build.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory, the engine's own included (8 MiB).
    pub memory_bytes: usize,
    /// Wall clock.
    pub time: Duration,
}

impl Default for Limits {
    /// As much as most functions have; a build may take no longer than a call.
    fn default() -> Self {
        Self { memory_bytes: 128 << 20, time: Duration::from_secs(10) }
    }
}

/// An engine that builds functions.
pub struct Engine<'a> {
    wasmtime: Wasmtime,
    wizer: Wizer,
    context: ComponentContext<'a>,
    instance: InstancePre<State>,
    split: Split,
    limits: Limits,
}

impl<'a> Engine<'a> {
    /// Maps a prepared engine, for the shared wasmtime configuration: `builder` is the file that has [`Prepared::builder`].
    /// To be done before the sandbox is entered: it maps executable memory, which nothing does afterwards. By its file, so
    /// that memory images are the file's too and none has to be made.
    ///
    /// # Errors
    /// When it was prepared by another release.
    ///
    /// # Safety
    /// `base` and the file must be what [`Prepared::make`] gave, unchanged: its code is run.
    #[expect(unsafe_code, reason = "maps code; the caller vouches for it")]
    pub unsafe fn load(base: &'a [u8], builder: &Path, limits: Limits) -> Result<Self, Error> {
        let config = sless_engine::compiler_config().map_err(wasm("configure the engine"))?;
        let wasmtime = Wasmtime::new(&config).map_err(wasm("make the engine"))?;
        // SAFETY: the caller's promise.
        let component = unsafe { Component::deserialize_file(&wasmtime, builder) }.map_err(wasm("load the engine"))?;
        let linker = state::linker(&wasmtime, &component).map_err(wasm("link the engine"))?;
        let instance = linker.instantiate_pre(&component).map_err(wasm("link the engine"))?;
        let wizer = Wizer::new();
        let (context, _) = wizer.instrument_component(base).map_err(wasm("instrument the engine"))?;
        let split = Split::new(base)?;
        Ok(Self { wasmtime, wizer, context, instance, split, limits })
    }

    /// The digest of the engine's module.
    pub fn digest(&self) -> Digest {
        self.split.digest
    }

    /// Builds a function. Where the code at the top of its file depends on what differs between instances (environment,
    /// clocks, random numbers, timers, network), it is built a second time so that this code runs in each instance.
    ///
    /// # Errors
    /// When the file has no handler, or takes more than it may.
    pub fn build(&self, source: &Source) -> Result<Built, Error> {
        let _ticker = Ticker::start(&self.wasmtime).map_err(Error::Ticker)?;
        if !source.evaluate {
            return self.snapshot(source);
        }
        let impure = match self.snapshot(source) {
            Ok(built) if built.impure.is_empty() => return Ok(built),
            Ok(built) => built.impure,
            // It may be fine where its surroundings are there.
            Err(Error::Function(failure)) if !failure.certain => vec![failure.to_string()],
            Err(error) => return Err(error),
        };
        let built = self.snapshot(&Source { evaluate: false, ..source.clone() })?;
        Ok(Built { impure, ..built })
    }

    fn snapshot(&self, source: &Source) -> Result<Built, Error> {
        let mut store = state::store(&self.wasmtime, self.limits.memory_bytes, self.limits.time);
        let instance = self.instance.instantiate(&mut store).map_err(wasm("start the engine"))?;
        let init = instance
            .get_typed_func::<(&Source,), (Result<Report, Failure>,)>(&mut store, "init")
            .map_err(wasm("find the engine's `init`"))?;
        store.data_mut().asked.clear();
        let (loaded,) = init.call(&mut store, (source,)).map_err(|error| self.trapped(source, &store, &error))?;
        let asked = std::mem::take(&mut store.data_mut().asked);
        if loaded.is_err() && store.data().memory_refused {
            return Err(self.too_much_memory(source));
        }
        let Report { mut impure, printed, heap_bytes } = loaded.map_err(|mut failure| {
            failure.certain &= asked.is_empty();
            Error::Function(failure)
        })?;
        // The guest names the place, so its word goes before what is seen from outside.
        for what in asked {
            if !impure.iter().any(|known| known.starts_with(what)) {
                impure.push(what.to_owned());
            }
        }
        let snapshot =
            take(&self.wizer, &self.context, &mut store, instance).map_err(wasm("take the function's snapshot"))?;
        let component = self.split.function(&snapshot)?;
        Ok(Built { component, impure, printed, heap_bytes })
    }

    fn too_much_memory(&self, source: &Source) -> Error {
        Error::Memory { name: source.name.clone(), limit_mb: self.limits.memory_bytes >> 20 }
    }

    fn trapped(&self, source: &Source, store: &Store<State>, error: &wasmtime::Error) -> Error {
        let name = source.name.clone();
        if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
            return Error::Time { name, seconds: self.limits.time.as_secs() };
        }
        if store.data().memory_refused {
            return self.too_much_memory(source);
        }
        Error::Trapped { name, reason: format!("{error:#}") }
    }
}

/// A component with an instance's memory as it is now.
pub(super) fn take(
    wizer: &Wizer,
    context: &ComponentContext<'_>,
    store: &mut Store<State>,
    instance: Instance,
) -> wasmtime::Result<Vec<u8>> {
    let mut reading = Reading { store, instance };
    // `Reading` never waits, so the future is ready at once.
    let mut taken = pin!(wizer.snapshot_component(context, &mut reading));
    match taken.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(snapshot) => snapshot,
        Poll::Pending => Err(wasmtime::format_err!("the snapshot waits for something")),
    }
}
