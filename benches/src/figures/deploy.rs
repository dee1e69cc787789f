//! How soon a changed handler answers: `sless deploy` of a folder that was deployed before, and the first answer of it.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::Args;
use crate::figure::{Bar, Figure};
use crate::servers::{Dev, deploy_as, dev, get};
use crate::stats::median;

/// What is asked: no longer than an author waits without noticing.
const JAVASCRIPT_MS: f64 = 500.0;
const PYTHON_MS: f64 = 2_000.0;

/// Milliseconds from the start of `sless deploy` to the answer, for JavaScript.
pub(super) fn javascript(args: &Args, name: &'static str) -> Result<Figure> {
    let text = |n| format!("const n = {n};\nexports.handler = () => String(n);\n");
    changed(args, name, "wasm-js", "handler.js", text, JAVASCRIPT_MS)
}

/// The same for Python.
pub(super) fn python(args: &Args, name: &'static str) -> Result<Figure> {
    let text = |n| format!("N = {n}\n\ndef handler(event, context):\n    return str(N)\n");
    changed(args, name, "wasm-python", "handler.py", text, PYTHON_MS)
}

fn changed(
    args: &Args,
    name: &'static str,
    runtime: &str,
    file: &str,
    text: impl Fn(u32) -> String,
    most_ms: f64,
) -> Result<Figure> {
    let data = tempfile::tempdir().context("make a data folder")?;
    let source = tempfile::tempdir().context("make a folder")?;
    let Dev { server, .. } = dev(args, data.path())?;
    let mut once = |n: u32| {
        std::fs::write(source.path().join(file), text(n)).context("write the handler")?;
        let started = Instant::now();
        deploy_as(args, data.path(), source.path(), runtime)?;
        let answer = get(&server.url)?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        ensure!(answer == n.to_string(), "it answered {answer}, not {n}");
        anyhow::Ok(took)
    };
    // The first prepares the engine where that was not done.
    once(0)?;
    let rounds = (1..=args.rounds).map(&mut once).collect::<Result<Vec<_>>>()?;
    let bar = Some(Bar::ValueAtMost(most_ms));
    Ok(Figure { name, value: median(&rounds), unit: "ms", peer: None, peer_value: None, ratio: None, bar })
}
