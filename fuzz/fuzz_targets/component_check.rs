//! The component check on any bytes: no panic, no hang, the same answer twice, and every refusal in words that can be shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sless_builder::check;
use sless_builder::check::Limits;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let first = check(bytes, &limits);
    assert_eq!(first, check(bytes, &limits));
    if let Err(rejection) = first {
        let text = rejection.to_string();
        // Names out of the file are cut, and can't bring control characters into a log or a terminal.
        assert!(!text.is_empty() && text.len() < 16 << 10, "{} bytes", text.len());
        assert!(!text.chars().any(|c| c.is_control()), "{text:?}");
    }
});
