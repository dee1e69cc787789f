//! Compiled artifacts and the signature without which no host maps one.
//!
//! An artifact is native code: loading a forged one is running it. So the platform signs (ed25519, RFC 8032) what the
//! builder made, together with what it was made from and for whom, and the host verifies its own private copy first.

use std::fmt;

use ed25519_dalek::{Signer, SigningKey, Verifier, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::names::FunctionKey;

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
}

impl ArtifactRef {
    /// Checks the signature for a function.
    pub fn verify(&self, function: &FunctionKey, key: &PublicKey) -> Result<(), InvalidSignature> {
        let statement = Statement { artifact: self.digest, wasm: self.wasm, engine: self.engine, function };
        let signature = ed25519_dalek::Signature::from_bytes(&self.signature.0);
        key.0.verify(&statement.to_bytes(), &signature).map_err(|_| InvalidSignature)
    }
}

/// The artifact's signature is not the platform's.
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
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

/// The platform's public key, as hosts have it; 64 hex digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

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
        let good = ArtifactRef { digest: artifact, size_bytes: 1, wasm, engine, signature };
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
}
