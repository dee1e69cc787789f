//! Requests a second: ours through `/fn`, with limits, logs, metrics and invocation rows on, against servers that have
//! none of them.

use anyhow::Result;

use crate::Args;
use crate::figure::{Bar, Figure};
use crate::load::{Load, load};
use crate::servers::{Serve, Server, hyper, ours, wasmtime_serve};
use crate::stats::turns;

/// Connections of the figures: enough to keep two processors busy, few enough not to queue.
const CONNECTIONS: u32 = 16;
/// Before anything counts: code is mapped, slots and connections have been used.
const WARM_UP_SECONDS: u32 = 1;

/// Against the pooling allocator alone.
pub(super) fn vs_serve_pooled(args: &Args, name: &'static str) -> Result<Figure> {
    let peer = wasmtime_serve(args, Serve::Pooled)?;
    Ok(versus(args, name, "wasmtime serve, pooled", &peer)?.bar(Bar::RatioAtLeast(2.0)))
}

/// Against all that its options offer.
pub(super) fn vs_serve_tuned(args: &Args, name: &'static str) -> Result<Figure> {
    let peer = wasmtime_serve(args, Serve::Tuned)?;
    Ok(versus(args, name, "wasmtime serve, tuned", &peer)?.bar(Bar::RatioAtLeast(1.5)))
}

/// Against the limit.
pub(super) fn vs_hyper(args: &Args, name: &'static str) -> Result<Figure> {
    versus(args, name, "bare hyper", &hyper()?)
}

fn versus(args: &Args, name: &'static str, peer_name: &'static str, peer: &Server) -> Result<Figure> {
    let ours = ours(args)?;
    for server in [&ours, peer] {
        load(server, CONNECTIONS, WARM_UP_SECONDS)?;
    }
    let rate = |server: &Server| Ok(load(server, CONNECTIONS, args.seconds)?.requests_per_second);
    let (value, peer_value) = turns(args.rounds, || rate(&ours), || rate(peer))?;
    Ok(Figure::ratio(name, "requests/s", value, peer_name, peer_value))
}

/// One server under one load.
pub(crate) struct Row {
    /// Which.
    pub server: &'static str,
    /// How many connections.
    pub connections: u32,
    /// What the load saw.
    pub load: Load,
}

/// All servers at 1, 8 and 64 connections, one after the other.
pub(crate) fn loads(args: &Args) -> Result<Vec<Row>> {
    let servers = [
        ("sless, /fn", ours(args)?),
        ("wasmtime serve, no pool", wasmtime_serve(args, Serve::Plain)?),
        ("wasmtime serve, pooled", wasmtime_serve(args, Serve::Pooled)?),
        ("wasmtime serve, tuned", wasmtime_serve(args, Serve::Tuned)?),
        ("bare hyper", hyper()?),
    ];
    let mut rows = Vec::new();
    for (name, server) in &servers {
        load(server, CONNECTIONS, WARM_UP_SECONDS)?;
        for connections in [1, 8, 64] {
            rows.push(Row { server: name, connections, load: load(server, connections, args.seconds)? });
        }
    }
    Ok(rows)
}
