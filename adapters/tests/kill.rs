//! What the embedded world acknowledged survives the end of the process at any instant, and nothing half-written is seen.
//!
//! The test runs itself as a child that writes all it can and says what was acknowledged, kills it (SIGKILL) at a random
//! moment, opens the folder and looks. Several rounds go over one folder.
#![expect(clippy::unwrap_used, reason = "clippy knows the functions of tests only by their attribute")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use sless_adapters::embedded::{self, Embedded, Options};
use sless_adapters::logs::files::Bounds;
use sless_core::invocation::TriggerKind;
use sless_core::ports::{BlobKey, InvocationFilter, LogLine, LogQuery, NewVersion, SecretValue, Stream, blobs};
use sless_core::version::VersionCause;
use sless_core::{
    FunctionKey, FunctionSpec, Invocation, InvocationId, Namespace, Outcome, PageRequest, Runtime, Tenant,
    VersionNumber,
};
use uuid::Uuid;

const ROUNDS: u32 = 6;
/// Acknowledgements before a child may be killed, so that each round has some of every kind.
const AT_LEAST: usize = 150;
/// Invocations of one insert: all of them or none.
const BATCH: usize = 25;

fn options() -> Options {
    // Small segments, so that logs go round while the process ends.
    Options { logs: Bounds { segment_bytes: 64 << 10, segments: 10_000, total_bytes: 1 << 30 }, ..Options::default() }
}

fn namespace() -> Namespace {
    Tenant::from_subject("kill").namespace()
}

fn function() -> FunctionKey {
    FunctionKey::new(namespace(), "f".parse().unwrap())
}

fn versions_uid() -> Uuid {
    Uuid::from_u128(7)
}

/// What a blob of a key holds: every part of it depends on the key and the place.
fn contents(key: &str) -> Vec<u8> {
    let size: usize = key.rsplit('-').next().unwrap().parse().unwrap();
    let seed = key.bytes().fold(7u64, |hash, b| hash.wrapping_mul(31).wrapping_add(b.into()));
    (0..size as u64).map(|i| (seed.wrapping_add(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Says that something was acknowledged: one write, so that the line is whole.
fn acknowledge(line: String) {
    std::io::stdout().lock().write_all(format!("ack {line}\n").as_bytes()).unwrap();
}

#[test]
#[ignore = "is run, and killed, by nothing_acknowledged_is_lost"]
fn child() {
    let mut given = String::new();
    std::io::stdin().lock().read_line(&mut given).unwrap();
    let (round, dir) = given.trim().split_once(' ').expect("a round and a folder on standard input");
    let (round, dir) = (round.parse().unwrap(), Path::new(dir));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = Arc::new(embedded::open(dir, options()).await.unwrap());
        let (a, b, c, d, e, f) = (world.clone(), world.clone(), world.clone(), world.clone(), world.clone(), world);
        tokio::spawn(write_functions(a, round));
        tokio::spawn(write_versions(b));
        tokio::spawn(write_invocations(c));
        tokio::spawn(write_blobs(d, round));
        tokio::spawn(write_secrets(e));
        write_logs(f, round).await;
    });
}

async fn write_functions(world: Arc<Embedded>, round: u32) {
    let functions = &world.resources.functions;
    for n in 0.. {
        let name = format!("f-{round}-{n}");
        let spec = |memory_mb| FunctionSpec { memory_mb, ..FunctionSpec::new(Runtime::Wasm) };
        functions.create(namespace(), &name, spec(1)).await.unwrap();
        acknowledge(format!("function {name} 1"));
        for generation in 2..4 {
            functions.update_spec(namespace(), &name, None, spec(generation)).await.unwrap();
            acknowledge(format!("function {name} {generation}"));
        }
        if n % 2 == 0 {
            functions.delete(namespace(), &name, None).await.unwrap();
            acknowledge(format!("no-function {name}"));
        }
    }
}

async fn write_versions(world: Arc<Embedded>) {
    let there = world.records.versions(versions_uid(), PageRequest { limit: 1, cursor: None }).await.unwrap();
    let first = there.items.first().map_or(1, |version| version.generation + 1);
    for generation in first.. {
        let new = NewVersion {
            function: function(),
            uid: versions_uid(),
            generation,
            spec: FunctionSpec::new(Runtime::Wasm),
            cause: VersionCause::Upload,
            source_bytes: generation,
            created_at: world.clock.now(),
        };
        let version = world.records.begin_version(new).await.unwrap();
        acknowledge(format!("version {} {generation}", version.number));
    }
}

async fn write_invocations(world: Arc<Embedded>) {
    loop {
        let batch = Uuid::now_v7().to_string();
        let row = |i: usize| Invocation {
            id: InvocationId::now(),
            namespace: namespace(),
            function: function().name,
            function_uid: versions_uid(),
            version: VersionNumber(1),
            trigger: TriggerKind::Http,
            request_id: Some(batch.clone()),
            started_at: world.clock.now(),
            duration_us: i as u64,
            status: 200,
            outcome: Outcome::Ok,
            cold: None,
            cpu_us: 0,
            peak_memory_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
            log_tail: "x".repeat(i * 20),
            error: None,
        };
        world.records.insert_invocations(&(0..BATCH).map(row).collect::<Vec<_>>()).await.unwrap();
        acknowledge(format!("rows {batch}"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn write_blobs(world: Arc<Embedded>, round: u32) {
    for n in 0usize.. {
        let text = format!("blobs/{round}/{n}-{}", n * 7919 % 600_000);
        let key: BlobKey = text.parse().unwrap();
        let bytes = contents(&text);
        let pieces: Vec<_> = bytes.chunks(50_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        world.blobs.put(&key, futures::stream::iter(pieces).boxed(), 1 << 20).await.unwrap();
        acknowledge(format!("blob {text}"));
        if n % 3 == 0 {
            world.blobs.delete(&key).await.unwrap();
            acknowledge(format!("no-blob {text}"));
        }
    }
}

async fn write_secrets(world: Arc<Embedded>) {
    let name = "counter".parse().unwrap();
    let there = world.secrets.get(namespace(), &name).await.unwrap();
    let first: u64 = there.map_or(1, |value| value.0.parse::<u64>().unwrap() + 1);
    for n in first.. {
        world.secrets.put(namespace(), &name, SecretValue(n.to_string())).await.unwrap();
        acknowledge(format!("secret {n}"));
    }
}

async fn write_logs(world: Arc<Embedded>, round: u32) {
    for n in 0u64.. {
        let line = |i: u64| LogLine {
            at: world.clock.now(),
            version: VersionNumber(round),
            invocation: InvocationId(Uuid::from_u128(i.into())),
            stream: Stream::Stdout,
            line: "y".repeat(i as usize % 500),
        };
        world.logs.append(&function(), (n * 4..n * 4 + 4).map(line).collect());
        world.logs.flush().await.unwrap();
        acknowledge(format!("lines {round} {}", n * 4 + 4));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What was acknowledged in all rounds.
#[derive(Debug, Default)]
struct Acknowledged {
    functions: BTreeMap<String, u64>,
    no_functions: BTreeSet<String>,
    versions: BTreeMap<u32, u64>,
    batches: BTreeSet<String>,
    blobs: BTreeSet<String>,
    no_blobs: BTreeSet<String>,
    secret: u64,
    lines: BTreeMap<u32, u64>,
}

impl Acknowledged {
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["function", name, generation] => {
                self.functions.insert(name.into(), generation.parse().unwrap());
            }
            ["no-function", name] => {
                self.functions.remove(name);
                self.no_functions.insert(name.into());
            }
            ["version", number, generation] => {
                self.versions.insert(number.parse().unwrap(), generation.parse().unwrap());
            }
            ["rows", batch] => {
                self.batches.insert(batch.into());
            }
            ["blob", key] => {
                self.blobs.insert(key.into());
            }
            ["no-blob", key] => {
                self.blobs.remove(key);
                self.no_blobs.insert(key.into());
            }
            ["secret", n] => self.secret = n.parse().unwrap(),
            ["lines", round, count] => {
                self.lines.insert(round.parse().unwrap(), count.parse().unwrap());
            }
            _ => panic!("the child said {line:?}"),
        }
    }

    fn kinds(&self) -> [usize; 8] {
        let lines = self.lines.len();
        [
            self.functions.len(),
            self.no_functions.len(),
            self.versions.len(),
            self.batches.len(),
            self.blobs.len(),
            self.no_blobs.len(),
            self.secret as usize,
            lines,
        ]
    }

    async fn check(&self, world: &Embedded) {
        self.check_functions(world).await;
        self.check_records(world).await;
        self.check_blobs(world).await;
        self.check_logs(world).await;
        let secret = world.secrets.get(namespace(), &"counter".parse().unwrap()).await.unwrap();
        assert!(secret.map_or(0, |value| value.0.parse::<u64>().unwrap()) >= self.secret, "a secret went back");
    }

    async fn check_functions(&self, world: &Embedded) {
        let mut there = BTreeMap::new();
        let mut page = PageRequest { limit: 500, cursor: None };
        loop {
            let list = world.resources.functions.list(namespace(), page.clone()).await.unwrap();
            for f in list.items {
                assert_eq!(u64::from(f.spec.memory_mb), f.metadata.generation, "half a change: {f:?}");
                there.insert(f.metadata.name, f.metadata.generation);
            }
            page.cursor = list.next;
            if page.cursor.is_none() {
                break;
            }
        }
        for (name, generation) in &self.functions {
            // A deletion may have been done and not yet acknowledged, at the last state only.
            let found = there.get(name);
            assert!(
                found >= Some(generation) || (found.is_none() && *generation == 3),
                "{name}: {found:?} after {generation}"
            );
        }
        let missing = self.functions.keys().filter(|name| !there.contains_key(*name)).count();
        assert!(
            missing <= ROUNDS as usize,
            "{missing} functions are gone, and at most one deletion a round was under way"
        );
        assert!(self.no_functions.iter().all(|name| !there.contains_key(name)), "a deleted function came back");
    }

    async fn check_records(&self, world: &Embedded) {
        let mut numbers = BTreeMap::new();
        let mut page = PageRequest { limit: 500, cursor: None };
        loop {
            let list = world.records.versions(versions_uid(), page.clone()).await.unwrap();
            numbers.extend(list.items.into_iter().map(|version| (version.number.0, version.generation)));
            page.cursor = list.next;
            if page.cursor.is_none() {
                break;
            }
        }
        assert!(
            self.versions.iter().all(|(number, generation)| numbers.get(number) == Some(generation)),
            "a version is gone"
        );
        assert!(numbers.keys().copied().eq(1..=numbers.len() as u32), "numbers have gaps");

        let mut batches: BTreeMap<String, usize> = BTreeMap::new();
        let mut page = PageRequest { limit: 500, cursor: None };
        loop {
            let list = world.records.invocations(namespace(), InvocationFilter::default(), page.clone()).await.unwrap();
            for row in list.items {
                assert_eq!(row.log_tail.len() as u64, row.duration_us * 20, "half a row");
                *batches.entry(row.request_id.unwrap()).or_default() += 1;
            }
            page.cursor = list.next;
            if page.cursor.is_none() {
                break;
            }
        }
        assert!(batches.values().all(|rows| *rows == BATCH), "half a batch");
        assert!(self.batches.iter().all(|batch| batches.contains_key(batch)), "a batch of rows is gone");
    }

    async fn check_blobs(&self, world: &Embedded) {
        let keys: Vec<BlobKey> = world.blobs.list("").await.unwrap().try_collect().await.unwrap();
        for key in &keys {
            let bytes = blobs::read(&*world.blobs, key, 1 << 20).await.unwrap();
            assert!(bytes == contents(key.as_str()), "half a blob: {key}, {} bytes", bytes.len());
        }
        let keys: BTreeSet<_> = keys.iter().map(BlobKey::as_str).collect();
        let missing = self.blobs.iter().filter(|key| !keys.contains(key.as_str())).count();
        assert!(missing <= ROUNDS as usize, "{missing} blobs are gone, and at most one deletion a round was under way");
        assert!(self.no_blobs.iter().all(|key| !keys.contains(key.as_str())), "a deleted blob came back");
    }

    async fn check_logs(&self, world: &Embedded) {
        let lines: Vec<LogLine> =
            world.logs.read(&function(), LogQuery::default()).await.unwrap().try_collect().await.unwrap();
        let mut rounds: BTreeMap<u32, u64> = BTreeMap::new();
        for line in lines {
            let next = rounds.entry(line.version.0).or_default();
            assert_eq!(line.invocation.0.as_u128(), u128::from(*next), "a line is gone or doubled");
            assert_eq!(line.line.len(), *next as usize % 500, "half a line");
            *next += 1;
        }
        for (round, count) in &self.lines {
            assert!(rounds.get(round) >= Some(count), "round {round}: {:?} lines of {count}", rounds.get(round));
        }
    }
}

/// Up to so many milliseconds, drawn at random.
fn random_delay(milliseconds: u64) -> Duration {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    Duration::from_micros(u64::from_le_bytes(bytes) % (milliseconds * 1000))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{round} {}", dir.path().display()).unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut killer = Some(std::thread::Builder::new());
        let mut killing = None;
        let mut heard = 0;
        let mut child = Some(child);
        for line in said.lines() {
            let line = line.unwrap();
            let Some(line) = line.strip_prefix("ack ") else { continue };
            acknowledged.take(line);
            heard += 1;
            let ready = heard >= AT_LEAST && acknowledged.kinds().iter().all(|kind| *kind > 0);
            if let Some(thread) = killer.take_if(|_| ready)
                && let Some(mut child) = child.take()
            {
                let kill = move || {
                    std::thread::sleep(random_delay(150));
                    child.kill().unwrap();
                    child.wait().unwrap()
                };
                killing = Some(thread.spawn(kill).unwrap());
            }
        }
        let status = killing.expect("the child wrote until it was killed").join().unwrap();
        assert!(!status.success());
        let world = embedded::open(dir.path(), options()).await.unwrap();
        acknowledged.check(&world).await;
        world.close().await;
    }
}
