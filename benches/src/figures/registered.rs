//! What functions cost that nobody calls: the latency of one that is called, and memory for each of the others.
//!
//! Two data folders, one with a function and one with ten thousand, each served by a `sless dev` that was started over
//! it, so that what is compared is the state at rest and not what registering left behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use sless_client::{Client, Config};
use sless_core::{FunctionSpec, Phase, Runtime};

use crate::Args;
use crate::figure::{Bar, Figure};
use crate::load::load;
use crate::servers::{Dev, Server, deploy, dev};
use crate::stats::turns;

/// Requests at once while registering.
const AT_ONCE: usize = 8;
/// How long a function may take to be ready; its code is compiled already.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// p50 with all registered against p50 with one.
pub(super) fn latency(args: &Args, name: &'static str) -> Result<Figure> {
    let Measured { many_p50_us, one_p50_us, .. } = measured(args)?;
    Ok(Figure::ratio(name, "µs", many_p50_us, "one function registered, p50", one_p50_us).bar(Bar::RatioAtMost(1.05)))
}

/// Memory for each function that is registered and idle.
pub(super) fn idle_bytes(args: &Args, name: &'static str) -> Result<Figure> {
    let value = measured(args)?.idle_bytes;
    let bar = Some(Bar::ValueAtMost(2048.0));
    Ok(Figure { name, value, unit: "bytes", peer: None, peer_value: None, ratio: None, bar })
}

/// What one run over both worlds says.
#[derive(Clone, Copy)]
struct Measured {
    idle_bytes: f64,
    many_p50_us: f64,
    one_p50_us: f64,
}

/// Measures once for both figures: registering ten thousand functions takes a while.
fn measured(args: &Args) -> Result<Measured> {
    static MEASURED: OnceLock<Measured> = OnceLock::new();
    if let Some(measured) = MEASURED.get() {
        return Ok(*measured);
    }
    let (one, many) = (world(args, 0)?, world(args, args.registered)?);
    // Before anything else is asked of them, so that it is memory at rest.
    let idle_bytes = (many.resident_bytes - one.resident_bytes) / args.registered as f64;
    let p50 = |world: &World| Ok(load(&world.server, 1, args.seconds)?.p50_us);
    let (many_p50_us, one_p50_us) = turns(args.rounds, || p50(&many), || p50(&one))?;
    Ok(*MEASURED.get_or_init(|| Measured { idle_bytes, many_p50_us, one_p50_us }))
}

struct World {
    server: Server,
    /// Private memory after the start and one load, in bytes.
    resident_bytes: f64,
    _data: tempfile::TempDir,
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
    // It says that it is ready when all its functions are in the index; the load shows that they serve.
    load(&again.server, 1, 1)?;
    let resident_bytes = again.server.resident_bytes()? as f64;
    Ok(World { server: again.server, resident_bytes, _data: data })
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
