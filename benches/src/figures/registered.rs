//! What functions cost that nobody calls: the latency of one that is called, and memory for each of the others.
//!
//! Two data folders, one with a function and one with ten thousand, each served by a `sless dev` that was started over
//! it, so that what is compared is the state at rest and not what registering left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use sless_client::{Client, Config};
use sless_core::{FunctionSpec, Phase, Runtime};

use crate::Args;
use crate::figure::{Bar, Figure};
use crate::load::load;
use crate::servers::{Dev, Server, deploy, dev};
use crate::stats::{median, turns};

/// Requests at once while registering.
const AT_ONCE: usize = 8;
/// How long a function may take to be ready; its code is compiled already.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// p50 with all registered against p50 with one.
pub(super) fn latency(args: &Args, name: &'static str) -> Result<Figure> {
    let [one, many] = worlds(args)?;
    let p50 = |world: &World| Ok(load(&world.server, 1, args.seconds)?.p50_us);
    for world in [&one, &many] {
        load(&world.server, 1, 1)?;
    }
    let (value, peer_value) = turns(args.rounds, || p50(&many), || p50(&one))?;
    Ok(Figure::ratio(name, "µs", value, "one function registered, p50", peer_value).bar(Bar::RatioAtMost(1.05)))
}

/// Memory for each function that is registered and idle.
pub(super) fn idle_bytes(args: &Args, name: &'static str) -> Result<Figure> {
    let [one, many] = worlds(args)?;
    let resident = |world: &World| {
        let values: Vec<_> =
            (0..args.rounds).map(|_| world.server.resident_bytes().map(|b| b as f64)).collect::<Result<_>>()?;
        Ok::<_, anyhow::Error>(median(&values))
    };
    let value = (resident(&many)? - resident(&one)?) / args.registered as f64;
    Ok(Figure {
        name,
        value,
        unit: "bytes",
        peer: None,
        peer_value: None,
        ratio: None,
        bar: Some(Bar::ValueAtMost(2048.0)),
    })
}

struct World {
    server: Server,
    _data: tempfile::TempDir,
}

fn worlds(args: &Args) -> Result<[World; 2]> {
    Ok([world(args, 0)?, world(args, args.registered)?])
}

/// A `sless dev` started over a folder in which the function and `more` others are registered.
fn world(args: &Args, more: usize) -> Result<World> {
    let data = tempfile::tempdir().context("make a data folder")?;
    let first = dev(args, data.path())?;
    deploy(args, data.path())?;
    if more > 0 {
        register(args, &first, more)?;
    }
    first.server.stop()?;
    let again = dev(args, data.path())?;
    // The index is whole when the last function is known; the first call shows that it serves.
    load(&again.server, 1, 1)?;
    Ok(World { server: again.server, _data: data })
}

#[tokio::main]
async fn register(args: &Args, dev: &Dev, more: usize) -> Result<()> {
    let client = Client::new(Config { endpoint: dev.endpoint.clone(), token: dev.token.clone(), namespace: None })?;
    let next = AtomicUsize::new(0);
    let worker = async || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= more {
                return Ok::<_, anyhow::Error>(());
            }
            let name = format!("idle-{n}");
            client.create_function(&name, &FunctionSpec::new(Runtime::Wasm)).await?;
            client.upload(&name, &args.component, Arc::new(|_| {})).await?;
            ready(&client, &name).await?;
        }
    };
    futures::future::try_join_all((0..AT_ONCE).map(|_| worker())).await.context("register functions").map(drop)
}

/// Waits until a function can serve.
async fn ready(client: &Client, name: &str) -> Result<()> {
    let until = tokio::time::Instant::now() + READY_DEADLINE;
    loop {
        let status = client.function(name).await?.status;
        match status.phase {
            Phase::Ready => return Ok(()),
            Phase::Failed => bail!("{name}: {}", status.last_error.unwrap_or_default()),
            _ if tokio::time::Instant::now() > until => bail!("{name} is not ready in time"),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
