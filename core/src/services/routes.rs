//! The gateway's index: which functions answer, and through what. One look-up a call, without a lock.
//!
//! It is kept by watching functions, triggers and secrets. The use-cases of this process also apply their own changes at
//! once, so that who was answered sees the effect with the next call. The watch may deliver older states afterwards:
//! generations and version numbers of one uid only rise here, and a deleted uid does not come back.

mod key;
mod revision;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::call::Target;
use crate::digest::Digest;
use crate::function::{Function, Phase};
use crate::names::{FunctionKey, SecretName};
use crate::ports::{self, Event, Invoker, Records, Resources, Secrets, Workloads};
use crate::tenant::Namespace;
use crate::trigger::Trigger;
use crate::version::{Revision, VersionNumber, VersionState};

use key::Key;
pub use revision::MissingSecret;
use revision::environment;
pub(super) use revision::revision;

/// What the gateway knows of a function.
#[derive(Clone)]
pub struct Route {
    /// Whose, and its name.
    pub key: FunctionKey,
    /// Of this function and not of an older one of the same name.
    pub uid: Uuid,
    /// Whether an http trigger makes it answer at `/fn`.
    pub exposed: bool,
    /// What serves it; none before a version is ready.
    pub live: Option<Live>,
    /// Where nothing serves it: why, for its owner.
    pub why_not_ready: Arc<str>,
}

/// What serves a function.
#[derive(Clone)]
pub struct Live {
    /// The version.
    pub revision: Arc<Revision>,
    /// Where it is called.
    pub target: Arc<dyn Target>,
}

/// What the index stands on.
pub(super) struct Deps {
    pub(super) records: Arc<dyn Records>,
    pub(super) secrets: Arc<dyn Secrets>,
    pub(super) invoker: Arc<dyn Invoker>,
    pub(super) workloads: Arc<dyn Workloads>,
    /// Artifacts of another engine can't be served.
    pub(super) engine: Digest,
}

/// The index.
pub struct Routes {
    deps: Deps,
    map: papaya::HashMap<FunctionKey, Arc<Route>>,
    /// Everything that is changed together; taken by writers only.
    writer: Mutex<Writer>,
    synced: AtomicBool,
}

#[derive(Default)]
struct Writer {
    /// http triggers by uid.
    triggers: HashMap<Uuid, Trigger>,
    /// Functions and how many http triggers they have.
    exposed: HashMap<FunctionKey, usize>,
    /// Generation last applied, by uid.
    generations: HashMap<Uuid, u64>,
    /// Deleted uids, so that an older event does not bring them back. Bounded: see [`TOMBSTONES`].
    tombstones: HashSet<Uuid>,
}

/// Deleted uids that are remembered. Only events that were under way at the deletion matter, so a few would do.
const TOMBSTONES: usize = 10_000;

impl Routes {
    pub(super) fn new(deps: Deps) -> Self {
        Self { deps, map: papaya::HashMap::new(), writer: Mutex::default(), synced: AtomicBool::new(false) }
    }

    /// The route of a function that exists.
    pub fn get(&self, namespace: Namespace, name: &str) -> Option<Arc<Route>> {
        self.map.pin().get(&Key(namespace, name)).cloned()
    }

    /// Whether all that was there at the start is in the index.
    pub fn synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Functions in the index.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no function.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Follows functions, triggers and secrets until `shutdown`.
    pub(super) async fn keep(&self, resources: &Resources, secrets: &dyn Secrets, shutdown: CancellationToken) {
        let mut functions = resources.functions.watch();
        let mut triggers = resources.triggers.watch();
        let mut secrets = secrets.watch();
        let (mut seen_functions, mut seen_triggers) = (HashSet::new(), HashSet::new());
        let (mut functions_synced, mut triggers_synced) = (false, false);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                Some(event) = functions.next() => match event {
                    Event::Applied(function) => {
                        seen_functions.insert(function.metadata.uid);
                        self.follow(&function).await;
                    }
                    Event::Deleted(function) => self.remove(&function.key(), function.metadata.uid),
                    Event::Synced => {
                        let seen = std::mem::take(&mut seen_functions);
                        if std::mem::replace(&mut functions_synced, true) {
                            self.forget_gone_functions(resources, &seen).await;
                        }
                    }
                },
                Some(event) = triggers.next() => match event {
                    Event::Applied(trigger) => {
                        seen_triggers.insert(trigger.metadata.uid);
                        self.apply_trigger(&trigger);
                    }
                    Event::Deleted(trigger) => self.remove_trigger(&trigger),
                    Event::Synced => {
                        let seen = std::mem::take(&mut seen_triggers);
                        if std::mem::replace(&mut triggers_synced, true) {
                            self.forget_gone_triggers(resources, &seen).await;
                        }
                    }
                },
                Some((namespace, secret)) = secrets.next() => self.refresh(namespace, &secret).await,
                else => return,
            }
            self.synced.store(functions_synced && triggers_synced, Ordering::Release);
        }
    }

    /// Puts a function's live version into the index, unless a newer one is there.
    async fn follow(&self, function: &Function) {
        self.apply_function(function);
        let Some(number) = function.status.version else { return };
        let newer = |route: &Route| route.live.as_ref().is_some_and(|live| live.revision.version >= number);
        let route = self.get(function.metadata.namespace, &function.metadata.name);
        if route.is_none_or(|route| route.uid != function.metadata.uid || newer(&route)) {
            return;
        }
        match self.load(function, number).await {
            Ok(Some(revision)) => self.activate(Arc::new(revision)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(function = %function.key(), error = &error as &dyn std::error::Error, "live version can't be read");
            }
        }
    }

    async fn load(&self, function: &Function, number: VersionNumber) -> ports::Result<Option<Revision>> {
        let version = self.deps.records.version(function.metadata.uid, number).await?;
        match &version.state {
            VersionState::Ready { artifact: Some(artifact), .. } if artifact.engine != self.deps.engine => Ok(None),
            VersionState::Ready { .. } => {
                match revision(self.deps.secrets.as_ref(), &function.key(), &version).await? {
                    Ok(revision) => Ok(Some(revision)),
                    Err(missing) => {
                        self.say_not_ready(function, &missing.to_string());
                        Ok(None)
                    }
                }
            }
            _ => Ok(None),
        }
    }

    /// A target for a version, for trying it before it goes live.
    pub(super) fn target(&self, revision: Arc<Revision>) -> Arc<dyn Target> {
        match revision.runtime().is_wasm() {
            true => self.deps.invoker.target(revision),
            false => self.deps.workloads.target(revision),
        }
    }

    /// Makes a version live, unless a newer one of the same function is.
    pub(super) fn activate(&self, revision: Arc<Revision>) {
        let target = self.target(revision.clone());
        let writer = self.writer();
        self.replace(&writer, &revision.function, |route| {
            if route.uid != revision.uid
                || route.live.as_ref().is_some_and(|live| live.revision.version > revision.version)
            {
                return None;
            }
            Some(Route { live: Some(Live { revision: revision.clone(), target: target.clone() }), ..route.clone() })
        });
    }

    /// Knows a function from now on, and why it is not ready.
    pub(super) fn apply_function(&self, function: &Function) {
        let uid = function.metadata.uid;
        let key = function.key();
        let mut writer = self.writer();
        let known = writer.generations.get(&uid).copied().unwrap_or(0);
        if writer.tombstones.contains(&uid) || known > function.metadata.generation {
            return;
        }
        writer.generations.insert(uid, function.metadata.generation);
        let why: Arc<str> = why_not_ready(function).into();
        let exposed = writer.exposed.contains_key(&key);
        let map = self.map.pin();
        match map.get(&key) {
            Some(route) if route.uid == uid => {
                if route.live.is_none() && route.why_not_ready != why {
                    map.insert(key, Arc::new(Route { why_not_ready: why, ..route.as_ref().clone() }));
                }
            }
            _ => {
                map.insert(key.clone(), Arc::new(Route { key, uid, exposed, live: None, why_not_ready: why }));
            }
        }
    }

    fn say_not_ready(&self, function: &Function, why: &str) {
        let writer = self.writer();
        self.replace(&writer, &function.key(), |route| {
            (route.uid == function.metadata.uid && route.live.is_none())
                .then(|| Route { why_not_ready: why.into(), ..route.clone() })
        });
    }

    /// Forgets a function.
    pub(super) fn remove(&self, key: &FunctionKey, uid: Uuid) {
        let mut writer = self.writer();
        writer.bury(uid);
        let map = self.map.pin();
        if map.get(key).is_some_and(|route| route.uid == uid) {
            map.remove(key);
        }
    }

    /// After the watch began anew: forgets functions that went away meanwhile. What was not seen may also be newer than
    /// the watch's list, so the store is asked.
    async fn forget_gone_functions(&self, resources: &Resources, seen: &HashSet<Uuid>) {
        let unseen: Vec<_> = self.map.pin().values().filter(|route| !seen.contains(&route.uid)).cloned().collect();
        for route in unseen {
            match resources.functions.get(route.key.namespace, route.key.name.as_str()).await {
                Ok(Some(function)) if function.metadata.uid == route.uid => {}
                Ok(_) => self.remove(&route.key, route.uid),
                Err(error) => {
                    tracing::warn!(function = %route.key, error = &error as &dyn std::error::Error, "function can't be looked for")
                }
            }
        }
    }

    /// The same for triggers: those of unseen uids are looked for among what the store has.
    async fn forget_gone_triggers(&self, resources: &Resources, seen: &HashSet<Uuid>) {
        let unseen: Vec<_> = self
            .writer()
            .triggers
            .iter()
            .filter(|(uid, _)| !seen.contains(uid))
            .map(|(_, trigger)| trigger.clone())
            .collect();
        for trigger in unseen {
            let uid = trigger.metadata.uid;
            match resources.triggers.get(trigger.metadata.namespace, &trigger.metadata.name).await {
                Ok(Some(present)) if present.metadata.uid == uid => {}
                Ok(_) => self.remove_trigger(&trigger),
                Err(error) => tracing::warn!(
                    trigger = trigger.metadata.name,
                    error = &error as &dyn std::error::Error,
                    "trigger can't be looked for"
                ),
            }
        }
    }

    /// Exposes what a trigger names.
    pub(super) fn apply_trigger(&self, trigger: &Trigger) {
        let uid = trigger.metadata.uid;
        let mut writer = self.writer();
        let newer = |known: &Trigger| known.metadata.generation >= trigger.metadata.generation;
        if writer.tombstones.contains(&uid) || writer.triggers.get(&uid).is_some_and(newer) {
            return;
        }
        if let Some(old) = writer.triggers.insert(uid, trigger.clone()) {
            self.expose(&mut writer, &exposed_by(&old), false);
        }
        self.expose(&mut writer, &exposed_by(trigger), true);
    }

    /// Takes back what a trigger exposed.
    pub(super) fn remove_trigger(&self, trigger: &Trigger) {
        let mut writer = self.writer();
        let uid = trigger.metadata.uid;
        writer.bury(uid);
        if let Some(known) = writer.triggers.remove(&uid) {
            self.expose(&mut writer, &exposed_by(&known), false);
        }
    }

    fn expose(&self, writer: &mut Writer, key: &FunctionKey, on: bool) {
        let count = writer.exposed.entry(key.clone()).or_default();
        *count = if on { *count + 1 } else { count.saturating_sub(1) };
        let exposed = *count > 0;
        if !exposed {
            writer.exposed.remove(key);
        }
        self.replace(writer, key, |route| (route.exposed != exposed).then(|| Route { exposed, ..route.clone() }));
    }

    /// Gives functions that refer to a secret its new value.
    async fn refresh(&self, namespace: Namespace, secret: &SecretName) {
        let affected: Vec<_> = self
            .map
            .pin()
            .values()
            .filter(|route| route.key.namespace == namespace)
            .filter_map(|route| route.live.clone())
            .filter(|live| live.revision.spec.secret_refs.values().any(|name| name == secret))
            .collect();
        for live in affected {
            let old = &live.revision;
            let plain: BTreeMap<_, _> =
                old.env.iter().filter(|(name, _)| !old.spec.secret_refs.contains_key(name)).cloned().collect();
            match environment(self.deps.secrets.as_ref(), namespace, plain, &old.spec.secret_refs).await {
                Ok(Ok(env)) => {
                    let fresh = Arc::new(Revision { env, ..old.as_ref().clone() });
                    let target = self.target(fresh.clone());
                    let writer = self.writer();
                    self.replace(&writer, &old.function, |route| {
                        let same = route.live.as_ref().is_some_and(|now| Arc::ptr_eq(&now.revision, old));
                        same.then(|| Route {
                            live: Some(Live { revision: fresh.clone(), target: target.clone() }),
                            ..route.clone()
                        })
                    });
                }
                // Deleted: the function goes on with what it has.
                Ok(Err(MissingSecret { .. })) => {}
                Err(error) => {
                    tracing::warn!(function = %old.function, error = &error as &dyn std::error::Error, "secret can't be read");
                }
            }
        }
    }

    /// Replaces a route as `change` says; the guard shows that no other writer is at it.
    fn replace(&self, _writer: &Writer, key: &FunctionKey, change: impl Fn(&Route) -> Option<Route>) {
        let map = self.map.pin();
        if let Some(new) = map.get(key).and_then(|route| change(route)) {
            map.insert(key.clone(), Arc::new(new));
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Writer {
    fn bury(&mut self, uid: Uuid) {
        if self.tombstones.len() >= TOMBSTONES {
            self.tombstones.clear();
        }
        self.tombstones.insert(uid);
        self.generations.remove(&uid);
    }
}

fn exposed_by(trigger: &Trigger) -> FunctionKey {
    FunctionKey::new(trigger.metadata.namespace, trigger.spec.function.clone())
}

fn why_not_ready(function: &Function) -> String {
    match (&function.status.phase, &function.status.last_error) {
        (Phase::Failed, Some(error)) => error.clone(),
        _ if function.spec.s3_key.is_none() => "no code was uploaded yet".to_owned(),
        _ => "its first version is being built".to_owned(),
    }
}
