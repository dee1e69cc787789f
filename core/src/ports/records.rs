//! `Records`: versions and invocations. SQLite or Postgres.

use std::collections::BTreeSet;

use async_trait::async_trait;
use uuid::Uuid;

use super::Result;
use crate::Timestamp;
use crate::artifact::ArtifactRef;
use crate::digest::Digest;
use crate::function::FunctionSpec;
use crate::invocation::{Invocation, InvocationId};
use crate::names::{FunctionKey, FunctionName};
use crate::outcome::Outcome;
use crate::page::{Page, PageRequest};
use crate::tenant::Namespace;
use crate::version::{Version, VersionCause, VersionNumber, VersionState};

/// A version to be.
#[derive(Debug, Clone)]
pub struct NewVersion {
    /// Whose.
    pub function: FunctionKey,
    /// That function's uid.
    pub uid: Uuid,
    /// The generation that it is of.
    pub generation: u64,
    /// Code, runtime, settings.
    pub spec: FunctionSpec,
    /// What made it.
    pub cause: VersionCause,
    /// Size of the code as uploaded.
    pub source_bytes: u64,
    /// When.
    pub created_at: Timestamp,
}

/// Which invocations are wanted. Absent fields don't filter.
#[derive(Debug, Clone, Default)]
pub struct InvocationFilter {
    /// Of this function name.
    pub function: Option<FunctionName>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// Begun at or after.
    pub from: Option<Timestamp>,
    /// Begun before.
    pub to: Option<Timestamp>,
}

/// Versions and the invocation log. What is acknowledged is durable.
#[async_trait]
pub trait Records: Send + Sync {
    /// Gives the next number to a new version. Asked again for the same uid and generation, it answers with the version
    /// that is there: one generation has one version, whoever asks, however often.
    async fn begin_version(&self, new: NewVersion) -> Result<Version>;
    /// Sets a version's state and, if given, what its build took.
    async fn set_version_state(
        &self,
        uid: Uuid,
        number: VersionNumber,
        state: VersionState,
        build_ms: Option<u64>,
    ) -> Result<()>;
    /// One version; [`super::Error::NotFound`].
    async fn version(&self, uid: Uuid, number: VersionNumber) -> Result<Version>;
    /// A function's versions, newest first.
    async fn versions(&self, uid: Uuid, page: PageRequest) -> Result<Page<Version>>;
    /// An artifact that this namespace has for the component and engine, from any of its functions. Its signature is
    /// for that function.
    async fn find_artifact(&self, namespace: Namespace, wasm: &Digest, engine: &Digest) -> Result<Option<ArtifactRef>>;
    /// Deletes a function's versions with these numbers.
    async fn delete_versions(&self, uid: Uuid, numbers: &[VersionNumber]) -> Result<()>;
    /// Object-store keys and digests of artifacts, modules of engines among them, that any version of any function needs.
    async fn references(&self) -> Result<(BTreeSet<String>, BTreeSet<Digest>)>;
    /// Uids of all functions that have versions or invocations.
    async fn function_uids(&self) -> Result<BTreeSet<Uuid>>;
    /// Removes all that is known of a function.
    async fn delete_function(&self, uid: Uuid) -> Result<()>;

    /// Adds rows, all or none. Adding an id again changes nothing.
    async fn insert_invocations(&self, rows: &[Invocation]) -> Result<()>;
    /// Invocations of a namespace, newest first.
    async fn invocations(
        &self,
        namespace: Namespace,
        filter: InvocationFilter,
        page: PageRequest,
    ) -> Result<Page<Invocation>>;
    /// One invocation; [`super::Error::NotFound`], also where it is another namespace's.
    async fn invocation(&self, namespace: Namespace, id: InvocationId) -> Result<Invocation>;
    /// Removes rows that began before, and the oldest beyond `keep` rows in all. Answers how many went.
    async fn prune_invocations(&self, before: Timestamp, keep: u64) -> Result<u64>;

    /// Whether the store answers.
    async fn ping(&self) -> Result<()>;
}
