//! What implements the ports: the embedded world (SQLite, folders, this process) and, beside each, the cluster's.
//!
//! [`embedded::open`] gives all of the embedded world. Nothing here decides anything: rules are in `sless_core`.

pub mod blobs;
pub mod builds;
pub mod clock;
pub mod embedded;
pub mod limits;
pub mod logs;
pub mod records;
pub mod resources;
pub mod secrets;
mod sqlite;
pub mod workloads;
