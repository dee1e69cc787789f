use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "a secret of at least thirty-two bytes";
const SUBJECT: &str = "0199e325-1cdf-7cda-9319-e5302a85e291";

fn now() -> Timestamp {
    Timestamp::from_second(1_750_000_000).unwrap()
}

fn at(offset: i64) -> i64 {
    now().as_second() + offset
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A token whose signature is valid for whatever header and payload say.
fn token(header: &Value, payload: &Value, key: &EncodingKey, algorithm: Algorithm) -> String {
    let signed = format!("{}.{}", part(header), part(payload));
    let signer = (DEFAULT_PROVIDER.signer_factory)(&algorithm, key).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signer.try_sign(signed.as_bytes()).unwrap()))
}

fn hs256(payload: &Value) -> String {
    token(&json!({"alg": "HS256"}), payload, &EncodingKey::from_secret(SECRET.as_bytes()).unwrap(), Algorithm::HS256)
}

fn by_secret() -> Verifier {
    Verifier::new(Config::new(Mode::Secret(SECRET.into()))).unwrap()
}

fn verify(verifier: &Verifier, token: &str) -> Result<Caller, AuthError> {
    verifier.verify(Some(&format!("Bearer {token}")), now())
}

fn ed_key(seed: u8) -> EncodingKey {
    // RFC 8410, section 7: the fixed head of an Ed25519 key in PKCS #8.
    let mut der = hex::decode("302e020100300506032b657004220420").unwrap();
    der.extend([seed; 32]);
    EncodingKey::from_ed_der(&der)
}

fn ec_key() -> EncodingKey {
    // RFC 5915 in PKCS #8, without the optional public key.
    let mut der = hex::decode("3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420").unwrap();
    der.extend([7; 32]);
    EncodingKey::from_ec_der(&der)
}

fn rsa_key() -> EncodingKey {
    EncodingKey::from_rsa_pem(include_bytes!("test_rsa_key.pem")).unwrap()
}

fn jwk(key: &EncodingKey, algorithm: Algorithm, id: &str) -> Value {
    let mut jwk = serde_json::to_value(Jwk::from_encoding_key(key, algorithm).unwrap()).unwrap();
    jwk["kid"] = id.into();
    jwk
}

fn claims() -> Value {
    json!({"sub": SUBJECT, "exp": at(60)})
}

#[test]
fn what_is_signed_here_is_accepted_until_it_expires() {
    let token = sign(SECRET, SUBJECT, Duration::from_secs(100), now()).unwrap();
    let caller = verify(&by_secret(), &token).unwrap();
    assert_eq!(&*caller.subject, SUBJECT);
    assert_eq!(caller.tenant.to_string(), "cdd874dfa31ba6ca");
    assert!(!caller.service);
    assert_eq!(unverified_subject(&token).as_deref(), Ok(SUBJECT));

    let header = format!("bearer {token}");
    let later = |seconds| by_secret().verify(Some(&header), Timestamp::from_second(at(seconds)).unwrap());
    assert!(later(100 + 59).is_ok());
    assert_eq!(later(100 + 60), Err(AuthError::Expired));
}

/// Case t1: every one is 401 and has its own word; none is an error of the platform's own.
#[test]
fn bad_tokens_are_refused_for_what_is_wrong_with_them() {
    let good = hs256(&claims());
    let parts: Vec<_> = good.split('.').collect();
    let with = |payload: Value| hs256(&payload);
    let unsigned = |header: Value| format!("{}.{}.", part(&header), part(&claims()));
    let header = |header: Value| {
        token(&header, &claims(), &EncodingKey::from_secret(SECRET.as_bytes()).unwrap(), Algorithm::HS256)
    };
    for (token, error) in [
        (format!("{}.{}", parts[0], parts[1]), AuthError::NotThreeParts),
        (format!("{good}.{}", parts[2]), AuthError::NotThreeParts),
        ("..".into(), AuthError::NotJson(Part::Header)),
        ("x".into(), AuthError::NotThreeParts),
        (format!("{}=.{}.{}", parts[0], parts[1], parts[2]), AuthError::NotBase64(Part::Header)),
        (format!("{}.{}.{}*", parts[0], parts[1], parts[2]), AuthError::NotBase64(Part::Signature)),
        (format!("{}.{}.{}", part(&json!([1])), parts[1], parts[2]), AuthError::NotJson(Part::Header)),
        (with(json!("text")), AuthError::NotJson(Part::Payload)),
        (with(json!({"exp": at(60)})), AuthError::NoSubject),
        (with(json!({"sub": 7, "exp": at(60)})), AuthError::InvalidSubject),
        (with(json!({"sub": null, "exp": at(60)})), AuthError::InvalidSubject),
        (with(json!({"sub": "", "exp": at(60)})), AuthError::InvalidSubject),
        (with(json!({"sub": "x".repeat(257), "exp": at(60)})), AuthError::InvalidSubject),
        (with(json!({"sub": SUBJECT})), AuthError::NoExpiry),
        (with(json!({"sub": SUBJECT, "exp": at(60).to_string()})), AuthError::InvalidExpiry),
        (with(json!({"sub": SUBJECT, "exp": null})), AuthError::InvalidExpiry),
        (with(json!({"sub": SUBJECT, "exp": at(-61)})), AuthError::Expired),
        (with(json!({"sub": SUBJECT, "exp": -1e300})), AuthError::Expired),
        (with(json!({"sub": SUBJECT, "exp": at(60), "nbf": at(61)})), AuthError::NotYetValid),
        (with(json!({"sub": SUBJECT, "exp": at(60), "nbf": "now"})), AuthError::InvalidNotBefore),
        (unsigned(json!({"alg": "none"})), AuthError::AlgorithmRefused),
        (unsigned(json!({"alg": "NonE"})), AuthError::AlgorithmRefused),
        (unsigned(json!({})), AuthError::AlgorithmRefused),
        (unsigned(json!({"alg": 7})), AuthError::AlgorithmRefused),
        (unsigned(json!({"alg": "HS256"})), AuthError::BadSignature),
        (header(json!({"alg": "HS512"})), AuthError::AlgorithmRefused),
        (header(json!({"alg": "HS256", "crit": ["exp"]})), AuthError::CriticalHeader),
        ("a".repeat(1 << 20), AuthError::TooLarge),
        (format!("{good}.{}", "a".repeat(1 << 20)), AuthError::TooLarge),
    ] {
        assert_eq!(verify(&by_secret(), &token), Err(error), "{token:.80}");
    }
    for (header, error) in [
        (None, AuthError::Missing),
        (Some(""), AuthError::NotBearer),
        (Some("Bearer"), AuthError::NotBearer),
        (Some("Bearer   "), AuthError::NotBearer),
        (Some("Basic dXNlcjpwYXNz"), AuthError::NotBearer),
        (Some(&*good), AuthError::NotBearer),
    ] {
        assert_eq!(by_secret().verify(header, now()), Err(error), "{header:?}");
    }
    for fine in [
        json!({"sub": SUBJECT, "exp": at(-59)}),
        json!({"sub": SUBJECT, "exp": at(1) as f64 + 0.5}),
        json!({"sub": SUBJECT, "exp": u64::MAX}),
        json!({"sub": SUBJECT, "exp": at(60), "nbf": at(60)}),
    ] {
        assert!(verify(&by_secret(), &with(fine.clone())).is_ok(), "{fine}");
    }
}

#[test]
fn a_longest_token_is_read_and_a_longer_one_is_not() {
    let empty = hs256(&json!({"sub": SUBJECT, "exp": at(60), "x": ""})).len();
    // Base64 turns three bytes into four characters; the last step is taken in single bytes.
    let filled = |n: usize| hs256(&json!({"sub": SUBJECT, "exp": at(60), "x": "y".repeat(n)}));
    let most = (0..).map(|n| (MAX_TOKEN_BYTES - empty) / 4 * 3 + n).take_while(|n| filled(*n).len() <= MAX_TOKEN_BYTES);
    let most = most.last().unwrap();
    assert!(verify(&by_secret(), &filled(most)).is_ok());
    assert_eq!(verify(&by_secret(), &filled(most + 1)), Err(AuthError::TooLarge));
}

#[test]
fn issuer_and_audience_are_checked_where_they_are_set() {
    let mut config = Config::new(Mode::Secret(SECRET.into()));
    config.issuer = Some("https://id.example".into());
    config.audience = Some("sless".into());
    let verifier = Verifier::new(config).unwrap();
    let with = |iss: Value, aud: Value| {
        verify(&verifier, &hs256(&json!({"sub": SUBJECT, "exp": at(60), "iss": iss, "aud": aud}))).map(|_| ())
    };
    let (issuer, other) = (json!("https://id.example"), json!("https://id.example/"));
    assert_eq!(with(issuer.clone(), json!("sless")), Ok(()));
    assert_eq!(with(issuer.clone(), json!(["a", "sless"])), Ok(()));
    assert_eq!(with(other, json!("sless")), Err(AuthError::WrongIssuer));
    assert_eq!(with(json!(null), json!("sless")), Err(AuthError::WrongIssuer));
    assert_eq!(with(issuer.clone(), json!("Sless")), Err(AuthError::WrongAudience));
    assert_eq!(with(issuer.clone(), json!([])), Err(AuthError::WrongAudience));
    assert_eq!(with(issuer, json!({"sless": 1})), Err(AuthError::WrongAudience));
}

#[test]
fn keys_are_chosen_by_kid_and_algorithm() {
    let (rsa, ec, ed, ed2) = (rsa_key(), ec_key(), ed_key(1), ed_key(2));
    let set = json!({"keys": [
        jwk(&rsa, Algorithm::RS256, "r"), jwk(&ec, Algorithm::ES256, "e"),
        jwk(&ed, Algorithm::EdDSA, "d1"), jwk(&ed2, Algorithm::EdDSA, "d2"),
        {"kty": "oct", "kid": "s", "k": URL_SAFE_NO_PAD.encode(SECRET)},
        {"kty": "RSA", "kid": "enc", "use": "enc", "n": "AQAB", "e": "AQAB"},
        {"kty": "future"}, "not even a key",
    ]});
    let verifier = Verifier::new(Config::new(Mode::Jwks(set.to_string()))).unwrap();
    let try_with = |header: Value, key: &EncodingKey, algorithm| {
        verify(&verifier, &token(&header, &claims(), key, algorithm)).map(|c| c.subject.to_string())
    };
    let ok = Ok(SUBJECT.to_owned());
    assert_eq!(try_with(json!({"alg": "RS256", "kid": "r"}), &rsa, Algorithm::RS256), ok);
    assert_eq!(try_with(json!({"alg": "RS256"}), &rsa, Algorithm::RS256), ok);
    assert_eq!(try_with(json!({"alg": "ES256", "kid": "e"}), &ec, Algorithm::ES256), ok);
    assert_eq!(try_with(json!({"alg": "EdDSA", "kid": "d2"}), &ed2, Algorithm::EdDSA), ok);
    assert_eq!(try_with(json!({"alg": "Ed25519", "kid": "d1"}), &ed, Algorithm::EdDSA), ok);

    let refused = |header, key, algorithm| try_with(header, key, algorithm).unwrap_err();
    assert_eq!(refused(json!({"alg": "EdDSA", "kid": "d1"}), &ed2, Algorithm::EdDSA), AuthError::BadSignature);
    assert_eq!(refused(json!({"alg": "EdDSA"}), &ed, Algorithm::EdDSA), AuthError::AmbiguousKey);
    assert_eq!(refused(json!({"alg": "EdDSA", "kid": "r"}), &ed, Algorithm::EdDSA), AuthError::UnknownKey);
    assert_eq!(refused(json!({"alg": "EdDSA", "kid": 1}), &ed, Algorithm::EdDSA), AuthError::UnknownKey);
    assert_eq!(refused(json!({"alg": "RS512", "kid": "r"}), &rsa, Algorithm::RS512), AuthError::AlgorithmRefused);
    // The symmetric key of the document, and the public key taken for a secret, open nothing.
    let hmac = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    assert_eq!(refused(json!({"alg": "HS256", "kid": "s"}), &hmac, Algorithm::HS256), AuthError::AlgorithmRefused);
    assert_eq!(
        verify(&verifier, &format!("{}.{}.", part(&json!({"alg": "none", "kid": "r"})), part(&claims()))),
        Err(AuthError::AlgorithmRefused)
    );
}

#[test]
fn rotated_keys_count_at_once_and_a_broken_document_changes_nothing() {
    let set = |key| json!({"keys": [jwk(key, Algorithm::EdDSA, "k")]}).to_string();
    let (old, new) = (ed_key(1), ed_key(2));
    let signed = |key| token(&json!({"alg": "EdDSA", "kid": "k"}), &claims(), key, Algorithm::EdDSA);
    let verifier = Verifier::new(Config::new(Mode::Jwks(set(&old)))).unwrap();
    assert!(verify(&verifier, &signed(&old)).is_ok());
    assert!(verifier.replace_jwks("{").is_err());
    assert!(verifier.replace_jwks(r#"{"keys":[]}"#).is_err());
    assert!(verify(&verifier, &signed(&old)).is_ok());
    assert_eq!(verifier.replace_jwks(&set(&new)), Ok(1));
    assert_eq!(verify(&verifier, &signed(&old)), Err(AuthError::BadSignature));
    assert!(verify(&verifier, &signed(&new)).is_ok());
}

#[test]
fn unusable_documents_are_refused_for_what_is_wrong_with_them() {
    let bad = |keys: Value| {
        let document = json!({ "keys": keys }).to_string();
        Verifier::new(Config::new(Mode::Jwks(document))).map(|_| ()).unwrap_err()
    };
    let reason = |keys| match bad(keys) {
        ConfigError::BadKey { index: 0, reason } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(bad(json!([])), ConfigError::NoUsableKey);
    assert_eq!(bad(json!([{"kty": "oct", "k": "c2VjcmV0"}])), ConfigError::NoUsableKey);
    assert!(reason(json!([{"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}])).contains("32 bytes"));
    assert!(reason(json!([{"kty": "OKP", "crv": "Ed25519"}])).contains("missing"));
    let off = URL_SAFE_NO_PAD.encode([1; 32]);
    assert!(reason(json!([{"kty": "EC", "crv": "P-256", "x": off, "y": off}])).contains("not a public key"));
    let n = |bytes: usize| URL_SAFE_NO_PAD.encode(vec![0xff; bytes]);
    assert!(reason(json!([{"kty": "RSA", "n": n(128), "e": "AQAB"}])).contains("2048 to 4096"));
    assert!(reason(json!([{"kty": "RSA", "n": n(1024), "e": "AQAB"}])).contains("2048 to 4096"));
    assert!(reason(json!([{"kty": "RSA", "n": n(256), "e": "AQ"}])).contains("exponent"));
    assert!(reason(json!([{"kty": "RSA", "n": n(256), "e": n(64)}])).contains("exponent"));
    let twice = jwk(&ed_key(1), Algorithm::EdDSA, "k");
    assert_eq!(bad(json!([twice, twice])), ConfigError::DuplicateKey { algorithm: "EdDSA" });
    let large = " ".repeat(MAX_JWKS_BYTES + 1);
    assert_eq!(Verifier::new(Config::new(Mode::Jwks(large))).map(|_| ()).unwrap_err(), ConfigError::JwksTooLarge);
    assert_eq!(
        Verifier::new(Config::new(Mode::Secret("short".into()))).map(|_| ()).unwrap_err(),
        ConfigError::ShortSecret
    );
}

#[test]
fn a_service_reads_everything_and_writes_nothing() {
    let mut config = Config::new(Mode::Secret(SECRET.into()));
    config.service_subjects = vec![SUBJECT.into()];
    config.service_tokens = vec![Digest::of(hs256(&json!({"sub": "other", "exp": at(60)})).as_bytes())];
    let verifier = Verifier::new(config.clone()).unwrap();
    let console = verify(&verifier, &hs256(&claims())).unwrap();
    let user = verify(&verifier, &hs256(&json!({"sub": "other", "exp": at(60)}))).unwrap();
    assert!(console.service && !user.service);
    let (own, others) = (console.tenant.namespace(), user.tenant.namespace());
    assert!(console.may_read(own) && console.may_read(others));
    assert!(!console.may_write(own) && !console.may_write(others));
    assert!(user.may_read(others) && user.may_write(others));
    assert!(!user.may_read(own) && !user.may_write(own));

    // Without verification a subject proves nothing and only the very token counts.
    config.mode = Mode::Off;
    let verifier = Verifier::new(config).unwrap();
    assert!(!verify(&verifier, &hs256(&claims())).unwrap().service);
    assert!(verify(&verifier, &hs256(&json!({"sub": "other", "exp": at(60)}))).unwrap().service);
}

#[test]
fn without_verification_the_shape_and_the_times_still_count() {
    let verifier = Verifier::new(Config::new(Mode::Off)).unwrap();
    let unsigned = |claims: Value| format!("{}.{}.c2ln", part(&json!({"alg": "RS256"})), part(&claims));
    assert!(verify(&verifier, &unsigned(claims())).is_ok());
    assert_eq!(verify(&verifier, &unsigned(json!({"sub": SUBJECT, "exp": at(-61)}))), Err(AuthError::Expired));
    assert_eq!(verify(&verifier, &unsigned(json!({"exp": at(60)}))), Err(AuthError::NoSubject));
    assert_eq!(verify(&verifier, "a.b"), Err(AuthError::NotThreeParts));
}

#[test]
fn what_can_not_be_signed_is_refused() {
    let hour = Duration::from_secs(3600);
    assert_eq!(sign("short", SUBJECT, hour, now()), Err(SignError::Secret(ConfigError::ShortSecret)));
    assert_eq!(sign(SECRET, "", hour, now()), Err(SignError::InvalidSubject));
    assert_eq!(sign(SECRET, &"x".repeat(257), hour, now()), Err(SignError::InvalidSubject));
    assert_eq!(sign(SECRET, SUBJECT, Duration::ZERO, now()), Err(SignError::InvalidLifetime));
    assert_eq!(sign(SECRET, SUBJECT, MAX_LIFETIME + hour, now()), Err(SignError::InvalidLifetime));
}

#[test]
fn the_challenge_is_a_header_value() {
    assert_eq!(
        AuthError::Expired.www_authenticate(),
        r#"Bearer realm="sless", error="invalid_token", error_description="the token has expired; get a new one""#
    );
    assert_eq!(AuthError::Missing.word(), "invalid_request");
    for part in [Part::Header, Part::Payload, Part::Signature] {
        let sentence = AuthError::NotBase64(part).to_string();
        assert!(sentence.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\'), "{sentence}");
    }
}

fn jwks_verifier() -> Verifier {
    let set = json!({"keys": [jwk(&ed_key(1), Algorithm::EdDSA, "k")]});
    Verifier::new(Config::new(Mode::Jwks(set.to_string()))).unwrap()
}

proptest! {
    #[test]
    fn no_text_is_a_token(text in "\\PC{0,200}") {
        for verifier in [by_secret(), jwks_verifier()] {
            prop_assert!(verifier.verify(Some(&text), now()).is_err());
            prop_assert!(verify(&verifier, &text).is_err());
        }
        // Without verification too nothing panics.
        let _ = verify(&Verifier::new(Config::new(Mode::Off)).unwrap(), &text);
    }

    #[test]
    fn a_token_with_one_character_changed_is_refused(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]") {
        let good = hs256(&claims());
        let at = at.index(good.len());
        prop_assume!(good[at..=at] != to);
        let changed = format!("{}{to}{}", &good[..at], &good[at + 1..]);
        prop_assert!(verify(&by_secret(), &changed).is_err());
    }

    #[test]
    fn no_claims_help_without_the_key(
        header in "(HS256|none|RS256|EdDSA|)", subject in "\\PC{0,40}", signature in prop::collection::vec(any::<u8>(), 0..70),
    ) {
        let signed = format!("{}.{}", part(&json!({"alg": header})), part(&json!({"sub": subject, "exp": at(60)})));
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
        prop_assert!(verify(&by_secret(), &token).is_err());
        prop_assert!(verify(&jwks_verifier(), &token).is_err());
    }

    #[test]
    fn every_signed_subject_comes_back(subject in "\\PC{1,64}") {
        let token = sign(SECRET, &subject, Duration::from_secs(1), now()).unwrap();
        prop_assert_eq!(&*verify(&by_secret(), &token).unwrap().subject, subject.as_str());
        prop_assert_eq!(unverified_subject(&token), Ok(subject));
    }
}
