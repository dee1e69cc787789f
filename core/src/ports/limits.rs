//! `Limits`: calls a second.

use std::time::Duration;

use crate::names::FunctionKey;

/// Rate limits. Asked on every call: it never waits and never does I/O.
pub trait Limits: Send + Sync {
    /// Takes one call of `per_second` (a burst of one second's worth is allowed); else how long until one is free.
    fn take(&self, function: &FunctionKey, per_second: u32) -> Result<(), Duration>;
}
