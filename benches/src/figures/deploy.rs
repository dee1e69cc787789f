//! How soon a changed handler answers: `sless deploy` of a folder that was deployed before, and the first answer of it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::Args;
use crate::figure::{Bar, Figure};
use crate::servers::{Dev, FUNCTION, dev};
use crate::stats::median;

/// What is asked: no longer than an author waits without noticing.
const MOST_MS: f64 = 500.0;

/// Milliseconds from the start of `sless deploy` to the answer, for JavaScript.
pub(super) fn javascript(args: &Args, name: &'static str) -> Result<Figure> {
    let data = tempfile::tempdir().context("make a data folder")?;
    let source = tempfile::tempdir().context("make a folder")?;
    let Dev { server, .. } = dev(args, data.path())?;
    let mut once = |n: u32| {
        let text = format!("const n = {n};\nexports.handler = () => String(n);\n");
        std::fs::write(source.path().join("handler.js"), text).context("write the handler")?;
        let started = Instant::now();
        deploy(args, data.path(), source.path())?;
        let answer = get(&server.url)?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        ensure!(answer == n.to_string(), "it answered {answer}, not {n}");
        anyhow::Ok(took)
    };
    // The first prepares the engine where that was not done.
    once(0)?;
    let rounds = (1..=args.rounds).map(&mut once).collect::<Result<Vec<_>>>()?;
    let bar = Some(Bar::ValueAtMost(MOST_MS));
    Ok(Figure { name, value: median(&rounds), unit: "ms", peer: None, peer_value: None, ratio: None, bar })
}

/// The body of an answer, over a connection of its own.
fn get(url: &str) -> Result<String> {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).context("an http URL")?;
    let mut stream = TcpStream::connect(host).context("connect")?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").context("ask")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read the answer")?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).context("an answer with a body")
}

fn deploy(args: &Args, data: &Path, source: &Path) -> Result<()> {
    let mut command = Command::new(args.binaries.join("sless"));
    command.arg("--data").arg(data).arg("deploy").arg(source).args(["--runtime", "wasm-js", "--name", FUNCTION]);
    let output = command.output().context("start `sless deploy`")?;
    if !output.status.success() {
        bail!("`sless deploy` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
