//! The component, compiled and signed for whoever serves it without a platform around.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use sless_builder::cache::Packs;
use sless_core::artifact::{PrivateKey, PublicKey, Statement};
use sless_core::version::Revision;
use sless_core::{ArtifactRef, Digest, FunctionKey, FunctionSpec, Runtime, Tenant, VersionNumber};

use crate::Args;
use crate::servers::FUNCTION;

/// A compiled component and the revision that it is of.
pub(crate) struct Signed {
    /// The compiled bytes.
    pub bytes: Vec<u8>,
    /// Where they are to be looked up.
    pub digest: Digest,
    /// The function.
    pub revision: Arc<Revision>,
    /// Verifies the signature.
    pub key: PublicKey,
}

/// Compiles and signs, as `Builds` and the deployer do.
pub(crate) fn signed(args: &Args) -> Result<Signed> {
    let wasm = std::fs::read(&args.component).with_context(|| format!("read {}", args.component.display()))?;
    let engine = sless_builder::engine();
    let compiled = sless_builder::compile(&wasm, &Packs::new(Vec::new(), None, &engine))?;
    let key = PrivateKey::from_bytes(&[7; 32]);
    let function = FunctionKey::new(Tenant::from_subject("bench").namespace(), FUNCTION.parse()?);
    let (digest, wasm) = (compiled.digest, Digest::of(&wasm));
    let signature = key.sign(&Statement { artifact: digest, wasm, engine, function: &function });
    let size_bytes = compiled.artifact.len() as u64;
    let revision = Revision {
        function,
        uid: uuid::Uuid::now_v7(),
        version: VersionNumber(1),
        // As many calls at once as there are connections, and some.
        spec: FunctionSpec { concurrency: 1000, ..FunctionSpec::new(Runtime::Wasm) },
        env: Vec::new(),
        artifact: Some(ArtifactRef { digest, size_bytes, wasm, engine, signature, modules: Vec::new() }),
        image: None,
    };
    Ok(Signed { bytes: compiled.artifact, digest, revision: Arc::new(revision), key: key.public() })
}
