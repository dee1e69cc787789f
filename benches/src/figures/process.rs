//! In process, without HTTP: what the host costs over bare wasmtime, for a call whose code is in memory and for one whose
//! code has to be mapped first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use sless_adapters::embedded::{self, Embedded};
use sless_core::call::{Answer, CallRecord};
use sless_core::ports::invoker::{BlobArtifacts, Invoker as _};
use sless_core::ports::{BlobKey, blobs};
use sless_core::version::Revision;
use sless_core::{Call, ColdGrade, Invocation, InvocationId, Outcome, Target, TriggerKind, body};
use sless_host::{Deps, Host, Settings};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::Args;
use crate::artifact::{Signed, signed};
use crate::bare::Bare;
use crate::figure::{Bar, Figure};
use crate::stats::{median, micros, percentile};

/// Calls of a round: a few tenths of a second.
const INSTANCE_CALLS: usize = 4_000;
const CODE_CALLS: usize = 200;
const WARM_UP_CALLS: usize = 500;
/// Rows that wait for whoever writes them.
const ROWS: usize = 10_000;

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
    let rounds = measure(args, ColdGrade::Code, async |bench| {
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        // One by one, in turns: what one side leaves in the processor's caches meets both.
        for _ in 0..CODE_CALLS {
            bench.host.unmap_code().await;
            let start = Instant::now();
            bench.ours().await?;
            ours.push(start.elapsed());

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

fn instance_rounds(args: &Args) -> Result<Vec<Round>> {
    measure(args, ColdGrade::Instance, async |bench| {
        let pre = bench.bare.load(&bench.artifact)?;
        bench.target.prepare().await?;
        for _ in 0..WARM_UP_CALLS {
            bench.ours().await?;
            bench.check(&bench.bare.call(&pre).await?)?;
        }
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..INSTANCE_CALLS {
            let start = Instant::now();
            bench.ours().await?;
            ours.push(start.elapsed());
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

/// Runs the rounds in a runtime like the server's. All our calls have to be of that grade.
fn measure(args: &Args, grade: ColdGrade, round: impl AsyncFn(&Bench) -> Result<Round>) -> Result<Vec<Round>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(async {
        let bench = Bench::new(args).await?;
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            rounds.push(round(&bench).await?);
        }
        let Bench { rows, written, adapters, .. } = bench;
        drop(rows);
        let grades = written.await.context("read the rows")?;
        ensure!(grades.keys().eq([&Some(grade)]), "calls should be of grade {grade}, and are {grades:?}");
        adapters.close().await;
        Ok(rounds)
    })
}

/// Both sides, over one artifact.
struct Bench {
    host: Arc<Host>,
    target: Arc<dyn Target>,
    revision: Arc<Revision>,
    rows: mpsc::Sender<Invocation>,
    /// How many calls were of which grade, as their rows say.
    written: JoinHandle<BTreeMap<Option<ColdGrade>, usize>>,
    bare: Bare,
    artifact: PathBuf,
    answer: Bytes,
    adapters: Embedded,
    _data: tempfile::TempDir,
}

impl Bench {
    async fn new(args: &Args) -> Result<Self> {
        let data = tempfile::tempdir().context("make a data folder")?;
        let Signed { bytes, digest, revision, key } = signed(args)?;
        let artifact = data.path().join("artifact");
        std::fs::write(&artifact, &bytes).context("write the artifact")?;
        let adapters = embedded::open(&data.path().join("data"), embedded::Options::default()).await?;
        let size = bytes.len() as u64;
        adapters.blobs.put(&BlobKey::artifact(&digest), blobs::once(bytes), size).await?;
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
        let (rows, mut queue) = mpsc::channel::<Invocation>(ROWS);
        let written = tokio::spawn(async move {
            let mut grades = BTreeMap::new();
            while let Some(row) = queue.recv().await {
                *grades.entry(row.cold).or_default() += 1;
            }
            grades
        });
        let answer = bare.call(&bare.load(&artifact)?).await?;
        Ok(Self { host, target, revision, rows, written, bare, artifact, answer, adapters, _data: data })
    }

    /// A call as the gateway makes it: with a record that becomes a row.
    async fn ours(&self) -> Result<()> {
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
        self.check(&answer)
    }

    fn check(&self, answer: &Bytes) -> Result<()> {
        ensure!(*answer == self.answer, "the two sides answer differently");
        Ok(())
    }
}
