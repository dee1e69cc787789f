//! Which function a request is for, by any target and any `Host`: what is found is a part of what was sent.

#![no_main]

use http::header::HOST;
use http::{HeaderName, HeaderValue, Request};
use libfuzzer_sys::fuzz_target;
use sless_core::FunctionName;
use sless_host::serve::function_name;

fuzz_target!(|input: (&str, &[u8], Option<&[u8]>)| {
    let (target, host, internal) = input;
    let Ok(host) = HeaderValue::from_bytes(host) else { return };
    let mut request = Request::builder().uri(target).header(HOST, host.clone());
    let internal = internal.and_then(|name| HeaderValue::from_bytes(name).ok());
    if let Some(name) = &internal {
        request = request.header(HeaderName::from_static("x-sless-function"), name);
    }
    let Ok(request) = request.body(()) else { return };
    let Some(name) = function_name(&request) else { return };
    match &internal {
        Some(sent) => assert_eq!(name.as_bytes(), sent.as_bytes()),
        None => {
            assert!(!name.contains(['.', ':']));
            let sent = request.uri().host().map_or(host.as_bytes(), str::as_bytes);
            assert!(sent.starts_with(name.as_bytes()));
        }
    }
    let _ = name.parse::<FunctionName>();
});
