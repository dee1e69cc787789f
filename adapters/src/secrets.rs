//! Secrets.

pub mod sqlite;
