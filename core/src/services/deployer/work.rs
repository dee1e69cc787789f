//! One function's worker: looks at the function, does what is missing, says so, until there is nothing to do.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use super::{Backoff, Deps, Wanted};
use crate::artifact::ArtifactRef;
use crate::digest::Digest;
use crate::function::{Function, FunctionStatus, Phase, Runtime};
use crate::names::FunctionKey;
use crate::outcome::{Failure, Outcome};
use crate::page::PageRequest;
use crate::ports::{self, BlobKey, BuildError, BuildJob, Builds, Image};
use crate::resource::{Condition, ConditionStatus, set_condition};
use crate::services::functions::{new_version, source_bytes_of, source_key};
use crate::services::routes;
use crate::version::{Revision, Version, VersionCause, VersionState};

/// Whether there is nothing to do for a function.
pub(super) fn settled(function: &Function, builds: &dyn Builds) -> bool {
    let status = &function.status;
    status.observed_generation == function.metadata.generation
        && match status.phase {
            Phase::Ready => {
                status.artifact.as_ref().is_none_or(|artifact| builds.is_current(function.spec.runtime, artifact))
            }
            Phase::Failed => true,
            Phase::Pending => function.spec.s3_key.is_none(),
            Phase::Building => false,
        }
}

/// Why an attempt did not come to its end. All of these are tried again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Port(#[from] ports::Error),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("make the version ready to serve")]
    Prepare(#[source] Failure),
}

/// Why a version does not serve; trying again gives the same.
struct Refusal {
    /// One CamelCase word.
    reason: &'static str,
    /// For the owner.
    message: String,
}

pub(super) struct Worker {
    pub(super) deps: Arc<Deps>,
    pub(super) building: Arc<Semaphore>,
    pub(super) key: FunctionKey,
    pub(super) uid: Uuid,
}

impl Worker {
    /// Works until nothing is to be done; answers the last turn it has seen.
    pub(super) async fn run(self, mut changes: watch::Receiver<Wanted>) -> u64 {
        let mut backoff = Backoff::new();
        loop {
            let wanted = *changes.borrow_and_update();
            if wanted.gone {
                return wanted.turn;
            }
            let attempt = async {
                match self.attempt(wanted.again).await {
                    Ok(()) => true,
                    Err(error) => {
                        tracing::warn!(function = %self.key, error = &error as &dyn std::error::Error, "deploying failed; it is tried again");
                        tokio::time::sleep(backoff.next()).await;
                        false
                    }
                }
            };
            tokio::select! {
                done = attempt => if done && !changes.has_changed().unwrap_or(false) { return wanted.turn },
                // Newer: what was under way ends here.
                changed = changes.changed() => if changed.is_err() { return wanted.turn },
            }
        }
    }

    async fn present(&self) -> ports::Result<Option<Function>> {
        let function = self.deps.functions.get(self.key.namespace, self.key.name.as_str()).await?;
        Ok(function.filter(|function| function.metadata.uid == self.uid))
    }

    async fn attempt(&self, again: bool) -> Result<(), Error> {
        let Some(function) = self.present().await? else { return Ok(()) };
        if settled(&function, self.deps.builds.as_ref()) && !again {
            return Ok(());
        }
        if function.spec.s3_key.is_none() {
            self.say(
                &function,
                |status| status.phase = Phase::Pending,
                ("Ready", ConditionStatus::False, "NoCode", "no code was uploaded yet"),
            )
            .await?;
            return Ok(());
        }
        let version = self.version(&function).await?;
        let refusal = match self.built(&function, version).await? {
            Ok(version) => match self.serve(&version).await? {
                Ok(()) => return Ok(self.say_ready(&function, &version).await?),
                Err(refusal) => refusal,
            },
            Err(refusal) => refusal,
        };
        let message = refusal.message.clone();
        let failed = |status: &mut FunctionStatus| {
            status.phase = Phase::Failed;
            status.last_error = Some(refusal.message.clone());
        };
        self.say(&function, failed, ("Ready", ConditionStatus::False, refusal.reason, &message)).await?;
        Ok(())
    }

    /// The version of the function's generation. It is there already unless the process ended just before.
    async fn version(&self, function: &Function) -> ports::Result<Version> {
        let newest = self.deps.records.versions(self.uid, PageRequest { limit: 20, cursor: None }).await?.items;
        for version in newest.iter().filter(|version| version.generation < function.metadata.generation) {
            if version.state == VersionState::Pending {
                self.deps.records.set_version_state(self.uid, version.number, VersionState::Superseded, None).await?;
            }
        }
        if let Some(version) = newest.into_iter().find(|version| version.generation == function.metadata.generation) {
            return Ok(version);
        }
        let bytes = source_bytes_of(function, self.deps.records.as_ref(), self.deps.blobs.as_ref()).await?;
        let newest = self.deps.records.versions(self.uid, PageRequest { limit: 1, cursor: None }).await?.items;
        let same_code = newest.first().is_some_and(|version| version.spec.sha256 == function.spec.sha256);
        let cause = if same_code { VersionCause::Settings } else { VersionCause::Upload };
        self.deps.records.begin_version(new_version(function, cause, bytes, self.deps.clock.now())).await
    }

    /// The version with what the present engine serves, building it where that is not there yet.
    async fn built(&self, function: &Function, version: Version) -> Result<Result<Version, Refusal>, Error> {
        match &version.state {
            VersionState::Failed { error } => {
                return Ok(Err(Refusal { reason: "BuildFailed", message: error.clone() }));
            }
            VersionState::Ready { artifact: Some(artifact), .. } if self.serves(&version, artifact).await? => {
                return Ok(Ok(version));
            }
            VersionState::Ready { image: Some(image), .. } if self.deps.workloads.exists(image).await? => {
                return Ok(Ok(version));
            }
            _ => {}
        }
        let (Some(source), Some(sha256)) = (source_key(&function.spec), function.spec.sha256) else {
            return Ok(Err(Refusal {
                reason: "NoCode",
                message: "the code can't be found; upload it again".to_owned(),
            }));
        };
        // Between storing the artifact and referring to it nothing may be collected.
        let _open = self.deps.gate.hold().await;
        if !function.spec.runtime.is_wasm() {
            return self.imaged(function, version, source, sha256).await;
        }
        let engine = self.deps.builds.engine();
        let found = match function.spec.runtime {
            Runtime::Wasm => self.deps.records.find_artifact(self.key.namespace, &sha256, &engine).await?,
            _ => self.built_before(&version).await?,
        };
        if let Some(artifact) = found
            && self.serves(&version, &artifact).await?
        {
            let artifact = self.deps.signed_anew(&self.key, artifact);
            let state = VersionState::Ready { artifact: Some(artifact), image: None };
            return Ok(Ok(self.ready(version, state, None).await?));
        }
        self.say_building(function).await?;
        let _turn = self.building.acquire().await;
        match self.deps.builds.build(self.job(function, &version, source, sha256)).await {
            Ok(built) => {
                self.keep_log(&version, &built.log).await?;
                let took = built.took;
                let artifact = Some(self.deps.sign(&self.key, built));
                let state = VersionState::Ready { artifact, image: None };
                Ok(Ok(self.ready(version, state, Some(took.as_millis() as u64)).await?))
            }
            Err(BuildError::Rejected { reason, log }) if self.still_serves(&version).await? => {
                tracing::warn!(
                    function = %self.key, version = %version.number, reason,
                    "a version can't be built over its language's new engine; it serves over the old one"
                );
                self.keep_log(&version, &log).await?;
                Ok(Ok(version))
            }
            Err(BuildError::Rejected { reason, log }) => Ok(Err(self.failed(&version, reason, &log).await?)),
            Err(BuildError::TooLarge { reason }) => Ok(Err(self.failed(&version, reason, "").await?)),
            Err(error) => Err(error.into()),
        }
    }

    /// The version of a container function with its image, building that where it is not there yet.
    async fn imaged(
        &self,
        function: &Function,
        version: Version,
        source: BlobKey,
        sha256: Digest,
    ) -> Result<Result<Version, Refusal>, Error> {
        self.say_building(function).await?;
        let _turn = self.building.acquire().await;
        match self.deps.workloads.build(self.job(function, &version, source, sha256)).await {
            Ok(Image { name, log, took, .. }) => {
                self.keep_log(&version, &log).await?;
                let state = VersionState::Ready { artifact: None, image: Some(name) };
                Ok(Ok(self.ready(version, state, took.map(|took| took.as_millis() as u64)).await?))
            }
            Err(BuildError::Rejected { reason, log }) => Ok(Err(self.failed(&version, reason, &log).await?)),
            Err(BuildError::TooLarge { reason }) => Ok(Err(self.failed(&version, reason, "").await?)),
            Err(error) => Err(error.into()),
        }
    }

    fn job(&self, function: &Function, version: &Version, source: BlobKey, sha256: Digest) -> BuildJob {
        BuildJob {
            function: self.key.clone(),
            uid: self.uid,
            version: version.number,
            runtime: function.spec.runtime,
            entrypoint: function.spec.entrypoint.clone(),
            source,
            sha256,
        }
    }

    async fn say_building(&self, function: &Function) -> ports::Result<()> {
        self.say(
            function,
            |status| status.phase = Phase::Building,
            ("Built", ConditionStatus::Unknown, "Building", "the version is being built"),
        )
        .await
    }

    /// Whether an artifact is what would be built now, and there.
    async fn serves(&self, version: &Version, artifact: &ArtifactRef) -> ports::Result<bool> {
        Ok(self.deps.builds.is_current(version.spec.runtime, artifact) && self.is_there(artifact).await?)
    }

    /// Whether a version that should be built again can serve as it is: only its language's engine is older.
    async fn still_serves(&self, version: &Version) -> ports::Result<bool> {
        let VersionState::Ready { artifact: Some(artifact), .. } = &version.state else { return Ok(false) };
        Ok(artifact.engine == self.deps.builds.engine() && self.is_there(artifact).await?)
    }

    async fn is_there(&self, artifact: &ArtifactRef) -> ports::Result<bool> {
        for digest in std::iter::once(&artifact.digest).chain(artifact.modules.iter().map(|module| &module.digest)) {
            if !self.deps.blobs.exists(&BlobKey::artifact(digest)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What one of the function's latest versions was built to, from the same source with the same runtime.
    async fn built_before(&self, version: &Version) -> ports::Result<Option<ArtifactRef>> {
        let latest = self.deps.records.versions(self.uid, PageRequest { limit: 20, cursor: None }).await?.items;
        let of = |version: &Version| (version.spec.sha256, version.spec.runtime, version.spec.entrypoint.clone());
        Ok(latest.into_iter().filter(|other| of(other) == of(version)).find_map(|other| match other.state {
            VersionState::Ready { artifact: Some(artifact), .. } => {
                Some(artifact).filter(|artifact| self.deps.builds.is_current(version.spec.runtime, artifact))
            }
            _ => None,
        }))
    }

    async fn ready(&self, version: Version, state: VersionState, build_ms: Option<u64>) -> ports::Result<Version> {
        self.deps.records.set_version_state(self.uid, version.number, state.clone(), build_ms).await?;
        Ok(Version { state, build_ms: build_ms.or(version.build_ms), ..version })
    }

    async fn failed(&self, version: &Version, reason: String, log: &str) -> ports::Result<Refusal> {
        self.keep_log(version, log).await?;
        let state = VersionState::Failed { error: reason.clone() };
        self.deps.records.set_version_state(self.uid, version.number, state, None).await?;
        Ok(Refusal { reason: "BuildFailed", message: reason })
    }

    async fn keep_log(&self, version: &Version, log: &str) -> ports::Result<()> {
        let key = BlobKey::build_log(&self.key, self.uid, version.number);
        self.deps.blobs.put(&key, ports::blobs::once(log.to_owned()), u64::MAX).await.map(|_| ())
    }

    /// Tries the version, then lets it serve.
    async fn serve(&self, version: &Version) -> Result<Result<(), Refusal>, Error> {
        let secrets = self.deps.secrets.as_ref();
        let Some(mut revision) = self.resolve(version).await? else {
            return Ok(Err(match routes::revision(secrets, &self.key, version).await? {
                Err(missing) => Refusal { reason: "SecretMissing", message: missing.to_string() },
                // Written between the two looks.
                Ok(_) => return Box::pin(self.serve(version)).await,
            }));
        };
        if let Err(failure) = self.deps.routes.target(revision.clone()).prepare().await {
            return match failure.outcome {
                Outcome::Internal | Outcome::PoolExhausted | Outcome::ShuttingDown => Err(Error::Prepare(failure)),
                _ => Ok(Err(Refusal { reason: "NotServable", message: failure.detail })),
            };
        }
        loop {
            self.deps.routes.activate(revision.clone());
            // A secret may have been written since its value was read, before the index knew of this version.
            match self.resolve(version).await? {
                Some(now) if now.env != revision.env => revision = now,
                _ => return Ok(Ok(())),
            }
        }
    }

    async fn resolve(&self, version: &Version) -> ports::Result<Option<Arc<Revision>>> {
        Ok(routes::revision(self.deps.secrets.as_ref(), &self.key, version).await?.ok().map(Arc::new))
    }

    async fn say_ready(&self, function: &Function, version: &Version) -> ports::Result<()> {
        let VersionState::Ready { artifact, image } = version.state.clone() else { return Ok(()) };
        let message = format!("version {} serves", version.number);
        let now = self.deps.clock.now();
        let change = |status: &mut FunctionStatus| {
            status.phase = Phase::Ready;
            status.version = Some(version.number);
            status.artifact = artifact.clone();
            status.image = image.clone();
            status.last_error = None;
            for kind in ["Built", "RoutesReady"] {
                set_condition(
                    &mut status.conditions,
                    condition(kind, ConditionStatus::True, "Done", &message, function, now),
                );
            }
        };
        self.say(function, change, ("Ready", ConditionStatus::True, "Serving", &message)).await
    }

    /// Writes the status of the generation that was worked on, unless a newer one or a deletion came meanwhile.
    async fn say(
        &self,
        function: &Function,
        change: impl Fn(&mut FunctionStatus),
        (kind, holds, reason, message): (&str, ConditionStatus, &str, &str),
    ) -> ports::Result<()> {
        loop {
            let Some(present) = self.present().await? else { return Ok(()) };
            if present.metadata.generation != function.metadata.generation {
                return Ok(());
            }
            let mut status = present.status.clone();
            change(&mut status);
            status.observed_generation = function.metadata.generation;
            set_condition(
                &mut status.conditions,
                condition(kind, holds, reason, message, function, self.deps.clock.now()),
            );
            if status == present.status {
                return Ok(());
            }
            match self.deps.functions.update_status(&present, status).await {
                Ok(updated) => {
                    self.deps.routes.apply_function(&updated);
                    return Ok(());
                }
                Err(ports::Error::Conflict { .. }) => {}
                Err(ports::Error::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

fn condition(
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    function: &Function,
    now: crate::Timestamp,
) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: now,
        observed_generation: function.metadata.generation,
    }
}
