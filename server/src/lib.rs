//! Settings, telemetry and the wiring of roles: the only place that knows both worlds.
//!
//! It decides nothing about functions: it opens the adapters of one world, joins them to the use-cases of `sless_core`,
//! and serves these. For now there is [`dev`], the embedded world in one process.

pub mod dev;
mod host_metrics;
pub mod shutdown;
pub mod telemetry;
