//! Compiled artifacts and the signature without which no host maps one.
//!
//! An artifact is native code: loading a forged one is running it. So the platform signs (ed25519, RFC 8032) what the
//! builder made, together with what it was made from and for whom, and the host verifies its own private copy first.
//!
//! The engine of a language is the platform's own code and the same for all functions, so it is compiled once, into modules
//! that functions' components import ([`MODULE_IMPORT_PREFIX`]). These are signed for no function, under a domain of their
//! own: nothing that was made for a tenant can pass for one.

use std::fmt;

use ed25519_dalek::{Signer, SigningKey, Verifier, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::names::FunctionKey;

/// How a component names an engine's module that it imports: this, then the SHA-256 of the module in hexadecimal.
pub const MODULE_IMPORT_PREFIX: &str = "sless-engine-x";

/// What is signed. All fields are fixed by the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Digest of the compiled bytes.
    pub artifact: Digest,
    /// Digest of the component that was compiled.
    pub wasm: Digest,
    /// Digest of the engine it was compiled for.
    pub engine: Digest,
    /// Whose function may run it.
    pub function: &'a FunctionKey,
}

impl Statement<'_> {
    /// The signed bytes: a domain, then fixed-length fields, then the key with its length, so that no two statements
    /// share their bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let key = self.function.to_string();
        let mut bytes = Vec::with_capacity(160 + key.len());
        bytes.extend_from_slice(b"sless artifact v1\0");
        for digest in [&self.artifact, &self.wasm, &self.engine] {
            bytes.extend_from_slice(digest.as_bytes());
        }
        bytes.extend_from_slice(&(key.len() as u64).to_be_bytes());
        bytes.extend_from_slice(key.as_bytes());
        bytes
    }
}

/// What is signed of an engine's module: it is the platform's, for all functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleStatement {
    /// Digest of the compiled bytes.
    pub artifact: Digest,
    /// Digest of the module that was compiled, by which components import it.
    pub wasm: Digest,
    /// Digest of the engine it was compiled for.
    pub engine: Digest,
}

impl ModuleStatement {
    /// The signed bytes: another domain than an artifact's, and fixed-length fields.
    fn to_bytes(&self) -> Vec<u8> {
        let digests = [&self.artifact, &self.wasm, &self.engine].map(|digest| digest.as_bytes().as_slice());
        [b"sless engine module v1\0", digests.concat().as_slice()].concat()
    }
}

/// An ed25519 signature, shown as 128 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Signature([u8; 64]);

impl TryFrom<String> for Signature {
    type Error = hex::FromHexError;
    fn try_from(text: String) -> Result<Self, hex::FromHexError> {
        let mut bytes = [0; 64];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

impl From<Signature> for String {
    fn from(signature: Signature) -> String {
        hex::encode(signature.0)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl utoipa::PartialSchema for Signature {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("ed25519 signature as 128 hex digits"))
            .into()
    }
}
impl utoipa::ToSchema for Signature {}

/// An artifact of a version: where it is and why a host may trust it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactRef {
    /// SHA-256 of the compiled bytes; its key in the object store is `artifacts/{digest}`.
    pub digest: Digest,
    /// Size of the compiled bytes.
    pub size_bytes: u64,
    /// The component that was compiled.
    pub wasm: Digest,
    /// The engine it was compiled for.
    pub engine: Digest,
    /// The platform's signature.
    pub signature: Signature,
    /// Modules of a language's engine that it imports; none where the component brings all of its code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleRef>,
}

/// A module of a language's engine, shared by all functions in that language: where it is and why a host may trust it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleRef {
    /// SHA-256 of the compiled bytes; its key in the object store is `artifacts/{digest}`.
    pub digest: Digest,
    /// Size of the compiled bytes.
    pub size_bytes: u64,
    /// The module that was compiled; components import it by this digest.
    pub wasm: Digest,
    /// The engine it was compiled for.
    pub engine: Digest,
    /// The platform's signature.
    pub signature: Signature,
}

impl ModuleRef {
    /// Checks the signature.
    pub fn verify(&self, key: &PublicKey) -> Result<(), InvalidSignature> {
        let statement = ModuleStatement { artifact: self.digest, wasm: self.wasm, engine: self.engine };
        key.verify(&statement.to_bytes(), &self.signature)
    }

    /// The name that components import it by.
    pub fn import(&self) -> String {
        format!("{MODULE_IMPORT_PREFIX}{}", self.wasm)
    }
}

impl ArtifactRef {
    /// Checks the signature for a function.
    pub fn verify(&self, function: &FunctionKey, key: &PublicKey) -> Result<(), InvalidSignature> {
        let statement = Statement { artifact: self.digest, wasm: self.wasm, engine: self.engine, function };
        key.verify(&statement.to_bytes(), &self.signature)
    }
}

/// A signature is not the platform's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the artifact's signature is not valid for this function and engine")]
pub struct InvalidSignature;

/// The platform's private key.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// From the 32 secret bytes (RFC 8032, section 5.1.5).
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// The key that verifies.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a statement.
    pub fn sign(&self, statement: &Statement<'_>) -> Signature {
        Signature(self.0.sign(&statement.to_bytes()).to_bytes())
    }

    /// Signs a statement of an engine's module.
    pub fn sign_module(&self, statement: &ModuleStatement) -> Signature {
        Signature(self.0.sign(&statement.to_bytes()).to_bytes())
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

/// The platform's public key, as hosts have it; 64 hex digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), InvalidSignature> {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.0.verify(message, &signature).map_err(|_| InvalidSignature)
    }
}

impl std::str::FromStr for PublicKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| "a public key is 64 hex digits".to_owned())?;
        VerifyingKey::from_bytes(&bytes).map(Self).map_err(|_| "not an ed25519 public key".to_owned())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_statement_only() {
        let key = PrivateKey::from_bytes(&[7; 32]);
        let tenant = crate::Tenant::from_subject("a").namespace();
        let function = FunctionKey::new(tenant, "hello".parse().unwrap());
        let (artifact, wasm, engine) = (Digest::of(b"a"), Digest::of(b"w"), Digest::of(b"e"));
        let signature = key.sign(&Statement { artifact, wasm, engine, function: &function });
        let good = ArtifactRef { digest: artifact, size_bytes: 1, wasm, engine, signature, modules: Vec::new() };
        assert_eq!(good.verify(&function, &key.public()), Ok(()));
        assert_eq!(key.public().to_string().parse(), Ok(key.public()));

        let other = FunctionKey::new(tenant, "hello2".parse().unwrap());
        let stranger = FunctionKey::new(crate::Tenant::from_subject("b").namespace(), "hello".parse().unwrap());
        assert_eq!(good.verify(&other, &key.public()), Err(InvalidSignature));
        assert_eq!(good.verify(&stranger, &key.public()), Err(InvalidSignature));
        assert_eq!(good.verify(&function, &PrivateKey::from_bytes(&[8; 32]).public()), Err(InvalidSignature));
        for bad in [
            ArtifactRef { digest: wasm, ..good.clone() },
            ArtifactRef { wasm: engine, ..good.clone() },
            ArtifactRef { engine: wasm, ..good.clone() },
        ] {
            assert_eq!(bad.verify(&function, &key.public()), Err(InvalidSignature));
        }
    }

    #[test]
    fn a_function_can_not_pass_for_an_engines_module_nor_a_module_for_a_function() {
        let key = PrivateKey::from_bytes(&[7; 32]);
        let function = FunctionKey::new(crate::Tenant::from_subject("a").namespace(), "hello".parse().unwrap());
        let (artifact, wasm, engine) = (Digest::of(b"a"), Digest::of(b"w"), Digest::of(b"e"));
        let of_function = key.sign(&Statement { artifact, wasm, engine, function: &function });
        let of_module = key.sign_module(&ModuleStatement { artifact, wasm, engine });

        let module = ModuleRef { digest: artifact, size_bytes: 1, wasm, engine, signature: of_module };
        assert_eq!(module.verify(&key.public()), Ok(()));
        assert_eq!(module.import(), format!("sless-engine-x{wasm}"));
        for bad in [
            ModuleRef { signature: of_function, ..module.clone() },
            ModuleRef { digest: wasm, ..module.clone() },
            ModuleRef { wasm: engine, ..module.clone() },
            ModuleRef { engine: wasm, ..module.clone() },
        ] {
            assert_eq!(bad.verify(&key.public()), Err(InvalidSignature));
        }
        let reference =
            ArtifactRef { digest: artifact, size_bytes: 1, wasm, engine, signature: of_module, modules: vec![module] };
        assert_eq!(reference.verify(&function, &key.public()), Err(InvalidSignature));
    }

    #[test]
    fn an_artifact_without_modules_reads_and_writes_as_before() {
        let hex = "00".repeat(32);
        let text =
            format!(r#"{{"digest":"{hex}","sizeBytes":1,"wasm":"{hex}","engine":"{hex}","signature":"{hex}{hex}"}}"#);
        let artifact: ArtifactRef = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&artifact).unwrap(), text);
    }
}
