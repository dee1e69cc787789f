//! `sless.toml`: a function described beside its source. Its keys are spelt as in the API.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sless_core::Runtime;
use sless_core::function::{CallLimits, Egress, FunctionSpec};
use sless_core::names::{FunctionName, SecretName, TriggerName};
use sless_core::trigger::HttpTrigger;
use utoipa::{PartialSchema, ToSchema};

/// The file's name.
pub const FILE_NAME: &str = "sless.toml";
/// The largest file: environments are bounded to 64 KiB in all.
pub const MAX_BYTES: u64 = 256 << 10;

/// A function as its owner describes it. What is absent has the API's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// The function's name; the folder's by default.
    pub name: Option<FunctionName>,
    /// What runs it; `wasm` by default.
    pub runtime: Option<Runtime>,
    /// `file.export` of the handler, for functions made from source.
    pub entrypoint: Option<String>,
    /// The command that builds what is deployed. `sless deploy` of the folder runs it there, in a shell.
    pub build: Option<String>,
    /// The built component, relative to this file.
    #[schema(value_type = Option<String>)]
    pub component: Option<PathBuf>,
    /// Memory of an instance in MiB, 1 to 2048.
    pub memory_mb: Option<u32>,
    /// Wall clock of a call in seconds, 1 to 900.
    pub timeout_seconds: Option<u32>,
    /// Calls at once, 1 to 10,000.
    pub concurrency: Option<u32>,
    /// Whether an instance may serve one call after another.
    pub reuse: Option<bool>,
    /// What a call may use beyond memory and time.
    pub limits: Option<CallLimits>,
    /// Environment variables.
    pub env: Option<BTreeMap<String, String>>,
    /// Environment variables whose values are secrets: variable → name of the secret.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub secret_refs: Option<BTreeMap<String, SecretName>>,
    /// Where it may connect to.
    pub egress: Option<Egress>,
    /// What makes it run. Absent: an http trigger of the function's name. Empty: nothing.
    pub triggers: Option<Vec<ManifestTrigger>>,
}

/// What makes a function run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestTrigger {
    /// The trigger's name; the function's by default.
    pub name: Option<TriggerName>,
    /// Runs on HTTP calls at `/fn/{namespace}/{function}/`.
    pub http: HttpTrigger,
}

/// Reads a manifest; an error has the line and what would be right.
pub fn parse(text: &str) -> Result<Manifest, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

impl Manifest {
    /// The settings that it describes, whole: what it does not say has its default.
    pub fn spec(&self) -> FunctionSpec {
        let default = FunctionSpec::new(self.runtime.unwrap_or(Runtime::Wasm));
        FunctionSpec {
            entrypoint: self.entrypoint.clone(),
            memory_mb: self.memory_mb.unwrap_or(default.memory_mb),
            timeout_seconds: self.timeout_seconds.unwrap_or(default.timeout_seconds),
            concurrency: self.concurrency.unwrap_or(default.concurrency),
            reuse: self.reuse.unwrap_or(default.reuse),
            limits: self.limits.clone().unwrap_or_default(),
            env: self.env.clone().unwrap_or_default(),
            secret_refs: self.secret_refs.clone().unwrap_or_default(),
            egress: self.egress.clone().unwrap_or_default(),
            ..default
        }
    }
}

/// The JSON schema (2020-12) of `sless.toml`, for editors; `docs/sless.schema.json`.
pub fn schema() -> String {
    let mut parts = Vec::new();
    Manifest::schemas(&mut parts);
    let definitions: BTreeMap<_, _> = parts.into_iter().collect();
    let mut root = serde_json::to_value(Manifest::schema()).expect("a schema is JSON");
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = FILE_NAME.into();
    root["$defs"] = serde_json::to_value(definitions).expect("a schema is JSON");
    relink(&mut root);
    format!("{root:#}\n")
}

/// References are made for an OpenAPI document; here the definitions stand in the schema itself.
fn relink(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            if let Some(serde_json::Value::String(link)) = members.get_mut("$ref") {
                *link = link.replace("#/components/schemas/", "#/$defs/");
            }
            members.values_mut().for_each(relink);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(relink),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
name = "hello"
runtime = "wasm"
build = "cargo build --release --target wasm32-wasip2"
component = "target/wasm32-wasip2/release/hello.wasm"
memoryMb = 64
timeoutSeconds = 5
concurrency = 10
reuse = true

[limits]
cpuMs = 500
ratePerSecond = 100

[env]
GREETING = "hi"

[secretRefs]
API_KEY = "api-key"

[egress]
allow = ["example.org:443"]

[[triggers]]
http = { auth = "none" }
"#;

    #[test]
    fn every_key_reaches_the_spec() {
        let manifest = parse(WHOLE).unwrap();
        let spec = manifest.spec();
        assert_eq!(spec.validate("/spec"), []);
        assert_eq!((spec.memory_mb, spec.timeout_seconds, spec.concurrency, spec.reuse), (64, 5, 10, true));
        assert_eq!((spec.limits.cpu_ms, spec.limits.rate_per_second), (500, Some(100)));
        assert_eq!(spec.limits.log_bytes, CallLimits::default().log_bytes, "absent limits keep their defaults");
        assert_eq!(spec.env["GREETING"], "hi");
        assert_eq!(spec.secret_refs["API_KEY"].as_str(), "api-key");
        assert_eq!(spec.egress.allow, ["example.org:443"]);
        assert_eq!(manifest.triggers.unwrap().len(), 1);
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        assert_eq!(parse("").unwrap().spec(), FunctionSpec::new(Runtime::Wasm));
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        for (text, line, what) in [
            ("name = \"a\"\nmemory = 1\n", "line 2", "unknown field `memory`"),
            ("[limits]\ncpu = 1\n", "line 2", "unknown field `cpu`"),
            ("[[triggers]]\nhttp = {}\ncron = 1\n", "line 3", "unknown field `cron`"),
            ("\nname = \"A_b\"\n", "line 2", "is not a valid name"),
            ("memoryMb = \"big\"\n", "line 1", "invalid type"),
            ("runtime = \"perl\"\n", "line 1", "wasm-python"),
            ("name = \n", "line 1", ""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(line) && error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn the_schema_knows_every_key_and_no_other() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        let whole: toml::Table = WHOLE.parse().unwrap();
        for key in whole.keys() {
            assert!(schema["properties"].get(key).is_some(), "{key}");
        }
        // Every reference leads somewhere.
        let text = schema.to_string();
        for link in text.split("\"#/$defs/").skip(1) {
            let name = link.split('"').next().unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{name}");
        }
        assert!(!text.contains("#/components/"));
    }
}
