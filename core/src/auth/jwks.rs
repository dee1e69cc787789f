//! JWK sets (RFC 7517): which keys of a document are used, and which one a token means.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

use super::error::{AuthError, ConfigError};
use super::token::Token;

/// The largest document. A set has a handful of keys of 1 KiB; chains of certificates make them larger.
pub const MAX_JWKS_BYTES: usize = 256 << 10;
/// RSA keys: at least what RFC 7518, section 3.3 asks for, at most what verifying may cost.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// A key that signatures are verified with.
pub(super) struct Key {
    id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<serde_json::Value>,
}

/// The members of RFC 7518, section 6, and RFC 8037 that matter here.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The usable keys of a document. Keys of other kinds and for other uses are left out, as RFC 7517, section 5 says, and
/// symmetric ones always: a public document can't hold a secret.
pub(super) fn parse(document: &str) -> Result<Vec<Key>, ConfigError> {
    if document.len() > MAX_JWKS_BYTES {
        return Err(ConfigError::JwksTooLarge);
    }
    let set: Set = serde_json::from_str(document).map_err(|e| ConfigError::NotJwks(e.to_string()))?;
    let mut keys: Vec<Key> = Vec::new();
    for (index, value) in set.keys.into_iter().enumerate() {
        let Ok(jwk) = serde_json::from_value::<Jwk>(value) else {
            continue;
        };
        let Some(key) = usable(jwk).map_err(|reason| ConfigError::BadKey { index, reason })? else {
            continue;
        };
        if keys.iter().any(|k| k.id.is_some() && k.id == key.id && k.algorithm == key.algorithm) {
            return Err(ConfigError::DuplicateKey { algorithm: name(key.algorithm) });
        }
        keys.push(key);
    }
    if keys.is_empty() { Err(ConfigError::NoUsableKey) } else { Ok(keys) }
}

fn usable(jwk: Jwk) -> Result<Option<Key>, &'static str> {
    if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
        return Ok(None);
    }
    let algorithm = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => Algorithm::RS256,
        ("EC", Some("P-256")) => Algorithm::ES256,
        ("OKP", Some("Ed25519")) => Algorithm::EdDSA,
        _ => return Ok(None),
    };
    if jwk.alg.as_deref().is_some_and(|alg| named(alg) != Some(algorithm)) {
        return Ok(None);
    }
    let key = match algorithm {
        Algorithm::RS256 => rsa(&bytes(&jwk.n)?, &bytes(&jwk.e)?)?,
        // The length is checked here, since the crate below takes it for granted.
        Algorithm::ES256 => {
            let mut point = vec![4]; // SEC 1, section 2.3.3: uncompressed.
            point.extend(exactly_32(&jwk.x)?);
            point.extend(exactly_32(&jwk.y)?);
            DecodingKey::from_ec_der(&point)
        }
        _ => DecodingKey::from_ed_der(&exactly_32(&jwk.x)?),
    };
    // Points that are not on the curve are found now rather than at the first call.
    (jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.verifier_factory)(&algorithm, &key)
        .map_err(|_| "its coordinates are not a public key")?;
    Ok(Some(Key { id: jwk.kid, algorithm, key }))
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<DecodingKey, &'static str> {
    let modulus = &modulus[modulus.iter().take_while(|b| **b == 0).count()..];
    let bits = modulus.len() * 8 - modulus.first().map_or(0, |b| b.leading_zeros() as usize);
    if !RSA_BITS.contains(&bits) {
        return Err("an RSA key has 2048 to 4096 bits");
    }
    // Even or tiny exponents are no keys; ones above 32 bits exist only to make verifying slow.
    let value = exponent.iter().try_fold(0u32, |value, byte| Some(value.checked_mul(256)? | u32::from(*byte)));
    if !value.is_some_and(|e| e >= 3 && e % 2 == 1) {
        return Err("its exponent `e` is not an odd number from 3 to 2^32");
    }
    Ok(DecodingKey::from_rsa_raw_components(modulus, exponent))
}

fn bytes(member: &Option<String>) -> Result<Vec<u8>, &'static str> {
    let text = member.as_deref().ok_or("a member of its kind is missing (RSA: n, e; EC: x, y; OKP: x)")?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| "a member is not base64url without padding")
}

fn exactly_32(member: &Option<String>) -> Result<[u8; 32], &'static str> {
    bytes(member)?.try_into().map_err(|_| "a coordinate does not have 32 bytes")
}

fn named(algorithm: &str) -> Option<Algorithm> {
    match algorithm {
        "RS256" => Some(Algorithm::RS256),
        "ES256" => Some(Algorithm::ES256),
        // RFC 9864 names the curve, RFC 8037 did not.
        "EdDSA" | "Ed25519" => Some(Algorithm::EdDSA),
        _ => None,
    }
}

fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RS256 => "RS256",
        Algorithm::ES256 => "ES256",
        _ => "EdDSA",
    }
}

/// The key that the token means: of its `kid`, or the only one of its algorithm.
pub(super) fn choose<'k>(keys: &'k [Key], token: &Token<'_>) -> Result<&'k Key, AuthError> {
    let algorithm = token.algorithm().and_then(named).ok_or(AuthError::AlgorithmRefused)?;
    let id = token.key_id()?;
    let mut candidates =
        keys.iter().filter(|key| key.algorithm == algorithm).filter(|key| id.is_none() || key.id.as_deref() == id);
    match (candidates.next(), candidates.next()) {
        (Some(key), None) => Ok(key),
        (None, _) => Err(AuthError::UnknownKey),
        (Some(_), Some(_)) => Err(AuthError::AmbiguousKey),
    }
}
