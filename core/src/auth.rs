//! Who calls: bearer tokens (RFC 6750) that are JSON Web Tokens (RFC 7519).
//!
//! A [`Verifier`] turns an `Authorization` header into a [`Caller`] or says why not. It trusts nothing of a token before
//! its signature holds, and takes the algorithm from its own configuration and keys, never from the token alone. It does
//! no I/O: whoever owns the JWKS document fetches it and hands it in with [`Verifier::replace_jwks`].

mod error;
mod jwks;
#[cfg(test)]
mod tests;
mod token;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, DecodingKey};
use subtle::ConstantTimeEq;

use crate::Timestamp;
use crate::digest::Digest;
use crate::tenant::{Namespace, Tenant};

pub use error::{AuthError, ConfigError, Part, SignError};
pub use jwks::MAX_JWKS_BYTES;
pub use token::{MAX_LIFETIME, sign, unverified_subject};

use jwks::Key;
use token::{Claims, Token};

/// The longest token. Identity providers stay below 4 KiB; servers refuse headers from 8 KiB on.
pub const MAX_TOKEN_BYTES: usize = 8 << 10;
/// The longest `sub`: what identity providers give out is a UUID, an e-mail address or a URL.
pub const MAX_SUBJECT_BYTES: usize = 256;
/// How far the clocks of issuer and platform may differ, in seconds.
pub const LEEWAY_SECONDS: u32 = 60;
/// The shortest secret for HS256: as long as the hash (RFC 7518, section 3.2).
pub const MIN_SECRET_BYTES: usize = 32;

/// How signatures are verified.
#[derive(Clone)]
pub enum Mode {
    /// Not at all: whatever stands before the platform did it. Claims are read as they are.
    Off,
    /// HS256 with this secret.
    Secret(String),
    /// RS256, ES256 or EdDSA with the keys of this JWKS document (RFC 7517).
    Jwks(String),
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::Secret(_) => "Secret(…)",
            Self::Jwks(_) => "Jwks(…)",
        })
    }
}

/// What a [`Verifier`] is made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// How signatures are verified.
    pub mode: Mode,
    /// The `iss` that tokens must have, if any.
    pub issuer: Option<String>,
    /// What the `aud` of tokens must hold, if anything.
    pub audience: Option<String>,
    /// Verified subjects of service tokens. Without effect in [`Mode::Off`], where a subject proves nothing.
    pub service_subjects: Vec<String>,
    /// SHA-256 of service tokens, for [`Mode::Off`] only.
    pub service_tokens: Vec<Digest>,
}

impl Config {
    /// Only a mode; nothing else is asked of tokens.
    pub fn new(mode: Mode) -> Self {
        Self { mode, issuer: None, audience: None, service_subjects: Vec::new(), service_tokens: Vec::new() }
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The token's `sub`.
    pub subject: Arc<str>,
    /// The tenant that it is.
    pub tenant: Tenant,
    /// Whether it is one of the platform's services, such as the console: it may read any namespace and change none.
    pub service: bool,
}

impl Caller {
    /// Whether it may read what is in a namespace.
    pub fn may_read(&self, namespace: Namespace) -> bool {
        self.service || self.tenant == namespace.tenant()
    }

    /// Whether it may change what is in a namespace.
    pub fn may_write(&self, namespace: Namespace) -> bool {
        !self.service && self.tenant == namespace.tenant()
    }
}

enum Keys {
    Off,
    Secret(DecodingKey),
    Jwks(ArcSwap<Vec<Key>>),
}

/// Checks tokens. Shared between tasks; [`Verifier::replace_jwks`] works on a shared one.
pub struct Verifier {
    keys: Keys,
    issuer: Option<String>,
    audience: Option<String>,
    service_subjects: Vec<String>,
    service_tokens: Vec<Digest>,
}

impl Verifier {
    /// A verifier; an error names what in the configuration is not usable.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let keys = match &config.mode {
            Mode::Off => Keys::Off,
            Mode::Secret(secret) => {
                token::check_secret(secret)?;
                Keys::Secret(DecodingKey::from_secret(secret.as_bytes()).map_err(|_| ConfigError::ShortSecret)?)
            }
            Mode::Jwks(document) => Keys::Jwks(ArcSwap::from_pointee(jwks::parse(document)?)),
        };
        let Config { mode: _, issuer, audience, service_subjects, service_tokens } = config;
        Ok(Self { keys, issuer, audience, service_subjects, service_tokens })
    }

    /// Replaces the keys by those of a newer JWKS document and answers how many it has. A document that can't be used
    /// leaves the old keys in place. In other modes there is nothing to replace: 0.
    pub fn replace_jwks(&self, document: &str) -> Result<usize, ConfigError> {
        let keys = jwks::parse(document)?;
        let count = keys.len();
        match &self.keys {
            Keys::Jwks(slot) => {
                slot.store(Arc::new(keys));
                Ok(count)
            }
            Keys::Off | Keys::Secret(_) => Ok(0),
        }
    }

    /// Who calls with this `Authorization` header at this instant.
    pub fn verify(&self, authorization: Option<&str>, now: Timestamp) -> Result<Caller, AuthError> {
        let encoded = token::from_header(authorization)?;
        let token = Token::parse(encoded)?;
        self.verify_signature(&token)?;
        let claims = Claims::read(&token, now)?;
        self.verify_recipient(&claims)?;
        Ok(Caller {
            tenant: Tenant::from_subject(&claims.subject),
            service: self.is_service(encoded, &claims.subject),
            subject: claims.subject.into(),
        })
    }

    fn verify_signature(&self, token: &Token<'_>) -> Result<(), AuthError> {
        match &self.keys {
            Keys::Off => Ok(()),
            Keys::Secret(key) => match token.algorithm() {
                Some("HS256") => check_signature(Algorithm::HS256, key, token),
                _ => Err(AuthError::AlgorithmRefused),
            },
            Keys::Jwks(keys) => {
                let keys = keys.load();
                let key = jwks::choose(&keys, token)?;
                check_signature(key.algorithm, &key.key, token)
            }
        }
    }

    fn verify_recipient(&self, claims: &Claims) -> Result<(), AuthError> {
        if self.issuer.is_some() && claims.issuer != self.issuer {
            return Err(AuthError::WrongIssuer);
        }
        match &self.audience {
            Some(audience) if !claims.audience.contains(audience) => Err(AuthError::WrongAudience),
            _ => Ok(()),
        }
    }

    fn is_service(&self, encoded: &str, subject: &str) -> bool {
        if matches!(self.keys, Keys::Off) {
            // The token is the only proof here, so it is compared like the secret that it is.
            let digest = Digest::of(encoded.as_bytes());
            self.service_tokens.iter().any(|known| known.as_bytes().ct_eq(digest.as_bytes()).into())
        } else {
            self.service_subjects.iter().any(|known| known == subject)
        }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.keys {
            Keys::Off => "off",
            Keys::Secret(_) => "secret",
            Keys::Jwks(_) => "jwks",
        };
        f.debug_struct("Verifier").field("mode", &mode).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// The provider is named rather than installed: no process-wide state, and no panic where another crate of the build
/// turns on a second provider. Its HMAC comparison takes constant time.
fn check_signature(algorithm: Algorithm, key: &DecodingKey, token: &Token<'_>) -> Result<(), AuthError> {
    let verifier = (DEFAULT_PROVIDER.verifier_factory)(&algorithm, key).map_err(|_| AuthError::BadSignature)?;
    verifier.verify(token.signed, &token.signature).map_err(|_| AuthError::BadSignature)
}
