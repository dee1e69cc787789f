//! The function's two HTTP sides: the call that came in, and the call for the rates that goes out.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingRequest, Method, OutgoingBody, OutgoingRequest, OutgoingResponse,
    RequestOptions, ResponseOutparam, Scheme,
};
use wasip2::io::streams::{OutputStream, StreamError};

use crate::rates::Rates;
use crate::report::{Report, needs_rates, report};
use crate::sheet::{self, Currency};

/// Where the rates come from unless `RATES_URL` says otherwise.
const RATES_URL: &str = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-hist-90d.xml";
/// A sheet of the most rows that are read has less.
const MAX_SHEET_BYTES: usize = 1 << 20;
/// Ten times what the bank's 90 days take.
const MAX_RATES_BYTES: usize = 1 << 20;
/// Each wait of the outbound call; together they stay below the function's own timeout.
const WAIT_NANOSECONDS: u64 = 8_000_000_000;
/// The most that one `blocking-write-and-flush` takes.
const WRITE_BYTES: usize = 4096;

struct Expenses;

wasip2::http::proxy::export!(Expenses);

impl wasip2::exports::http::incoming_handler::Guest for Expenses {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        match answer(&request) {
            Ok(report) => {
                let mut body = serde_json::to_vec_pretty(&report).expect("a report has only text, numbers and lists");
                body.push(b'\n');
                respond(out, 200, "application/json", &body);
            }
            Err(Refusal { status, detail }) => {
                let problem = serde_json::json!({ "status": status, "detail": detail });
                respond(out, status, "application/problem+json", problem.to_string().as_bytes());
            }
        }
    }
}

/// Why there is no report, for the caller.
struct Refusal {
    status: u16,
    detail: String,
}

fn refuse(status: u16) -> impl Fn(String) -> Refusal {
    move |detail| Refusal { status, detail }
}

fn answer(request: &IncomingRequest) -> Result<Report, Refusal> {
    if !matches!(request.method(), Method::Post) {
        return Err(refuse(405)("post a sheet: date,description,amount,currency,category".to_owned()));
    }
    let currency = wanted_currency(request).map_err(refuse(400))?;
    let body = request.consume().expect("the body is taken once");
    let text = read(body, MAX_SHEET_BYTES).map_err(|error| match error {
        ReadError::TooLarge => refuse(413)(format!("a sheet has at most {MAX_SHEET_BYTES} bytes")),
        ReadError::Broken(reason) => refuse(400)(format!("the sheet could not be read: {reason}")),
    })?;
    let expenses = sheet::parse(&text).map_err(refuse(422))?;
    let rates = if needs_rates(&expenses, currency) { fetch_rates().map_err(refuse(502))? } else { Rates::none() };
    report(&expenses, currency, &rates).map_err(refuse(422))
}

fn wanted_currency(request: &IncomingRequest) -> Result<Currency, String> {
    let target = request.path_with_query().unwrap_or_default();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let wanted = query.split('&').find_map(|pair| pair.strip_prefix("currency="));
    wanted.map_or(Ok(Currency::EUR), str::parse)
}

/// Fetches the rates; the error says what was asked and how it failed.
fn fetch_rates() -> Result<Rates, String> {
    let url = std::env::var("RATES_URL").unwrap_or_else(|_| RATES_URL.to_owned());
    let say = |error: String| format!("the rates could not be had from {url}: {error}");
    let bytes = fetch(&url).map_err(say)?;
    let xml = String::from_utf8(bytes).map_err(|_| say("the answer is not text".to_owned()))?;
    let rates = Rates::parse(&xml).map_err(say)?;
    if let Some((first, last)) = rates.span() {
        eprintln!("rates from {url}: {first} to {last}");
    }
    Ok(rates)
}

fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let url: http::Uri = url.parse().map_err(|_| "not an address".to_owned())?;
    let scheme = match url.scheme_str() {
        Some("https") => Scheme::Https,
        Some("http") => Scheme::Http,
        _ => return Err("the address has to begin with https:// or http://".to_owned()),
    };
    let headers = Fields::new();
    headers.append("accept", b"application/xml").expect("a plain header is allowed");
    let request = OutgoingRequest::new(headers);
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    request
        .set_scheme(Some(&scheme))
        .and_then(|()| request.set_authority(url.authority().map(|authority| authority.as_str())))
        .and_then(|()| request.set_path_with_query(Some(target)))
        .map_err(|()| "the address is not allowed".to_owned())?;
    let options = RequestOptions::new();
    // A host without these timeouts still ends the call at the function's own.
    let _ = options.set_connect_timeout(Some(WAIT_NANOSECONDS));
    let _ = options.set_first_byte_timeout(Some(WAIT_NANOSECONDS));
    let _ = options.set_between_bytes_timeout(Some(WAIT_NANOSECONDS));

    let pending = outgoing_handler::handle(request, Some(options)).map_err(explain)?;
    pending.subscribe().block();
    let response = pending.get().expect("it is ready").expect("it is taken once").map_err(explain)?;
    if response.status() != 200 {
        return Err(format!("it answered with status {}", response.status()));
    }
    let body = response.consume().expect("the body is taken once");
    read(body, MAX_RATES_BYTES).map_err(|error| match error {
        ReadError::TooLarge => format!("it answered with more than {MAX_RATES_BYTES} bytes"),
        ReadError::Broken(reason) => reason,
    })
}

fn explain(code: ErrorCode) -> String {
    match code {
        ErrorCode::DnsError(_) => "its name is not known".to_owned(),
        ErrorCode::DestinationIpProhibited | ErrorCode::HttpRequestDenied => {
            "the function may not connect there; `egress.allow` in sless.toml has to name it".to_owned()
        }
        ErrorCode::ConnectionRefused => "nobody answers there".to_owned(),
        ErrorCode::ConnectionTimeout | ErrorCode::HttpResponseTimeout | ErrorCode::ConnectionReadTimeout => {
            "it took too long".to_owned()
        }
        other => format!("{other:?}"),
    }
}

enum ReadError {
    TooLarge,
    Broken(String),
}

/// Reads a body of at most `limit` bytes.
fn read(body: IncomingBody, limit: usize) -> Result<Vec<u8>, ReadError> {
    let stream = body.stream().expect("its stream is taken once");
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(piece) if bytes.len() + piece.len() > limit => return Err(ReadError::TooLarge),
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(StreamError::LastOperationFailed(error)) => return Err(ReadError::Broken(error.to_debug_string())),
        }
    }
}

fn respond(out: ResponseOutparam, status: u16, content_type: &str, body: &[u8]) {
    let headers = Fields::new();
    let length = body.len().to_string();
    for (name, value) in [("content-type", content_type), ("content-length", &length)] {
        headers.append(name, value.as_bytes()).expect("a plain header is allowed");
    }
    if status == 405 {
        headers.append("allow", b"POST").expect("a plain header is allowed");
    }
    let response = OutgoingResponse::new(headers);
    response.set_status_code(status).expect("a status of three digits");
    let sink = response.body().expect("the body is taken once");
    ResponseOutparam::set(out, Ok(response));
    // An error of the stream means that the client is gone: there is nobody left to tell.
    if write(&sink.write().expect("its stream is taken once"), body).is_ok() {
        let _ = OutgoingBody::finish(sink, None);
    }
}

fn write(stream: &OutputStream, bytes: &[u8]) -> Result<(), StreamError> {
    bytes.chunks(WRITE_BYTES).try_for_each(|piece| stream.blocking_write_and_flush(piece))
}
