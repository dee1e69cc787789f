//! The functions that a stand-alone host serves, as a JSON file says.
//!
//! ```json
//! { "namespace": "sless-cdd874dfa31ba6ca", "publicKey": "64 hex digits", "functions": [
//!     { "name": "hello", "uid": "0199e325-1cdf-7cda-9319-e5302a85e291", "version": 1, "spec": { "runtime": "wasm" },
//!       "env": { "GREETING": "hi" }, "artifact": { "digest": "…", "sizeBytes": 1, "wasm": "…", "engine": "…", "signature": "…" } } ] }
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use sless_core::artifact::PublicKey;
use sless_core::function::FunctionSpec;
use sless_core::version::Revision;
use sless_core::{ArtifactRef, FunctionKey, FunctionName, Namespace, VersionNumber};
use uuid::Uuid;

/// The largest manifest: 10,000 functions with 1 KiB each, and room for environments.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file.
    #[error("read the manifest {path}")]
    Read {
        /// Which.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Its text.
    #[error("the manifest {path} is not valid: {source}")]
    Parse {
        /// Which.
        path: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A field.
    #[error("the manifest's {field}: {reason}")]
    Field {
        /// Which, as a JSON Pointer.
        field: String,
        /// What is wrong and what would be right.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    namespace: Namespace,
    public_key: String,
    functions: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: FunctionName,
    uid: Uuid,
    version: VersionNumber,
    spec: FunctionSpec,
    #[serde(default)]
    env: BTreeMap<String, String>,
    artifact: ArtifactRef,
}

/// Functions of one namespace, and the key that signed their artifacts.
#[derive(Debug)]
pub struct Manifest {
    /// The platform's key.
    pub public_key: PublicKey,
    /// What to serve.
    pub revisions: Vec<Arc<Revision>>,
}

impl Manifest {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When it can't be read, or a field is not right; the error names it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let read = |source| Error::Read { path: name.clone(), source };
        if std::fs::metadata(path).map_err(read)?.len() > MAX_MANIFEST_BYTES {
            let reason = format!("at most {MAX_MANIFEST_BYTES} bytes");
            return Err(Error::Field { field: "size".to_owned(), reason });
        }
        let text = std::fs::read(path).map_err(read)?;
        Self::parse(&text).map_err(|error| match error {
            Error::Parse { source, .. } => Error::Parse { path: name, source },
            other => other,
        })
    }

    fn parse(text: &[u8]) -> Result<Self, Error> {
        let file: File = serde_json::from_slice(text).map_err(|source| Error::Parse { path: String::new(), source })?;
        let public_key =
            file.public_key.parse().map_err(|reason| Error::Field { field: "/publicKey".to_owned(), reason })?;
        let mut revisions = Vec::with_capacity(file.functions.len());
        for (index, entry) in file.functions.into_iter().enumerate() {
            let base = format!("/functions/{index}");
            if let Some(error) = entry.spec.validate(&format!("{base}/spec")).into_iter().next() {
                return Err(Error::Field { field: error.pointer, reason: error.detail });
            }
            if !entry.spec.runtime.is_wasm() {
                let reason = format!("a host does not serve containers, which {} is", entry.spec.runtime);
                return Err(Error::Field { field: format!("{base}/spec/runtime"), reason });
            }
            revisions.push(Arc::new(Revision {
                function: FunctionKey::new(file.namespace, entry.name),
                uid: entry.uid,
                version: entry.version,
                env: entry.spec.env.iter().map(|(k, v)| (k.clone(), v.clone())).chain(entry.env).collect(),
                spec: entry.spec,
                artifact: Some(entry.artifact),
                image: None,
            }));
        }
        Ok(Self { public_key, revisions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_field_is_named() {
        let key = sless_core::artifact::PrivateKey::from_bytes(&[7; 32]).public();
        let text = |key: &str, memory: u32| {
            let hex = "00".repeat(32);
            let artifact = format!(
                r#"{{"digest":"{hex}","sizeBytes":1,"wasm":"{hex}","engine":"{hex}","signature":"{hex}{hex}"}}"#
            );
            format!(
                r#"{{"namespace":"sless-cdd874dfa31ba6ca","publicKey":"{key}","functions":[{{"name":"hello",
                "uid":"0199e325-1cdf-7cda-9319-e5302a85e291","version":1,
                "spec":{{"runtime":"wasm","memoryMb":{memory}}},"env":{{"A":"b"}},"artifact":{artifact}}}]}}"#
            )
        };
        let good = Manifest::parse(text(&key.to_string(), 64).as_bytes()).unwrap();
        assert_eq!(good.revisions[0].env, [("A".to_owned(), "b".to_owned())]);
        let error = |text: String| Manifest::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error(text("xyz", 64)).contains("/publicKey"));
        assert!(error(text(&key.to_string(), 0)).contains("/functions/0/spec/memoryMb"));
        assert!(error("{".to_owned()).contains("line 1"));
    }
}
