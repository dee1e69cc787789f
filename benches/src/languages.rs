//! The same JSON handler in two languages on all four runtimes, through the front door: how long a deploy takes, how large
//! what it makes is, how cold calls start, what an instance holds, and how many requests a second it answers.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::Args;
use crate::load::{Load, load};
use crate::servers::{Dev, FUNCTION, deploy_as, dev, get, sless};
use crate::stats::{median, time};

/// A JavaScript function as most begin: some JSON in, some JSON out.
pub(crate) const JAVASCRIPT: &str =
    "exports.handler = async (event) => ({ hello: event.query.name ?? 'world', path: event.path });\n";
/// The same in Python.
pub(crate) const PYTHON: &str = "async def handler(event, context):\n    return {'hello': event['query'].get('name', 'world'), 'path': event['path']}\n";
/// What both answer at `/`, spaces apart.
const ANSWER: &str = r#"{"hello":"world","path":"/"}"#;
const RUNTIMES: [(&str, &str, &str); 4] = [
    ("wasm-js", "handler.js", JAVASCRIPT),
    ("nodejs20", "handler.js", JAVASCRIPT),
    ("wasm-python", "handler.py", PYTHON),
    ("python3.11", "handler.py", PYTHON),
];
/// Connections of the load, and how long it warms up.
const CONNECTIONS: u32 = 16;
const WARM_UP_SECONDS: u32 = 1;

/// One runtime.
pub(crate) struct Row {
    /// Which.
    pub runtime: &'static str,
    /// `sless deploy` on a new machine: engine prepared, interpreter's packages made.
    pub first_ms: f64,
    /// The same folder again: nothing to build.
    pub again_ms: f64,
    /// After a changed line.
    pub changed_ms: f64,
    /// What hosts map for the function alone; none where an interpreter runs it.
    pub artifact_bytes: Option<u64>,
    /// The first call after a deploy, as its row says, and of which grade it was.
    pub first_call_us: f64,
    pub grade: String,
    /// What the function's own memory came to in a call.
    pub memory_bytes: u64,
    /// Under load.
    pub load: Load,
}

/// All of them.
pub(crate) fn rows(args: &Args) -> Result<Vec<Row>> {
    RUNTIMES.iter().map(|(runtime, file, text)| row(args, runtime, file, text)).collect()
}

/// How long a process takes from its start to its end.
pub(crate) fn process_start(command: &[&str]) -> Result<Duration> {
    let (program, arguments) = command.split_first().context("a program")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (took, status) = time(|| command.status());
    ensure!(status.with_context(|| format!("start {program}"))?.success(), "{program} failed");
    Ok(took)
}

fn row(args: &Args, runtime: &'static str, file: &str, text: &str) -> Result<Row> {
    let data = tempfile::tempdir().context("make a data folder")?;
    let source = tempfile::tempdir().context("make a folder")?;
    let Dev { server, .. } = dev(args, data.path())?;
    let deploy = |text: &str| {
        std::fs::write(source.path().join(file), text).context("write the handler")?;
        let started = Instant::now();
        deploy_as(args, data.path(), source.path(), runtime)?;
        anyhow::Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    let comment = if Path::new(file).extension().is_some_and(|end| end == "js") { "//" } else { "#" };
    let first_ms = deploy(text)?;
    let (mut again, mut changed, mut first_calls) = (Vec::new(), Vec::new(), Vec::new());
    let mut grade = String::new();
    for round in 0..args.rounds {
        again.push(deploy(&read(source.path(), file)?)?);
        changed.push(deploy(&format!("{text}{comment} {round}\n"))?);
        let answer = get(&server.url)?;
        ensure!(answer.replace(' ', "") == ANSWER, "{runtime} answered {answer}");
        let call = newest_call(args, data.path())?;
        first_calls.push(number(&call, "durationUs")? as f64);
        call["cold"].as_str().unwrap_or("?").clone_into(&mut grade);
    }
    load(&server, CONNECTIONS, WARM_UP_SECONDS)?;
    let load = load(&server, CONNECTIONS, args.seconds)?;
    get(&server.url)?;
    let memory_bytes = number(&newest_call(args, data.path())?, "peakMemoryBytes")?;
    let versions: Value =
        serde_json::from_slice(&sless(args, data.path(), &["versions".as_ref(), FUNCTION.as_ref()])?)?;
    Ok(Row {
        runtime,
        first_ms,
        again_ms: median(&again),
        changed_ms: median(&changed),
        artifact_bytes: versions[0]["artifact"]["sizeBytes"].as_u64(),
        first_call_us: median(&first_calls),
        grade,
        memory_bytes,
        load,
    })
}

fn read(folder: &Path, file: &str) -> Result<String> {
    std::fs::read_to_string(folder.join(file)).context("read the handler")
}

/// The row of the newest call, which is written a moment after the answer.
fn newest_call(args: &Args, data: &Path) -> Result<Value> {
    std::thread::sleep(ROW_DELAY);
    let rows = sless(args, data, &["invocations".as_ref(), FUNCTION.as_ref(), "--limit".as_ref(), "1".as_ref()])?;
    let rows: Value = serde_json::from_slice(&rows)?;
    rows.get(0).cloned().context("a row of the call")
}

/// Longer than rows wait to be written together.
const ROW_DELAY: Duration = Duration::from_millis(500);

fn number(row: &Value, field: &str) -> Result<u64> {
    row[field].as_u64().with_context(|| format!("`{field}` in a row"))
}
