//! The token itself: its three parts, its claims, and how the platform makes one of its own.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Map, Value, json};

use super::error::{AuthError, ConfigError, Part, SignError};
use super::{LEEWAY_SECONDS, MAX_SUBJECT_BYTES, MAX_TOKEN_BYTES, MIN_SECRET_BYTES};
use crate::Timestamp;

/// The longest life of a token that is signed here: ten years, for tokens of a developer's own machine.
pub const MAX_LIFETIME: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

const SCHEME: &str = "Bearer";

/// The token of an `Authorization` header. The length is looked at before anything else.
pub(super) fn from_header(authorization: Option<&str>) -> Result<&str, AuthError> {
    let header = authorization.ok_or(AuthError::Missing)?;
    if header.len() > SCHEME.len() + 1 + MAX_TOKEN_BYTES {
        return Err(AuthError::TooLarge);
    }
    let (scheme, token) = header.split_once(' ').ok_or(AuthError::NotBearer)?;
    let token = token.trim_matches(' ');
    // Schemes have no case (RFC 9110, section 11.1).
    if scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty() { Ok(token) } else { Err(AuthError::NotBearer) }
}

/// A token taken apart; nothing of it is trusted yet.
pub(super) struct Token<'t> {
    /// What the signature is over.
    pub(super) signed: &'t [u8],
    pub(super) signature: Vec<u8>,
    header: Map<String, Value>,
    payload: &'t str,
}

impl<'t> Token<'t> {
    /// Takes it apart. The payload is not read before the signature holds.
    pub(super) fn parse(text: &'t str) -> Result<Self, AuthError> {
        let (signed, signature) = text.rsplit_once('.').ok_or(AuthError::NotThreeParts)?;
        let (header, payload) = signed.split_once('.').ok_or(AuthError::NotThreeParts)?;
        if payload.contains('.') {
            return Err(AuthError::NotThreeParts);
        }
        let header = object(header, Part::Header)?;
        if header.contains_key("crit") {
            return Err(AuthError::CriticalHeader);
        }
        Ok(Self { signed: signed.as_bytes(), signature: decode(signature, Part::Signature)?, header, payload })
    }

    /// The header's `alg`; none where it is absent or not a string.
    pub(super) fn algorithm(&self) -> Option<&str> {
        self.header.get("alg")?.as_str()
    }

    /// The header's `kid`, if it has one.
    pub(super) fn key_id(&self) -> Result<Option<&str>, AuthError> {
        match self.header.get("kid") {
            None => Ok(None),
            Some(Value::String(id)) => Ok(Some(id)),
            Some(_) => Err(AuthError::UnknownKey),
        }
    }
}

fn decode(part: &str, which: Part) -> Result<Vec<u8>, AuthError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| AuthError::NotBase64(which))
}

fn object(part: &str, which: Part) -> Result<Map<String, Value>, AuthError> {
    serde_json::from_slice(&decode(part, which)?).map_err(|_| AuthError::NotJson(which))
}

/// What is asked of a token's claims.
pub(super) struct Claims {
    pub(super) subject: String,
    pub(super) issuer: Option<String>,
    pub(super) audience: Vec<String>,
}

impl Claims {
    /// Reads them and checks the times.
    pub(super) fn read(token: &Token<'_>, now: Timestamp) -> Result<Self, AuthError> {
        let mut claims = object(token.payload, Part::Payload)?;
        let subject = subject(&mut claims)?;
        // Dates are numbers of seconds, with or without a fraction (RFC 7519, section 2).
        let date = |value: &Value, error| value.as_f64().filter(|seconds| seconds.is_finite()).ok_or(error);
        let (now, leeway) = (now.as_millisecond() as f64 / 1000.0, f64::from(LEEWAY_SECONDS));
        let expiry = date(claims.get("exp").ok_or(AuthError::NoExpiry)?, AuthError::InvalidExpiry)?;
        if now >= expiry + leeway {
            return Err(AuthError::Expired);
        }
        if let Some(value) = claims.get("nbf")
            && now + leeway < date(value, AuthError::InvalidNotBefore)?
        {
            return Err(AuthError::NotYetValid);
        }
        let issuer = claims.get("iss").and_then(Value::as_str).map(str::to_owned);
        let audience = match claims.remove("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        Ok(Self { subject, issuer, audience })
    }
}

fn subject(claims: &mut Map<String, Value>) -> Result<String, AuthError> {
    match claims.remove("sub").ok_or(AuthError::NoSubject)? {
        Value::String(subject) if is_subject(&subject) => Ok(subject),
        _ => Err(AuthError::InvalidSubject),
    }
}

fn is_subject(subject: &str) -> bool {
    (1..=MAX_SUBJECT_BYTES).contains(&subject.len())
}

/// The `sub` that a token claims, for the one who holds it: a client derives its own namespace from it. Proves nothing.
pub fn unverified_subject(token: &str) -> Result<String, AuthError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(AuthError::TooLarge);
    }
    subject(&mut object(Token::parse(token)?.payload, Part::Payload)?)
}

pub(super) fn check_secret(secret: &str) -> Result<(), ConfigError> {
    if secret.len() < MIN_SECRET_BYTES { Err(ConfigError::ShortSecret) } else { Ok(()) }
}

/// A token of `subject` that lasts for `lifetime` from `now`, signed with HS256.
pub fn sign(secret: &str, subject: &str, lifetime: Duration, now: Timestamp) -> Result<String, SignError> {
    check_secret(secret)?;
    if !is_subject(subject) {
        return Err(SignError::InvalidSubject);
    }
    if lifetime.as_secs() == 0 || lifetime > MAX_LIFETIME {
        return Err(SignError::InvalidLifetime);
    }
    let issued = now.as_second();
    let payload = json!({ "sub": subject, "iat": issued, "exp": issued + lifetime.as_secs() as i64 });
    let signed = format!("{}.{}", encode(br#"{"alg":"HS256","typ":"JWT"}"#), encode(payload.to_string().as_bytes()));
    let key = EncodingKey::from_secret(secret.as_bytes()).map_err(|_| ConfigError::ShortSecret)?;
    let signer = (DEFAULT_PROVIDER.signer_factory)(&Algorithm::HS256, &key).map_err(|_| ConfigError::ShortSecret)?;
    let signature = signer.try_sign(signed.as_bytes()).expect("HMAC takes messages of any length");
    Ok(format!("{signed}.{}", encode(&signature)))
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
