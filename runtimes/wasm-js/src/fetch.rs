//! `wasi:http/outgoing-handler` for the `fetch` of `js/fetch.js`: an exchange is a request and its response, both with
//! bodies that stream.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rquickjs_core::{Array, Ctx, Exception, Function, Object, Persistent, Promise, Result, TypedArray, Value};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    Scheme,
};
use wasip2::io::poll::Pollable;
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use crate::pump::{self, Operation};
use crate::{bytes, phase, thrown};

/// What a read takes at most.
const READ_BYTES: u64 = 64 << 10;
/// Exchanges open at once.
const MAX_EXCHANGES: usize = 1000;

// A child resource has to go before its parent, so fields are in that order.
#[derive(Default)]
struct Exchange {
    out: Option<Out>,
    future: Option<FutureIncomingResponse>,
    incoming: Option<Incoming>,
}

struct Out {
    stream: Rc<OutputStream>,
    body: OutgoingBody,
}

struct Incoming {
    stream: Rc<InputStream>,
    _body: IncomingBody,
    _response: IncomingResponse,
}

#[derive(Default)]
struct Exchanges {
    open: BTreeMap<u32, Exchange>,
    last_id: u32,
}

thread_local! {
    static EXCHANGES: RefCell<Exchanges> = RefCell::default();
}

fn with<R>(f: impl FnOnce(&mut Exchanges) -> R) -> R {
    EXCHANGES.with_borrow_mut(f)
}

/// The two ends of a promise that waits for the host.
pub(crate) struct Promised {
    resolve: Persistent<Function<'static>>,
    reject: Persistent<Function<'static>>,
}

impl Promised {
    pub(crate) fn new<'js>(ctx: &Ctx<'js>) -> Result<(Promise<'js>, Self)> {
        let (promise, resolve, reject) = ctx.promise()?;
        Ok((promise, Self { resolve: Persistent::save(ctx, resolve), reject: Persistent::save(ctx, reject) }))
    }

    pub(crate) fn resolve<'js>(self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<()> {
        self.resolve.restore(ctx)?.call((value,))
    }

    pub(crate) fn reject<'js>(self, ctx: &Ctx<'js>, code: &str, message: &str) -> Result<()> {
        let error = failure(ctx, code, message)?;
        self.reject.restore(ctx)?.call((error,))
    }
}

/// An `Error` with a `code`.
fn failure<'js>(ctx: &Ctx<'js>, code: &str, message: &str) -> Result<Object<'js>> {
    let error = Exception::from_message(ctx.clone(), message)?.into_object();
    error.set("code", code)?;
    Ok(error)
}

fn throw(ctx: &Ctx<'_>, code: &str, message: &str) -> rquickjs_core::Error {
    match failure(ctx, code, message) {
        Ok(error) => ctx.throw(error.into_value()),
        Err(error) => error,
    }
}

/// Sends the head of a request; answers the exchange's id. `headers` is a flat list.
pub(crate) fn start<'js>(
    ctx: Ctx<'js>,
    method: String,
    scheme: String,
    authority: String,
    path: String,
    headers: Array<'js>,
    has_body: bool,
) -> Result<u32> {
    phase::impure("fetch", || thrown::place(&ctx));
    if !phase::serving() {
        return Err(throw(&ctx, "ERR_AT_BUILD", "there is no network while a function is built"));
    }
    if with(|all| all.open.len() >= MAX_EXCHANGES) {
        return Err(throw(
            &ctx,
            "ERR_TOO_MANY",
            "too many requests at once; read or cancel the bodies of earlier ones",
        ));
    }
    let fields = Fields::new();
    for index in (0..headers.len()).step_by(2) {
        let (name, value): (String, String) = (headers.get(index)?, headers.get(index + 1)?);
        let value = bytes::to_latin1(&value)
            .ok_or_else(|| bytes::type_error(&ctx, &format!("header `{name}` has a character beyond U+00FF")))?;
        // What the host refuses is what a browser calls forbidden, and ignores (the connection's own headers).
        let _ = fields.append(&name, &value);
    }
    let request = OutgoingRequest::new(fields);
    let bad = |what: &str| throw(&ctx, "ERR_INVALID_REQUEST", &format!("the host refuses the request's {what}"));
    request.set_method(&to_method(&method)).map_err(|()| bad("method"))?;
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).map_err(|()| bad("scheme"))?;
    request.set_authority(Some(&authority)).map_err(|()| bad("authority"))?;
    request.set_path_with_query(Some(&path)).map_err(|()| bad("path"))?;
    let body = request.body().map_err(|()| bad("body"))?;
    let stream = if has_body { Some(body.write().map_err(|()| bad("body"))?) } else { None };
    let future = match outgoing_handler::handle(request, None) {
        Ok(future) => future,
        Err(code) => {
            drop(stream);
            let (name, text) = describe(&code);
            return Err(throw(&ctx, name, &text));
        }
    };
    let out = match stream {
        Some(stream) => Some(Out { stream: Rc::new(stream), body }),
        None => {
            // Nothing to be said of a body that is not there; a failure shows in the response.
            let _ = OutgoingBody::finish(body, None);
            None
        }
    };
    Ok(with(|all| {
        all.last_id += 1;
        all.open.insert(all.last_id, Exchange { out, future: Some(future), incoming: None });
        all.last_id
    }))
}

fn to_method(method: &str) -> Method {
    match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "CONNECT" => Method::Connect,
        "OPTIONS" => Method::Options,
        "TRACE" => Method::Trace,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// A code in the style of Node's, and what happened.
fn describe(code: &ErrorCode) -> (&'static str, String) {
    let text = format!("{code:?}");
    let text = text.strip_prefix("ErrorCode::").unwrap_or(&text).to_owned();
    match code {
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => ("ENOTFOUND", text),
        ErrorCode::ConnectionRefused | ErrorCode::DestinationUnavailable => ("ECONNREFUSED", text),
        ErrorCode::ConnectionTerminated => ("ECONNRESET", text),
        ErrorCode::ConnectionTimeout | ErrorCode::ConnectionReadTimeout | ErrorCode::ConnectionWriteTimeout => {
            ("ETIMEDOUT", text)
        }
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => {
            ("EACCES", format!("{text}: the function's egress policy does not allow this address"))
        }
        ErrorCode::TlsProtocolError | ErrorCode::TlsCertificateError | ErrorCode::TlsAlertReceived(_) => {
            ("ERR_TLS", text)
        }
        _ => ("ERR_HTTP", text),
    }
}

/// The response's head: a promise of `[status, headers]`.
pub(crate) fn response<'js>(ctx: Ctx<'js>, id: u32) -> Result<Promise<'js>> {
    let (promise, promised) = Promised::new(&ctx)?;
    let future = with(|all| all.open.get_mut(&id).and_then(|exchange| exchange.future.take()));
    match future {
        None => promised.reject(&ctx, "ERR_CLOSED", "the request is closed")?,
        Some(future) => {
            let operation = Head { pollable: future.subscribe(), future, promised, exchange: id };
            pump::wait(&ctx, Box::new(operation))?;
        }
    }
    Ok(promise)
}

struct Head {
    pollable: Pollable,
    future: FutureIncomingResponse,
    promised: Promised,
    exchange: u32,
}

impl Operation for Head {
    fn pollable(&self) -> &Pollable {
        &self.pollable
    }

    fn exchange(&self) -> u32 {
        self.exchange
    }

    fn ready(self: Box<Self>, ctx: &Ctx<'_>) -> Result<Option<Box<dyn Operation>>> {
        let response = match self.future.get() {
            None => return Ok(Some(self)),
            Some(Ok(Ok(response))) => response,
            Some(Ok(Err(code))) => {
                let (name, text) = describe(&code);
                return self.promised.reject(ctx, name, &text).map(|()| None);
            }
            Some(Err(())) => {
                return self.promised.reject(ctx, "ERR_HTTP", "the response was taken before").map(|()| None);
            }
        };
        let head = Array::new(ctx.clone())?;
        head.set(0, response.status())?;
        head.set(1, bytes::header_list(ctx, &response.headers().entries())?)?;
        let incoming = response.consume().and_then(|body| {
            let stream = Rc::new(body.stream()?);
            Ok(Incoming { stream, _body: body, _response: response })
        });
        let Ok(incoming) = incoming else {
            return self.promised.reject(ctx, "ERR_HTTP", "the response has no body to read").map(|()| None);
        };
        with(|all| all.open.entry(self.exchange).or_default().incoming = Some(incoming));
        self.promised.resolve(ctx, head.into_value()).map(|()| None)
    }
}

/// The next piece of the response's body: a promise of a `Uint8Array`, or of null at its end.
pub(crate) fn read<'js>(ctx: Ctx<'js>, id: u32) -> Result<Promise<'js>> {
    let (promise, promised) = Promised::new(&ctx)?;
    let stream =
        with(|all| all.open.get(&id).and_then(|exchange| exchange.incoming.as_ref()).map(|i| i.stream.clone()));
    let Some(stream) = stream else {
        promised.resolve(&ctx, Value::new_null(ctx.clone()))?;
        return Ok(promise);
    };
    let operation = Read { pollable: stream.subscribe(), stream, promised, exchange: id };
    if let Some(operation) = Box::new(operation).ready(&ctx)? {
        pump::wait(&ctx, operation)?;
    }
    Ok(promise)
}

struct Read {
    pollable: Pollable,
    stream: Rc<InputStream>,
    promised: Promised,
    exchange: u32,
}

impl Operation for Read {
    fn pollable(&self) -> &Pollable {
        &self.pollable
    }

    fn exchange(&self) -> u32 {
        self.exchange
    }

    fn ready(self: Box<Self>, ctx: &Ctx<'_>) -> Result<Option<Box<dyn Operation>>> {
        let exchange = self.exchange;
        let read = self.stream.read(READ_BYTES);
        match read {
            Ok(bytes) if bytes.is_empty() => return Ok(Some(self)),
            Ok(bytes) => {
                let array = crate::bytes::to_array(ctx, bytes)?;
                self.promised.resolve(ctx, array.into_value())?;
            }
            Err(StreamError::Closed) => {
                let Self { pollable, stream, promised, .. } = *self;
                drop((pollable, stream));
                close(exchange);
                promised.resolve(ctx, Value::new_null(ctx.clone()))?;
            }
            Err(StreamError::LastOperationFailed(error)) => {
                let text = error.to_debug_string();
                let Self { pollable, stream, promised, .. } = *self;
                drop((pollable, stream));
                close(exchange);
                promised.reject(ctx, "ECONNRESET", &text)?;
            }
        }
        Ok(None)
    }
}

/// Writes a piece of the request's body: a promise of the moment when the host took it.
pub(crate) fn write<'js>(ctx: Ctx<'js>, id: u32, piece: TypedArray<'js, u8>) -> Result<Promise<'js>> {
    let (promise, promised) = Promised::new(&ctx)?;
    let stream = with(|all| all.open.get(&id).and_then(|exchange| exchange.out.as_ref()).map(|out| out.stream.clone()));
    match stream {
        None => promised.reject(&ctx, "ERR_CLOSED", "the request's body is closed")?,
        Some(stream) => write_to(&ctx, stream, bytes::from_array(&piece), promised, id)?,
    }
    Ok(promise)
}

/// Writes to a stream as fast as the host takes it.
pub(crate) fn write_to(
    ctx: &Ctx<'_>,
    stream: Rc<OutputStream>,
    bytes: Vec<u8>,
    promised: Promised,
    exchange: u32,
) -> Result<()> {
    let operation = Write { pollable: stream.subscribe(), stream, bytes, at: 0, promised, exchange };
    match Box::new(operation).ready(ctx)? {
        Some(operation) => pump::wait(ctx, operation),
        None => Ok(()),
    }
}

struct Write {
    pollable: Pollable,
    stream: Rc<OutputStream>,
    bytes: Vec<u8>,
    at: usize,
    promised: Promised,
    exchange: u32,
}

impl Operation for Write {
    fn pollable(&self) -> &Pollable {
        &self.pollable
    }

    fn exchange(&self) -> u32 {
        self.exchange
    }

    fn ready(mut self: Box<Self>, ctx: &Ctx<'_>) -> Result<Option<Box<dyn Operation>>> {
        match write_some(&self.stream, &self.bytes, &mut self.at) {
            Ok(false) => Ok(Some(self)),
            Ok(true) => self.promised.resolve(ctx, Value::new_undefined(ctx.clone())).map(|()| None),
            Err(_) => self.promised.reject(ctx, "EPIPE", "the other end closed the body").map(|()| None),
        }
    }
}

/// Writes what the host takes now; true when all is written.
fn write_some(stream: &OutputStream, bytes: &[u8], at: &mut usize) -> std::result::Result<bool, StreamError> {
    while *at < bytes.len() {
        let room = usize::try_from(stream.check_write()?).unwrap_or(usize::MAX);
        if room == 0 {
            return Ok(false);
        }
        let end = bytes.len().min(*at + room);
        stream.write(&bytes[*at..end])?;
        *at = end;
    }
    // So that pieces leave as they are written.
    stream.flush()?;
    Ok(true)
}

/// Writes all of it, waiting for the host where need be.
pub(crate) fn write_all(stream: &OutputStream, bytes: &[u8]) -> std::result::Result<(), StreamError> {
    let mut at = 0;
    while at < bytes.len() {
        let room = usize::try_from(stream.check_write()?).unwrap_or(usize::MAX);
        if room == 0 {
            stream.subscribe().block();
            continue;
        }
        let end = bytes.len().min(at + room);
        stream.write(&bytes[at..end])?;
        at = end;
    }
    Ok(())
}

/// Ends the request's body.
pub(crate) fn finish(ctx: Ctx<'_>, id: u32) -> Result<()> {
    let Some(Out { stream, body }) = with(|all| all.open.get_mut(&id).and_then(|exchange| exchange.out.take())) else {
        return Ok(());
    };
    drop(stream);
    OutgoingBody::finish(body, None).map_err(|code| {
        let (name, text) = describe(&code);
        throw(&ctx, name, &text)
    })
}

/// Gives up an exchange with all that waits for it.
pub(crate) fn close(id: u32) {
    pump::abort(id);
    let gone = with(|all| all.open.remove(&id));
    drop(gone);
}
