//! What [`Resources`] promises.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream::BoxStream;
use proptest::prelude::*;
use uuid::Uuid;

use super::{namespace, samples, within};
use crate::ports::{Error, Event, Resources, Store};
use crate::resource::{Resource, ResourceVersion};
use crate::trigger::{HttpTrigger, TriggerSpec};
use crate::{Function, FunctionSpec, FunctionStatus, Namespace, PageRequest, Phase, Runtime, Trigger, VersionNumber};

fn spec(memory_mb: u32) -> FunctionSpec {
    FunctionSpec { memory_mb, ..FunctionSpec::new(Runtime::Wasm) }
}

fn status(version: u32) -> FunctionStatus {
    FunctionStatus { phase: Phase::Ready, version: Some(VersionNumber(version)), ..FunctionStatus::default() }
}

fn page(limit: u32, cursor: Option<String>) -> PageRequest {
    PageRequest { limit, cursor }
}

/// Runs the contract of [`Resources`].
pub async fn resources(resources: &Resources) {
    let functions = &*resources.functions;
    namespaces(resources).await;
    life(functions).await;
    conflicts(functions).await;
    one_of_many_wins(functions).await;
    pages(functions).await;
    round_trips(functions).await;
    watches(functions).await;
    watches_under_load(functions).await;
    kinds_do_not_meet(resources).await;
}

async fn namespaces(resources: &Resources) {
    let ours = namespace();
    assert_eq!(resources.namespaces.get(ours).await.expect("get"), None);
    let all = futures::future::join_all((0..8).map(|_| resources.namespaces.ensure(ours))).await;
    let first = all[0].as_ref().expect("ensure").clone();
    assert_eq!(first.name, ours);
    for info in all {
        assert_eq!(info.expect("ensure"), first, "many that ensure a namespace at once get the same");
    }
    assert_eq!(resources.namespaces.get(ours).await.expect("get"), Some(first));
    assert_eq!(resources.namespaces.get(namespace()).await.expect("get"), None);
}

async fn life(functions: &dyn Store<Function>) {
    let (ours, theirs) = (namespace(), namespace());
    assert!(functions.get(ours, "f").await.expect("get").is_none());
    let made = functions.create(ours, "f", spec(1)).await.expect("create");
    assert_eq!((made.metadata.namespace, made.metadata.name.as_str()), (ours, "f"));
    assert_eq!((made.metadata.generation, &made.spec, &made.status), (1, &spec(1), &FunctionStatus::default()));
    assert_eq!(made.metadata.created_at, made.metadata.updated_at);
    assert_eq!(functions.get(ours, "f").await.expect("get").as_ref(), Some(&made));
    let again = functions.create(ours, "f", spec(2)).await;
    assert!(matches!(again, Err(Error::AlreadyExists { kind: "function", ref name }) if name == "f"), "{again:?}");
    functions.create(theirs, "f", spec(2)).await.expect("the same name in another namespace");

    let changed = functions.update_spec(ours, "f", None, spec(3)).await.expect("update");
    assert_eq!((changed.metadata.generation, &changed.spec), (2, &spec(3)));
    assert_ne!(changed.metadata.resource_version, made.metadata.resource_version);
    assert_eq!((changed.metadata.uid, changed.metadata.created_at), (made.metadata.uid, made.metadata.created_at));
    let same = functions.update_spec(ours, "f", None, spec(3)).await.expect("update");
    assert_eq!(same, changed, "an equal spec changes nothing");

    let ready = functions.update_status(&changed, status(1)).await.expect("update the status");
    assert_eq!((ready.metadata.generation, &ready.spec, &ready.status), (2, &spec(3), &status(1)));
    assert_eq!(ready.metadata.updated_at, changed.metadata.updated_at, "a status is not a change by the owner");
    assert_ne!(ready.metadata.resource_version, changed.metadata.resource_version);
    assert_eq!(functions.get(ours, "f").await.expect("get").as_ref(), Some(&ready));

    let gone = functions.delete(ours, "f", None).await.expect("delete");
    assert_eq!((gone.metadata.uid, &gone.spec, &gone.status), (made.metadata.uid, &spec(3), &status(1)));
    assert!(functions.get(ours, "f").await.expect("get").is_none());
    assert!(functions.get(theirs, "f").await.expect("get").is_some());
    let later = functions.create(ours, "f", spec(1)).await.expect("create anew");
    assert_eq!(later.metadata.generation, 1);
    assert_ne!(later.metadata.uid, made.metadata.uid);
    assert_ne!(later.metadata.resource_version, made.metadata.resource_version, "a mark is not given out twice");
    let stale = functions.update_status(&ready, status(2)).await;
    assert!(matches!(stale, Err(Error::NotFound { .. })), "the status of an object that is gone: {stale:?}");
    functions.delete(ours, "f", None).await.expect("delete");
    functions.delete(theirs, "f", None).await.expect("delete");
}

async fn conflicts(functions: &dyn Store<Function>) {
    let ours = namespace();
    assert!(matches!(functions.update_spec(ours, "f", None, spec(1)).await, Err(Error::NotFound { .. })));
    assert!(matches!(functions.delete(ours, "f", None).await, Err(Error::NotFound { .. })));
    let first = functions.create(ours, "f", spec(1)).await.expect("create");
    let second =
        functions.update_spec(ours, "f", Some(&first.metadata.resource_version), spec(2)).await.expect("update");
    for mark in
        [first.metadata.resource_version.clone(), ResourceVersion("nonsense".into()), ResourceVersion(String::new())]
    {
        let update = functions.update_spec(ours, "f", Some(&mark), spec(3)).await;
        assert!(matches!(update, Err(Error::Conflict { .. })), "{mark:?}: {update:?}");
        let same = functions.update_spec(ours, "f", Some(&mark), spec(2)).await;
        assert!(matches!(same, Err(Error::Conflict { .. })), "also where nothing would change: {same:?}");
        let delete = functions.delete(ours, "f", Some(&mark)).await;
        assert!(matches!(delete, Err(Error::Conflict { .. })), "{mark:?}: {delete:?}");
    }
    assert!(matches!(functions.update_status(&first, status(1)).await, Err(Error::Conflict { .. })));
    assert_eq!(functions.get(ours, "f").await.expect("get").as_ref(), Some(&second), "a conflict changes nothing");
    functions.delete(ours, "f", Some(&second.metadata.resource_version)).await.expect("delete");
}

async fn one_of_many_wins(functions: &dyn Store<Function>) {
    let ours = namespace();
    let made = futures::future::join_all((1..9).map(|i| functions.create(ours, "f", spec(i)))).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "one of many that create at once");
    assert!(made.iter().all(|made| matches!(made, Ok(_) | Err(Error::AlreadyExists { .. }))));
    let mut present = functions.get(ours, "f").await.expect("get").expect("it was made");
    for round in 0..5 {
        let expected = &present.metadata.resource_version;
        let updates = (0..8).map(|i| functions.update_spec(ours, "f", Some(expected), spec(100 + round * 10 + i)));
        let updates = futures::future::join_all(updates).await;
        let mut won = updates.iter().filter_map(|update| update.as_ref().ok());
        let winner = won.next().expect("one of many that change the same state at once").clone();
        assert!(won.next().is_none(), "more than one changed the same state");
        assert!(updates.iter().all(|update| matches!(update, Ok(_) | Err(Error::Conflict { .. }))));
        assert_eq!(winner.metadata.generation, present.metadata.generation + 1);
        present = functions.get(ours, "f").await.expect("get").expect("it is there");
        assert_eq!(present, winner);
    }
    let deletes = futures::future::join_all((0..8).map(|_| functions.delete(ours, "f", None))).await;
    assert_eq!(deletes.iter().filter(|delete| delete.is_ok()).count(), 1, "one of many that delete at once");
}

async fn pages(functions: &dyn Store<Function>) {
    let ours = namespace();
    assert!(functions.list(ours, PageRequest::default()).await.expect("list").items.is_empty());
    let names: BTreeSet<String> = samples(25, "[a-z][a-z0-9-]{0,20}[a-z0-9]").into_iter().collect();
    for name in &names {
        functions.create(ours, name, spec(1)).await.expect("create");
    }
    let names: Vec<_> = names.into_iter().collect();
    for limit in [1, 3, names.len() as u32, 500] {
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let page = functions.list(ours, page(limit, cursor)).await.expect("list");
            assert!(page.items.len() <= limit as usize);
            listed.extend(page.items.into_iter().map(|f| f.metadata.name));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, names, "by name, in pages of {limit}");
    }
    // A cursor holds its place while objects come and go, the last of its page among them.
    let first = functions.list(ours, page(4, None)).await.expect("list");
    functions.delete(ours, &names[3], None).await.expect("delete");
    functions.delete(ours, &names[4], None).await.expect("delete");
    functions.create(ours, "a", spec(1)).await.expect("create before the cursor");
    let rest = functions.list(ours, page(500, first.next)).await.expect("list");
    let rest: Vec<_> = rest.items.iter().map(|f| f.metadata.name.as_str()).collect();
    assert_eq!(rest, names[5..].iter().map(String::as_str).collect::<Vec<_>>());
    for bad in ["", "!", "00", "f", "ff00", "\u{1f980}", &"0".repeat(100_000)] {
        let list = functions.list(ours, page(10, Some(bad.to_owned()))).await;
        assert!(matches!(list, Err(Error::InvalidCursor)), "the cursor {bad:?}: {list:?}");
    }
    let bounded = functions.list(ours, page(u32::MAX, None)).await.expect("a limit out of range is brought into it");
    assert!(bounded.items.len() <= crate::page::MAX_LIMIT as usize);
    functions.list(ours, page(0, None)).await.expect("a limit out of range is brought into it");
}

async fn round_trips(functions: &dyn Store<Function>) {
    let ours = namespace();
    functions.create(ours, "f", spec(1)).await.expect("create");
    let values = (
        any::<u64>(),
        any::<u32>(),
        any::<String>(),
        prop::collection::btree_map("[A-Z_]{1,9}", any::<String>(), 0..5),
    );
    let large =
        (u64::MAX, u32::MAX, "é\u{1f980}\0\"".repeat(20_000), BTreeMap::from([("K".to_owned(), "v".repeat(60_000))]));
    for (count, number, text, env) in samples(20, values).into_iter().chain([large]) {
        let mut new = spec(number);
        new.limits.request_bytes = count;
        (new.entrypoint, new.env) = (Some(text.clone()), env);
        let object = functions.update_spec(ours, "f", None, new.clone()).await.expect("update");
        assert!(object.spec == new, "a spec came back changed: {:?}", object.spec);
        let new = FunctionStatus { observed_generation: count, last_error: Some(text), ..status(number) };
        let object = functions.update_status(&object, new.clone()).await.expect("update the status");
        assert!(object.status == new, "a status came back changed");
        assert!(
            functions.get(ours, "f").await.expect("get").as_ref() == Some(&object),
            "what is read is not what was written"
        );
    }
}

type Watch = BoxStream<'static, Event<Function>>;

/// What a watcher knows: its objects by name.
#[derive(Debug, Default)]
struct Known {
    objects: BTreeMap<(Namespace, String), Function>,
    synced: bool,
}

impl Known {
    async fn follow(&mut self, watch: &mut Watch, until: impl Fn(&Self) -> bool) {
        within("a watch", async {
            while !until(self) {
                self.take(watch.next().await.expect("a watch does not end"));
            }
        })
        .await;
    }

    fn take(&mut self, event: Event<Function>) {
        let key = |f: &Function| (f.metadata.namespace, f.metadata.name.clone());
        match event {
            Event::Applied(new) => {
                if let Some(old) = self.objects.insert(key(&new), new.clone())
                    && old.metadata.uid == new.metadata.uid
                {
                    assert!(old.metadata.generation <= new.metadata.generation, "a state came after a later one");
                    assert!(
                        !self.synced || old.metadata.resource_version != new.metadata.resource_version,
                        "a state came twice"
                    );
                }
            }
            Event::Deleted(gone) => {
                self.objects.remove(&key(&gone));
            }
            Event::Synced => self.synced = true,
        }
    }

    fn of(&self, namespace: Namespace) -> Vec<&Function> {
        self.objects.values().filter(|f| f.metadata.namespace == namespace).collect()
    }
}

async fn watches(functions: &dyn Store<Function>) {
    let ours = namespace();
    let a = functions.create(ours, "a", spec(1)).await.expect("create");
    let b = functions.create(ours, "b", spec(1)).await.expect("create");
    functions.delete(ours, "b", None).await.expect("delete");
    let mut watch = functions.watch();
    let mut known = Known::default();
    known.follow(&mut watch, |known| known.synced).await;
    assert_eq!(known.of(ours), [&a], "all that is there was sent when it says so");
    assert!(futures::poll!(watch.next()).is_pending(), "and then it waits");

    let a2 = functions.update_spec(ours, "a", None, spec(2)).await.expect("update");
    let event = within("a change of the spec", watch.next()).await;
    assert!(matches!(&event, Some(Event::Applied(f)) if *f == a2), "{event:?}");
    functions.update_spec(ours, "a", None, spec(2)).await.expect("no change");
    let a3 = functions.update_status(&a2, status(1)).await.expect("update the status");
    let event = within("a change of the status", watch.next()).await;
    assert!(matches!(&event, Some(Event::Applied(f)) if *f == a3), "no change is not told: {event:?}");
    let b2 = functions.create(ours, "b", spec(9)).await.expect("create");
    assert_ne!(b.metadata.uid, b2.metadata.uid);
    let event = within("a new object", watch.next()).await;
    assert!(matches!(&event, Some(Event::Applied(f)) if *f == b2), "{event:?}");
    functions.delete(ours, "a", None).await.expect("delete");
    let event = within("a deletion", watch.next()).await;
    assert!(
        matches!(&event, Some(Event::Deleted(f)) if f.metadata.uid == a.metadata.uid && f.spec == a3.spec && f.status == a3.status),
        "{event:?}"
    );
    functions.delete(ours, "b", None).await.expect("delete");
}

/// Watchers that begin at any time, and one that does not read, end with what is there.
async fn watches_under_load(functions: &dyn Store<Function>) {
    let ours = namespace();
    let mut slow = functions.watch();
    let change = async {
        let mut uids = BTreeMap::new();
        for round in 0..240u32 {
            let name = format!("f-{}", round * 7 % 40);
            match uids.remove(&name) {
                Some(_) if round % 3 == 0 => drop(functions.delete(ours, &name, None).await.expect("delete")),
                Some(uid) => {
                    functions.update_spec(ours, &name, None, spec(round + 10)).await.expect("update");
                    uids.insert(name, uid);
                }
                None => {
                    let made = functions.create(ours, &name, spec(round + 10)).await.expect("create");
                    uids.insert(name, made.metadata.uid);
                }
            }
        }
        functions.create(ours, "last", spec(1)).await.expect("create").metadata.uid
    };
    let watch = |begin_after: usize| async move {
        for _ in 0..begin_after {
            functions.get(ours, "f-1").await.expect("get");
        }
        let (mut watch, mut known) = (functions.watch(), Known::default());
        known.follow(&mut watch, |known| known.synced && known.objects.contains_key(&(ours, "last".to_owned()))).await;
        known
    };
    let (last, a, b, c): (Uuid, _, _, _) = futures::join!(change, watch(0), watch(20), watch(100));
    let mut d = Known::default();
    d.follow(&mut slow, |known| known.synced && known.objects.contains_key(&(ours, "last".to_owned()))).await;
    let there = functions.list(ours, page(500, None)).await.expect("list").items;
    assert!(there.iter().any(|f| f.metadata.uid == last));
    for (which, known) in [a, b, c, d].iter().enumerate() {
        assert_eq!(known.of(ours), there.iter().collect::<Vec<_>>(), "watcher {which}");
    }
    for f in &there {
        functions.delete(ours, &f.metadata.name, Some(&f.metadata.resource_version)).await.expect("delete");
    }
}

async fn kinds_do_not_meet(resources: &Resources) {
    let ours = namespace();
    let mut watch = resources.triggers.watch();
    within("the list", async { while !matches!(watch.next().await, Some(Event::Synced)) {} }).await;
    resources.functions.create(ours, "same", spec(1)).await.expect("create");
    assert!(resources.triggers.get(ours, "same").await.expect("get").is_none());
    let spec = TriggerSpec { function: "same".parse().expect("a name"), http: HttpTrigger::default() };
    let trigger = resources.triggers.create(ours, "same", spec).await.expect("create");
    assert_eq!(resources.functions.list(ours, PageRequest::default()).await.expect("list").items.len(), 1);
    let event = within("the trigger", watch.next()).await;
    assert!(matches!(&event, Some(Event::Applied(t)) if *t == trigger), "{event:?}");
    resources.functions.delete(ours, "same", None).await.expect("delete");
    let gone = resources.triggers.delete(ours, "same", None).await.expect("delete");
    assert_eq!((Trigger::KIND, gone.metadata.uid), ("trigger", trigger.metadata.uid));
}
