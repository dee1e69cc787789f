//! What a guest's end is called, when it is not a good one.

use sless_core::outcome::{Failure, Outcome};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi_http::FieldMapError;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;

use crate::call::CallState;
use crate::host::RETRY_AFTER;
use crate::settings::MAX_RESOURCES;

/// The failure of an error that came out of a guest; none where it went on purpose and well.
pub(super) fn of_error(call: &CallState, error: &wasmtime::Error) -> Option<Failure> {
    if let Some(failure) = call.failure() {
        call.say(failure.detail.clone());
        return Some(failure.clone());
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return (exit.0 != 0).then(|| trapped(format!("the function exited with status {}", exit.0)));
    }
    if error.is::<PoolConcurrencyLimitError>() {
        tracing::warn!(error = format!("{error:#}"), "no slot for an instance");
        let detail = "the host has no free instance";
        return Some(Failure::new(Outcome::PoolExhausted, detail).retry_after(RETRY_AFTER));
    }
    for line in format!("{error:?}").lines().filter(|line| !line.trim().is_empty()) {
        call.say(line.to_owned());
    }
    if call.was_memory_refused() {
        let mb = call.record.revision.spec.memory_mb;
        let detail = format!("the function wanted more memory than memoryMb = {mb} allows");
        return Some(Failure::new(Outcome::OutOfMemory, detail));
    }
    if let Some(FieldMapError::TotalSizeTooBig | FieldMapError::TooManyFields) = error.downcast_ref() {
        return Some(Failure::new(Outcome::BadResponse, "the function set more headers than the platform passes on"));
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        return Some(trapped(format!(
            "the function held more than {MAX_RESOURCES} streams, bodies and timers at once"
        )));
    }
    Some(match error.downcast_ref::<Trap>() {
        Some(trap) => trapped(format!("the function trapped: {trap}")),
        None => trapped("the function broke a rule of its interface; its log says which".to_owned()),
    })
}

fn trapped(detail: String) -> Failure {
    Failure::new(Outcome::FunctionTrapped, detail)
}

/// A guest returned and set no response.
pub(super) fn no_response() -> Failure {
    Failure::new(Outcome::BadResponse, "the function returned without a response")
}

/// The most characters of a guest's own words for why there is no response.
const MAX_DETAIL_CHARS: usize = 2_000;

/// A guest set an error where its response should be. An internal error's text is the guest's own word for what is wrong,
/// as servers of a language have one for a handler that returns what is no response.
pub(super) fn error_instead_of_response(code: &ErrorCode) -> Failure {
    if let ErrorCode::InternalError(Some(text)) = code {
        return Failure::new(Outcome::BadResponse, text.chars().take(MAX_DETAIL_CHARS).collect::<String>());
    }
    Failure::new(Outcome::BadResponse, format!("the function answered with an error instead of a response: {code}"))
}
