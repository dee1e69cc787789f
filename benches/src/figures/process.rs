//! In process, without HTTP: what the host costs over bare wasmtime, for a call whose code is in memory and for one whose
//! code has to be mapped first.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use sless_adapters::embedded::{self, Embedded};
use sless_core::call::{Answer, CallRecord};
use sless_core::ports::invoker::{BlobArtifacts, Invoker as _};
use sless_core::ports::{BlobKey, blobs};
use sless_core::version::Revision;
use sless_core::{Call, ColdGrade, Digest, Invocation, InvocationId, Outcome, Target, TriggerKind, body};
use sless_host::{Deps, Host, Settings};
use tokio::sync::mpsc;

use crate::Args;
use crate::artifact::{Signed, signed, signed_javascript, signed_python};
use crate::bare::Bare;
use crate::figure::{Bar, Figure};
use crate::languages;
use crate::stats::{median, micros, percentile};

/// Calls of a round: a few tenths of a second.
const INSTANCE_CALLS: usize = 4_000;
const CODE_CALLS: usize = 200;
const WARM_UP_CALLS: usize = 500;
/// How often a call is tried until it finds its code unmapped.
const CODE_TRIES: usize = 100;
/// Rows that wait to be read: one is read after each call.
const ROWS: usize = 16;

/// p50 of a call in a fresh instance.
pub(super) fn instance_cold(args: &Args, name: &'static str) -> Result<Figure> {
    let rounds = instance_rounds(args)?;
    let p50 = |of: fn(&Round) -> &Sorted| median(&rounds.iter().map(|round| of(round).p50()).collect::<Vec<_>>());
    let figure = Figure::ratio(name, "µs", p50(|r| &r.ours), "bare InstancePre, p50", p50(|r| &r.peer));
    Ok(figure.bar(Bar::RatioAtMost(1.2)))
}

/// p99 of the same.
pub(super) fn instance_cold_p99(args: &Args, name: &'static str) -> Result<Figure> {
    let rounds = instance_rounds(args)?;
    let p99 = |of: fn(&Round) -> &Sorted| median(&rounds.iter().map(|round| of(round).p99()).collect::<Vec<_>>());
    let figure = Figure::ratio(name, "µs", p99(|r| &r.ours), "bare InstancePre, p99", p99(|r| &r.peer));
    Ok(figure.bar(Bar::ValueAtMost(1000.0)))
}

/// p50 of a call whose artifact is on disk and not mapped.
pub(super) fn code_cold(args: &Args, name: &'static str) -> Result<Figure> {
    let rounds = measure(args, async |bench| {
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        // One by one, in turns: what one side leaves in the processor's caches meets both.
        for _ in 0..CODE_CALLS {
            ours.push(bench.code_cold().await?);

            let start = Instant::now();
            let pre = bench.bare.load(&bench.artifact)?;
            bench.check(&bench.bare.call(&pre).await?)?;
            peer.push(start.elapsed());
        }
        Ok(Round { ours: Sorted::new(ours), peer: Sorted::new(peer) })
    })?;
    let p50 = |of: fn(&Round) -> &Sorted| median(&rounds.iter().map(|round| of(round).p50()).collect::<Vec<_>>());
    let figure = Figure::ratio(name, "µs", p50(|r| &r.ours), "bare deserialize_file, p50", p50(|r| &r.peer));
    Ok(figure.bar(Bar::RatioAtMost(1.2)))
}

/// What is asked of a call of a JavaScript function in a fresh instance, of one whose code has to be mapped first, and of a
/// Python function in a fresh instance.
const JAVASCRIPT_INSTANCE_US: f64 = 120.0;
const JAVASCRIPT_CODE_US: f64 = 1_000.0;
const PYTHON_INSTANCE_US: f64 = 1_300.0;
/// Starts of an interpreter's process in a round: each takes tens of milliseconds.
const PROCESS_STARTS: usize = 10;

/// p50 of a call of a JavaScript function in a fresh instance, beside the start of a process of Node.js.
pub(super) fn javascript_instance_cold(args: &Args, name: &'static str) -> Result<Figure> {
    let start = async || Bench::new(signed_javascript(args, languages::JAVASCRIPT)?, false).await;
    let figure = language(args, name, start, fresh_instances, ("start of `node`, p50", &["node", "-e", "0"]))?;
    Ok(figure.bar(Bar::ValueAtMost(JAVASCRIPT_INSTANCE_US)))
}

/// p50 of a call of a JavaScript function whose artifact is on disk and not mapped; its engine is.
pub(super) fn javascript_code_cold(args: &Args, name: &'static str) -> Result<Figure> {
    let start = async || Bench::new(signed_javascript(args, languages::JAVASCRIPT)?, false).await;
    let figure = language(args, name, start, unmapped_code, ("start of `node`, p50", &["node", "-e", "0"]))?;
    Ok(figure.bar(Bar::ValueAtMost(JAVASCRIPT_CODE_US)))
}

/// p50 of a call of a Python function in a fresh instance, beside the start of a process of Python.
pub(super) fn python_instance_cold(args: &Args, name: &'static str) -> Result<Figure> {
    let start = async || Bench::new(signed_python(args, languages::PYTHON)?, false).await;
    let figure = language(args, name, start, fresh_instances, PYTHON_START)?;
    Ok(figure.bar(Bar::ValueAtMost(PYTHON_INSTANCE_US)))
}

/// p50 of a call of a Python function whose artifact is on disk and not mapped; its engine is.
pub(super) fn python_code_cold(args: &Args, name: &'static str) -> Result<Figure> {
    let start = async || Bench::new(signed_python(args, languages::PYTHON)?, false).await;
    language(args, name, start, unmapped_code, PYTHON_START)
}

/// A process, and what it is called in a table.
type Peer = (&'static str, &'static [&'static str]);
const PYTHON_START: Peer = ("start of `python3`, p50", &["python3", "-c", "0"]);

async fn fresh_instances(bench: &Bench) -> Result<Vec<Duration>> {
    bench.target.prepare().await?;
    let mut ours = Vec::new();
    for call in 0..WARM_UP_CALLS + INSTANCE_CALLS {
        let took = bench.ours(ColdGrade::Instance).await?;
        if call >= WARM_UP_CALLS {
            ours.push(took);
        }
    }
    Ok(ours)
}

async fn unmapped_code(bench: &Bench) -> Result<Vec<Duration>> {
    let mut ours = Vec::new();
    for _ in 0..CODE_CALLS {
        ours.push(bench.code_cold().await?);
    }
    Ok(ours)
}

/// A function's calls in turns with starts of a process.
fn language(
    args: &Args,
    name: &'static str,
    start: impl AsyncFnOnce() -> Result<Bench>,
    round: impl AsyncFn(&Bench) -> Result<Vec<Duration>>,
    (peer, command): Peer,
) -> Result<Figure> {
    let rounds = run(args, start, async |bench| {
        let ours = Sorted::new(round(bench).await?).p50();
        let starts = (0..PROCESS_STARTS).map(|_| languages::process_start(command)).collect::<Result<_>>()?;
        Ok((ours, Sorted::new(starts).p50()))
    })?;
    let (ours, peers): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    Ok(Figure::ratio(name, "µs", median(&ours), peer, median(&peers)))
}

fn instance_rounds(args: &Args) -> Result<Vec<Round>> {
    measure(args, async |bench| {
        let pre = bench.bare.load(&bench.artifact)?;
        bench.target.prepare().await?;
        for _ in 0..WARM_UP_CALLS {
            bench.ours(ColdGrade::Instance).await?;
            bench.check(&bench.bare.call(&pre).await?)?;
        }
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..INSTANCE_CALLS {
            ours.push(bench.ours(ColdGrade::Instance).await?);
        }
        for _ in 0..INSTANCE_CALLS {
            let start = Instant::now();
            bench.check(&bench.bare.call(&pre).await?)?;
            peer.push(start.elapsed());
        }
        Ok(Round { ours: Sorted::new(ours), peer: Sorted::new(peer) })
    })
}

/// What one round saw on both sides.
struct Round {
    ours: Sorted,
    peer: Sorted,
}

struct Sorted(Vec<Duration>);

impl Sorted {
    fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }
    fn p50(&self) -> f64 {
        micros(percentile(&self.0, 0.5))
    }
    fn p99(&self) -> f64 {
        micros(percentile(&self.0, 0.99))
    }
}

/// Runs the rounds with the peer beside.
fn measure(args: &Args, round: impl AsyncFn(&Bench) -> Result<Round>) -> Result<Vec<Round>> {
    run(args, async || Bench::new(signed(args)?, true).await, round)
}

/// Runs the rounds over what `start` makes, in a runtime like the server's.
fn run<T>(
    args: &Args,
    start: impl AsyncFnOnce() -> Result<Bench>,
    round: impl AsyncFn(&Bench) -> Result<T>,
) -> Result<Vec<T>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    // A server comes back to its scheduler after every call; a round does not, so it may not have a task's budget.
    runtime.block_on(tokio::task::unconstrained(async {
        let bench = start().await?;
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            rounds.push(round(&bench).await?);
        }
        bench.adapters.close().await;
        Ok(rounds)
    }))
}

/// Both sides, over one artifact.
struct Bench {
    host: Arc<Host>,
    target: Arc<dyn Target>,
    revision: Arc<Revision>,
    rows: mpsc::Sender<Invocation>,
    /// Their other end, which is read after each call.
    written: Mutex<mpsc::Receiver<Invocation>>,
    bare: Bare,
    artifact: PathBuf,
    /// What the peer answers, if it can.
    answer: Option<Bytes>,
    adapters: Embedded,
    _data: tempfile::TempDir,
}

impl Bench {
    /// Over an artifact; whether the peer, which knows of no modules, can serve it too.
    async fn new(signed: Signed, has_peer: bool) -> Result<Self> {
        let data = tempfile::tempdir().context("make a data folder")?;
        let Signed { bytes, digest, modules, revision, key } = signed;
        let artifact = data.path().join("artifact");
        std::fs::write(&artifact, &bytes).context("write the artifact")?;
        let adapters = embedded::open(&data.path().join("data"), embedded::Options::default()).await?;
        let size = bytes.len() as u64;
        adapters.blobs.put(&BlobKey::artifact(&digest), blobs::once(bytes), size).await?;
        for module in modules {
            let (key, size) = (BlobKey::artifact(&Digest::of(&module)), module.len() as u64);
            adapters.blobs.put(&key, blobs::once(module), size).await?;
        }
        let settings = Settings::default();
        let bare = Bare::new(&settings)?;
        let host = Host::new(
            settings,
            Deps {
                artifacts: Arc::new(BlobArtifacts(adapters.blobs.clone())),
                logs: adapters.logs.clone(),
                public_key: key,
                clock: adapters.clock.clone(),
                cache_dir: data.path().join("cache"),
            },
        )?;
        let target = host.target(revision.clone());
        target.prepare().await?;
        let (rows, written) = mpsc::channel(ROWS);
        let answer = if has_peer { Some(bare.call(&bare.load(&artifact)?).await?) } else { None };
        Ok(Self {
            host,
            target,
            revision,
            rows,
            written: Mutex::new(written),
            bare,
            artifact,
            answer,
            adapters,
            _data: data,
        })
    }

    /// A call as the gateway makes it, with a record that becomes a row; how long it took. It has to be of that grade.
    async fn ours(&self, grade: ColdGrade) -> Result<Duration> {
        let (took, found) = self.call().await?;
        ensure!(found == grade, "the call was of grade {found}, not {grade}");
        Ok(took)
    }

    /// A call whose code had to be mapped. The host's cache frees what it forgot a little later, so the code may be there
    /// still; then the call does not count.
    async fn code_cold(&self) -> Result<Duration> {
        for _ in 0..CODE_TRIES {
            self.host.unmap_code().await;
            if let (took, ColdGrade::Code) = self.call().await? {
                return Ok(took);
            }
        }
        bail!("the host keeps its code mapped")
    }

    async fn call(&self) -> Result<(Duration, ColdGrade)> {
        let start = Instant::now();
        let slot = self.rows.clone().reserve_owned().await.context("a slot for the row")?;
        let now = self.adapters.clock.now();
        let record =
            CallRecord::new(InvocationId::now(), self.revision.clone(), TriggerKind::Http, None, now, Some(slot));
        let request = http::Request::get("http://localhost/").header("host", "localhost").body(body::empty())?;
        let response = self.target.call(Call { request, record: record.clone() }).await?;
        let status = response.status().as_u16();
        let answer = response.into_body().collect().await?.to_bytes();
        let bytes_out = answer.len() as u64;
        let duration = record.started.elapsed();
        record.answered(Answer { status, outcome: Outcome::Ok, error: None, bytes_in: 0, bytes_out, duration });
        drop(record);
        let took = start.elapsed();
        self.check(&answer)?;
        // Both sides have let go of the record, so its row is there.
        let row =
            self.written.lock().map_err(|_| anyhow!("a round panicked"))?.try_recv().context("a row for the call")?;
        Ok((took, row.cold.context("a grade in the row")?))
    }

    fn check(&self, answer: &Bytes) -> Result<()> {
        ensure!(self.answer.as_ref().is_none_or(|known| answer == known), "the two sides answer differently");
        Ok(())
    }
}
