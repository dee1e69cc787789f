//! Versions and invocations in SQLite: two files, since they promise different things. A version survives a loss of
//! power; an invocation survives the end of the process.

use std::collections::BTreeSet;

use async_trait::async_trait;
use sless_core::artifact::ArtifactRef;
use sless_core::ports::{InvocationFilter, NewVersion, Records, Result};
use sless_core::version::VersionState;
use sless_core::{Digest, Invocation, InvocationId, Namespace, Page, PageRequest, Timestamp, Version, VersionNumber};
use uuid::Uuid;

use crate::sqlite::{Database, failed};

mod invocations;
mod versions;

use invocations::InvocationTable;
use versions::VersionTable;

/// Versions and invocations in two databases.
pub(crate) struct SqliteRecords {
    versions: VersionTable,
    invocations: InvocationTable,
}

impl SqliteRecords {
    /// Records in these databases.
    pub(crate) fn new(state: Database, invocations: Database) -> Self {
        Self { versions: VersionTable::new(state), invocations: InvocationTable::new(invocations) }
    }
}

#[async_trait]
impl Records for SqliteRecords {
    async fn begin_version(&self, new: NewVersion) -> Result<Version> {
        self.versions.begin(new).await
    }

    async fn set_version_state(
        &self,
        uid: Uuid,
        number: VersionNumber,
        state: VersionState,
        build_ms: Option<u64>,
    ) -> Result<()> {
        self.versions.set_state(uid, number, state, build_ms).await
    }

    async fn version(&self, uid: Uuid, number: VersionNumber) -> Result<Version> {
        self.versions.get(uid, number).await
    }

    async fn versions(&self, uid: Uuid, page: PageRequest) -> Result<Page<Version>> {
        self.versions.list(uid, page).await
    }

    async fn find_artifact(&self, namespace: Namespace, wasm: &Digest, engine: &Digest) -> Result<Option<ArtifactRef>> {
        self.versions.find_artifact(namespace, wasm, engine).await
    }

    async fn delete_versions(&self, uid: Uuid, numbers: &[VersionNumber]) -> Result<()> {
        self.versions.delete(uid, numbers).await
    }

    async fn references(&self) -> Result<(BTreeSet<String>, BTreeSet<Digest>)> {
        self.versions.references().await
    }

    async fn function_uids(&self) -> Result<BTreeSet<Uuid>> {
        let mut uids = self.versions.function_uids().await?;
        uids.extend(self.invocations.function_uids().await?);
        Ok(uids)
    }

    async fn delete_function(&self, uid: Uuid) -> Result<()> {
        self.invocations.delete_function(uid).await?;
        self.versions.delete_function(uid).await
    }

    async fn insert_invocations(&self, rows: &[Invocation]) -> Result<()> {
        self.invocations.insert(rows).await
    }

    async fn invocations(
        &self,
        namespace: Namespace,
        filter: InvocationFilter,
        page: PageRequest,
    ) -> Result<Page<Invocation>> {
        self.invocations.list(namespace, filter, page).await
    }

    async fn invocation(&self, namespace: Namespace, id: InvocationId) -> Result<Invocation> {
        self.invocations.get(namespace, id).await
    }

    async fn prune_invocations(&self, before: Timestamp, keep: u64) -> Result<u64> {
        self.invocations.prune(before, keep).await
    }

    async fn ping(&self) -> Result<()> {
        for database in [self.versions.database(), self.invocations.database()] {
            sqlx::query("SELECT 1").execute(database.read()).await.map_err(failed("ask the database"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
