//! A function: what its owner sets, what the platform reports, and the bounds of both.

mod egress;
mod validate;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::artifact::ArtifactRef;
use crate::digest::Digest;
use crate::names::{FunctionKey, FunctionName, SecretName};
use crate::resource::{Condition, Metadata, Resource};
use crate::version::VersionNumber;

pub use egress::{Egress, EgressRule, EgressTarget};
pub use validate::{MAX_BODY_BYTES, MAX_EGRESS_RULES, MAX_ENV_BYTES, MAX_ENV_VARS, escape_pointer};

/// What runs a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Runtime {
    /// A WebAssembly component made elsewhere, in the host pool.
    #[serde(rename = "wasm")]
    Wasm,
    /// JavaScript source, made into a component, in the host pool.
    #[serde(rename = "wasm-js")]
    WasmJs,
    /// Python source, made into a component, in the host pool.
    #[serde(rename = "wasm-python")]
    WasmPython,
    /// Python source in a container.
    #[serde(rename = "python3.11")]
    Python311,
    /// JavaScript source in a container.
    #[serde(rename = "nodejs20")]
    Nodejs20,
}

impl Runtime {
    /// Every runtime there is.
    pub const ALL: &'static [Runtime] = &[Self::Wasm, Self::WasmJs, Self::WasmPython, Self::Python311, Self::Nodejs20];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::WasmJs => "wasm-js",
            Self::WasmPython => "wasm-python",
            Self::Python311 => "python3.11",
            Self::Nodejs20 => "nodejs20",
        }
    }

    /// What its functions are made from.
    pub const fn code(self) -> CodeKind {
        match self {
            Self::Wasm => CodeKind::Component,
            Self::WasmJs | Self::Nodejs20 => CodeKind::JavaScript,
            Self::WasmPython | Self::Python311 => CodeKind::Python,
        }
    }

    /// Whether the host pool serves it (else a container does).
    pub const fn is_wasm(self) -> bool {
        matches!(self, Self::Wasm | Self::WasmJs | Self::WasmPython)
    }
}

/// What functions are made from. Runtimes of one kind take the same code: a function moves between them as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeKind {
    /// A WebAssembly component.
    Component,
    /// JavaScript source.
    JavaScript,
    /// Python source.
    Python,
}

impl CodeKind {
    /// Whether it is source, which comes as an archive.
    pub const fn is_source(self) -> bool {
        !matches!(self, Self::Component)
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Runtime {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|r| r.name() == name).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|r| r.name()).collect();
            format!("`{name}` is no runtime; there are {}", all.join(", "))
        })
    }
}

/// What a call may use beyond memory and time. Absent fields have the defaults shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CallLimits {
    /// Processor time of a call in milliseconds, 1 to 900,000.
    pub cpu_ms: u32,
    /// Size of a request's body in bytes, at most 104,857,600.
    pub request_bytes: u64,
    /// Size of a response's body in bytes, at most 104,857,600.
    pub response_bytes: u64,
    /// What a call may log in bytes, at most 1,048,576; the rest is dropped and counted.
    pub log_bytes: u32,
    /// Calls a second, 1 to 1,000,000; absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<u32>,
}

impl Default for CallLimits {
    fn default() -> Self {
        // 10 s of processor time: a third of the default wall clock, so that a loop is cut well before it.
        // 6 MiB bodies, as the field has them; 64 KiB of log a call.
        Self {
            cpu_ms: 10_000,
            request_bytes: 6 << 20,
            response_bytes: 6 << 20,
            log_bytes: 64 << 10,
            rate_per_second: None,
        }
    }
}

/// What the owner of a function sets. `s3Key` and `sha256` are set by upload and rollback only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionSpec {
    /// What runs it.
    pub runtime: Runtime,
    /// `file.export` of the handler, for functions made from source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// Where the code is in the object store. Read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_key: Option<String>,
    /// Digest of the code as uploaded. Read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// Memory of an instance in MiB, 1 to 2048.
    #[serde(default = "default_memory_mb")]
    pub memory_mb: u32,
    /// Wall clock of a call in seconds, 1 to 900.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
    /// Calls at once, 1 to 10,000.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// What a call may use beyond that.
    #[serde(default)]
    pub limits: CallLimits,
    /// Whether an instance may serve one call after another. A fresh instance a call is the default: it can't carry
    /// one call's data into the next.
    #[serde(default)]
    pub reuse: bool,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment variables whose values are secrets: variable → name of the secret.
    #[serde(default)]
    pub secret_refs: BTreeMap<String, SecretName>,
    /// Containers: how many run at least.
    #[serde(default)]
    pub min_replicas: u32,
    /// Containers: how many run at most, 1 to 100.
    #[serde(default = "default_max_replicas")]
    pub max_replicas: u32,
    /// Where it may connect to.
    #[serde(default)]
    pub egress: Egress,
}

fn default_memory_mb() -> u32 {
    128
}
fn default_timeout_seconds() -> u32 {
    30
}
fn default_concurrency() -> u32 {
    100
}
fn default_max_replicas() -> u32 {
    3
}

impl FunctionSpec {
    /// A spec of defaults for a runtime.
    pub fn new(runtime: Runtime) -> Self {
        Self {
            runtime,
            entrypoint: None,
            s3_key: None,
            sha256: None,
            memory_mb: default_memory_mb(),
            timeout_seconds: default_timeout_seconds(),
            concurrency: default_concurrency(),
            limits: CallLimits::default(),
            reuse: false,
            env: BTreeMap::new(),
            secret_refs: BTreeMap::new(),
            min_replicas: 0,
            max_replicas: default_max_replicas(),
            egress: Egress::default(),
        }
    }
}

/// Where a function is on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum Phase {
    /// Waits for code or for its build.
    #[default]
    Pending,
    /// Is being built.
    Building,
    /// Serves the newest version.
    Ready,
    /// The newest version failed; an older one may still serve.
    Failed,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "Pending",
            Self::Building => "Building",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
        })
    }
}

/// What the platform says of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionStatus {
    /// Where it is on its way.
    pub phase: Phase,
    /// `Built`, `Ready`, `RoutesReady`.
    pub conditions: Vec<Condition>,
    /// The generation that `phase` speaks of.
    pub observed_generation: u64,
    /// The version that serves; none before the first is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionNumber>,
    /// Of a container function: its image by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Of a wasm function: what the host serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactRef>,
    /// Where it answers, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Why the newest version failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Function {
    /// Name, namespace, generation.
    #[serde(flatten)]
    pub metadata: Metadata,
    /// What its owner set.
    pub spec: FunctionSpec,
    /// What the platform reports.
    #[serde(default)]
    pub status: FunctionStatus,
}

impl Function {
    /// Its typed name.
    pub fn name(&self) -> FunctionName {
        self.metadata.name.parse().expect("a stored function's name was checked when it was made")
    }

    /// Its namespace and name.
    pub fn key(&self) -> FunctionKey {
        FunctionKey::new(self.metadata.namespace, self.name())
    }
}

impl Resource for Function {
    const KIND: &'static str = "function";
    type Spec = FunctionSpec;
    type Status = FunctionStatus;
    fn from_parts(metadata: Metadata, spec: FunctionSpec, status: FunctionStatus) -> Self {
        Self { metadata, spec, status }
    }
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    fn spec(&self) -> &FunctionSpec {
        &self.spec
    }
    fn status(&self) -> &FunctionStatus {
        &self.status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_spec_is_valid_and_its_absent_fields_are_filled() {
        let spec: FunctionSpec = serde_json::from_str(r#"{"runtime":"wasm"}"#).unwrap();
        assert_eq!(spec, FunctionSpec::new(Runtime::Wasm));
        assert_eq!(spec.validate("/spec"), []);
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        let error = serde_json::from_str::<FunctionSpec>(r#"{"runtime":"wasm","memoryMB":1}"#).unwrap_err();
        assert!(error.to_string().contains("memoryMB"), "{error}");
    }
}
