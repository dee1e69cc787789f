//! Before the snapshot: the runtime with its globals, then the user's file and its handler.

mod builtins;

use std::cell::RefCell;

use rquickjs_core::context::EvalOptions;
use rquickjs_core::module::WriteOptions;
use rquickjs_core::{
    CatchResultExt as _, Context, Ctx, Error, Function, Module, Object, Persistent, Runtime, Value, qjs,
};

use builtins::{Builtins, MAIN, MISSING_REMEDY, NOT_HERE};

use crate::bindings::{Failure, Report, Source};
use crate::pump::{self, Stuck};
use crate::{native, output, phase, thrown};

/// The globals (`js/`), bundled by `build.sh`.
const PRELUDE: &str = include_str!(env!("SLESS_PRELUDE"));
/// QuickJS counts the stack in linear memory (`quickjs.h`). This is what recursion may use there, so that it ends with a
/// `RangeError` and not in a trap. Measured on hosts that give wasm 512 KiB of native stack: JavaScript calls use 3.5 native
/// bytes for one of these and overflow at 180 KiB, at a depth of 650; 128 KiB is a depth of 470. Recursion within QuickJS
/// itself has smaller frames here: JSON or source text that is nested some thousands deep overflows at 40 KiB, and traps.
const STACK_BYTES: usize = 128 << 10;
/// What a call may allocate before a collection of cycles, which would touch the whole heap. Most calls end sooner.
const GC_SLACK_BYTES: usize = 16 << 20;

struct State {
    context: Context,
    core: Persistent<Object<'static>>,
    function: Option<Loaded>,
}

enum Loaded {
    /// The handler.
    Ready(Persistent<Function<'static>>),
    /// Compiled; it runs at the first call of an instance.
    Later { unit: Unit, handler: String, name: String },
}

/// A compiled file.
enum Unit {
    /// An ES module, which the context knows by its name from now on.
    Module,
    /// A CommonJS file in its wrapper.
    Script(Persistent<Function<'static>>),
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// The context; none before [`prepare`]. To be asked for at the bottom of the stack, which is where its use is counted from.
pub(crate) fn context() -> Option<Context> {
    let context = STATE.with_borrow(|state| state.as_ref().map(|state| state.context.clone()))?;
    // SAFETY: the runtime is the context's, and no JavaScript is running.
    unsafe { qjs::JS_UpdateStackTop(qjs::JS_GetRuntime(context.as_raw().as_ptr())) };
    Some(context)
}

/// What `js/main.js` gives to this side.
pub(crate) fn core<'js>(ctx: &Ctx<'js>) -> rquickjs_core::Result<Object<'js>> {
    let core = STATE.with_borrow(|state| state.as_ref().map(|state| state.core.clone()));
    core.ok_or(Error::Unknown)?.restore(ctx)
}

/// See `wit/engine.wit`.
pub(crate) fn prepare() -> Result<(), String> {
    let text = |error: Error| error.to_string();
    let runtime = Runtime::new().map_err(text)?;
    runtime.set_max_stack_size(STACK_BYTES);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(pump::track_rejection)));
    runtime.set_loader(Builtins, Builtins);
    let context = Context::full(&runtime).map_err(text)?;
    let core = context.with(|ctx| {
        let core = globals(&ctx).catch(&ctx).map_err(|error| error.to_string())?;
        Ok::<_, String>(Persistent::save(&ctx, core))
    })?;
    STATE.set(Some(State { context, core, function: None }));
    collect(&runtime);
    let _ = (phase::take_impure(), output::take_printed());
    Ok(())
}

fn globals<'js>(ctx: &Ctx<'js>) -> rquickjs_core::Result<Object<'js>> {
    const NATIVE: &str = "__sless";
    let native = native::object(ctx)?;
    ctx.globals().set(NATIVE, native.clone())?;
    // By way of bytecode, which can go without its source text and line tables: they would be a part of every snapshot.
    let strip = WriteOptions { strip_source: true, strip_debug: true, ..WriteOptions::default() };
    let bytecode = Module::declare(ctx.clone(), "sless", PRELUDE)?.write(strip)?;
    // SAFETY: the bytecode is of this very QuickJS.
    let module = unsafe { Module::load(ctx.clone(), &bytecode) }?;
    let (_, evaluated) = module.eval()?;
    pump::run_jobs(ctx);
    evaluated.finish::<()>()?;
    ctx.globals().remove(NATIVE)?;
    native.get("core")
}

fn collect(runtime: &Runtime) {
    runtime.run_gc();
    let used = usize::try_from(runtime.memory_usage().malloc_size).unwrap_or_default();
    runtime.set_gc_threshold(used + GC_SLACK_BYTES);
}

/// See `wit/engine.wit`.
pub(crate) fn init(source: Source) -> Result<Report, Failure> {
    let Some(context) = context() else { return Err(broken("`prepare` was not called")) };
    let loaded = context.with(|ctx| load(&ctx, &source))?;
    STATE.with_borrow_mut(|state| {
        if let Some(state) = state {
            state.function = Some(loaded);
        }
    });
    collect(context.runtime());
    let heap_bytes = u32::try_from(context.runtime().memory_usage().malloc_size).unwrap_or(u32::MAX);
    Ok(Report { impure: phase::take_impure(), printed: output::take_printed(), heap_bytes })
}

fn broken(text: &str) -> Failure {
    Failure {
        error: text.to_owned(),
        remedy: "this is a fault of the platform".to_owned(),
        file: None,
        line: None,
        stack: None,
        certain: true,
    }
}

fn load(ctx: &Ctx<'_>, source: &Source) -> Result<Loaded, Failure> {
    if let Some(map) = &source.source_map {
        let set = core(ctx).and_then(|core| core.get::<_, Function<'_>>("setSourceMap"));
        set.and_then(|set| set.call::<_, ()>((source.name.as_str(), map.as_str())))
            .map_err(|e| broken(&e.to_string()))?;
    }
    let unit = compile(ctx, source)?;
    if !source.evaluate {
        return Ok(Loaded::Later { unit, handler: source.handler.clone(), name: source.name.clone() });
    }
    match run(ctx, unit, &source.handler, &source.name) {
        Ok(handler) => Ok(Loaded::Ready(Persistent::save(ctx, handler))),
        Err(failed) => {
            let mut failure = explain(ctx, failed, &source.handler, &source.name);
            // It may be fine where its surroundings are there.
            failure.certain &= !phase::is_impure();
            Err(failure)
        }
    }
}

/// Compiles without running. Like Node: an extension decides, else a file is CommonJS if it can be, else a module.
fn compile(ctx: &Ctx<'_>, source: &Source) -> Result<Unit, Failure> {
    let name = source.name.as_str();
    // A first line for Unix shells.
    let text = match source.text.strip_prefix("#!") {
        Some(rest) => format!("//{rest}"),
        None => source.text.clone(),
    };
    let as_script = |ctx: &Ctx<'_>| {
        let wrapped = format!("(function (exports, require, module, __filename, __dirname) {{{text}\n}})");
        let mut options = EvalOptions::default();
        options.strict = false;
        options.filename = Some(name.to_owned());
        let function: Function<'_> = ctx.eval_with_options(wrapped, options)?;
        Ok(Unit::Script(Persistent::save(ctx, function)))
    };
    let as_module = |ctx: &Ctx<'_>| Module::declare(ctx.clone(), name, text.as_str()).map(|_| Unit::Module);
    if text.contains('\0') {
        return Err(Failure { file: Some(name.to_owned()), ..broken("the file has a NUL character") });
    }
    if name.ends_with(".mjs") {
        return as_module(ctx).map_err(|error| syntax(ctx, error, name));
    }
    let script: rquickjs_core::Result<Unit> = as_script(ctx);
    match script {
        Ok(unit) => Ok(unit),
        Err(error) if name.ends_with(".cjs") => Err(syntax(ctx, error, name)),
        Err(error) => {
            let first = syntax(ctx, error, name);
            as_module(ctx).map_err(|error| {
                let second = syntax(ctx, error, name);
                // It is not valid as either; what it looks like decides which fault is told.
                let looks_like_module = text.lines().any(|line| {
                    let line = line.trim_start();
                    line.starts_with("import ") || line.starts_with("import{") || line.starts_with("export ")
                });
                if looks_like_module { second } else { first }
            })
        }
    }
}

fn syntax(ctx: &Ctx<'_>, error: Error, name: &str) -> Failure {
    let thrown = thrown::take(ctx, error);
    let (file, line) = thrown.first_frame(name);
    let missing = thrown.text.strip_prefix(NOT_HERE).map(|rest| rest.trim_matches(['`', '\'']).to_owned());
    let remedy = match missing {
        Some(_) => MISSING_REMEDY,
        None => "correct the file at that line; the runtime has ECMAScript 2025",
    };
    Failure {
        error: thrown.title(),
        remedy: remedy.to_owned(),
        file: file.or_else(|| Some(name.to_owned())),
        line,
        stack: None,
        certain: true,
    }
}

/// What went wrong while a file ran.
pub(crate) enum Failed {
    /// The exception is pending in the context.
    Threw(Error),
    /// It awaits what can't be had before the snapshot.
    WouldWait,
    Never,
    /// There is no such export, or it is no function.
    NoHandler(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Threw(error)
    }
}

impl From<Stuck> for Failed {
    fn from(stuck: Stuck) -> Self {
        match stuck {
            Stuck::WouldWait => Self::WouldWait,
            Stuck::Never => Self::Never,
            Stuck::Threw => Self::Threw(Error::Exception),
        }
    }
}

/// Runs a file; answers its handler.
fn run<'js>(ctx: &Ctx<'js>, unit: Unit, handler: &str, name: &str) -> Result<Function<'js>, Failed> {
    let find = |namespace: &Object<'js>| -> rquickjs_core::Result<Value<'js>> {
        let found: Value<'js> = namespace.get(handler)?;
        if !found.is_undefined() && !found.is_null() {
            return Ok(found);
        }
        let default: Value<'js> = namespace.get("default")?;
        match default.as_object() {
            Some(default) => default.get(handler),
            None => Ok(found),
        }
    };
    let found = match unit {
        Unit::Module => {
            let imported = Module::import(ctx, format!("{MAIN}{name}"))?;
            let namespace = pump::settle(ctx, &imported)?;
            find(namespace.as_object().ok_or(Error::Unknown)?)?
        }
        Unit::Script(script) => {
            let run: Function<'js> = core(ctx)?.get("runScript")?;
            let exports: Value<'js> = run.call((script.restore(ctx)?, name))?;
            pump::run_jobs(ctx);
            match exports.as_object() {
                Some(exports) => find(exports)?,
                None => Value::new_undefined(ctx.clone()),
            }
        }
    };
    match found.as_function() {
        Some(function) => Ok(function.clone()),
        None if found.is_undefined() || found.is_null() => {
            Err(Failed::NoHandler(format!("{name} exports no `{handler}`")))
        }
        None => Err(Failed::NoHandler(format!("`{handler}` in {name} is not a function"))),
    }
}

fn explain(ctx: &Ctx<'_>, failed: Failed, handler: &str, name: &str) -> Failure {
    let plain = |error: String, remedy: String| Failure {
        error,
        remedy,
        file: Some(name.to_owned()),
        line: None,
        stack: None,
        certain: true,
    };
    match failed {
        Failed::NoHandler(error) => plain(
            error,
            format!(
                "add `exports.{handler} = …` or `export async function {handler}(event, context)`, or set the entrypoint"
            ),
        ),
        Failed::Never => plain("a top-level await never settles".to_owned(), "await only what ends".to_owned()),
        Failed::WouldWait => Failure {
            certain: false,
            ..plain(
                "a top-level await waits for a timer or the network".to_owned(),
                "await it in the handler".to_owned(),
            )
        },
        Failed::Threw(error) => {
            let thrown = thrown::take(ctx, error);
            let (file, line) = thrown.first_frame(name);
            let missing = thrown.text.starts_with(NOT_HERE);
            let remedy = if missing {
                MISSING_REMEDY
            } else {
                "the code at the top of the file failed; correct it, or set the variable it needs in `env`"
            };
            Failure {
                error: thrown.title(),
                remedy: remedy.to_owned(),
                file,
                line,
                // Code that asked nothing of its surroundings fails everywhere; `load` sees whether it did.
                certain: true,
                stack: Some(thrown.stack),
            }
        }
    }
}

/// The handler. Runs the file first where that was left to the instance.
pub(crate) fn handler<'js>(ctx: &Ctx<'js>) -> Result<Function<'js>, Failed> {
    enum Found {
        Ready(Persistent<Function<'static>>),
        Later(Unit, String, String),
    }
    let found = STATE.with_borrow_mut(|state| {
        let function = &mut state.as_mut()?.function;
        match function.take()? {
            Loaded::Ready(handler) => {
                *function = Some(Loaded::Ready(handler.clone()));
                Some(Found::Ready(handler))
            }
            Loaded::Later { unit, handler, name } => Some(Found::Later(unit, handler, name)),
        }
    });
    match found {
        None => Err(Failed::NoHandler("the file failed to load in this instance".to_owned())),
        Some(Found::Ready(handler)) => Ok(handler.restore(ctx)?),
        Some(Found::Later(unit, handler, name)) => {
            let handler = run(ctx, unit, &handler, &name)?;
            let saved = Persistent::save(ctx, handler.clone());
            STATE.with_borrow_mut(|state| {
                if let Some(state) = state {
                    state.function = Some(Loaded::Ready(saved));
                }
            });
            Ok(handler)
        }
    }
}
