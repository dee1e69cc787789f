//! Object stores.

pub mod folder;
