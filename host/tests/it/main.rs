//! The host with real components: what every kind of call ends with, and that the next one works.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod artifacts;
mod bodies;
mod egress;
mod life;
mod limits;
mod logs;
mod world;

#[cfg(target_os = "linux")]
mod binary;
