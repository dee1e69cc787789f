//! The check of an upload: any bytes are accepted or refused with a reason, within the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sless_builder::check::Limits;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { functions: 1_000, types: 1_000, adapters: 1_000, ..Limits::default() };
    match sless_builder::check(bytes, &limits) {
        Ok(checked) => assert!(checked.functions <= 1_000),
        Err(rejection) => assert!(!rejection.to_string().is_empty()),
    }
});
