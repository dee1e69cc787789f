//! Versions: every upload and every change of settings makes one; each can be gone back to without a build.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Timestamp;
use crate::artifact::ArtifactRef;
use crate::function::{FunctionSpec, Runtime};
use crate::names::FunctionKey;

/// Counts a function's versions from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct VersionNumber(pub u32);

impl std::fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What made a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum VersionCause {
    /// New code.
    Upload,
    /// New settings.
    Settings,
    /// A return to an older version.
    Rollback {
        /// That version.
        to: VersionNumber,
    },
}

/// How far a version has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum VersionState {
    /// Not built yet.
    Pending,
    /// Can serve. Container versions have an image instead of an artifact.
    Ready {
        /// Of a wasm function.
        artifact: Option<ArtifactRef>,
        /// Of a container function: its image by digest.
        image: Option<String>,
    },
    /// Can't serve.
    Failed {
        /// Why, as its owner should read it.
        error: String,
    },
    /// A newer one came before it was built.
    Superseded,
}

/// A version: code, runtime and settings, as they were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The function's uid (a later function of the same name has other versions).
    pub function_uid: Uuid,
    /// Its number.
    pub number: VersionNumber,
    /// The generation of the function that it is of.
    pub generation: u64,
    /// Code, runtime, settings.
    pub spec: FunctionSpec,
    /// What made it.
    pub cause: VersionCause,
    /// How far it has come.
    #[serde(flatten)]
    pub state: VersionState,
    /// Size of the code as uploaded.
    pub source_bytes: u64,
    /// What its build took; none where nothing was built.
    pub build_ms: Option<u64>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// What an invoker needs to serve one version of a function, secrets resolved. Never logged, never serialised.
#[derive(Clone)]
pub struct Revision {
    /// Whose, and which.
    pub function: FunctionKey,
    /// Of this function and not of an older one of the same name.
    pub uid: Uuid,
    /// Which version.
    pub version: VersionNumber,
    /// Limits, reuse, egress. Its `env` is empty here: `env` below has all.
    pub spec: FunctionSpec,
    /// Environment variables, the values of secrets among them, in order of name.
    pub env: Vec<(String, String)>,
    /// What to run; none for containers.
    pub artifact: Option<ArtifactRef>,
    /// The image; none for wasm.
    pub image: Option<String>,
}

impl Revision {
    /// What runs it.
    pub fn runtime(&self) -> Runtime {
        self.spec.runtime
    }
}

impl std::fmt::Debug for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revision")
            .field("function", &self.function)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
