//! Versions and invocations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use sless_core::artifact::ArtifactRef;
use sless_core::page::{Page, PageRequest};
use sless_core::ports::*;
use sless_core::version::{VersionNumber, VersionState};
use sless_core::*;
use uuid::Uuid;

use super::{missing, paged};

#[derive(Default)]
pub(crate) struct Rows {
    versions: Mutex<Vec<(FunctionKey, Version)>>,
    pub(crate) calls: Mutex<BTreeMap<InvocationId, Invocation>>,
    pub(crate) down: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl Records for Rows {
    async fn begin_version(&self, new: NewVersion) -> Result<Version> {
        let mut versions = self.versions.lock().unwrap();
        let own = || versions.iter().filter(|(_, v)| v.function_uid == new.uid);
        if let Some((_, version)) = own().find(|(_, v)| v.generation == new.generation) {
            return Ok(version.clone());
        }
        let version = Version {
            function_uid: new.uid,
            number: VersionNumber(own().count() as u32 + 1),
            generation: new.generation,
            spec: new.spec,
            cause: new.cause,
            state: VersionState::Pending,
            source_bytes: new.source_bytes,
            build_ms: None,
            created_at: new.created_at,
        };
        versions.push((new.function, version.clone()));
        Ok(version)
    }
    async fn set_version_state(
        &self,
        uid: Uuid,
        number: VersionNumber,
        state: VersionState,
        build_ms: Option<u64>,
    ) -> Result<()> {
        let mut versions = self.versions.lock().unwrap();
        let found = versions.iter_mut().find(|(_, v)| (v.function_uid, v.number) == (uid, number));
        let (_, version) = found.ok_or_else(|| missing("version", number))?;
        version.state = state;
        version.build_ms = build_ms.or(version.build_ms);
        Ok(())
    }
    async fn version(&self, uid: Uuid, number: VersionNumber) -> Result<Version> {
        let versions = self.versions.lock().unwrap();
        let found = versions.iter().find(|(_, v)| (v.function_uid, v.number) == (uid, number));
        found.map(|(_, v)| v.clone()).ok_or_else(|| missing("version", number))
    }
    async fn versions(&self, uid: Uuid, page: PageRequest) -> Result<Page<Version>> {
        let versions = self.versions.lock().unwrap();
        let own = versions.iter().rev().filter(|(_, v)| v.function_uid == uid);
        Ok(paged(own.map(|(_, v)| (format!("{:010}", u32::MAX - v.number.0), v.clone())), &page))
    }
    async fn find_artifact(&self, namespace: Namespace, wasm: &Digest, engine: &Digest) -> Result<Option<ArtifactRef>> {
        let versions = self.versions.lock().unwrap();
        let artifacts =
            versions.iter().filter(|(key, _)| key.namespace == namespace).filter_map(|(_, v)| match &v.state {
                VersionState::Ready { artifact, .. } => artifact.clone(),
                _ => None,
            });
        Ok(artifacts.into_iter().find(|a| a.wasm == *wasm && a.engine == *engine))
    }
    async fn delete_versions(&self, uid: Uuid, numbers: &[VersionNumber]) -> Result<()> {
        self.versions.lock().unwrap().retain(|(_, v)| v.function_uid != uid || !numbers.contains(&v.number));
        Ok(())
    }
    async fn references(&self) -> Result<(BTreeSet<String>, BTreeSet<Digest>)> {
        let versions = self.versions.lock().unwrap();
        Ok((versions.iter().filter_map(|(_, v)| v.spec.s3_key.clone()).collect(), BTreeSet::new()))
    }
    async fn function_uids(&self) -> Result<BTreeSet<Uuid>> {
        Ok(self.versions.lock().unwrap().iter().map(|(_, v)| v.function_uid).collect())
    }
    async fn delete_function(&self, uid: Uuid) -> Result<()> {
        self.versions.lock().unwrap().retain(|(_, v)| v.function_uid != uid);
        self.calls.lock().unwrap().retain(|_, row| row.function_uid != uid);
        Ok(())
    }
    async fn insert_invocations(&self, rows: &[Invocation]) -> Result<()> {
        let mut calls = self.calls.lock().unwrap();
        for row in rows {
            calls.entry(row.id).or_insert_with(|| row.clone());
        }
        Ok(())
    }
    async fn invocations(
        &self,
        namespace: Namespace,
        filter: InvocationFilter,
        page: PageRequest,
    ) -> Result<Page<Invocation>> {
        let calls = self.calls.lock().unwrap();
        let wanted = calls.values().rev().filter(|row| {
            row.namespace == namespace
                && filter.function.as_ref().is_none_or(|name| *name == row.function)
                && filter.outcome.is_none_or(|outcome| outcome == row.outcome)
                && filter.from.is_none_or(|from| row.started_at >= from)
                && filter.to.is_none_or(|to| row.started_at < to)
        });
        Ok(paged(wanted.map(|row| (format!("{:032x}", u128::MAX - row.id.0.as_u128()), row.clone())), &page))
    }
    async fn invocation(&self, namespace: Namespace, id: InvocationId) -> Result<Invocation> {
        let calls = self.calls.lock().unwrap();
        calls.get(&id).filter(|row| row.namespace == namespace).cloned().ok_or_else(|| missing("invocation", id))
    }
    async fn prune_invocations(&self, _: Timestamp, _: u64) -> Result<u64> {
        Ok(0)
    }
    async fn ping(&self) -> Result<()> {
        match self.down.load(std::sync::atomic::Ordering::SeqCst) {
            true => Err(Error::Unavailable { doing: "ask the store", source: "it is down".into() }),
            false => Ok(()),
        }
    }
}
