//! Rate limits.

pub mod local;
