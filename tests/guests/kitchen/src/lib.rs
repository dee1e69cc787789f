//! Does well and badly what functions do: one route for each thing that a host has to stand. The test says by the path
//! what it wants, and by the query how much of it.

use std::hint::black_box;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use wasip2::clocks::monotonic_clock;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, Method, OutgoingBody, OutgoingRequest, OutgoingResponse, RequestOptions,
    ResponseOutparam, Scheme,
};
use wasip2::io::streams::{OutputStream, StreamError};

struct Kitchen;

wasip2::http::proxy::export!(Kitchen);

/// Counts the calls of this instance: more than one only where instances are reused.
static CALLS: AtomicU32 = AtomicU32::new(0);

impl wasip2::exports::http::incoming_handler::Guest for Kitchen {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let calls = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
        let target = request.path_with_query().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        match path {
            "/hello" => text(out, "hello\n"),
            "/calls" => text(out, &calls.to_string()),
            "/echo" => echo(&request, out),
            "/ignore-body" => text(out, "ignored\n"),
            _ if path.starts_with("/describe") => describe(&request, out),
            "/headers" => headers_back(&request, out),
            "/env" => text(out, &std::env::vars().map(|(k, v)| format!("{k}={v}\n")).collect::<String>()),
            "/log" => log(query, out),
            "/log-then-sleep" => {
                println!("before");
                sleep_ms(number(query));
                text(out, "slept\n");
            }
            "/sleep" => {
                sleep_ms(number(query));
                println!("slept");
                text(out, "slept\n");
            }
            "/spin" => spin(),
            "/spin-ms" => {
                let end = monotonic_clock::now() + number(query) * 1_000_000;
                let mut x = 1u64;
                while monotonic_clock::now() < end {
                    for _ in 0..10_000 {
                        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                    }
                }
                text(out, "spun\n");
            }
            "/alloc" => alloc(number(query), out),
            "/recurse" => text(out, &recurse(number(query)).to_string()),
            "/recurse-with-data" => text(out, &recurse_with_data(number(query)).to_string()),
            "/trap" => core::arch::wasm32::unreachable(),
            "/panic" => panic!("on purpose"),
            "/exit" => std::process::exit(7),
            "/no-response" => {}
            "/error-code" => ResponseOutparam::set(out, Err(ErrorCode::LoopDetected)),
            "/status" => {
                let response = OutgoingResponse::new(Fields::new());
                let _ = response.set_status_code(number(query) as u16);
                ResponseOutparam::set(out, Ok(response));
            }
            "/stream" => stream(number(query), out),
            "/big" => big(number(query), out),
            "/content-length" => content_length(query, out),
            "/unfinished" => unfinished(out),
            "/trap-midway" => trap_midway(out),
            "/after" => after(number(query), out),
            "/many-headers" => many_headers(query, out),
            "/cookies" => cookies(out),
            "/fetch" => fetch(query, out),
            _ => {
                let response = OutgoingResponse::new(Fields::new());
                let _ = response.set_status_code(404);
                ResponseOutparam::set(out, Ok(response));
            }
        }
    }
}

fn number(query: &str) -> u64 {
    query.parse().unwrap_or(0)
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    let fields = Fields::new();
    for (name, value) in pairs {
        fields.append(name, value.as_bytes()).unwrap();
    }
    fields
}

/// Sends a head and lets `write` make the body, then ends it.
fn respond(out: ResponseOutparam, headers: Fields, write: impl FnOnce(&OutputStream) -> Result<(), StreamError>) {
    let response = OutgoingResponse::new(headers);
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let stream = body.write().unwrap();
    let written = write(&stream);
    drop(stream);
    if written.is_ok() {
        OutgoingBody::finish(body, None).unwrap();
    }
}

fn text(out: ResponseOutparam, text: &str) {
    respond(out, fields(&[("content-type", "text/plain")]), |stream| put(stream, text.as_bytes()));
}

fn put(stream: &OutputStream, bytes: &[u8]) -> Result<(), StreamError> {
    bytes.chunks(4096).try_for_each(|piece| stream.blocking_write_and_flush(piece))
}

fn sleep_ms(ms: u64) {
    monotonic_clock::subscribe_duration(ms * 1_000_000).block();
}

fn echo(request: &IncomingRequest, out: ResponseOutparam) {
    let body = request.consume().unwrap();
    let input = body.stream().unwrap();
    let content_type = request.headers().get("content-type");
    let headers = Fields::new();
    for value in content_type {
        headers.append("content-type", &value).unwrap();
    }
    respond(out, headers, |stream| {
        loop {
            match input.blocking_read(64 << 10) {
                Ok(piece) => put(stream, &piece)?,
                Err(StreamError::Closed) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    });
}

fn describe(request: &IncomingRequest, out: ResponseOutparam) {
    let method = match request.method() {
        Method::Get => "GET".to_owned(),
        Method::Post => "POST".to_owned(),
        Method::Other(other) => other,
        other => format!("{other:?}"),
    };
    let scheme = match request.scheme() {
        Some(Scheme::Http) => "http".to_owned(),
        Some(Scheme::Https) => "https".to_owned(),
        other => format!("{other:?}"),
    };
    let host = request.headers().get("host").into_iter().map(|v| String::from_utf8_lossy(&v).into_owned());
    let host = host.collect::<Vec<_>>().join(",");
    let authority = request.authority().unwrap_or_default();
    let target = request.path_with_query().unwrap_or_default();
    text(out, &format!("{method} {scheme} {authority} {host} {target}\n"));
}

/// Sends the request's `x-…` headers back as they came.
fn headers_back(request: &IncomingRequest, out: ResponseOutparam) {
    let headers = Fields::new();
    for (name, value) in request.headers().entries() {
        if name.starts_with("x-") {
            headers.append(&name, &value).unwrap();
        }
    }
    respond(out, headers, |stream| put(stream, b"ok\n"));
}

/// `lines,bytes`: that many lines of that many bytes, on both streams in turn.
fn log(query: &str, out: ResponseOutparam) {
    let (lines, bytes) = query.split_once(',').unwrap_or(("1", "10"));
    let line = "x".repeat(number(bytes) as usize);
    for index in 0..number(lines) {
        // In one write each: standard error has no buffer, and `eprintln!` writes a line in pieces.
        let line = format!("{index} {line}\n");
        let written = match index % 2 {
            0 => std::io::stdout().write_all(line.as_bytes()),
            _ => std::io::stderr().write_all(line.as_bytes()),
        };
        written.unwrap();
    }
    print!("unfinished");
    std::io::stdout().flush().unwrap();
    text(out, "logged\n");
}

fn spin() -> ! {
    let mut x = 1u64;
    loop {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Allocates and touches that many MiB.
fn alloc(mib: u64, out: ResponseOutparam) {
    let mut memory = vec![0u8; (mib as usize) << 20];
    for byte in memory.iter_mut().step_by(4096) {
        *byte = 1;
    }
    text(out, &format!("{}\n", black_box(&memory).len()));
}

/// Without data on the stack in memory: what runs out is the engine's stack.
#[expect(unconditional_recursion, reason = "on purpose")]
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    recurse(depth + 1).rotate_left(1) ^ depth
}

/// With data on it: what runs out is the stack in memory.
#[expect(unconditional_recursion, reason = "on purpose")]
fn recurse_with_data(depth: u64) -> u64 {
    let data = black_box([depth; 16]);
    data[(depth % 16) as usize] + recurse_with_data(black_box(depth + 1)) + 1
}

/// 19 pieces over the given time.
fn stream(ms: u64, out: ResponseOutparam) {
    respond(out, fields(&[("content-type", "text/plain")]), |stream| {
        for index in 0..19 {
            put(stream, format!("piece {index}\n").as_bytes())?;
            if index < 18 {
                sleep_ms(ms / 18);
            }
        }
        Ok(())
    });
}

/// That many KiB, each byte the low byte of its index.
fn big(kib: u64, out: ResponseOutparam) {
    let block: Vec<u8> = (0..1024u32).map(|i| i as u8).collect();
    respond(out, Fields::new(), |stream| (0..kib).try_for_each(|_| put(stream, &block)));
}

/// `declared,written`: a wrong content-length, or a right one.
fn content_length(query: &str, out: ResponseOutparam) {
    let (declared, written) = query.split_once(',').unwrap();
    respond(out, fields(&[("content-length", declared)]), |stream| {
        put(stream, "y".repeat(number(written) as usize).as_bytes())
    });
}

/// Drops the body instead of finishing it.
fn unfinished(out: ResponseOutparam) {
    let response = OutgoingResponse::new(Fields::new());
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let stream = body.write().unwrap();
    put(&stream, b"part").unwrap();
}

fn trap_midway(out: ResponseOutparam) {
    respond(out, Fields::new(), |stream| {
        put(stream, b"part")?;
        sleep_ms(50);
        core::arch::wasm32::unreachable()
    });
}

/// Answers, then works on, then logs.
fn after(ms: u64, out: ResponseOutparam) {
    text(out, "answered\n");
    sleep_ms(ms);
    println!("worked on");
}

/// `count,bytes`: that many headers of that many bytes.
fn many_headers(query: &str, out: ResponseOutparam) {
    let (count, bytes) = query.split_once(',').unwrap();
    let headers = Fields::new();
    let value = vec![b'v'; number(bytes) as usize];
    for index in 0..number(count) {
        headers.append(&format!("x-h{index}"), &value).unwrap();
    }
    respond(out, headers, |stream| put(stream, b"ok\n"));
}

fn cookies(out: ResponseOutparam) {
    let headers = fields(&[("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-sless-outcome", "forged")]);
    headers.append("x-latin", b"caf\xe9").unwrap();
    respond(out, headers, |stream| put(stream, b"ok\n"));
}

/// Fetches a URL and answers with what came of it: the status and the body, or the error's name.
fn fetch(url: &str, out: ResponseOutparam) {
    let answer = match get(url) {
        Ok((status, body)) => format!("{status} {}", String::from_utf8_lossy(&body)),
        Err(code) => format!("error {code:?}"),
    };
    text(out, &answer);
}

fn get(url: &str) -> Result<(u16, Vec<u8>), ErrorCode> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(if scheme == "https" { &Scheme::Https } else { &Scheme::Http })).unwrap();
    request.set_authority(Some(authority)).unwrap();
    request.set_path_with_query(Some(if path.is_empty() { "/" } else { path })).unwrap();
    let options = RequestOptions::new();
    options.set_connect_timeout(Some(5_000_000_000)).unwrap();
    let future = outgoing_handler::handle(request, Some(options))?;
    future.subscribe().block();
    let response = future.get().unwrap().unwrap()?;
    let body = response.consume().unwrap();
    let input = body.stream().unwrap();
    let mut bytes = Vec::new();
    while let Ok(piece) = input.blocking_read(64 << 10) {
        bytes.extend_from_slice(&piece);
    }
    Ok((response.status(), bytes))
}
