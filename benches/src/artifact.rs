//! The component, compiled and signed for whoever serves it without a platform around.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use sless_builder::cache::Packs;
use sless_builder::js::{Engine, Limits, Prepared, Source};
use sless_builder::python;
use sless_core::artifact::{ModuleRef, ModuleStatement, PrivateKey, PublicKey, Statement};
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
    /// The compiled modules that it imports.
    pub modules: Vec<Vec<u8>>,
    /// The function.
    pub revision: Arc<Revision>,
    /// Verifies the signature.
    pub key: PublicKey,
}

/// Compiles and signs, as `Builds` and the deployer do.
pub(crate) fn signed(args: &Args) -> Result<Signed> {
    let wasm = std::fs::read(&args.component).with_context(|| format!("read {}", args.component.display()))?;
    sign(&wasm, Runtime::Wasm, &[])
}

/// A JavaScript function over its engine, which is prepared here.
pub(crate) fn signed_javascript(args: &Args, text: &str) -> Result<Signed> {
    let engine = engine_component(args, "wasm-js")?;
    let packs = Packs::new(Vec::new(), None, &sless_builder::engine());
    let prepared = Prepared::make(&engine, &packs)?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let builder = folder.path().join("builder");
    std::fs::write(&builder, &prepared.builder).context("write the prepared engine")?;
    // SAFETY: as `make` gave it, a moment ago, in a folder of our own.
    #[expect(unsafe_code, reason = "made by this program")]
    let engine = unsafe { Engine::load(&prepared.base, &builder, Limits::default()) }?;
    let source = Source {
        name: "handler.js".to_owned(),
        text: text.to_owned(),
        source_map: None,
        handler: "handler".to_owned(),
        evaluate: true,
    };
    let built = engine.build(&source)?;
    sign(&built.component, Runtime::WasmJs, &[(prepared.digest(), prepared.artifact.clone())])
}

/// A Python function over its engine, which is prepared here: half a minute.
pub(crate) fn signed_python(args: &Args, text: &str) -> Result<Signed> {
    let engine = engine_component(args, "wasm-python")?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let prepared = python::prepare(&engine, folder.path())?;
    let source = python::Source {
        files: vec![python::File { path: "handler.py".to_owned(), content: text.as_bytes().to_vec() }],
        packages: Vec::new(),
        entrypoint: "handler.handler".to_owned(),
        evaluate: true,
    };
    let built = python::open(folder.path())?.build(source)?;
    let modules = prepared.into_iter().map(|module| {
        let code =
            std::fs::read(folder.path().join(module.artifact.to_string())).context("read a module of the engine")?;
        Ok((module.wasm, code))
    });
    sign(&built.component, Runtime::WasmPython, &modules.collect::<Result<Vec<_>>>()?)
}

fn engine_component(args: &Args, runtime: &str) -> Result<Vec<u8>> {
    let path = args.binaries.join(format!("engines/{runtime}.wasm"));
    std::fs::read(&path)
        .with_context(|| format!("read {}; `cargo xtask engines --profile …` puts it there", path.display()))
}

fn sign(wasm: &[u8], runtime: Runtime, modules: &[(Digest, Vec<u8>)]) -> Result<Signed> {
    let engine = sless_builder::engine();
    let compiled = sless_builder::compile(wasm, &Packs::new(Vec::new(), None, &engine))?;
    let key = PrivateKey::from_bytes(&[7; 32]);
    let function = FunctionKey::new(Tenant::from_subject("bench").namespace(), FUNCTION.parse()?);
    let (digest, wasm) = (compiled.digest, Digest::of(wasm));
    let signature = key.sign(&Statement { artifact: digest, wasm, engine, function: &function });
    let size_bytes = compiled.artifact.len() as u64;
    let references = modules.iter().map(|(wasm, code)| {
        let (digest, wasm) = (Digest::of(code), *wasm);
        let signature = key.sign_module(&ModuleStatement { artifact: digest, wasm, engine });
        ModuleRef { digest, size_bytes: code.len() as u64, wasm, engine, signature }
    });
    let references = references.collect();
    let revision = Revision {
        function,
        uid: uuid::Uuid::now_v7(),
        version: VersionNumber(1),
        // As many calls at once as there are connections, and some.
        spec: FunctionSpec { concurrency: 1000, ..FunctionSpec::new(runtime) },
        env: Vec::new(),
        artifact: Some(ArtifactRef { digest, size_bytes, wasm, engine, signature, modules: references }),
        image: None,
    };
    let modules = modules.iter().map(|(_, code)| code.clone()).collect();
    Ok(Signed { bytes: compiled.artifact, digest, modules, revision: Arc::new(revision), key: key.public() })
}
