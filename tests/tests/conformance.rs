//! The cases of the handler contract through the front door: every runtime that is on this machine gets each case's source
//! deployed, and `tests/conformance/run.py` asks what the case asks.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use sless_core::{Phase, Runtime};
use sless_tests::dev::{Answer, Dev};

/// Cases whose answers depend on the memory of a larger body get enough of it on every runtime.
const MEMORY_MB: u32 = 512;

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let trial = |runtime: Runtime| {
        let why = if args.list { None } else { missing(runtime) };
        let name = match &why {
            Some(why) => format!("{runtime} ({why})"),
            None => runtime.to_string(),
        };
        Trial::test(name, move || run(runtime)).with_ignored_flag(why.is_some())
    };
    let runtimes = Runtime::ALL.iter().copied().filter(|runtime| runtime.code().is_source());
    libtest_mimic::run(&args, runtimes.map(trial).collect()).exit_code()
}

/// Why a runtime can't be tried here: what the platform says when a function asks for it.
fn missing(runtime: Runtime) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(&dir.path().join("data"));
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let why = tokio.block_on(async {
        dev.api(reqwest::Method::POST, "/ensure").send().await.unwrap();
        let body = json!({"name": "probe", "spec": {"runtime": runtime}});
        let made = dev.api(reqwest::Method::POST, "/functions").json(&body).send().await.unwrap();
        match made.status().as_u16() {
            201 => None,
            _ => Some(made.json::<Value>().await.unwrap()["errors"][0]["detail"].as_str().unwrap().to_owned()),
        }
    });
    dev.stop();
    why
}

fn run(runtime: Runtime) -> Result<(), Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let dir = tempfile::tempdir()?;
    let dev = Dev::start(&dir.path().join("data"));
    let mut cases: Vec<PathBuf> = std::fs::read_dir(root.join("cases"))?.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let names: Vec<_> =
        cases.iter().map(|case| format!("case-{}", case.file_name().unwrap().to_str().unwrap())).collect();
    for (case, name) in cases.iter().zip(&names) {
        let source = dir.path().join(name);
        copy(case, &source)?;
        let text = std::fs::read_to_string(case.join("case.json"))?;
        let settings = serde_json::from_str::<Value>(&text)?["settings"].take();
        std::fs::write(source.join("sless.toml"), manifest(runtime, &settings))?;
        dev.ok(["deploy", source.to_str().unwrap(), "--name", name, "--no-wait"]);
    }
    for name in &names {
        ready(&dev, name)?;
    }
    let url = format!("{}/fn/{}/case-{{case}}", dev.endpoint, dev.namespace);
    let asked = Command::new("python3").arg(root.join("run.py")).args(["--url", &url, "--jobs", "2"]).output()?;
    let Answer { code, out, err } = asked.into();
    dev.stop();
    if code == 0 { Ok(()) } else { Err(format!("{out}{err}").into()) }
}

/// Waits for a function.
fn ready(dev: &Dev, name: &str) -> Result<(), Failed> {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    loop {
        let status = dev.json(["functions", "get", name])["status"].take();
        match serde_json::from_value::<Phase>(status["phase"].clone())? {
            Phase::Ready => return Ok(()),
            Phase::Failed => return Err(format!("{name}: {}", status["lastError"]).into()),
            _ if std::time::Instant::now() > deadline => return Err(format!("{name} is not ready in time").into()),
            _ => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
    }
}

/// `sless.toml` of a case's settings, whose names are the same.
fn manifest(runtime: Runtime, settings: &Value) -> String {
    let mut text = format!("runtime = \"{runtime}\"\nmemoryMb = {MEMORY_MB}\n");
    let mut tables = String::new();
    for (name, value) in settings.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(table) => {
                let _ = writeln!(tables, "[{name}]");
                for (key, value) in table {
                    let _ = writeln!(tables, "{key} = {value}");
                }
            }
            None => {
                let _ = writeln!(text, "{name} = {value}");
            }
        }
    }
    text + &tables
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if name != "__pycache__" {
                copy(&entry.path(), &to.join(name))?;
            }
        } else if name != "case.json" {
            std::fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
