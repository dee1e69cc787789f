//! Serves wasm functions: a pool of instances, limits with a typed outcome each, egress by policy, streaming both ways.
//!
//! [`Host`] implements the `Invoker` port: in process for `sless dev`, and in the binary `sless-host` for one tenant's
//! namespace. There is no compiler inside: it maps what a builder compiled and the platform signed, and nothing else.
//!
//! A call runs in the task of whoever awaits it. The guest is polled there, its response streams from there, and
//! dropping the future or the body drops the guest, also one that computes, since that one yields at every tick.

mod body;
mod call;
mod code;
mod egress;
mod function;
mod host;
mod instance;
mod invoke;
mod logs;
mod pool;
mod settings;
mod ticker;

pub mod manifest;
pub mod serve;

pub use host::{Deps, Error, Host, Stats};
pub use instance::INTERFACES;
pub use pool::Error as PoolError;
pub use settings::{EgressSettings, MAX_HEADER_BYTES, MAX_HEADERS, Settings};
