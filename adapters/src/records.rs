//! Versions and invocations.

pub mod sqlite;
