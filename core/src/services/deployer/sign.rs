//! Signing: what the platform vouches for, of what was built.

use super::Deps;
use crate::artifact::{ArtifactRef, ModuleRef, ModuleStatement, Statement};
use crate::names::FunctionKey;
use crate::ports::{Built, BuiltModule};

impl Deps {
    /// Signs what was built for a function, and the modules that it is over.
    pub(super) fn sign(&self, function: &FunctionKey, built: Built) -> ArtifactRef {
        let Built { artifact, size_bytes, wasm, engine, modules, .. } = built;
        let modules = modules.into_iter().map(|module| {
            let BuiltModule { artifact, size_bytes, wasm } = module;
            let signature = self.signing_key.sign_module(&ModuleStatement { artifact, wasm, engine });
            ModuleRef { digest: artifact, size_bytes, wasm, engine, signature }
        });
        let modules = modules.collect();
        let signature = self.signing_key.sign(&Statement { artifact, wasm, engine, function });
        ArtifactRef { digest: artifact, size_bytes, wasm, engine, signature, modules }
    }

    /// Signs for a function what was built before, perhaps for another one.
    pub(super) fn signed_anew(&self, function: &FunctionKey, artifact: ArtifactRef) -> ArtifactRef {
        let ArtifactRef { digest, wasm, engine, .. } = artifact;
        let signature = self.signing_key.sign(&Statement { artifact: digest, wasm, engine, function });
        ArtifactRef { signature, ..artifact }
    }
}
