//! Bearer tokens: any header is verified or refused; what is not signed with the secret never gets in.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sless_core::Timestamp;
use sless_core::auth::{Config, Mode, Verifier};

static SECRET: LazyLock<Verifier> =
    LazyLock::new(|| verifier(Mode::Secret("0123456789abcdef0123456789abcdef".to_owned())));
static OFF: LazyLock<Verifier> = LazyLock::new(|| verifier(Mode::Off));

fn verifier(mode: Mode) -> Verifier {
    Verifier::new(Config::new(mode)).expect("the configuration is usable")
}

fuzz_target!(|header: &str| {
    let now = Timestamp::UNIX_EPOCH;
    // Nobody guesses an HMAC.
    assert!(SECRET.verify(Some(header), now).is_err());
    if let Ok(caller) = OFF.verify(Some(header), now) {
        assert!(!caller.subject.is_empty() && !caller.may_write(sless_core::Tenant::from_subject("").namespace()));
    }
});
