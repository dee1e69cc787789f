//! `Builds`: checks uploads and makes what serves. Child processes or Kubernetes Jobs.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::BlobKey;
use crate::artifact::ArtifactRef;
use crate::digest::Digest;
use crate::function::Runtime;
use crate::names::FunctionKey;
use crate::version::VersionNumber;

/// What a check of an upload found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// What its owner should know though it is accepted.
    pub notes: Vec<String>,
}

/// An archive of source that is to become a build context.
#[derive(Debug, Clone)]
pub struct SourceUpload {
    /// What it is for.
    pub runtime: Runtime,
    /// `file.export`, where it is not the default.
    pub entrypoint: Option<String>,
    /// Where the archive is. The user's files replace it, packed anew: the same bytes for the same files.
    pub archive: BlobKey,
    /// Where the context is to be.
    pub context: BlobKey,
}

/// What an archive of source became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The source hash: equal for equal files, however they were packed.
    pub source: Digest,
    /// What its owner should know though it is accepted ("the folder `my-function/` was stripped").
    pub notes: Vec<String>,
}

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildJob {
    /// Whose.
    pub function: FunctionKey,
    /// That function's uid.
    pub uid: Uuid,
    /// Which version.
    pub version: VersionNumber,
    /// What runs it.
    pub runtime: Runtime,
    /// `file.export`, for source.
    pub entrypoint: Option<String>,
    /// Where the code is.
    pub source: BlobKey,
    /// Its digest.
    pub sha256: Digest,
}

/// What a build made. The compiled bytes are in the object store already; the caller signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// SHA-256 of the compiled bytes.
    pub artifact: Digest,
    /// Their number.
    pub size_bytes: u64,
    /// Digest of the component that was compiled (the upload's own, for runtime `wasm`).
    pub wasm: Digest,
    /// Digest of the engine it was compiled for.
    pub engine: Digest,
    /// Modules of the language's engine that it imports, in the object store as well. They are the platform's: no builder
    /// that has read a tenant's code had a say in them.
    pub modules: Vec<BuiltModule>,
    /// What the build printed, bounded.
    pub log: String,
    /// How long it took.
    pub took: Duration,
}

/// A compiled module of a language's engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltModule {
    /// SHA-256 of the compiled bytes.
    pub artifact: Digest,
    /// Their number.
    pub size_bytes: u64,
    /// Digest of the module that was compiled.
    pub wasm: Digest,
}

/// Why there is no build.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The code is at fault; building it again gives the same.
    #[error("{reason}")]
    Rejected {
        /// What is wrong and what to do, for its owner.
        reason: String,
        /// What the build printed, bounded.
        log: String,
    },
    /// The code is larger than the builder takes.
    #[error("{reason}")]
    TooLarge {
        /// Which limit.
        reason: String,
    },
    /// The platform is at fault; trying again may help.
    #[error("{doing}")]
    Failed {
        /// What was attempted.
        doing: String,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Checks and builds. Implementations bound how many run at once, and what one may use.
#[async_trait]
pub trait Builds: Send + Sync {
    /// The engine that artifacts are made for; artifacts of another one have to be built again.
    fn engine(&self) -> Digest;
    /// Whether an artifact is what a build would be made over now: for the same engine, with the modules of the same
    /// language engine. One that is not is built again; while its own engine is here it goes on serving.
    fn is_current(&self, _runtime: Runtime, artifact: &ArtifactRef) -> bool {
        artifact.engine == self.engine()
    }
    /// Whether this release builds for a runtime.
    fn supports(&self, runtime: Runtime) -> bool {
        runtime == Runtime::Wasm
    }
    /// Checks the structure of an upload at once: never runs it, never compiles it.
    async fn check(&self, runtime: Runtime, source: &BlobKey) -> Result<Checked, BuildError>;
    /// Checks an archive of source at once and makes a build context of it: never runs it.
    async fn prepare(&self, upload: SourceUpload) -> Result<Prepared, BuildError>;
    /// Builds. Dropping the future ends the build and leaves nothing behind.
    async fn build(&self, job: BuildJob) -> Result<Built, BuildError>;
}
