//! A function: its files loaded in the engine, then the snapshot.

use std::time::Duration;

use wasmtime::component::{Component, ComponentType, Instance, InstancePre, Lift, Linker, Lower, WasmList};
use wasmtime::{Engine as Wasmtime, Module, Store, Trap};

use super::link::{READ_MEMORY, Shape, Template};
use crate::js::state::{self, State, Ticker};

/// A file of a function or of one of its packages.
#[derive(Debug, Clone, ComponentType, Lower)]
#[component(record)]
pub struct File {
    /// Relative to the function's folder or to `site-packages`, with `/`.
    pub path: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// What a function is made of.
#[derive(Debug, Clone, ComponentType, Lower)]
#[component(record)]
pub struct Source {
    /// The user's files.
    pub files: Vec<File>,
    /// Packages.
    pub packages: Vec<File>,
    /// `file.function`.
    pub entrypoint: String,
    /// Whether the files' code runs at build. See [`Builder::build`].
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
    /// The traceback of what was raised.
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
}

/// Why a function can't be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its files have no handler.
    #[error("{0}")]
    Function(Failure),
    /// It wants more memory than a build may use.
    #[error("loading the files wants more than {limit_mb} MB of memory; load less at the top of them")]
    Memory {
        /// The limit.
        limit_mb: usize,
    },
    /// It takes too long.
    #[error("the code at the top of the files runs longer than {seconds} s; move it into the handler")]
    Time {
        /// The limit.
        seconds: u64,
    },
    /// It made the engine fail.
    #[error("loading the files ended in a trap: {reason}; leave what needs files, sockets or processes to the handler")]
    Trapped {
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
    /// Something besides memory has changed, so that the shared module does not fit.
    #[error("the snapshot's {0} differs from the engine's")]
    OtherState(String),
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
    /// What the code at the top of the files asked of its surroundings, each with where. If there is something, the code
    /// runs in each instance; else its state is part of the snapshot.
    pub impure: Vec<String>,
    /// What it printed.
    pub printed: Vec<String>,
    /// The memory that instances start with.
    pub memory_bytes: usize,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built")
            .field("component_bytes", &self.component.len())
            .field("impure", &self.impure)
            .field("printed", &self.printed)
            .field("memory_bytes", &self.memory_bytes)
            .finish()
    }
}

/// What the code at the top of files may use at build.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory, the engine's own included (some 16 MiB).
    pub memory_bytes: usize,
    /// Wall clock.
    pub time: Duration,
}

impl Default for Limits {
    /// As much as most functions have, packages being compiled here too.
    fn default() -> Self {
        Self { memory_bytes: 256 << 20, time: Duration::from_secs(30) }
    }
}

/// The engine that loads functions.
pub(super) struct Builder {
    wasmtime: Wasmtime,
    instance: InstancePre<State>,
    template: Template,
    shape: Shape,
    limits: Limits,
}

impl Builder {
    /// Links the engine's parts, which are of the shared wasmtime configuration. `import` is the module's name.
    pub(super) fn new(
        wasmtime: Wasmtime,
        component: &Component,
        (import, module): (&str, &Module),
        template: Template,
        shape: Shape,
        limits: Limits,
    ) -> Result<Self, Error> {
        let mut linker = Linker::new(&wasmtime);
        linker.root().module(import, module).map_err(wasm("link the engine's module"))?;
        let linker = state::linker_over(linker, component).map_err(wasm("link the engine"))?;
        let instance = linker.instantiate_pre(component).map_err(wasm("link the engine"))?;
        Ok(Self { wasmtime, instance, template, shape, limits })
    }

    /// Builds a function. Where the code at the top of its files depends on what differs between instances (environment,
    /// clocks, random numbers, network), it is built a second time so that this code runs in each instance.
    pub(super) fn build(&self, source: &mut Source) -> Result<Built, Error> {
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
        source.evaluate = false;
        let built = self.snapshot(source)?;
        Ok(Built { impure, ..built })
    }

    fn snapshot(&self, source: &Source) -> Result<Built, Error> {
        let mut store = state::store(&self.wasmtime, self.limits.memory_bytes, self.limits.time);
        let instance = self.instance.instantiate(&mut store).map_err(wasm("start the engine"))?;
        let init = instance
            .get_typed_func::<(&Source,), (Result<Report, Failure>,)>(&mut store, "init")
            .map_err(wasm("find the engine's `init`"))?;
        store.data_mut().asked.clear();
        let (loaded,) = init.call(&mut store, (source,)).map_err(|error| self.trapped(&store, &error))?;
        let asked = std::mem::take(&mut store.data_mut().asked);
        if loaded.is_err() && store.data().memory_refused {
            return Err(Error::Memory { limit_mb: self.limits.memory_bytes >> 20 });
        }
        let Report { mut impure, printed } = loaded.map_err(Error::Function)?;
        // The guest names the place, so its word goes before what is seen from outside.
        for what in asked {
            if !impure.iter().any(|known| known.starts_with(what)) {
                impure.push(what.to_owned());
            }
        }
        let memory = self.memory(&mut store, instance)?;
        let component = self.template.around(&self.shape, &memory);
        Ok(Built { component, impure, printed, memory_bytes: memory.len() })
    }

    /// The memory as it is now, after a look at what else could have changed.
    fn memory(&self, store: &mut Store<State>, instance: Instance) -> Result<Vec<u8>, Error> {
        for (name, expected) in &self.shape.globals {
            let read =
                instance.get_typed_func::<(), (i32,)>(&mut *store, name).map_err(wasm("find what reads a global"))?;
            let (value,) = read.call(&mut *store, ()).map_err(wasm("read a global"))?;
            if value != *expected {
                return Err(Error::OtherState(format!("{name} ({value}, not {expected})")));
            }
        }
        // It is bounded by the memory's own limit.
        store.set_hostcall_fuel(usize::MAX);
        let read = instance
            .get_typed_func::<(), (WasmList<u8>,)>(&mut *store, READ_MEMORY)
            .map_err(wasm("find what reads the memory"))?;
        let (list,) = read.call(&mut *store, ()).map_err(wasm("read the memory"))?;
        let mut memory = list.as_le_slice(&*store).to_vec();
        // Where the answer lay.
        if let Some(answer) = memory.get_mut(..8) {
            answer.fill(0);
        }
        Ok(memory)
    }

    fn trapped(&self, store: &Store<State>, error: &wasmtime::Error) -> Error {
        if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
            return Error::Time { seconds: self.limits.time.as_secs() };
        }
        if store.data().memory_refused {
            return Error::Memory { limit_mb: self.limits.memory_bytes >> 20 };
        }
        Error::Trapped { reason: format!("{error:#}") }
    }
}
