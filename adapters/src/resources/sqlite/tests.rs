use futures::StreamExt;
use sless_core::testing::TestClock;
use sless_core::trigger::{HttpTrigger, TriggerSpec};
use sless_core::{FunctionSpec, Runtime, Tenant};

use super::*;
use crate::sqlite::Durability;

async fn database(dir: &std::path::Path) -> Database {
    Database::open(&dir.join("state.db"), crate::embedded::STATE, Durability::Process).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let resources = resources(database(dir.path()).await, Arc::new(crate::clock::SystemClock)).await.unwrap();
    sless_core::testing::resources(&resources).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_does_not_part_a_change_from_its_event() {
    let dir = tempfile::tempdir().unwrap();
    let resources = resources(database(dir.path()).await, Arc::new(TestClock::default())).await.unwrap();
    let namespace = Tenant::from_subject("a").namespace();
    let mut watch = resources.functions.watch();
    assert!(matches!(watch.next().await, Some(Event::Synced)));
    let mut left_early = 0;
    for i in 0..50 {
        let name = format!("f{i}");
        // Polled once: enough for the write to begin, not enough for it to end.
        let mut create = resources.functions.create(namespace, &name, FunctionSpec::new(Runtime::Wasm));
        left_early += usize::from(futures::poll!(&mut create).is_pending());
        drop(create);
        let event = tokio::time::timeout(std::time::Duration::from_secs(10), watch.next()).await;
        assert!(matches!(&event, Ok(Some(Event::Applied(f))) if f.metadata.name == name), "{event:?}");
    }
    assert!(left_early > 0, "every write was done at the first poll");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_fell_too_far_behind_lists_again() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path()).await;
    let newest = feed::forget(&database, &[Trigger::KIND]).await.unwrap();
    let store = SqliteStore::<Trigger>::new(database.clone(), Arc::new(TestClock::default()), newest, 5);
    let namespace = Tenant::from_subject("a").namespace();
    let spec = || TriggerSpec { function: "f".parse().unwrap(), http: HttpTrigger::default() };
    let mut watch = store.watch();
    store.create(namespace, "gone", spec()).await.unwrap();
    store.create(namespace, "stays", spec()).await.unwrap();
    for expected in ["gone", "stays"] {
        assert!(matches!(watch.next().await, Some(Event::Applied(t)) if t.metadata.name == expected));
    }
    assert!(matches!(watch.next().await, Some(Event::Synced)));
    store.delete(namespace, "gone", None).await.unwrap();
    for _ in 0..10 {
        store.create(namespace, "brief", spec()).await.unwrap();
        store.delete(namespace, "brief", None).await.unwrap();
    }
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM tombstones").fetch_one(database.read()).await.unwrap();
    assert!(kept <= 6, "{kept} tombstones are kept for a watch that does not read");
    let mut seen = Vec::new();
    loop {
        match watch.next().await.unwrap() {
            Event::Applied(trigger) => seen.push(trigger.metadata.name),
            Event::Synced => break,
            Event::Deleted(_) => {}
        }
    }
    assert_eq!(seen, ["stays"], "what is there comes again before Synced; the rest is gone");

    // A watch that reads has no need of tombstones once it has seen them.
    store.delete(namespace, "stays", None).await.unwrap();
    assert!(matches!(watch.next().await, Some(Event::Deleted(t)) if t.metadata.name == "stays"));
    assert!(futures::poll!(watch.next()).is_pending());
    store.create(namespace, "new", spec()).await.unwrap();
    store.delete(namespace, "new", None).await.unwrap();
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM tombstones").fetch_one(database.read()).await.unwrap();
    assert_eq!(kept, 1, "only the newest, which nobody has seen yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_the_database_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path()).await;
    let resources = resources(database.clone(), Arc::new(TestClock::default())).await.unwrap();
    let mut watch = resources.functions.watch();
    assert!(matches!(watch.next().await, Some(Event::Synced)));
    database.close().await;
    let error =
        resources.functions.create(Tenant::from_subject("a").namespace(), "f", FunctionSpec::new(Runtime::Wasm)).await;
    assert!(matches!(error, Err(Error::Unavailable { .. })), "{error:?}");
    let mut late = resources.functions.watch();
    assert!(late.next().await.is_none());
}
