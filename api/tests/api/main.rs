//! The API as its clients see it, over ports in memory.

mod echo;
mod gateway;
mod memory;
mod openapi;
mod operations;
mod rest;
mod tenants;
mod world;
