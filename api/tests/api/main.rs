//! The API as its clients see it, over ports in memory.
#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

mod echo;
mod gateway;
mod memory;
mod openapi;
mod operations;
mod rest;
mod tenants;
mod world;
