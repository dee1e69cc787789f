//! What was thrown, as text.

use rquickjs_core::{Array, Ctx, Error, Function, Value};

use crate::init::core;
use crate::output;

/// Anything thrown, as text.
pub(crate) struct Thrown {
    pub(crate) kind: String,
    pub(crate) text: String,
    /// With its first line, and where the source map leads.
    pub(crate) stack: String,
}

impl Thrown {
    /// `TypeError: x is undefined`.
    pub(crate) fn title(&self) -> String {
        if self.text.is_empty() { self.kind.clone() } else { format!("{}: {}", self.kind, self.text) }
    }

    /// For the log.
    pub(crate) fn stack_or_title(&self) -> String {
        if self.stack.is_empty() { self.title() } else { self.stack.clone() }
    }

    /// File and line of the innermost frame that has both; else `name`.
    pub(crate) fn first_frame(&self, name: &str) -> (Option<String>, Option<u32>) {
        for line in self.stack.lines() {
            let Some(frame) = line.trim_start().strip_prefix("at ") else { continue };
            let place = frame.rsplit_once('(').map_or(frame, |(_, place)| place.trim_end_matches(')'));
            let mut parts = place.rsplitn(3, ':');
            let (Some(_column), Some(line), Some(file)) = (parts.next(), parts.next(), parts.next()) else { continue };
            if let Ok(line) = line.parse() {
                return (Some(file.to_owned()), Some(line));
            }
        }
        (Some(name.to_owned()), None)
    }
}

/// Takes the exception that `error` stands for.
pub(crate) fn take(ctx: &Ctx<'_>, error: Error) -> Thrown {
    if error.is_exception() {
        let value = ctx.catch();
        describe(ctx, value)
    } else {
        Thrown { kind: "Error".to_owned(), text: error.to_string(), stack: String::new() }
    }
}

pub(crate) fn describe<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Thrown {
    let described = core(ctx)
        .and_then(|core| core.get::<_, Function<'js>>("describe"))
        .and_then(|describe| describe.call::<_, Array<'js>>((value,)))
        .and_then(|parts| Ok(Thrown { kind: parts.get(0)?, text: parts.get(1)?, stack: parts.get(2)? }));
    described.unwrap_or_else(|_| {
        // Describing it failed too: out of memory, or out of stack.
        let _ = ctx.catch();
        Thrown { kind: "Error".to_owned(), text: "an error that can't be described".to_owned(), stack: String::new() }
    })
}

/// Logs a promise that was rejected and that nothing awaits.
pub(crate) fn log_rejection<'js>(ctx: &Ctx<'js>, reason: Value<'js>) {
    let thrown = describe(ctx, reason);
    output::complain(&format!("a promise was rejected and nothing awaited it: {}", thrown.stack_or_title()));
}

/// Where the running code is: the innermost frame of the user's.
pub(crate) fn place(ctx: &Ctx<'_>) -> Option<String> {
    core(ctx).ok()?.get::<_, Function<'_>>("place").ok()?.call::<_, Option<String>>(()).ok()?
}
