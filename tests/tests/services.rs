//! The use-cases over the embedded adapters, with a builder and an invoker that the test steers.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt;
use sless_adapters::embedded::{self, Embedded};
use sless_core::artifact::PrivateKey;
use sless_core::call::CallRecord;
use sless_core::ports::{self, BlobKey, Builds};
use sless_core::services::{Deps, Services, Settings, UploadKind, Uploaded};
use sless_core::trigger::{HttpTrigger, TriggerSpec};
use sless_core::version::{VersionCause, VersionState};
use sless_core::*;
use sless_tests::doubles::{EchoInvoker, FlakyRecords, SteeredBuilds};
use sless_tests::eventually;
use tokio_util::sync::CancellationToken;

struct World {
    services: Services,
    builds: Arc<SteeredBuilds>,
    invoker: Arc<EchoInvoker>,
    adapters: Embedded,
    stop: CancellationToken,
    background: tokio::task::JoinHandle<()>,
    dir: tempfile::TempDir,
    ns: Namespace,
}

impl World {
    async fn start() -> Self {
        Self::open(tempfile::tempdir().unwrap(), Settings::default(), |_| {}, usize::MAX).await
    }

    async fn open(
        dir: tempfile::TempDir,
        settings: Settings,
        change: impl FnOnce(&mut SteeredBuilds),
        permits: usize,
    ) -> Self {
        Self::open_over(dir, settings, change, permits, |records| records).await
    }

    async fn open_over(
        dir: tempfile::TempDir,
        settings: Settings,
        change: impl FnOnce(&mut SteeredBuilds),
        permits: usize,
        records: impl FnOnce(Arc<dyn ports::Records>) -> Arc<dyn ports::Records>,
    ) -> Self {
        let adapters = embedded::open(dir.path(), embedded::Options::default()).await.unwrap();
        let mut builds = SteeredBuilds::held(adapters.blobs.clone(), permits.min(tokio::sync::Semaphore::MAX_PERMITS));
        change(Arc::get_mut(&mut builds).unwrap());
        let invoker = Arc::new(EchoInvoker::default());
        let (services, background) = Services::new(Deps {
            resources: adapters.resources.clone(),
            records: records(adapters.records.clone()),
            blobs: adapters.blobs.clone(),
            secrets: adapters.secrets.clone(),
            limits: adapters.limits.clone(),
            logs: adapters.logs.clone(),
            builds: builds.clone(),
            invoker: invoker.clone(),
            workloads: Arc::new(sless_core::ports::NoWorkloads),
            clock: adapters.clock.clone(),
            signing_key: Arc::new(PrivateKey::from_bytes(&[7; 32])),
            settings,
        });
        let ns = Tenant::from_subject("alice").namespace();
        services.namespaces.ensure(ns).await.unwrap();
        let stop = CancellationToken::new();
        let background = tokio::spawn(background.run(stop.clone()));
        let world = Self { services, builds, invoker, adapters, stop, background, dir, ns };
        eventually("routes are read", || async { world.services.routes.synced().then_some(()) }).await;
        world
    }

    /// Ends it as a clean stop does and gives the data folder back.
    async fn stop(self) -> tempfile::TempDir {
        self.stop.cancel();
        self.background.await.unwrap();
        drop(self.services);
        self.adapters.close().await;
        self.dir
    }

    async fn create(&self, name: &str) -> FunctionName {
        let name: FunctionName = name.parse().unwrap();
        self.services.functions.create(self.ns, name.clone(), FunctionSpec::new(Runtime::Wasm)).await.unwrap();
        name
    }

    async fn upload(&self, name: &FunctionName, code: &str) -> Result<Uploaded, Problem> {
        let body = ports::blobs::once(code.to_owned());
        self.services.functions.upload(self.ns, name, None, UploadKind::Component, body).await
    }

    async fn settled(&self, name: &FunctionName, phase: Phase) -> Function {
        eventually(&format!("{name} is {phase}"), || async {
            let function = self.services.functions.get(self.ns, name).await.unwrap();
            let seen = function.status.observed_generation == function.metadata.generation;
            (seen && function.status.phase == phase).then_some(function)
        })
        .await
    }

    /// What the live version answers.
    async fn call(&self, name: &FunctionName) -> String {
        let route = self.services.routes.get(self.ns, name.as_str()).expect("it has a route");
        let live = route.live.clone().expect("it is live");
        let record = CallRecord::new(
            InvocationId::now(),
            live.revision.clone(),
            TriggerKind::Http,
            None,
            self.services.clock.now(),
            self.services.recorder.slot().await,
        );
        let call = Call { request: http::Request::new(body::empty()), record };
        let response = live.target.call(call).await.unwrap();
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }
}

fn answer(version: u32, env: &str, code: &str) -> String {
    format!("v{version} {env} {}", Digest::of(format!("compiled {code}").as_bytes()))
}

#[tokio::test]
async fn an_upload_is_built_made_live_and_given_back() {
    let world = World::start().await;
    let name = world.create("hello").await;
    let uploaded = world.upload(&name, "one").await.unwrap();
    assert!(uploaded.changed);
    assert_eq!((uploaded.version.number, uploaded.version.source_bytes), (VersionNumber(1), 3));
    let function = world.settled(&name, Phase::Ready).await;
    assert_eq!(function.status.version, Some(VersionNumber(1)));
    assert_eq!(world.call(&name).await, answer(1, "", "one"));
    let artifact = function.status.artifact.unwrap();
    assert_eq!(
        artifact.verify(&FunctionKey::new(world.ns, name.clone()), &PrivateKey::from_bytes(&[7; 32]).public()),
        Ok(())
    );
    assert_eq!(world.services.functions.build_log(world.ns, &name, None).await.unwrap(), "built 3 bytes\n");
    let source = world.services.functions.source(world.ns, &name).await.unwrap();
    assert_eq!(source.sha256, Some(Digest::of(b"one")));
    world.stop().await;
}

#[tokio::test]
async fn the_same_upload_again_makes_no_version() {
    let world = World::start().await;
    let name = world.create("hello").await;
    let (a, b) = tokio::join!(world.upload(&name, "one"), world.upload(&name, "one"));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!((a.version.number, b.version.number), (VersionNumber(1), VersionNumber(1)));
    assert!(a.changed ^ b.changed);
    world.settled(&name, Phase::Ready).await;
    assert!(!world.upload(&name, "one").await.unwrap().changed);
    assert_eq!(
        world.services.functions.versions(world.ns, &name, PageRequest::default()).await.unwrap().items.len(),
        1
    );
    assert_eq!(world.builds.ended.load(Ordering::SeqCst), 1);
    let blobs: Vec<_> =
        futures::TryStreamExt::try_collect(world.adapters.blobs.list("functions/").await.unwrap()).await.unwrap();
    let blobs: Vec<BlobKey> = blobs;
    assert_eq!(blobs.len(), 1, "{blobs:?}");
    world.stop().await;
}

#[tokio::test]
async fn an_upload_that_fails_after_its_change_keeps_the_code_that_is_referred_to() {
    // The change of the spec is made, its version is not: the upload is answered with a failure. The worker that saw the
    // change numbers the version later, and needs the code.
    let flaky = Arc::new(std::sync::Mutex::new(None));
    let seen = flaky.clone();
    let world = World::open_over(
        tempfile::tempdir().unwrap(),
        Settings::default(),
        |_| {},
        usize::MAX,
        move |inner| {
            let records = Arc::new(FlakyRecords { inner, refuse_versions: AtomicUsize::new(0) });
            *seen.lock().unwrap() = Some(records.clone());
            records
        },
    )
    .await;
    let records = flaky.lock().unwrap().clone().unwrap();
    let name = world.create("hello").await;
    records.refuse_versions.store(2, Ordering::SeqCst);
    let failed = world.upload(&name, "one").await.unwrap_err();
    assert_eq!(failed.code, Code::Unavailable);
    let function = world.settled(&name, Phase::Ready).await;
    assert_eq!(function.status.version, Some(VersionNumber(1)));
    assert_eq!(world.call(&name).await, answer(1, "", "one"));
    assert_eq!(records.refuse_versions.load(Ordering::SeqCst), 0, "it was refused as often as was asked for");
    assert!(!world.upload(&name, "one").await.unwrap().changed, "sent again, as the answer advised");
    let source = world.services.functions.source(world.ns, &name).await.unwrap();
    assert_eq!(source.sha256, Some(Digest::of(b"one")));
    world.stop().await;
}

#[tokio::test]
async fn settings_make_a_version_without_a_build_and_rollback_brings_all_back() {
    let world = World::start().await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    let first = world.settled(&name, Phase::Ready).await;
    let mut spec = first.spec.clone();
    spec.env.insert("A".into(), "1".into());
    let etag = first.metadata.resource_version.clone();
    let second = world.services.functions.update(world.ns, &name, Some(etag.clone()), spec.clone()).await.unwrap();
    assert_eq!(second.metadata.generation, first.metadata.generation + 1);
    let stale = world.services.functions.update(world.ns, &name, Some(etag), spec).await.unwrap_err();
    assert_eq!(stale.code, Code::PreconditionFailed);
    world.settled(&name, Phase::Ready).await;
    assert_eq!(world.call(&name).await, answer(2, "A=1", "one"));
    world.upload(&name, "two").await.unwrap();
    world.settled(&name, Phase::Ready).await;
    assert_eq!(world.call(&name).await, answer(3, "A=1", "two"));

    let back = world.services.functions.rollback(world.ns, &name, VersionNumber(1), None).await.unwrap();
    assert_eq!(
        (back.version.number, back.version.cause),
        (VersionNumber(4), VersionCause::Rollback { to: VersionNumber(1) })
    );
    world.settled(&name, Phase::Ready).await;
    assert_eq!(world.call(&name).await, answer(4, "", "one"));
    assert_eq!(world.builds.ended.load(Ordering::SeqCst), 2, "two codes, two builds");
    let missing = world.services.functions.rollback(world.ns, &name, VersionNumber(9), None).await.unwrap_err();
    assert_eq!(
        (missing.code, missing.detail.as_str()),
        (Code::NotFound, "function `hello` has no version 9; there are 4, 3, 2, 1")
    );
    world.stop().await;
}

#[tokio::test]
async fn a_failed_build_leaves_the_last_good_version_serving() {
    let world = World::start().await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    world.settled(&name, Phase::Ready).await;
    world.upload(&name, "reject me").await.unwrap();
    let failed = world.settled(&name, Phase::Failed).await;
    assert_eq!(
        (failed.status.last_error.as_deref(), failed.status.version),
        (Some("it does not compile"), Some(VersionNumber(1)))
    );
    assert_eq!(world.services.functions.build_log(world.ns, &name, None).await.unwrap(), "line 1: no\n");
    assert_eq!(world.call(&name).await, answer(1, "", "one"));
    let refused = world.services.functions.rollback(world.ns, &name, VersionNumber(2), None).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    let broken = world.upload(&name, "broken").await.unwrap_err();
    assert_eq!((broken.code, broken.detail.as_str()), (Code::InvalidComponent, "it is broken"));
    world.stop().await;
}

#[tokio::test]
async fn a_version_that_can_not_be_prepared_is_not_made_live() {
    let world = World::start().await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    world.settled(&name, Phase::Ready).await;
    world.invoker.refuse.lock().unwrap().insert(2, Failure::new(Outcome::FunctionTrapped, "it traps as it starts"));
    world.upload(&name, "two").await.unwrap();
    let failed = world.settled(&name, Phase::Failed).await;
    assert_eq!(failed.status.last_error.as_deref(), Some("it traps as it starts"));
    assert_eq!(world.call(&name).await, answer(1, "", "one"));
    world.stop().await;
}

#[tokio::test]
async fn the_platforms_own_failures_are_tried_again() {
    let world =
        World::open(tempfile::tempdir().unwrap(), Settings::default(), |builds| builds.flaky = 2.into(), usize::MAX)
            .await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    world.settled(&name, Phase::Ready).await;
    assert_eq!(world.builds.begun.load(Ordering::SeqCst), 3);
    world.stop().await;
}

#[tokio::test]
async fn the_last_upload_wins_over_a_running_build() {
    let world = World::open(tempfile::tempdir().unwrap(), Settings::default(), |_| {}, 0).await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    eventually("the first build runs", || async { (world.builds.begun.load(Ordering::SeqCst) == 1).then_some(()) })
        .await;
    world.upload(&name, "two").await.unwrap();
    eventually("the second build runs", || async { (world.builds.begun.load(Ordering::SeqCst) == 2).then_some(()) })
        .await;
    world.builds.go.add_permits(2);
    world.settled(&name, Phase::Ready).await;
    assert_eq!(world.call(&name).await, answer(2, "", "two"));
    assert_eq!(world.builds.ended.load(Ordering::SeqCst), 1, "the first one was given up");
    let versions = world.services.functions.versions(world.ns, &name, PageRequest::default()).await.unwrap().items;
    assert_eq!(versions[1].state, VersionState::Superseded);
    world.stop().await;
}

#[tokio::test]
async fn delete_wins_over_a_running_build_and_leaves_nothing() {
    let world = World::open(tempfile::tempdir().unwrap(), Settings::default(), |_| {}, 0).await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    eventually("the build runs", || async { (world.builds.begun.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    world.services.functions.delete(world.ns, &name, None).await.unwrap();
    assert!(world.services.routes.get(world.ns, "hello").is_none());
    eventually("its rows are gone", || async {
        world.adapters.records.function_uids().await.unwrap().is_empty().then_some(())
    })
    .await;
    world.builds.go.add_permits(1);
    let dir = world.stop().await;
    let world = World::open(dir, Settings::default(), |_| {}, usize::MAX).await;
    eventually("its code is collected", || async {
        let left: Vec<BlobKey> =
            futures::TryStreamExt::try_collect(world.adapters.blobs.list("").await.unwrap()).await.unwrap();
        left.is_empty().then_some(())
    })
    .await;
    assert_eq!(world.builds.begun.load(Ordering::SeqCst), 0);
    world.stop().await;
}

#[tokio::test]
async fn a_build_that_was_under_way_is_taken_up_after_a_restart() {
    let world = World::open(tempfile::tempdir().unwrap(), Settings::default(), |_| {}, 0).await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    eventually("the build runs", || async { (world.builds.begun.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    let dir = world.stop().await;
    let world = World::open(dir, Settings::default(), |_| {}, usize::MAX).await;
    world.settled(&name, Phase::Ready).await;
    assert_eq!(world.call(&name).await, answer(1, "", "one"));
    let dir = world.stop().await;
    let world = World::open(dir, Settings::default(), |_| {}, usize::MAX).await;
    assert_eq!(world.call(&name).await, answer(1, "", "one"));
    assert_eq!(world.builds.begun.load(Ordering::SeqCst), 0, "what is ready is not built again");
    world.stop().await;
}

#[tokio::test]
async fn another_engine_builds_all_again() {
    let world = World::start().await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    world.settled(&name, Phase::Ready).await;
    let dir = world.stop().await;
    let world =
        World::open(dir, Settings::default(), |builds| builds.engine = Digest::of(b"engine 2"), usize::MAX).await;
    eventually("it is built for the new engine", || async {
        let function = world.services.functions.get(world.ns, &name).await.unwrap();
        (function.status.artifact.map(|artifact| artifact.engine) == Some(world.builds.engine())).then_some(())
    })
    .await;
    assert_eq!(world.call(&name).await, answer(1, "", "one"));
    world.stop().await;
}

#[tokio::test]
async fn secrets_reach_a_function_and_a_missing_one_is_waited_for() {
    let world = World::start().await;
    let name: FunctionName = "hello".parse().unwrap();
    let mut spec = FunctionSpec::new(Runtime::Wasm);
    spec.secret_refs.insert("TOKEN".into(), "token".parse().unwrap());
    world.services.functions.create(world.ns, name.clone(), spec).await.unwrap();
    world.upload(&name, "one").await.unwrap();
    let failed = world.settled(&name, Phase::Failed).await;
    let error = failed.status.last_error.unwrap();
    assert!(error.contains("`TOKEN`") && error.contains("`token`"), "{error}");
    let secret: SecretName = "token".parse().unwrap();
    world.services.secrets.put(world.ns, &secret, "s1".into()).await.unwrap();
    world.settled(&name, Phase::Ready).await;
    assert_eq!(world.call(&name).await, answer(1, "TOKEN=s1", "one"));
    world.services.secrets.put(world.ns, &secret, "s2".into()).await.unwrap();
    eventually("the new value is used", || async {
        (world.call(&name).await == answer(1, "TOKEN=s2", "one")).then_some(())
    })
    .await;
    let oversize = world.services.secrets.put(world.ns, &secret, "x".repeat(70_000)).await.unwrap_err();
    assert_eq!((oversize.code, oversize.errors[0].pointer.as_str()), (Code::PayloadTooLarge, "/value"));
    world.stop().await;
}

#[tokio::test]
async fn a_function_answers_only_while_a_trigger_exposes_it() {
    let world = World::start().await;
    let name = world.create("hello").await;
    let exposed = || world.services.routes.get(world.ns, "hello").unwrap().exposed;
    assert!(!exposed());
    let spec = TriggerSpec { function: name.clone(), http: HttpTrigger::default() };
    let (first, second): (TriggerName, TriggerName) = ("one".parse().unwrap(), "two".parse().unwrap());
    world.services.triggers.create(world.ns, first.clone(), spec.clone()).await.unwrap();
    assert!(exposed());
    world.services.triggers.create(world.ns, second.clone(), spec).await.unwrap();
    world.services.triggers.delete(world.ns, &first, None).await.unwrap();
    assert!(exposed(), "the other one still does");
    let elsewhere = TriggerSpec { function: "other".parse().unwrap(), http: HttpTrigger::default() };
    world.services.triggers.update(world.ns, &second, None, elsewhere).await.unwrap();
    assert!(!exposed());
    let url = world.services.functions.get(world.ns, &name).await.unwrap().status.url;
    assert_eq!(url, None);
    world.stop().await;
}

#[tokio::test]
async fn every_call_leaves_a_row_also_at_the_end() {
    let world = World::start().await;
    let name = world.create("hello").await;
    world.upload(&name, "one").await.unwrap();
    world.settled(&name, Phase::Ready).await;
    for _ in 0..300 {
        world.call(&name).await;
    }
    let ns = world.ns;
    let dir = world.stop().await;
    let adapters = embedded::open(dir.path(), embedded::Options::default()).await.unwrap();
    let rows =
        adapters.records.invocations(ns, Default::default(), PageRequest { limit: 500, cursor: None }).await.unwrap();
    assert_eq!(rows.items.len(), 300);
    adapters.close().await;
}

#[tokio::test]
async fn old_versions_are_collected_but_never_what_serves() {
    let settings = Settings { versions_kept: 2, ..Settings::default() };
    let world = World::open(tempfile::tempdir().unwrap(), settings.clone(), |_| {}, usize::MAX).await;
    let name = world.create("hello").await;
    for code in ["one", "two", "three", "four"] {
        world.upload(&name, code).await.unwrap();
        world.settled(&name, Phase::Ready).await;
    }
    world.services.functions.rollback(world.ns, &name, VersionNumber(1), None).await.unwrap();
    world.settled(&name, Phase::Ready).await;
    let dir = world.stop().await;
    let world = World::open(dir, settings, |_| {}, usize::MAX).await;
    let numbers = eventually("old ones are gone", || async {
        let versions = world.services.functions.versions(world.ns, &name, PageRequest::default()).await.unwrap().items;
        let numbers: Vec<_> = versions.iter().map(|version| version.number.0).collect();
        (numbers.len() == 3).then_some(numbers)
    })
    .await;
    assert_eq!(numbers, [5, 4, 3]);
    eventually("their blobs are gone", || async {
        let left: Vec<BlobKey> =
            futures::TryStreamExt::try_collect(world.adapters.blobs.list("artifacts/").await.unwrap()).await.unwrap();
        (left.len() == 3).then_some(())
    })
    .await;
    assert_eq!(world.call(&name).await, answer(5, "", "one"));
    world.stop().await;
}
