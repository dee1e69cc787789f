//! What [`Records`] promises.

mod invocations;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use uuid::Uuid;

use self::invocations::list_all;
use super::{namespace, samples};
use crate::artifact::{ModuleRef, PrivateKey, Statement};
use crate::invocation::{ColdGrade, TriggerKind};
use crate::ports::{Error, InvocationFilter, NewVersion, Records};
use crate::version::{VersionCause, VersionState};
use crate::{
    ArtifactRef, Digest, FunctionKey, FunctionName, FunctionSpec, Invocation, InvocationId, Namespace, Outcome,
    PageRequest, Runtime, Timestamp, VersionNumber,
};

const START: Timestamp = Timestamp::constant(1_136_214_245, 0);

fn at(second: u64) -> Timestamp {
    START + Duration::from_secs(second)
}

fn name(text: &str) -> FunctionName {
    text.parse().expect("a name")
}

fn page(limit: u32, cursor: Option<String>) -> PageRequest {
    PageRequest { limit, cursor }
}

fn new_version(function: &FunctionKey, uid: Uuid, generation: u64) -> NewVersion {
    let mut spec = FunctionSpec::new(Runtime::Wasm);
    spec.s3_key = Some(format!("functions/{function}/{uid}-{generation}.wasm"));
    spec.sha256 = Some(Digest::of(&generation.to_be_bytes()));
    NewVersion {
        function: function.clone(),
        uid,
        generation,
        spec,
        cause: VersionCause::Upload,
        source_bytes: 7,
        created_at: at(generation),
    }
}

fn ready(function: &FunctionKey, artifact: &[u8], wasm: &[u8], engine: &[u8]) -> (VersionState, ArtifactRef) {
    let (digest, wasm, engine) = (Digest::of(artifact), Digest::of(wasm), Digest::of(engine));
    let signature = PrivateKey::from_bytes(&[7; 32]).sign(&Statement { artifact: digest, wasm, engine, function });
    let module =
        ModuleRef { digest: Digest::of(&[b"module ", artifact].concat()), size_bytes: 1, wasm, engine, signature };
    let size_bytes = u64::from(u32::MAX) + 1;
    let artifact = ArtifactRef { digest, size_bytes, wasm, engine, signature, modules: vec![module] };
    (VersionState::Ready { artifact: Some(artifact.clone()), image: None }, artifact)
}

/// Runs the contract of [`Records`].
pub async fn records(records: &dyn Records) {
    records.ping().await.expect("ping");
    versions(records).await;
    one_version_a_generation(records).await;
    artifacts_and_references(records).await;
    invocations::invocations(records).await;
    invocations::filters_and_pages(records).await;
    round_trips(records).await;
    forgets_functions(records).await;
    invocations::prunes(records).await;
}

async fn versions(records: &dyn Records) {
    let (function, uid) = (FunctionKey::new(namespace(), name("f")), Uuid::now_v7());
    assert!(records.versions(uid, PageRequest::default()).await.expect("list").items.is_empty());
    assert!(matches!(records.version(uid, VersionNumber(1)).await, Err(Error::NotFound { .. })));
    let missing = records.set_version_state(uid, VersionNumber(1), VersionState::Superseded, None).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");

    let first = records.begin_version(new_version(&function, uid, 1)).await.expect("begin");
    let given = new_version(&function, uid, 1);
    assert_eq!((first.function_uid, first.number, first.generation), (uid, VersionNumber(1), 1));
    assert_eq!((&first.spec, first.cause, first.source_bytes, first.created_at), (&given.spec, given.cause, 7, at(1)));
    assert_eq!((&first.state, first.build_ms), (&VersionState::Pending, None));
    assert_eq!(records.version(uid, VersionNumber(1)).await.expect("get"), first);

    let (state, _) = ready(&function, b"a", b"w", b"e");
    records.set_version_state(uid, first.number, state.clone(), Some(u64::from(u32::MAX) + 9)).await.expect("set");
    let built = records.version(uid, first.number).await.expect("get");
    assert_eq!((&built.state, built.build_ms), (&state, Some(u64::from(u32::MAX) + 9)));
    // Asked again, with whatever else: the version that is there, as it is.
    let again = NewVersion { cause: VersionCause::Settings, source_bytes: 9, ..new_version(&function, uid, 1) };
    assert_eq!(records.begin_version(again).await.expect("begin again"), built);
    let failed = VersionState::Failed { error: "line 7: é\u{1f980}\"".into() };
    records.set_version_state(uid, first.number, failed.clone(), None).await.expect("set");
    let read = records.version(uid, first.number).await.expect("get");
    assert_eq!((&read.state, read.build_ms), (&failed, built.build_ms), "what its build took stays");

    for generation in 2..=25 {
        let cause = VersionCause::Rollback { to: VersionNumber(generation as u32 - 1) };
        let version = records
            .begin_version(NewVersion { cause, ..new_version(&function, uid, generation) })
            .await
            .expect("begin");
        assert_eq!((version.number, version.cause), (VersionNumber(generation as u32), cause));
    }
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = records.versions(uid, page(10, cursor)).await.expect("list");
        listed.extend(page.items.into_iter().map(|version| version.number.0));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, (1..=25).rev().collect::<Vec<_>>(), "newest first");
    for bad in ["", "zz", "00", "76", "69", &"0".repeat(100_000)] {
        let list = records.versions(uid, page(10, Some(bad.to_owned()))).await;
        assert!(matches!(list, Err(Error::InvalidCursor)), "the cursor {bad:?}: {list:?}");
    }

    // The newest is deleted too: its number does not come again.
    let first_page = records.versions(uid, page(3, None)).await.expect("list");
    records
        .delete_versions(uid, &[VersionNumber(25), VersionNumber(23), VersionNumber(7), VersionNumber(99)])
        .await
        .expect("delete");
    assert!(matches!(records.version(uid, VersionNumber(25)).await, Err(Error::NotFound { .. })));
    let next = records.versions(uid, page(1, first_page.next)).await.expect("list");
    assert_eq!(next.items[0].number, VersionNumber(22), "a cursor holds its place where its item was deleted");
    let version = records.begin_version(new_version(&function, uid, 26)).await.expect("begin");
    assert_eq!(version.number, VersionNumber(26));

    let other = Uuid::now_v7();
    let version = records.begin_version(new_version(&function, other, 9)).await.expect("begin");
    assert_eq!(version.number, VersionNumber(1), "a later function of the name counts from 1");
    assert_eq!(records.versions(other, PageRequest::default()).await.expect("list").items, [version]);
}

async fn one_version_a_generation(records: &dyn Records) {
    let (function, uid) = (FunctionKey::new(namespace(), name("f")), Uuid::now_v7());
    // Six ask for each of twelve generations, all at once.
    let begun = (0..72).map(|i| records.begin_version(new_version(&function, uid, i % 12 + 1)));
    let begun = futures::future::join_all(begun).await;
    let mut pairs: Vec<_> = begun.into_iter().map(|v| v.expect("begin")).map(|v| (v.generation, v.number.0)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), 12, "one number a generation: {pairs:?}");
    let mut numbers: Vec<_> = pairs.into_iter().map(|pair| pair.1).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>(), "numbers without gaps");
}

async fn artifacts_and_references(records: &dyn Records) {
    let (ours, theirs) = (namespace(), namespace());
    let (one, two) = (FunctionKey::new(ours, name("one")), FunctionKey::new(ours, name("two")));
    let (uid, other) = (Uuid::now_v7(), Uuid::now_v7());
    let unique = uid.as_bytes();
    let (wasm, engine) = (Digest::of(unique), Digest::of(b"engine"));
    assert_eq!(records.find_artifact(ours, &wasm, &engine).await.expect("find"), None);
    let version = records.begin_version(new_version(&one, uid, 1)).await.expect("begin");
    let (state, artifact) = ready(&one, &[unique.as_slice(), b"artifact"].concat(), unique, b"engine");
    records.set_version_state(uid, version.number, state, Some(5)).await.expect("set");
    assert_eq!(records.find_artifact(ours, &wasm, &engine).await.expect("find"), Some(artifact.clone()));
    assert_eq!(records.find_artifact(theirs, &wasm, &engine).await.expect("find"), None, "another namespace's");
    assert_eq!(
        records.find_artifact(ours, &wasm, &Digest::of(b"newer")).await.expect("find"),
        None,
        "another engine's"
    );
    assert_eq!(records.find_artifact(ours, &Digest::of(b"other"), &engine).await.expect("find"), None);

    let second = records.begin_version(new_version(&two, other, 1)).await.expect("begin");
    let image = VersionState::Ready { artifact: None, image: Some("registry/image@sha256:…".into()) };
    records.set_version_state(other, second.number, image, None).await.expect("set");
    let key = |version: &crate::Version| version.spec.s3_key.clone().expect("a key");
    let (keys, artifacts) = records.references().await.expect("references");
    assert!(keys.contains(&key(&version)) && keys.contains(&key(&second)) && artifacts.contains(&artifact.digest));
    let module = artifact.modules[0].digest;
    assert!(artifacts.contains(&module), "an engine's module that a version needs");
    let uids = records.function_uids().await.expect("uids");
    assert!(uids.contains(&uid) && uids.contains(&other));

    records.delete_versions(uid, &[version.number]).await.expect("delete");
    assert_eq!(records.find_artifact(ours, &wasm, &engine).await.expect("find"), None, "its version is gone");
    records.delete_function(other).await.expect("delete");
    let (keys, artifacts) = records.references().await.expect("references");
    assert!(!keys.contains(&key(&version)) && !keys.contains(&key(&second)) && !artifacts.contains(&artifact.digest));
    assert!(!artifacts.contains(&module), "no version needs it any more");
    let uids = records.function_uids().await.expect("uids");
    assert!(!uids.contains(&uid) && !uids.contains(&other));
}

fn row(namespace: Namespace, function: &str, uid: Uuid, second: u64) -> Invocation {
    Invocation {
        id: InvocationId::now(),
        namespace,
        function: name(function),
        function_uid: uid,
        version: VersionNumber(1),
        trigger: TriggerKind::Http,
        request_id: None,
        started_at: at(second),
        duration_us: 1,
        status: 200,
        outcome: Outcome::Ok,
        cold: Some(ColdGrade::Instance),
        cpu_us: 1,
        peak_memory_bytes: 1,
        bytes_in: 0,
        bytes_out: 0,
        log_tail: String::new(),
        error: None,
    }
}

async fn round_trips(records: &dyn Records) {
    let (ours, uid) = (namespace(), Uuid::now_v7());
    let words = (
        prop::sample::select(TriggerKind::ALL),
        prop::sample::select(Outcome::ALL),
        prop::option::of(prop::sample::select(ColdGrade::ALL)),
    );
    let numbers = prop::array::uniform5(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), Just(1 << 63)]);
    let texts = (prop::option::of(any::<String>()), any::<String>(), prop::option::of(any::<String>()));
    let small = (any::<u32>(), any::<u16>(), -9_000_000_000_000_000i64..9_000_000_000_000_000);
    let mut rows = Vec::new();
    for ((trigger, outcome, cold), n, (request_id, log_tail, error), (version, status, micros)) in
        samples(130, (words, numbers, texts, small))
    {
        rows.push(Invocation {
            version: VersionNumber(version),
            trigger,
            request_id,
            started_at: Timestamp::from_microsecond(micros).expect("within the range"),
            duration_us: n[0],
            status,
            outcome,
            cold,
            cpu_us: n[1],
            peak_memory_bytes: n[2],
            bytes_in: n[3],
            bytes_out: n[4],
            log_tail,
            error,
            ..row(ours, "f", uid, 0)
        });
    }
    rows[0].log_tail = "é\u{1f980}\0\n".repeat(100_000);
    records.insert_invocations(&rows).await.expect("insert");
    for row in &rows {
        assert!(records.invocation(ours, row.id).await.expect("get") == *row, "a row came back changed: {row:?}");
    }
    rows.sort_by_key(|row| std::cmp::Reverse((row.started_at, row.id)));
    assert!(list_all(records, ours, InvocationFilter::default(), 50).await == rows, "by time, before 1970 too");
}

async fn forgets_functions(records: &dyn Records) {
    let ours = namespace();
    let (gone, stays) = (Uuid::now_v7(), Uuid::now_v7());
    let key = FunctionKey::new(ours, name("f"));
    for uid in [gone, stays] {
        records.begin_version(new_version(&key, uid, 1)).await.expect("begin");
        let rows: Vec<_> = (0..20).map(|i| row(ours, "f", uid, i)).collect();
        records.insert_invocations(&rows).await.expect("insert");
    }
    records.delete_function(gone).await.expect("delete");
    records.delete_function(gone).await.expect("deleting what is not there");
    assert!(records.versions(gone, PageRequest::default()).await.expect("list").items.is_empty());
    let rows = list_all(records, ours, InvocationFilter::default(), 500).await;
    assert_eq!(rows.iter().map(|row| row.function_uid).collect::<BTreeSet<_>>(), BTreeSet::from([stays]));
    assert_eq!(rows.len(), 20);
    let uids = records.function_uids().await.expect("uids");
    assert!(uids.contains(&stays) && !uids.contains(&gone));
    // A call that was under way when it went.
    let late = row(ours, "f", gone, 99);
    records.insert_invocations(std::slice::from_ref(&late)).await.expect("insert");
    assert_eq!(records.invocation(ours, late.id).await.expect("get"), late);
    assert!(records.function_uids().await.expect("uids").contains(&gone));
}
