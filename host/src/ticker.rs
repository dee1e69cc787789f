//! One thread that advances the epoch, so that computing guests yield and run into their budgets.

use std::thread;

use wasmtime::Engine;

use crate::settings::TICK;

/// Starts the thread; it ends when the last engine is gone.
pub(crate) fn start(engine: &Engine) -> std::io::Result<()> {
    let engine = engine.weak();
    thread::Builder::new().name("sless-ticker".into()).spawn(move || {
        loop {
            thread::sleep(TICK);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
        }
    })?;
    Ok(())
}
