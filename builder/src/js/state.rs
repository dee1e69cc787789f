//! The instance that a build runs: what it may call, what it may use, and how its memory is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wasmtime::component::{Component, Instance, Linker, Val, WasmList};
use wasmtime::{Engine, ResourceLimiter, Result, Store, UpdateDeadline};
use wasmtime_wizer::ComponentInstanceState;

/// Between two looks at the time.
const TICK: Duration = Duration::from_millis(20);

/// The data of a build's store.
pub(crate) struct State {
    memory_limit_bytes: usize,
    pub(crate) memory_refused: bool,
    ticks_left: u64,
    /// Whether the guest asked for a clock or for random bytes.
    pub(crate) asked: Vec<&'static str>,
    random: u64,
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        let fits = desired <= self.memory_limit_bytes;
        self.memory_refused |= !fits;
        Ok(fits)
    }

    fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> Result<bool> {
        Ok(true)
    }
}

impl State {
    fn ask(&mut self, what: &'static str) {
        if !self.asked.contains(&what) {
            self.asked.push(what);
        }
    }

    fn random(&mut self) -> u64 {
        // xorshift64: nothing depends on its quality, since code that asks for it is run again in each instance.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// A store for one build.
pub(crate) fn store(engine: &Engine, memory_limit_bytes: usize, time: Duration) -> Store<State> {
    let ticks_left = u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX).max(1);
    let state = State {
        memory_limit_bytes,
        memory_refused: false,
        ticks_left,
        asked: Vec::new(),
        random: 0x9e37_79b9_7f4a_7c15,
    };
    let mut store = Store::new(engine, state);
    store.limiter(|state| state);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut context| {
        let left = &mut context.data_mut().ticks_left;
        *left = left.saturating_sub(1);
        Ok(if *left == 0 { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
    });
    store
}

/// Moves the epoch on while it lives.
pub(crate) struct Ticker(Arc<AtomicBool>);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (seen, engine) = (over.clone(), engine.weak());
        std::thread::Builder::new().name("ticker".to_owned()).spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(TICK);
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
            }
        })?;
        Ok(Self(over))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the guest may call: clocks and random bytes, each with a note. Everything else ends the build.
pub(crate) fn linker(engine: &Engine, component: &Component) -> Result<Linker<State>> {
    linker_over(Linker::new(engine), component)
}

/// The same, beside what is linked already.
pub(crate) fn linker_over(mut linker: Linker<State>, component: &Component) -> Result<Linker<State>> {
    let engine = &linker.engine().clone();
    let started = std::time::Instant::now();
    for (name, _) in component.component_type().imports(engine) {
        let Some((interface, _version)) = name.split_once('@') else { continue };
        match interface {
            "wasi:clocks/monotonic-clock" => {
                linker.instance(name)?.func_wrap("now", move |mut store, (): ()| {
                    store.data_mut().ask("the clock");
                    Ok((u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),))
                })?;
            }
            "wasi:clocks/wall-clock" => {
                linker.instance(name)?.func_wrap("now", |mut store, (): ()| {
                    store.data_mut().ask("the date");
                    // Any time will do: code that asks is run again in each instance.
                    Ok((Datetime { seconds: 1_600_000_000, nanoseconds: 0 },))
                })?;
            }
            "wasi:filesystem/preopens" => {
                // Whoever looks for a file learns that there are none.
                linker.instance(name)?.func_new("get-directories", |_, _, _, results| {
                    results[0] = Val::List(Vec::new());
                    Ok(())
                })?;
            }
            "wasi:cli/environment" => {
                // Engines say themselves who asks; CPython's looks when it is first called.
                let mut environment = linker.instance(name)?;
                for list in ["get-environment", "get-arguments"] {
                    environment.func_new(list, |_, _, _, results| {
                        results[0] = Val::List(Vec::new());
                        Ok(())
                    })?;
                }
                environment.func_new("initial-cwd", |_, _, _, results| {
                    results[0] = Val::Option(None);
                    Ok(())
                })?;
            }
            "wasi:random/random" => {
                let mut random = linker.instance(name)?;
                random.func_wrap("get-random-bytes", |mut store, (length,): (u64,)| {
                    if length == 0 {
                        // How an engine says that what it asked for itself is over, and the user's code begins.
                        store.data_mut().asked.clear();
                    } else {
                        store.data_mut().ask("random bytes");
                    }
                    let length = usize::try_from(length).unwrap_or(usize::MAX).min(1 << 16);
                    Ok(((0..length).map(|_| store.data_mut().random() as u8).collect::<Vec<u8>>(),))
                })?;
                random.func_wrap("get-random-u64", |mut store, (): ()| {
                    store.data_mut().ask("random bytes");
                    Ok((store.data_mut().random(),))
                })?;
            }
            "wasi:random/insecure" => {
                linker.instance(name)?.func_wrap("get-insecure-random-u64", |mut store, (): ()| {
                    store.data_mut().ask("random numbers");
                    Ok((store.data_mut().random(),))
                })?;
            }
            "wasi:random/insecure-seed" => {
                linker.instance(name)?.func_wrap("insecure-seed", |mut store, (): ()| {
                    store.data_mut().ask("random numbers");
                    Ok(((store.data_mut().random(), store.data_mut().random()),))
                })?;
            }
            _ => {}
        }
    }
    linker.define_unknown_imports_as_traps(component)?;
    Ok(linker)
}

/// `wasi:clocks/wall-clock.datetime`.
#[derive(wasmtime::component::ComponentType, wasmtime::component::Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

/// Reads an instance's memory and globals by the functions that instrumentation gave it.
pub(crate) struct Reading<'a> {
    pub(crate) store: &'a mut Store<State>,
    pub(crate) instance: Instance,
}

impl Reading<'_> {
    fn call<R: wasmtime::component::Lift + Send + Sync + 'static>(&mut self, instance: &str, name: &str) -> R {
        // The interface has no way to fail; the builder's process turns a panic into an answer.
        self.read(instance, name)
            .expect("instrumentation gives an instance these functions, and they can't trap within the limits")
    }

    fn read<R: wasmtime::component::Lift + Send + Sync + 'static>(&mut self, instance: &str, name: &str) -> Result<R> {
        let store = &mut *self.store;
        let missing = || wasmtime::format_err!("the instrumented engine lacks {instance}#{name}");
        let (_, owner) = self.instance.get_export(&mut *store, None, instance).ok_or_else(missing)?;
        let (_, function) = self.instance.get_export(&mut *store, Some(&owner), name).ok_or_else(missing)?;
        let function = self.instance.get_typed_func::<(), (R,)>(&mut *store, function)?;
        Ok(function.call(store, ())?.0)
    }
}

impl ComponentInstanceState for Reading<'_> {
    async fn call_func_ret_list_u8(&mut self, instance: &str, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let list: WasmList<u8> = self.call(instance, name);
        contents(list.as_le_slice(&*self.store));
    }

    async fn call_func_ret_s32(&mut self, instance: &str, name: &str) -> i32 {
        self.call(instance, name)
    }

    async fn call_func_ret_s64(&mut self, instance: &str, name: &str) -> i64 {
        self.call(instance, name)
    }

    async fn call_func_ret_f32(&mut self, instance: &str, name: &str) -> u32 {
        self.call::<f32>(instance, name).to_bits()
    }

    async fn call_func_ret_f64(&mut self, instance: &str, name: &str) -> u64 {
        self.call::<f64>(instance, name).to_bits()
    }
}
