//! Heads of requests and responses: bounds, scheme, authority, and what a response may not say.

use http::header::{CONTENT_LENGTH, HOST};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, request, response};
use sless_core::FunctionKey;
use sless_core::outcome::{Failure, Outcome};
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;

use crate::settings::{MAX_HEADER_BYTES, MAX_HEADERS};

/// The scheme of the client's own request, as the gateway says.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

fn within_bounds(headers: &HeaderMap) -> bool {
    headers.len() <= MAX_HEADERS
        && headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>() <= MAX_HEADER_BYTES
}

pub(super) fn check_request(headers: &HeaderMap) -> Result<(), Failure> {
    if within_bounds(headers) {
        return Ok(());
    }
    Err(Failure::new(
        Outcome::HeadersTooLarge,
        format!("a request may have {MAX_HEADERS} header fields and {MAX_HEADER_BYTES} bytes of them"),
    ))
}

/// What a request declares; nothing where it declares nothing that can be read.
pub(super) fn content_length(headers: &HeaderMap) -> u64 {
    headers.get(CONTENT_LENGTH).and_then(parse_length).unwrap_or(0)
}

fn parse_length(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Checks a response's head, removes what is not the guest's to say, and reads its length.
pub(super) fn check_response(mut parts: response::Parts) -> Result<(response::Parts, Option<u64>), Failure> {
    let bad = |detail: String| Err(Failure::new(Outcome::BadResponse, detail));
    let status = parts.status.as_u16();
    if !(200..600).contains(&status) {
        return bad(format!("the function answered with status {status}; it must be from 200 to 599"));
    }
    if !within_bounds(&parts.headers) {
        return bad(format!("a response may have {MAX_HEADERS} header fields and {MAX_HEADER_BYTES} bytes of them"));
    }
    let expected = match parts.headers.get(CONTENT_LENGTH) {
        None => None,
        Some(value) => match parse_length(value) {
            Some(length) => Some(length),
            None => return bad("the function's content-length is not a number".to_owned()),
        },
    };
    // The platform's word, and a header that belongs to requests.
    parts.headers.remove(sless_core::outcome::OUTCOME_HEADER);
    parts.headers.remove(HOST);
    Ok((parts, expected))
}

/// The scheme that the client used.
pub(super) fn scheme(parts: &request::Parts) -> Scheme {
    let name = match parts.uri.scheme_str() {
        Some(scheme) => scheme.as_bytes(),
        None => parts.headers.get(FORWARDED_PROTO).map_or(&b"http"[..], HeaderValue::as_bytes),
    };
    if name.eq_ignore_ascii_case(b"https") { Scheme::Https } else { Scheme::Http }
}

/// Sees to it that the request has an authority and a `host` that a guest can read: the client's, or the function's name
/// where it has none (HTTP/1.0) or one that is no authority.
pub(super) fn set_authority(parts: &mut request::Parts, function: &FunctionKey) {
    let readable = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.parse::<Authority>().is_ok());
    match (parts.headers.get(HOST), parts.uri.authority()) {
        (Some(host), _) if readable(host) => {}
        (_, Some(authority)) => {
            if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
                parts.headers.insert(HOST, host);
            }
        }
        _ => {
            let host = HeaderValue::from_str(function.name.as_str()).expect("a function's name is a DNS label");
            parts.headers.insert(HOST, host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(request: http::request::Builder) -> request::Parts {
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_scheme_is_that_of_the_client() {
        let request = || http::Request::get("/x");
        assert!(matches!(scheme(&parts(request())), Scheme::Http));
        assert!(matches!(scheme(&parts(request().header("x-forwarded-proto", "HTTPS"))), Scheme::Https));
        assert!(matches!(scheme(&parts(http::Request::get("https://a/x"))), Scheme::Https));
    }

    #[test]
    fn the_authority_is_the_clients_or_the_functions_name() {
        let key = FunctionKey::new(sless_core::Tenant::from_subject("a").namespace(), "hello".parse().unwrap());
        let host = |request: http::request::Builder| {
            let mut parts = parts(request);
            set_authority(&mut parts, &key);
            parts.headers[HOST].to_str().unwrap().to_owned()
        };
        assert_eq!(host(http::Request::get("/").header("host", "example.org:81")), "example.org:81");
        assert_eq!(host(http::Request::get("http://example.org/")), "example.org");
        assert_eq!(host(http::Request::get("/")), "hello");
        let odd = HeaderValue::from_bytes(b"caf\xe9").unwrap();
        assert_eq!(host(http::Request::get("/").header("host", odd)), "hello");
    }

    #[test]
    fn responses_that_break_http_are_refused() {
        let check = |response: http::response::Builder| check_response(response.body(()).unwrap().into_parts().0);
        assert_eq!(check(http::Response::builder().header("content-length", "12")).unwrap().1, Some(12));
        for bad in [
            http::Response::builder().status(101),
            http::Response::builder().status(999),
            http::Response::builder().header("content-length", "+1"),
            http::Response::builder().header("content-length", "a"),
            http::Response::builder().header("x", "y".repeat(MAX_HEADER_BYTES)),
        ] {
            assert_eq!(check(bad).unwrap_err().outcome, Outcome::BadResponse);
        }
        let (parts, _) = check(http::Response::builder().header("x-sless-outcome", "ok").header("x-a", "b")).unwrap();
        assert!(!parts.headers.contains_key("x-sless-outcome") && parts.headers.contains_key("x-a"));
    }
}
