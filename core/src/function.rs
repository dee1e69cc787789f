//! A function: what its owner sets, what the platform reports, and the bounds of both.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::artifact::ArtifactRef;
use crate::digest::Digest;
use crate::names::{FunctionKey, FunctionName, SecretName};
use crate::problem::FieldError;
use crate::resource::{Condition, Metadata, Resource};
use crate::version::VersionNumber;

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

    /// Whether the host pool serves it (else a container does).
    pub const fn is_wasm(self) -> bool {
        matches!(self, Self::Wasm | Self::WasmJs | Self::WasmPython)
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

/// Where a function may connect to. Public addresses are open; anything else has to be named here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Egress {
    /// Each is `host`, `host:port`, `address`, `address:port`, `network/prefix` or `network/prefix:port`. Names allow
    /// only themselves; a private address that a name resolves to must be allowed as an address or network too.
    /// Empty: any public address. Not empty: public addresses only where they are named (`*` stands for all of them).
    pub allow: Vec<String>,
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

/// The most bytes of one environment: names and values together.
pub const MAX_ENV_BYTES: usize = 64 << 10;
/// The most variables of one environment.
pub const MAX_ENV_VARS: usize = 256;
/// The most entries of an egress list.
pub const MAX_EGRESS_RULES: usize = 64;
/// The largest body that a limit may allow.
pub const MAX_BODY_BYTES: u64 = 100 << 20;

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

    /// Everything that is wrong with it, each with a pointer below `base` (such as `/spec`). Empty when all is well.
    pub fn validate(&self, base: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut range = |field: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                errors.push(FieldError::new(
                    format!("{base}/{field}"),
                    format!("{value} is out of range; it must be from {low} to {high}"),
                ));
            }
        };
        range("memoryMb", self.memory_mb.into(), 1, 2048);
        range("timeoutSeconds", self.timeout_seconds.into(), 1, 900);
        range("concurrency", self.concurrency.into(), 1, 10_000);
        range("maxReplicas", self.max_replicas.into(), 1, 100);
        range("minReplicas", self.min_replicas.into(), 0, self.max_replicas.into());
        range("limits/cpuMs", self.limits.cpu_ms.into(), 1, 900_000);
        range("limits/requestBytes", self.limits.request_bytes, 0, MAX_BODY_BYTES);
        range("limits/responseBytes", self.limits.response_bytes, 0, MAX_BODY_BYTES);
        range("limits/logBytes", self.limits.log_bytes.into(), 0, 1 << 20);
        if let Some(rate) = self.limits.rate_per_second {
            range("limits/ratePerSecond", rate.into(), 1, 1_000_000);
        }
        self.validate_environment(base, &mut errors);
        self.validate_egress(base, &mut errors);
        if self.runtime == Runtime::Wasm && self.entrypoint.is_some() {
            errors.push(FieldError::new(
                format!("{base}/entrypoint"),
                "a component names its own entry point; leave it out, or choose a runtime that takes source",
            ));
        }
        errors
    }

    fn validate_environment(&self, base: &str, errors: &mut Vec<FieldError>) {
        for (field, names) in
            [("env", self.env.keys().collect::<Vec<_>>()), ("secretRefs", self.secret_refs.keys().collect::<Vec<_>>())]
        {
            for name in names.into_iter().filter(|name| !is_variable_name(name)) {
                errors.push(FieldError::new(
                    format!("{base}/{field}/{}", escape_pointer(name)),
                    "a variable's name has letters, digits and underscores, does not start with a digit, and does not start with SLESS_",
                ));
            }
        }
        for name in self.secret_refs.keys().filter(|name| self.env.contains_key(*name)) {
            errors.push(FieldError::new(
                format!("{base}/secretRefs/{}", escape_pointer(name)),
                "the variable is in env too; keep one of them",
            ));
        }
        for (name, _) in self.env.iter().filter(|(_, value)| value.contains('\0')) {
            errors.push(FieldError::new(format!("{base}/env/{}", escape_pointer(name)), "a value can't hold a NUL"));
        }
        let bytes: usize = self.env.iter().map(|(k, v)| k.len() + v.len()).sum();
        if bytes > MAX_ENV_BYTES || self.env.len() + self.secret_refs.len() > MAX_ENV_VARS {
            errors.push(FieldError::new(
                format!("{base}/env"),
                format!("at most {MAX_ENV_VARS} variables and {MAX_ENV_BYTES} bytes in all"),
            ));
        }
    }

    fn validate_egress(&self, base: &str, errors: &mut Vec<FieldError>) {
        if self.egress.allow.len() > MAX_EGRESS_RULES {
            errors.push(FieldError::new(format!("{base}/egress/allow"), format!("at most {MAX_EGRESS_RULES} entries")));
        }
        for (index, rule) in self.egress.allow.iter().enumerate() {
            if let Err(error) = rule.parse::<crate::function::EgressRule>() {
                errors.push(FieldError::new(format!("{base}/egress/allow/{index}"), error));
            }
        }
    }

    /// Whether the two differ in what has to be built, not only in settings.
    pub fn same_code(&self, other: &Self) -> bool {
        self.runtime == other.runtime && self.entrypoint == other.entrypoint && self.sha256 == other.sha256
    }
}

/// Escapes a key for a JSON Pointer (RFC 6901, section 3).
pub fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with("SLESS_")
}

/// One entry of an egress list, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRule {
    /// What it allows.
    pub target: EgressTarget,
    /// The only port; any when absent.
    pub port: Option<u16>,
}

/// What an egress rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressTarget {
    /// `*`: every public address.
    Public,
    /// A host by its name, lower-case, without a trailing dot.
    Host(String),
    /// A network; a lone address is a network of one.
    Network(ipnet::IpNet),
}

impl FromStr for EgressRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let say = || format!("`{text}` is none of host, host:port, address, network/prefix, [address6]:port, *");
        if let Ok(target) = parse_network(text) {
            return Ok(Self { target, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(say)?)),
            None => (text, None),
        };
        if host == "*" {
            return Ok(Self { target: EgressTarget::Public, port });
        }
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if let Ok(target) = parse_network(bare) {
            return Ok(Self { target, port });
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let label = |l: &str| {
            !l.is_empty() && l.len() <= 63 && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        // A last label of digits would be read as an address by others (RFC 3696, section 2).
        let numeric = name.rsplit('.').next().is_some_and(|l| l.bytes().all(|b| b.is_ascii_digit()));
        if name.len() > 253 || numeric || !name.split('.').all(label) {
            return Err(say());
        }
        Ok(Self { target: EgressTarget::Host(name), port })
    }
}

fn parse_network(text: &str) -> Result<EgressTarget, ()> {
    if let Ok(network) = text.parse::<ipnet::IpNet>() {
        return Ok(EgressTarget::Network(network));
    }
    text.parse::<std::net::IpAddr>().map(|a| EgressTarget::Network(a.into())).map_err(|_| ())
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
    fn each_wrong_field_is_named() {
        let mut spec = FunctionSpec::new(Runtime::Wasm);
        spec.memory_mb = 0;
        spec.timeout_seconds = 901;
        spec.limits.rate_per_second = Some(0);
        spec.env.insert("1A".into(), "x".into());
        spec.env.insert("BOTH".into(), "x".into());
        spec.secret_refs.insert("BOTH".into(), "token".parse().unwrap());
        spec.egress.allow = vec!["example.org:443".into(), "http://x/".into()];
        let pointers: Vec<_> = spec.validate("/spec").into_iter().map(|e| e.pointer).collect();
        assert_eq!(
            pointers,
            [
                "/spec/memoryMb",
                "/spec/timeoutSeconds",
                "/spec/limits/ratePerSecond",
                "/spec/env/1A",
                "/spec/secretRefs/BOTH",
                "/spec/egress/allow/1"
            ]
        );
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        let error = serde_json::from_str::<FunctionSpec>(r#"{"runtime":"wasm","memoryMB":1}"#).unwrap_err();
        assert!(error.to_string().contains("memoryMB"), "{error}");
    }

    #[test]
    fn egress_rules_parse() {
        let host = |h: &str| EgressTarget::Host(h.into());
        let net = |n: &str| EgressTarget::Network(n.parse().unwrap());
        for (text, target, port) in [
            ("Example.ORG.", host("example.org"), None),
            ("example.org:443", host("example.org"), Some(443)),
            ("10.1.2.3", net("10.1.2.3/32"), None),
            ("10.0.0.0/8:80", net("10.0.0.0/8"), Some(80)),
            ("::1", net("::1/128"), None),
            ("[::1]:80", net("::1/128"), Some(80)),
            ("*:443", EgressTarget::Public, Some(443)),
        ] {
            assert_eq!(text.parse(), Ok(EgressRule { target, port }), "{text}");
        }
        for bad in ["", "a..b", "x:0", "x:99999", "http://x", "a b", "127.1", "2130706433"] {
            assert!(bad.parse::<EgressRule>().is_err(), "{bad}");
        }
    }
}
