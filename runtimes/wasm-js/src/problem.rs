//! The runtime's own answers: problem+json (RFC 9457), in the words that all runtimes use.

use serde_json::json;

/// An exception's message goes to the client up to here; the log has all of it.
const MAX_DETAIL_CHARS: usize = 2000;

/// Which of them.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    /// The request is at fault.
    BadRequest,
    /// The handler threw.
    FunctionError,
    /// What the handler returned is no response.
    BadResponse,
}

impl Code {
    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::BadRequest => ("bad_request", 400, "The request can't be read"),
            Self::FunctionError => ("function_error", 500, "The function raised an error"),
            Self::BadResponse => ("bad_response", 502, "The function's response is not valid"),
        }
    }
}

/// Status and body.
pub(crate) fn answer(code: Code, detail: &str, instance: &str, request_id: &str) -> (u16, Vec<u8>) {
    let (code, status, title) = code.row();
    let mut cut: String = detail.chars().take(MAX_DETAIL_CHARS).collect();
    if cut.len() < detail.len() {
        cut.push('…');
    }
    let body = json!({
        "type": format!("urn:sless:problem:{code}"), "title": title, "status": status, "detail": cut,
        "instance": instance, "code": code, "requestId": request_id,
    });
    (status, body.to_string().into_bytes())
}
