//! Collects what nothing needs: old versions, their code, artifacts and images, rows of functions that are gone, old invocations.
//!
//! Nothing that a version needs is collected: blobs are deleted only if no version refers to them, and only while no
//! upload or build is between storing a blob and referring to it ([`Gate`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Settings;
use crate::function::Function;
use crate::page::{MAX_LIMIT, PageRequest};
use crate::ports::{self, Blobs, Clock, Event, Records, Store, Workloads};
use crate::version::{VersionNumber, VersionState};

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(15 * 60);
/// How soon it looks again where uploads or builds were under way.
const AGAIN: Duration = Duration::from_secs(30);

/// Held by whoever has stored a blob that no version refers to yet.
#[derive(Clone, Default)]
pub struct Gate(Arc<RwLock<()>>);

impl Gate {
    /// Keeps the janitor from collecting blobs for as long as it is held.
    pub async fn hold(&self) -> OwnedRwLockReadGuard<()> {
        self.0.clone().read_owned().await
    }
}

pub(super) struct Deps {
    pub(super) functions: Arc<dyn Store<Function>>,
    pub(super) records: Arc<dyn Records>,
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) workloads: Arc<dyn Workloads>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) gate: Gate,
    pub(super) settings: Arc<Settings>,
}

/// What is looked at of a function. There may be very many, and whole ones are some kilobytes each.
struct Known {
    uid: Uuid,
    generation: u64,
    live: Option<VersionNumber>,
    s3_key: Option<String>,
}

impl Known {
    fn of(function: Function) -> Self {
        let Function { metadata, spec, status } = function;
        Self { uid: metadata.uid, generation: metadata.generation, live: status.version, s3_key: spec.s3_key }
    }
}

/// The collector.
pub struct Janitor(Deps);

impl Janitor {
    pub(super) fn new(deps: Deps) -> Self {
        Self(deps)
    }

    pub(super) async fn run(self, shutdown: CancellationToken) {
        loop {
            let pause = match self.round().await {
                Ok(true) => INTERVAL,
                Ok(false) => AGAIN,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "collecting what nothing needs failed; it is tried again"
                    );
                    INTERVAL
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One round. False where blobs had to be left since something was under way.
    pub(super) async fn round(&self) -> ports::Result<bool> {
        let functions = self.functions().await;
        let present: BTreeSet<Uuid> = functions.iter().map(|function| function.uid).collect();
        for uid in self.0.records.function_uids().await?.difference(&present) {
            // Made after the list was read, perhaps: ask once more, by what is there now.
            if !self.functions().await.iter().any(|function| function.uid == *uid) {
                self.0.records.delete_function(*uid).await?;
            }
        }
        for function in &functions {
            self.trim(function).await?;
        }
        let before = self.0.clock.now()
            - jiff::SignedDuration::try_from(self.0.settings.invocations_kept_for).unwrap_or(jiff::SignedDuration::MAX);
        self.0.records.prune_invocations(before, self.0.settings.invocations_kept).await?;
        self.sweep().await
    }

    /// All functions that are there: the watch's first part is a list over all namespaces.
    async fn functions(&self) -> Vec<Known> {
        use futures::StreamExt;
        let applied =
            |event| async move { if let Event::Applied(function) = event { Some(Known::of(function)) } else { None } };
        self.0
            .functions
            .watch()
            .take_while(|event| std::future::ready(!matches!(event, Event::Synced)))
            .filter_map(applied)
            .collect()
            .await
    }

    /// Deletes a function's oldest versions beyond the setting, never the live one nor one that is still on its way.
    async fn trim(&self, function: &Known) -> ports::Result<()> {
        let uid = function.uid;
        let mut page = PageRequest { limit: MAX_LIMIT, cursor: None };
        let (mut kept, mut old) = (0, Vec::<VersionNumber>::new());
        loop {
            let versions = self.0.records.versions(uid, page).await?;
            for version in versions.items {
                let needed = function.live == Some(version.number)
                    || version.generation == function.generation
                    || matches!(version.state, VersionState::Pending);
                if kept < self.0.settings.versions_kept || needed {
                    kept += usize::from(!needed);
                } else {
                    old.push(version.number);
                }
            }
            match versions.next {
                Some(next) => page = PageRequest { limit: MAX_LIMIT, cursor: Some(next) },
                None => break,
            }
        }
        if old.is_empty() { Ok(()) } else { self.0.records.delete_versions(uid, &old).await }
    }

    /// Deletes blobs that no version needs.
    async fn sweep(&self) -> ports::Result<bool> {
        let Ok(_closed) = self.0.gate.0.clone().try_write_owned() else { return Ok(false) };
        let (mut keys, artifacts) = self.0.records.references().await?;
        // Between a change and its version a spec may be the only one to refer to its code.
        keys.extend(self.functions().await.into_iter().filter_map(|function| function.s3_key));
        // A context is needed together with the user's own files.
        let files: Vec<_> = keys
            .iter()
            .filter_map(|key| key.parse::<ports::BlobKey>().ok()?.source_of_context())
            .map(|key| key.to_string())
            .collect();
        keys.extend(files);
        let needed = |key: &ports::BlobKey| match key.as_str().split_once('/') {
            Some(("functions" | "contexts", _)) => keys.contains(key.as_str()),
            Some(("artifacts", digest)) => digest.parse().is_ok_and(|digest| artifacts.contains(&digest)),
            _ => true,
        };
        for prefix in ["functions/", "contexts/", "artifacts/"] {
            let found: Vec<_> = self.0.blobs.list(prefix).await?.try_collect().await?;
            for key in found.iter().filter(|key| !needed(key)) {
                self.0.blobs.delete(key).await?;
            }
        }
        self.0.workloads.collect(&self.images().await?).await?;
        self.sweep_build_logs().await?;
        Ok(true)
    }

    /// Images that versions need.
    async fn images(&self) -> ports::Result<BTreeSet<String>> {
        let mut images = BTreeSet::new();
        for function in self.functions().await {
            let mut page = PageRequest { limit: MAX_LIMIT, cursor: None };
            loop {
                let versions = self.0.records.versions(function.uid, page).await?;
                images.extend(versions.items.into_iter().filter_map(|version| match version.state {
                    VersionState::Ready { image, .. } => image,
                    _ => None,
                }));
                match versions.next {
                    Some(next) => page = PageRequest { limit: MAX_LIMIT, cursor: Some(next) },
                    None => break,
                }
            }
        }
        Ok(images)
    }

    /// Build logs are named by uid and version: they go with them.
    async fn sweep_build_logs(&self) -> ports::Result<()> {
        let present: BTreeSet<Uuid> = self.functions().await.iter().map(|function| function.uid).collect();
        let found: Vec<_> = self.0.blobs.list("build-logs/").await?.try_collect().await?;
        for key in found {
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            let Some((uid, number)) = name.strip_suffix(".log").and_then(|name| name.rsplit_once('-')) else {
                continue;
            };
            let (Ok(uid), Ok(number)) = (uid.parse::<Uuid>(), number.parse()) else { continue };
            let gone = !present.contains(&uid)
                || matches!(
                    self.0.records.version(uid, VersionNumber(number)).await,
                    Err(ports::Error::NotFound { .. })
                );
            if gone {
                self.0.blobs.delete(&key).await?;
            }
        }
        Ok(())
    }
}
