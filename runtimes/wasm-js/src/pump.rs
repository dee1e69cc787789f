//! What makes JavaScript go on: promise jobs, timers, and operations of the host that have become ready.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rquickjs_core::promise::PromiseState;
use rquickjs_core::{Ctx, Error, Function, Persistent, Promise, Result, Value, qjs};
use wasip2::clocks::monotonic_clock;
use wasip2::io::poll::{Pollable, poll};

use crate::{output, phase, thrown};

/// Timers that a call may have at once; also of operations, which hold resources of the host.
const MAX_WAITING: usize = 10_000;

/// Something that waits for the host.
pub(crate) trait Operation {
    /// What it waits for.
    fn pollable(&self) -> &Pollable;
    /// The exchange it belongs to, which may be aborted.
    fn exchange(&self) -> u32;
    /// Called when it is ready. Gives itself back if it has to wait on.
    fn ready(self: Box<Self>, ctx: &Ctx<'_>) -> Result<Option<Box<dyn Operation>>>;
}

struct Timer {
    callback: Persistent<Function<'static>>,
    every_ns: Option<u64>,
}

/// A promise that was rejected and its reason.
type Rejected = (Persistent<Value<'static>>, Persistent<Value<'static>>);

#[derive(Default)]
struct Pump {
    operations: Vec<Box<dyn Operation>>,
    /// By when they are due, then by age.
    timers: BTreeMap<(u64, u32), Timer>,
    due: BTreeMap<u32, u64>,
    last_id: u32,
    /// An error that no caller is left to catch.
    uncaught: Option<Persistent<Value<'static>>>,
    rejected: Vec<Rejected>,
}

thread_local! {
    static PUMP: RefCell<Pump> = RefCell::default();
}

fn with<R>(f: impl FnOnce(&mut Pump) -> R) -> R {
    PUMP.with_borrow_mut(f)
}

/// Starts to wait for `operation`.
pub(crate) fn wait(ctx: &Ctx<'_>, operation: Box<dyn Operation>) -> Result<()> {
    with(|pump| {
        if pump.operations.len() >= MAX_WAITING {
            return Err(crate::bytes::type_error(ctx, "too many reads and writes wait at once"));
        }
        pump.operations.push(operation);
        Ok(())
    })
}

/// Forgets what an exchange waits for.
pub(crate) fn abort(exchange: u32) {
    let dropped = with(|pump| {
        let (gone, kept) = std::mem::take(&mut pump.operations).into_iter().partition(|o| o.exchange() == exchange);
        pump.operations = kept;
        gone
    });
    let dropped: Vec<Box<dyn Operation>> = dropped;
    drop(dropped);
}

/// `setTimeout` and `setInterval`; answers the timer's id.
pub(crate) fn start_timer<'js>(ctx: Ctx<'js>, callback: Function<'js>, delay_ms: f64, repeat: bool) -> Result<u32> {
    phase::impure("a timer", || thrown::place(&ctx));
    // What is no delay (NaN, negative, beyond 31 bits) is 1 ms in every engine; an interval is never shorter.
    let delay_ms = if (0.0..=f64::from(i32::MAX)).contains(&delay_ms) { delay_ms } else { 1.0 };
    let delay_ns = ((if repeat { delay_ms.max(1.0) } else { delay_ms }) * 1e6) as u64;
    let due = monotonic_clock::now() + delay_ns;
    let callback = Persistent::save(&ctx, callback);
    let started = with(|pump| {
        if pump.timers.len() >= MAX_WAITING {
            return None;
        }
        pump.last_id += 1;
        let id = pump.last_id;
        pump.due.insert(id, due);
        pump.timers.insert((due, id), Timer { callback, every_ns: repeat.then_some(delay_ns) });
        Some(id)
    });
    started.ok_or_else(|| crate::bytes::type_error(&ctx, "too many timers at once"))
}

/// `clearTimeout` and `clearInterval`.
pub(crate) fn stop_timer(id: u32) {
    let stopped = with(|pump| pump.due.remove(&id).and_then(|due| pump.timers.remove(&(due, id))));
    drop(stopped);
}

/// To be told by QuickJS of promises that are rejected without a handler, and of those that get one later.
pub(crate) fn track_rejection<'js>(ctx: Ctx<'js>, promise: Value<'js>, reason: Value<'js>, handled: bool) {
    if handled {
        let gone = with(|pump| {
            let same = |saved: &Persistent<Value<'static>>, ctx: &Ctx<'_>| {
                saved.clone().restore(ctx).is_ok_and(|value| value.as_raw() == promise.as_raw())
            };
            let at = pump.rejected.iter().position(|(saved, _)| same(saved, &ctx));
            at.map(|at| pump.rejected.swap_remove(at))
        });
        drop(gone);
    } else {
        let saved = (Persistent::save(&ctx, promise), Persistent::save(&ctx, reason));
        with(|pump| {
            if pump.rejected.len() < MAX_WAITING {
                pump.rejected.push(saved);
            }
        });
    }
}

/// An error that nobody can catch any more; it fails the call.
pub(crate) fn uncaught<'js>(ctx: &Ctx<'js>, error: Value<'js>) {
    let error = Persistent::save(ctx, error);
    with(|pump| {
        pump.uncaught.get_or_insert(error);
    });
}

/// Runs promise jobs until there are none.
pub(crate) fn run_jobs(ctx: &Ctx<'_>) {
    // SAFETY: the runtime is the context's, and no JavaScript is running.
    let runtime = unsafe { qjs::JS_GetRuntime(ctx.as_raw().as_ptr()) };
    loop {
        let mut of = std::ptr::null_mut();
        match unsafe { qjs::JS_ExecutePendingJob(runtime, &mut of) } {
            0 => return,
            1.. => {}
            _ => uncaught(ctx, ctx.catch()),
        }
    }
}

/// Takes promises that were rejected and that nothing awaits, but `except`, which the caller looks at.
pub(crate) fn take_rejected<'js>(ctx: &Ctx<'js>, except: Option<&Promise<'js>>) -> Vec<Value<'js>> {
    let rejected = with(|pump| std::mem::take(&mut pump.rejected));
    let mut reasons = Vec::new();
    for (promise, reason) in rejected {
        let (Ok(promise), Ok(reason)) = (promise.restore(ctx), reason.restore(ctx)) else { continue };
        if except.is_none_or(|except| except.as_value().as_raw() != promise.as_raw()) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Why a promise can't be waited for to its end.
pub(crate) enum Stuck {
    /// It would wait for the host, which must not be before the snapshot.
    WouldWait,
    /// Nothing is left that could settle it.
    Never,
    /// It was rejected, or an uncaught error came before; the exception is pending in the context.
    Threw,
}

/// Runs until `promise` is settled.
pub(crate) fn settle<'js>(ctx: &Ctx<'js>, promise: &Promise<'js>) -> std::result::Result<Value<'js>, Stuck> {
    loop {
        run_jobs(ctx);
        for reason in take_rejected(ctx, Some(promise)) {
            thrown::log_rejection(ctx, reason);
        }
        if let Some(error) = with(|pump| pump.uncaught.take()) {
            if let Ok(error) = error.restore(ctx) {
                ctx.throw(error);
            }
            return Err(Stuck::Threw);
        }
        match promise.state() {
            PromiseState::Pending => {}
            PromiseState::Resolved | PromiseState::Rejected => {
                return promise.result::<Value<'js>>().unwrap_or(Err(Error::Unknown)).map_err(|_| Stuck::Threw);
            }
        }
        turn(ctx)?;
    }
}

/// Waits as long as nothing is ready, then runs what is.
fn turn(ctx: &Ctx<'_>) -> std::result::Result<(), Stuck> {
    let (first, idle) = with(|pump| {
        let first = pump.timers.keys().next().map(|(due, _)| *due);
        (first, first.is_none() && pump.operations.is_empty())
    });
    if idle {
        return Err(Stuck::Never);
    }
    if !phase::serving() {
        return Err(Stuck::WouldWait);
    }
    if first.is_some_and(|due| run_timers(ctx, due)) {
        return Ok(());
    }
    let timer = first.map(monotonic_clock::subscribe_instant);
    let ready: Vec<Box<dyn Operation>> = with(|pump| {
        let mut pollables: Vec<&Pollable> = pump.operations.iter().map(|o| o.pollable()).collect();
        let count = pollables.len() as u32;
        pollables.extend(&timer);
        let mut ready: Vec<u32> = poll(&pollables);
        ready.retain(|index| *index < count);
        ready.sort_unstable();
        let mut taken: Vec<_> = ready.iter().rev().map(|index| pump.operations.remove(*index as usize)).collect();
        taken.reverse();
        taken
    });
    for operation in ready {
        match operation.ready(ctx) {
            Ok(Some(operation)) => with(|pump| pump.operations.push(operation)),
            Ok(None) => {}
            Err(_) => uncaught(ctx, ctx.catch()),
        }
        run_jobs(ctx);
    }
    Ok(())
}

/// Runs the timers that are due, the oldest first, with the jobs of each before the next. Says whether there was one.
fn run_timers(ctx: &Ctx<'_>, first: u64) -> bool {
    let now = monotonic_clock::now();
    if first > now {
        return false;
    }
    // Those that are due now and not those that these start, or a chain of timeouts would keep others from their turn.
    let due: Vec<(u64, u32)> = with(|pump| pump.timers.range(..=(now, u32::MAX)).map(|(key, _)| *key).collect());
    for key @ (_, id) in due {
        // An earlier one may have cleared it.
        let Some(timer) = with(|pump| pump.timers.remove(&key)) else { continue };
        match timer.every_ns {
            None => {
                with(|pump| pump.due.remove(&id));
            }
            Some(every_ns) => {
                let next = now + every_ns;
                let again = Timer { callback: timer.callback.clone(), every_ns: timer.every_ns };
                with(|pump| {
                    pump.due.insert(id, next);
                    pump.timers.insert((next, id), again);
                });
            }
        }
        let called = timer.callback.restore(ctx).and_then(|callback| callback.call::<_, Value<'_>>(()));
        if called.is_err() {
            uncaught(ctx, ctx.catch());
        }
        run_jobs(ctx);
    }
    true
}

/// Waits for the end of the call's time: what a promise that never settles does in every runtime.
pub(crate) fn wait_for_the_end() -> ! {
    output::complain(
        "the handler awaits a promise that nothing can settle any more; the call waits until its time is up",
    );
    loop {
        monotonic_clock::subscribe_duration(u64::MAX).block();
    }
}
