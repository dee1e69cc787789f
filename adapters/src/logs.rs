//! Function logs.

pub mod files;
