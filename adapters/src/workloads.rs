//! `Workloads`: [`local`], processes of this machine.

pub mod local;
