//! The smallest useful function: plain `wasi:http`, no framework.
//!
//! `GET` (and any other method without a body) answers with the path and the query as the function sees them; `POST`,
//! `PUT` and `PATCH` echo the body, piece by piece, whatever its size.

use wasip2::http::types::{Fields, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam};
use wasip2::io::streams::{OutputStream, StreamError};

struct Hello;

wasip2::http::proxy::export!(Hello);

/// A piece of the echo: as much as a read gives at once. `blocking-write-and-flush` takes at most 4,096 bytes.
const READ_BYTES: u64 = 64 << 10;
const WRITE_BYTES: usize = 4096;

impl wasip2::exports::http::incoming_handler::Guest for Hello {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        // An error of the stream means that the client is gone: there is nobody left to tell.
        let _ = match request.method() {
            Method::Post | Method::Put | Method::Patch => echo(&request, out),
            _ => hello(&request, out),
        };
    }
}

/// Answers with a few facts of the request.
fn hello(request: &IncomingRequest, out: ResponseOutparam) -> Result<(), StreamError> {
    let target = request.path_with_query().unwrap_or_else(|| "/".to_owned());
    let (path, query) = target.split_once('?').map_or((target.as_str(), ""), |(path, query)| (path, query));
    let body = format!("{{\"message\":\"hello\",\"path\":{},\"query\":{}}}\n", json(path), json(query));
    let headers = Fields::new();
    set(&headers, "content-type", "application/json");
    set(&headers, "content-length", &body.len().to_string());
    respond(out, headers, |stream| write(stream, body.as_bytes()))
}

/// Sends the request's body back as it comes, never holding more than one piece.
fn echo(request: &IncomingRequest, out: ResponseOutparam) -> Result<(), StreamError> {
    let headers = Fields::new();
    let content_type = request.headers().get("content-type").into_iter().next();
    let content_type = content_type.unwrap_or_else(|| b"application/octet-stream".to_vec());
    let _ = headers.append("content-type", &content_type);
    let body = request.consume().expect("the body is taken once");
    let input = body.stream().expect("its stream is taken once");
    respond(out, headers, |stream| {
        loop {
            match input.blocking_read(READ_BYTES) {
                Ok(piece) => write(stream, &piece)?,
                Err(StreamError::Closed) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    })
}

/// Sends the head, lets `fill` write the body, and ends it; a body that could not be filled is broken off.
fn respond(
    out: ResponseOutparam,
    headers: Fields,
    fill: impl FnOnce(&OutputStream) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let response = OutgoingResponse::new(headers);
    let body = response.body().expect("the body is taken once");
    ResponseOutparam::set(out, Ok(response));
    let stream = body.write().expect("its stream is taken once");
    fill(&stream)?;
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
    Ok(())
}

fn write(stream: &OutputStream, bytes: &[u8]) -> Result<(), StreamError> {
    bytes.chunks(WRITE_BYTES).try_for_each(|piece| stream.blocking_write_and_flush(piece))
}

fn set(headers: &Fields, name: &str, value: &str) {
    headers.append(name, value.as_bytes()).expect("a plain header is allowed");
}

/// A JSON string (RFC 8259, section 7). A request's target has visible ASCII only; the rest is escaped all the same.
fn json(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
