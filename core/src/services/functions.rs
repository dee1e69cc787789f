//! Functions: made, changed, given code, gone back. What is answered is durable; building goes on behind it
//! ([`super::deployer`]).

mod code;

use std::sync::Arc;

use futures::TryStreamExt;

use super::janitor::Gate;
use super::{Namespaces, Route, Routes, Settings};
use crate::function::{Function, FunctionSpec, Phase};
use crate::names::FunctionName;
use crate::page::{Page, PageRequest};
use crate::ports::{self, BlobKey, Blobs, Builds, Clock, NewVersion, Records, Store, Workloads};
use crate::problem::{Code, FieldError, Problem};
use crate::resource::ResourceVersion;
use crate::tenant::Namespace;
use crate::version::{Version, VersionCause, VersionNumber};

pub use code::{Source, UploadKind, Uploaded};

/// What it stands on.
pub(super) struct Deps {
    pub(super) namespaces: Namespaces,
    pub(super) functions: Arc<dyn Store<Function>>,
    pub(super) records: Arc<dyn Records>,
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) builds: Arc<dyn Builds>,
    pub(super) workloads: Arc<dyn Workloads>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) routes: Arc<Routes>,
    pub(super) gate: Gate,
    pub(super) settings: Arc<Settings>,
}

/// Functions.
#[derive(Clone)]
pub struct Functions(Arc<Deps>);

/// How often a change that met another one is tried again on the newer state.
const CHANGE_TRIES: usize = 16;
/// A build's log is bounded by the builder; this only guards the reader.
const BUILD_LOG_BYTES: u64 = 4 << 20;

impl Functions {
    pub(super) fn new(deps: Deps) -> Self {
        Self(Arc::new(deps))
    }

    /// Makes a function, without code yet.
    pub async fn create(
        &self,
        namespace: Namespace,
        name: FunctionName,
        spec: FunctionSpec,
    ) -> Result<Function, Problem> {
        self.0.namespaces.require(namespace).await?;
        self.validate(&spec)?;
        let mut errors = Vec::new();
        for (field, given) in [("s3Key", spec.s3_key.is_some()), ("sha256", spec.sha256.is_some())] {
            if given {
                errors.push(FieldError::new(format!("/spec/{field}"), "set by an upload; leave it out"));
            }
        }
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        let function = self.0.functions.create(namespace, name.as_str(), spec).await?;
        self.0.routes.apply_function(&function);
        Ok(self.shown(function))
    }

    /// One.
    pub async fn get(&self, namespace: Namespace, name: &FunctionName) -> Result<Function, Problem> {
        Ok(self.shown(self.present(namespace, name).await?))
    }

    /// By name.
    pub async fn list(&self, namespace: Namespace, page: PageRequest) -> Result<Page<Function>, Problem> {
        self.0.namespaces.require(namespace).await?;
        Ok(self.0.functions.list(namespace, page).await?.map(|function| self.shown(function)))
    }

    /// Replaces the settings and keeps the code. A change makes a version; no change changes nothing.
    pub async fn update(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        expected: Option<ResourceVersion>,
        spec: FunctionSpec,
    ) -> Result<Function, Problem> {
        self.0.namespaces.require(namespace).await?;
        self.validate(&spec)?;
        let (function, _) = self
            .change(namespace, name, expected, VersionCause::Settings, None, |present| {
                let mut errors = Vec::new();
                if spec.s3_key.is_some() && spec.s3_key != present.spec.s3_key {
                    errors.push(FieldError::new(
                        "/spec/s3Key",
                        "set by an upload; leave it out or give it back unchanged",
                    ));
                }
                if spec.sha256.is_some() && spec.sha256 != present.spec.sha256 {
                    errors.push(FieldError::new(
                        "/spec/sha256",
                        "set by an upload; leave it out or give it back unchanged",
                    ));
                }
                if !errors.is_empty() {
                    return Err(Problem::invalid(errors));
                }
                // A runtime of another kind can't be given this code: it waits for an upload, and the live version serves on.
                let code = Some(&present.spec).filter(|present| present.runtime.code() == spec.runtime.code());
                let (s3_key, sha256) = (code.and_then(|spec| spec.s3_key.clone()), code.and_then(|spec| spec.sha256));
                Ok(FunctionSpec { s3_key, sha256, ..spec.clone() })
            })
            .await?;
        Ok(self.shown(function))
    }

    /// Deletes it with its versions, code and rows; a running build ends. It does not answer from now on.
    pub async fn delete(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        expected: Option<ResourceVersion>,
    ) -> Result<(), Problem> {
        self.0.namespaces.require(namespace).await?;
        let function = self.0.functions.delete(namespace, name.as_str(), expected.as_ref()).await?;
        self.0.routes.remove(&function.key(), function.metadata.uid);
        Ok(())
    }

    /// Its versions, newest first.
    pub async fn versions(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        page: PageRequest,
    ) -> Result<Page<Version>, Problem> {
        let function = self.present(namespace, name).await?;
        Ok(self.0.records.versions(function.metadata.uid, page).await?)
    }

    /// What the build of a version printed; of the newest one when none is named. Empty where nothing was built.
    pub async fn build_log(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        number: Option<VersionNumber>,
    ) -> Result<String, Problem> {
        let function = self.present(namespace, name).await?;
        let uid = function.metadata.uid;
        let number = match number {
            Some(number) => self.0.records.version(uid, number).await?.number,
            None => {
                let newest = self.0.records.versions(uid, PageRequest { limit: 1, cursor: None }).await?;
                let Some(version) = newest.items.first() else { return Ok(String::new()) };
                version.number
            }
        };
        let key = BlobKey::build_log(&function.key(), uid, number);
        match ports::blobs::read(self.0.blobs.as_ref(), &key, BUILD_LOG_BYTES).await {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(ports::Error::NotFound { .. }) => Ok(String::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// What serves it, for a call by the API: also where no http trigger exposes it.
    pub async fn target(&self, namespace: Namespace, name: &FunctionName) -> Result<Arc<Route>, Problem> {
        if let Some(route) = self.0.routes.get(namespace, name.as_str()) {
            return Ok(route);
        }
        let function = self.present(namespace, name).await?;
        self.0.routes.apply_function(&function);
        self.0.routes.get(namespace, name.as_str()).ok_or_else(|| not_there(name))
    }

    async fn present(&self, namespace: Namespace, name: &FunctionName) -> Result<Function, Problem> {
        self.0.namespaces.require(namespace).await?;
        self.0.functions.get(namespace, name.as_str()).await?.ok_or_else(|| not_there(name))
    }

    fn validate(&self, spec: &FunctionSpec) -> Result<(), Problem> {
        let mut errors = spec.validate("/spec");
        let supported = match spec.runtime.is_wasm() {
            true if self.0.builds.supports(spec.runtime) => Ok(()),
            true => Err(format!("this platform has no `{}`; build a component and use `wasm`", spec.runtime)),
            false => self.0.workloads.supports(spec.runtime),
        };
        if let Err(why) = supported {
            errors.push(FieldError::new("/spec/runtime", why));
        }
        if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
    }

    /// Changes the spec as `desired` says of the present state, and numbers the version where it is a new one. Without
    /// `expected` a change that met another one is made again on the newer state: the last one wins.
    async fn change(
        &self,
        namespace: Namespace,
        name: &FunctionName,
        expected: Option<ResourceVersion>,
        cause: VersionCause,
        source_bytes: Option<u64>,
        desired: impl Fn(&Function) -> Result<FunctionSpec, Problem> + Send + Sync,
    ) -> Result<(Function, bool), Problem> {
        let mut tries = 0;
        loop {
            let present = self.present(namespace, name).await?;
            if expected.as_ref().is_some_and(|expected| *expected != present.metadata.resource_version) {
                return Err(ports::Error::Conflict { kind: "function", name: name.to_string() }.into());
            }
            let spec = desired(&present)?;
            let updated = self
                .0
                .functions
                .update_spec(namespace, name.as_str(), Some(&present.metadata.resource_version), spec)
                .await;
            match updated {
                Ok(function) => {
                    let changed = function.metadata.generation != present.metadata.generation;
                    if changed && function.spec.s3_key.is_some() {
                        self.begin_version(&function, cause, source_bytes).await?;
                    }
                    self.0.routes.apply_function(&function);
                    return Ok((function, changed));
                }
                Err(ports::Error::Conflict { .. }) if expected.is_none() && tries < CHANGE_TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn begin_version(
        &self,
        function: &Function,
        cause: VersionCause,
        source_bytes: Option<u64>,
    ) -> Result<Version, Problem> {
        let source_bytes = match source_bytes {
            Some(bytes) => bytes,
            None => source_bytes_of(function, self.0.records.as_ref(), self.0.blobs.as_ref()).await?,
        };
        let version = new_version(function, cause, source_bytes, self.0.clock.now());
        Ok(self.0.records.begin_version(version).await?)
    }

    /// What its owner sees: with the URL, and `Pending` for a generation that the platform has not looked at yet.
    fn shown(&self, mut function: Function) -> Function {
        let key = function.key();
        let exposed = self.0.routes.get(key.namespace, key.name.as_str()).is_some_and(|route| route.exposed);
        function.status.url =
            exposed.then(|| format!("{}/fn/{}/{}", self.0.settings.external_url, key.namespace, key.name));
        if function.status.observed_generation != function.metadata.generation
            && function.status.phase != Phase::Building
        {
            function.status.phase = Phase::Pending;
        }
        function
    }
}

/// The version that a function's present generation is.
pub(super) fn new_version(
    function: &Function,
    cause: VersionCause,
    source_bytes: u64,
    now: crate::Timestamp,
) -> NewVersion {
    NewVersion {
        function: function.key(),
        uid: function.metadata.uid,
        generation: function.metadata.generation,
        spec: function.spec.clone(),
        cause,
        source_bytes,
        created_at: now,
    }
}

/// Size of a function's code: as its newest version says if that has the same code, else counted.
pub(super) async fn source_bytes_of(
    function: &Function,
    records: &dyn Records,
    blobs: &dyn Blobs,
) -> ports::Result<u64> {
    let newest = records.versions(function.metadata.uid, PageRequest { limit: 1, cursor: None }).await?;
    if let Some(version) = newest.items.first().filter(|version| version.spec.sha256 == function.spec.sha256) {
        return Ok(version.source_bytes);
    }
    let Some(key) = source_key(&function.spec) else { return Ok(0) };
    blobs.get(&key).await?.try_fold(0, |sum, piece| async move { Ok(sum + piece.len() as u64) }).await
}

/// Where a spec's code is.
pub(super) fn source_key(spec: &FunctionSpec) -> Option<BlobKey> {
    spec.s3_key.as_ref().and_then(|key| key.parse().ok())
}

fn not_there(name: &FunctionName) -> Problem {
    Problem::new(Code::NotFound, format!("function `{name}` is not there"))
}
