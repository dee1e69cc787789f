//! Ports that a test steers: a builder whose builds wait until they are let go, and an invoker that answers with what
//! it would have served.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sless_core::ports::records::{InvocationFilter, NewVersion};
use sless_core::ports::{
    self, BlobKey, Blobs, BuildError, BuildJob, Builds, Built, Checked, Invoker, Prepared, Records, SourceUpload,
};
use sless_core::version::{Revision, VersionState};
use sless_core::*;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// A builder of which the "component" is any text. `reject…` fails its build, `broken…` its check.
pub struct SteeredBuilds {
    /// Where code and artifacts are.
    pub blobs: Arc<dyn Blobs>,
    /// The engine that it says it builds for.
    pub engine: Digest,
    /// A build takes one permit; none are there while a test holds builds back.
    pub go: Semaphore,
    /// Builds begun.
    pub begun: AtomicUsize,
    /// Builds that came to their end.
    pub ended: AtomicUsize,
    /// So many builds fail as the platform's fault first.
    pub flaky: AtomicUsize,
}

impl SteeredBuilds {
    /// Lets every build go on.
    pub fn new(blobs: Arc<dyn Blobs>) -> Arc<Self> {
        Self::held(blobs, Semaphore::MAX_PERMITS)
    }

    /// Lets `permits` builds go on.
    pub fn held(blobs: Arc<dyn Blobs>, permits: usize) -> Arc<Self> {
        Arc::new(Self {
            blobs,
            engine: Digest::of(b"engine 1"),
            go: Semaphore::new(permits),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            flaky: AtomicUsize::new(0),
        })
    }

    async fn text(&self, key: &BlobKey) -> Result<Vec<u8>, BuildError> {
        ports::blobs::read(self.blobs.as_ref(), key, 1 << 20)
            .await
            .map_err(|error| BuildError::Failed { doing: "read the code".into(), source: Box::new(error) })
    }
}

#[async_trait]
impl Builds for SteeredBuilds {
    fn engine(&self) -> Digest {
        self.engine
    }

    async fn check(&self, _: Runtime, source: &BlobKey) -> Result<Checked, BuildError> {
        if self.text(source).await?.starts_with(b"broken") {
            return Err(BuildError::Rejected { reason: "it is broken".into(), log: String::new() });
        }
        Ok(Checked::default())
    }

    async fn prepare(&self, upload: SourceUpload) -> Result<Prepared, BuildError> {
        let text = self.text(&upload.archive).await?;
        let source = Digest::of(&text);
        let stored = self.blobs.put(&upload.context, ports::blobs::once(text), 1 << 20).await;
        stored.map_err(|error| BuildError::Failed { doing: "store the context".into(), source: Box::new(error) })?;
        Ok(Prepared { source, notes: Vec::new() })
    }

    async fn build(&self, job: BuildJob) -> Result<Built, BuildError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.go.acquire().await.unwrap().forget();
        let code = self.text(&job.source).await?;
        if self.flaky.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(BuildError::Failed { doing: "start the builder".into(), source: "no processes left".into() });
        }
        if code.starts_with(b"reject") {
            return Err(BuildError::Rejected { reason: "it does not compile".into(), log: "line 1: no\n".into() });
        }
        let compiled = [b"compiled ", code.as_slice()].concat();
        let artifact = Digest::of(&compiled);
        let size_bytes = compiled.len() as u64;
        let stored = self.blobs.put(&BlobKey::artifact(&artifact), ports::blobs::once(compiled), 1 << 20).await;
        stored.map_err(|error| BuildError::Failed { doing: "store the artifact".into(), source: Box::new(error) })?;
        self.ended.fetch_add(1, Ordering::SeqCst);
        let log = format!("built {} bytes\n", code.len());
        Ok(Built {
            artifact,
            size_bytes,
            wasm: job.sha256,
            engine: self.engine,
            modules: Vec::new(),
            log,
            took: Duration::from_millis(7),
        })
    }
}

/// Answers each call with the version, the environment and the artifact's digest that it was made for.
#[derive(Default)]
pub struct EchoInvoker {
    /// Versions that can't be prepared, by the number, and how.
    pub refuse: Mutex<HashMap<u32, Failure>>,
}

struct EchoTarget {
    revision: Arc<Revision>,
    refuse: Option<Failure>,
}

impl Invoker for EchoInvoker {
    fn target(&self, revision: Arc<Revision>) -> Arc<dyn Target> {
        let refuse = self.refuse.lock().unwrap().get(&revision.version.0).cloned();
        Arc::new(EchoTarget { revision, refuse })
    }
}

#[async_trait]
impl Target for EchoTarget {
    async fn prepare(&self) -> Result<(), Failure> {
        self.refuse.clone().map_or(Ok(()), Err)
    }

    async fn call(&self, _: Call) -> Result<http::Response<Body>, Failure> {
        let Revision { version, env, artifact, .. } = self.revision.as_ref();
        let artifact = artifact.as_ref().ok_or_else(|| Failure::new(Outcome::Internal, "no artifact"))?;
        let env: Vec<_> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(http::Response::new(body::full(format!("v{version} {} {}", env.join(","), artifact.digest))))
    }
}

/// Records that fail once each time they are told to.
pub struct FlakyRecords {
    /// What keeps them.
    pub inner: Arc<dyn Records>,
    /// So many new versions are refused first, as a database that went away would.
    pub refuse_versions: AtomicUsize,
}

#[async_trait]
impl Records for FlakyRecords {
    async fn begin_version(&self, new: NewVersion) -> ports::Result<Version> {
        let refuse = |left: usize| left.checked_sub(1);
        if self.refuse_versions.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok() {
            return Err(ports::Error::unavailable("number a version")("the database went away"));
        }
        self.inner.begin_version(new).await
    }
    async fn set_version_state(
        &self,
        uid: Uuid,
        number: VersionNumber,
        state: VersionState,
        build_ms: Option<u64>,
    ) -> ports::Result<()> {
        self.inner.set_version_state(uid, number, state, build_ms).await
    }
    async fn version(&self, uid: Uuid, number: VersionNumber) -> ports::Result<Version> {
        self.inner.version(uid, number).await
    }
    async fn versions(&self, uid: Uuid, page: PageRequest) -> ports::Result<Page<Version>> {
        self.inner.versions(uid, page).await
    }
    async fn find_artifact(
        &self,
        namespace: Namespace,
        wasm: &Digest,
        engine: &Digest,
    ) -> ports::Result<Option<ArtifactRef>> {
        self.inner.find_artifact(namespace, wasm, engine).await
    }
    async fn delete_versions(&self, uid: Uuid, numbers: &[VersionNumber]) -> ports::Result<()> {
        self.inner.delete_versions(uid, numbers).await
    }
    async fn references(&self) -> ports::Result<(BTreeSet<String>, BTreeSet<Digest>)> {
        self.inner.references().await
    }
    async fn function_uids(&self) -> ports::Result<BTreeSet<Uuid>> {
        self.inner.function_uids().await
    }
    async fn delete_function(&self, uid: Uuid) -> ports::Result<()> {
        self.inner.delete_function(uid).await
    }
    async fn insert_invocations(&self, rows: &[Invocation]) -> ports::Result<()> {
        self.inner.insert_invocations(rows).await
    }
    async fn invocations(
        &self,
        namespace: Namespace,
        filter: InvocationFilter,
        page: PageRequest,
    ) -> ports::Result<Page<Invocation>> {
        self.inner.invocations(namespace, filter, page).await
    }
    async fn invocation(&self, namespace: Namespace, id: InvocationId) -> ports::Result<Invocation> {
        self.inner.invocation(namespace, id).await
    }
    async fn prune_invocations(&self, before: Timestamp, keep: u64) -> ports::Result<u64> {
        self.inner.prune_invocations(before, keep).await
    }
    async fn ping(&self) -> ports::Result<()> {
        self.inner.ping().await
    }
}
