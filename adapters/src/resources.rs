//! Functions, triggers, namespaces.

pub mod sqlite;
