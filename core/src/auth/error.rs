//! Why a token, a key or a configuration is refused.

/// A part of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first: algorithm and key.
    Header,
    /// The second: claims.
    Payload,
    /// The third.
    Signature,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Payload => "payload",
            Self::Signature => "signature",
        })
    }
}

/// Why there is no caller. Every one is answered with 401; the sentences are ASCII without quotes, as
/// `error_description` wants them (RFC 6750, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No `Authorization` header.
    #[error("the request has no Authorization header; send Authorization: Bearer and a token")]
    Missing,
    /// Another scheme than `Bearer`, or nothing after it.
    #[error("the Authorization header is not Bearer and a token")]
    NotBearer,
    /// Longer than [`super::MAX_TOKEN_BYTES`].
    #[error("the token is longer than 8192 bytes")]
    TooLarge,
    /// Not three parts between dots.
    #[error("the token does not have the three parts of a signed JWT")]
    NotThreeParts,
    /// A part is not base64url without padding.
    #[error("the token's {0} is not base64url")]
    NotBase64(Part),
    /// A part is not a JSON object.
    #[error("the token's {0} is not a JSON object")]
    NotJson(Part),
    /// The header has `crit`, so it asks for extensions that are not known here (RFC 7515, section 4.1.11).
    #[error("the token's header asks for extensions that are not supported")]
    CriticalHeader,
    /// The algorithm is `none` or not one that is accepted.
    #[error("the token's algorithm is not accepted here")]
    AlgorithmRefused,
    /// No key of the token's `kid` and algorithm.
    #[error("the token is signed with a key that is not known here")]
    UnknownKey,
    /// No `kid`, and more than one key that could be meant.
    #[error("the token does not say which key signed it, and there is more than one")]
    AmbiguousKey,
    /// The signature is not valid.
    #[error("the token's signature is not valid")]
    BadSignature,
    /// No `sub`.
    #[error("the token has no sub claim")]
    NoSubject,
    /// `sub` is not a string, empty, or longer than [`super::MAX_SUBJECT_BYTES`].
    #[error("the token's sub claim is not a string of 1 to 256 bytes")]
    InvalidSubject,
    /// No `exp`.
    #[error("the token has no exp claim")]
    NoExpiry,
    /// `exp` is not a number.
    #[error("the token's exp claim is not a number")]
    InvalidExpiry,
    /// `exp` has passed.
    #[error("the token has expired; get a new one")]
    Expired,
    /// `nbf` is not a number.
    #[error("the token's nbf claim is not a number")]
    InvalidNotBefore,
    /// `nbf` is yet to come.
    #[error("the token is not valid yet; compare the clocks")]
    NotYetValid,
    /// `iss` is absent or another one.
    #[error("the token is not from the issuer that is trusted here")]
    WrongIssuer,
    /// `aud` is absent or of others.
    #[error("the token is not meant for this platform")]
    WrongAudience,
}

impl AuthError {
    /// The word of RFC 6750, section 3.1.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing | Self::NotBearer | Self::TooLarge => "invalid_request",
            _ => "invalid_token",
        }
    }

    /// The value of `WWW-Authenticate` for the 401.
    pub fn www_authenticate(self) -> String {
        format!("Bearer realm=\"sless\", error=\"{}\", error_description=\"{self}\"", self.word())
    }
}

/// Why no verifier can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The secret is shorter than [`super::MIN_SECRET_BYTES`].
    #[error("the secret is shorter than 32 bytes; make one with `openssl rand -hex 32`")]
    ShortSecret,
    /// The document is larger than [`super::MAX_JWKS_BYTES`].
    #[error("the JWKS document is larger than 256 KiB")]
    JwksTooLarge,
    /// The document is not a JWK set.
    #[error("the JWKS document is not a JSON object with a list `keys`: {0}")]
    NotJwks(String),
    /// A key of a kind that is used here can't be used.
    #[error("key {index} of the JWKS document can't be used: {reason}")]
    BadKey {
        /// Its place, from 0.
        index: usize,
        /// Why.
        reason: &'static str,
    },
    /// No key is for RS256, ES256 or EdDSA signatures.
    #[error("the JWKS document has no key for RS256, ES256 or EdDSA signatures")]
    NoUsableKey,
    /// Two keys share a `kid` and an algorithm.
    #[error("the JWKS document has two {algorithm} keys with the same `kid`")]
    DuplicateKey {
        /// Of which algorithm.
        algorithm: &'static str,
    },
}

/// Why no token can be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The secret can't be used.
    #[error(transparent)]
    Secret(#[from] ConfigError),
    /// The subject is empty or too long.
    #[error("a subject has 1 to 256 bytes")]
    InvalidSubject,
    /// The lifetime is zero or longer than [`super::MAX_LIFETIME`].
    #[error("a lifetime is from one second to ten years")]
    InvalidLifetime,
}
