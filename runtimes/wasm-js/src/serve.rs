//! A call: request → event → handler → response.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use rquickjs_core::{Ctx, Function, Object, Promise, Result, Value};
use wasip2::cli::environment::get_environment;
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam,
};
use wasip2::io::streams::{OutputStream, StreamError};

use crate::answer::{self, Answer, BINARY, Body, NoAnswer, TEXT};
use crate::event::{self, NoEvent, Request};
use crate::fetch::{self, Promised};
use crate::init::{self, Failed, core};
use crate::problem::{self, Code};
use crate::pump::{self, Stuck};
use crate::{output, phase};

/// A longer one is not taken over; the call gets one of its own.
const MAX_REQUEST_ID_CHARS: usize = 128;
/// What a read takes at most.
const READ_BYTES: u64 = 256 << 10;
/// What `timeoutSeconds` is where the platform does not say (`SLESS_TIMEOUT_SECONDS`).
const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;
/// Writes of a response's body belong to no exchange.
const NO_EXCHANGE: u32 = 0;

thread_local! {
    static STARTED: Cell<u64> = const { Cell::new(0) };
    static ENVIRONMENT: OnceCell<Vec<(String, String)>> = const { OnceCell::new() };
    static STREAMING: RefCell<Option<Streaming>> = const { RefCell::new(None) };
}

/// Milliseconds since the instance started.
pub(crate) fn since_start_ms(now: u64) -> f64 {
    now.saturating_sub(STARTED.get()) as f64 / 1e6
}

/// The environment, asked for once.
pub(crate) fn environment() -> Vec<(String, String)> {
    ENVIRONMENT.with(|cell| cell.get_or_init(get_environment).clone())
}

fn variable(name: &str) -> Option<String> {
    ENVIRONMENT.with(|cell| {
        let all = cell.get_or_init(get_environment);
        all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    })
}

/// Serves a request.
pub(crate) fn handle(incoming: IncomingRequest, out: ResponseOutparam) {
    phase::serve();
    if STARTED.get() == 0 {
        STARTED.set(monotonic_clock::now());
    }
    let Some(context) = init::context() else {
        let text = "the component has no function in it: it was not built to its end".to_owned();
        return ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some(text))));
    };
    let request = match read(incoming) {
        Ok(request) => request,
        // The client went away, or sent more than it may: the host knows which.
        Err(text) => return ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some(text)))),
    };
    let id = request_id(&request.headers);
    let mut reply = Reply { out: Some(out), path: &request.path, id: &id };
    context.with(|ctx| {
        if let Err(fault) = call(&ctx, &request, &mut reply) {
            reply.fail(&ctx, fault);
        }
        for reason in pump::take_rejected(&ctx, None) {
            init::log_rejection(&ctx, reason);
        }
    });
}

fn read(incoming: IncomingRequest) -> std::result::Result<Request, String> {
    let method = match incoming.method() {
        Method::Get => "GET".to_owned(),
        Method::Head => "HEAD".to_owned(),
        Method::Post => "POST".to_owned(),
        Method::Put => "PUT".to_owned(),
        Method::Delete => "DELETE".to_owned(),
        Method::Connect => "CONNECT".to_owned(),
        Method::Options => "OPTIONS".to_owned(),
        Method::Trace => "TRACE".to_owned(),
        Method::Patch => "PATCH".to_owned(),
        Method::Other(name) => name,
    };
    let target = incoming.path_with_query().unwrap_or_else(|| "/".to_owned());
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path.to_owned(), query.to_owned()),
        None => (target, String::new()),
    };
    let headers = event::join_headers(incoming.headers().entries());
    let body = incoming.consume().map_err(|()| "the request's body was taken before".to_owned())?;
    let stream = body.stream().map_err(|()| "the request's body was taken before".to_owned())?;
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        match stream.blocking_read(READ_BYTES) {
            // Most bodies come in one piece, which is not copied.
            Ok(piece) if bytes.is_empty() => bytes = piece,
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(format!("the request's body broke off: {}", error.to_debug_string()));
            }
        }
    }
    Ok(Request { method, path, query, headers, body: bytes })
}

fn request_id(headers: &[(String, String)]) -> String {
    match event::header(headers, "x-request-id") {
        Some(id) if !id.is_empty() && id.chars().count() <= MAX_REQUEST_ID_CHARS => id.to_owned(),
        _ => {
            let mut bytes = wasip2::random::random::get_random_bytes(16);
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
        }
    }
}

/// Why a call has no good answer.
enum Fault {
    BadRequest(String),
    BadResponse(String),
    /// The exception is pending in the context.
    Threw(rquickjs_core::Error),
    /// The file failed when the instance ran it.
    NotLoaded(String),
    /// The client is gone, or the host took no more.
    Gone,
}

impl From<rquickjs_core::Error> for Fault {
    fn from(error: rquickjs_core::Error) -> Self {
        Self::Threw(error)
    }
}

impl From<NoAnswer> for Fault {
    fn from(no: NoAnswer) -> Self {
        match no {
            NoAnswer::Bad(text) => Self::BadResponse(text),
            NoAnswer::Js(error) => Self::Threw(error),
        }
    }
}

fn call(ctx: &Ctx<'_>, request: &Request, reply: &mut Reply<'_>) -> std::result::Result<(), Fault> {
    let handler = init::handler(ctx).map_err(|failed| match failed {
        Failed::Threw(error) => Fault::Threw(error),
        Failed::NoHandler(text) => Fault::NotLoaded(text),
        Failed::Never | Failed::WouldWait => pump::wait_for_the_end(),
    })?;
    let event = event::make(ctx, request).map_err(|no| match no {
        NoEvent::Bad(text) => Fault::BadRequest(text),
        NoEvent::Js(error) => Fault::Threw(error),
    })?;
    let returned: Value<'_> = handler.call((event, call_context(ctx, reply.id)?))?;
    let value = awaited(ctx, returned)?;
    let answer = answer::prepare(ctx, value)?;
    match &answer.body {
        Body::Whole(_) => reply.whole(answer, request.method == "HEAD"),
        Body::Stream(stream) => {
            let stream = stream.clone();
            reply.stream(ctx, answer, stream, request.method == "HEAD")
        }
    }
}

/// What `await` gives.
fn awaited<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> std::result::Result<Value<'js>, Fault> {
    let promise = match value.as_promise() {
        Some(promise) => promise.clone(),
        None if value.is_object() && !value.is_array() => {
            let promise: Option<Promise<'js>> = core(ctx)?.get::<_, Function<'js>>("adopt")?.call((value.clone(),))?;
            match promise {
                Some(promise) => promise,
                None => return Ok(value),
            }
        }
        None => return Ok(value),
    };
    pump::settle(ctx, &promise).map_err(|stuck| match stuck {
        Stuck::Threw => Fault::Threw(rquickjs_core::Error::Exception),
        Stuck::Never | Stuck::WouldWait => pump::wait_for_the_end(),
    })
}

/// What a handler knows of its call.
fn call_context<'js>(ctx: &Ctx<'js>, id: &str) -> Result<Object<'js>> {
    let context = Object::new(ctx.clone())?;
    context.set("requestId", id)?;
    context.set("functionName", variable("SLESS_FUNCTION_NAME").unwrap_or_default())?;
    context.set("namespace", variable("SLESS_NAMESPACE").unwrap_or_default())?;
    let version: f64 = variable("SLESS_VERSION").and_then(|text| text.parse().ok()).unwrap_or_default();
    context.set("version", version)?;
    let timeout = variable("SLESS_TIMEOUT_SECONDS").and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    let now = wall_clock::now();
    let now_ms = now.seconds as f64 * 1e3 + f64::from(now.nanoseconds / 1_000_000);
    context.set("deadlineMs", (now_ms + timeout * 1e3).trunc())?;
    context.set("log", core(ctx)?.get::<_, Value<'js>>("log")?)?;
    Ok(context)
}

/// The way back to the client.
struct Reply<'a> {
    /// None once the head is out.
    out: Option<ResponseOutparam>,
    path: &'a str,
    id: &'a str,
}

/// Sends a head.
fn send_head(out: ResponseOutparam, status: u16, headers: &[(String, Vec<u8>)]) -> std::result::Result<OutgoingBody, Fault> {
    let fields = Fields::new();
    for (name, value) in headers {
        // Checked before; what the host still refuses belongs to the connection.
        let _ = fields.append(name, value);
    }
    let response = OutgoingResponse::new(fields);
    response.set_status_code(status).map_err(|()| Fault::BadResponse(format!("the host refuses the status {status}")))?;
    let body = response.body().map_err(|()| Fault::Gone)?;
    ResponseOutparam::set(out, Ok(response));
    Ok(body)
}

const fn has_no_body(status: u16) -> bool {
    matches!(status, 204 | 304)
}

impl Reply<'_> {
    fn whole(&mut self, answer: Answer<'_>, head_only: bool) -> std::result::Result<(), Fault> {
        let Answer { status, mut headers, body: Body::Whole(bytes), length, .. } = answer else { return Err(Fault::Gone) };
        let actual = bytes.len() as u64;
        if let Some(length) = length
            && length != actual
            && !has_no_body(status)
            && !(head_only && bytes.is_empty())
        {
            return Err(Fault::BadResponse(format!(
                "`content-length` is {length}, but the body has {actual} bytes; leave the header out"
            )));
        }
        let Some(out) = self.out.take() else { return Err(Fault::Gone) };
        if has_no_body(status) {
            let body = send_head(out, status, &headers)?;
            return OutgoingBody::finish(body, None).map_err(|_| Fault::Gone);
        }
        headers.push(("content-length".to_owned(), actual.to_string().into_bytes()));
        let body = send_head(out, status, &headers)?;
        if !bytes.is_empty() {
            let stream = body.write().map_err(|()| Fault::Gone)?;
            fetch::write_all(&stream, &bytes).map_err(|_| Fault::Gone)?;
        }
        OutgoingBody::finish(body, None).map_err(|_| Fault::Gone)
    }

    fn stream<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        answer: Answer<'js>,
        stream: Value<'js>,
        head_only: bool,
    ) -> std::result::Result<(), Fault> {
        let Answer { status, headers, typed, length, .. } = answer;
        let started = Streaming {
            out: self.out.take(),
            status,
            headers,
            typed,
            length,
            head_only,
            body: None,
            sent: 0,
            fault: None,
        };
        STREAMING.set(Some(started));
        let pumped: Result<Promise<'js>> =
            core(ctx).and_then(|core| core.get::<_, Function<'js>>("pump")).and_then(|pump| pump.call((stream,)));
        let settled = match pumped {
            Ok(promise) => awaited(ctx, promise.into_value()),
            Err(error) => Err(Fault::Threw(error)),
        };
        let Some(mut streaming) = STREAMING.take() else { return Err(Fault::Gone) };
        // What `answer_piece` found is the cause of what it threw.
        if let Some(fault) = streaming.fault.take() {
            let _ = ctx.catch();
            self.out = streaming.out.take();
            return Err(fault);
        }
        if let Err(fault) = settled {
            // Before the head, the client can be told; after it, the body is cut.
            self.out = streaming.out.take();
            return Err(fault);
        }
        if let Some(length) = streaming.length
            && length != streaming.sent
            && !has_no_body(streaming.status)
            && !head_only
        {
            self.out = streaming.out.take();
            let sent = streaming.sent;
            return Err(Fault::BadResponse(format!(
                "`content-length` is {length}, but the body has {sent} bytes; leave the header out"
            )));
        }
        if let Some(out) = streaming.out.take() {
            // A stream without a piece.
            let body = send_head(out, streaming.status, &streaming.headers)?;
            return OutgoingBody::finish(body, None).map_err(|_| Fault::Gone);
        }
        match streaming.body.take() {
            Some((stream, body)) => {
                drop(stream);
                OutgoingBody::finish(body, None).map_err(|_| Fault::Gone)
            }
            None => Ok(()),
        }
    }

    /// Answers a call that has no good answer.
    fn fail(&mut self, ctx: &Ctx<'_>, fault: Fault) {
        let (code, detail) = match fault {
            Fault::Gone => return,
            Fault::BadRequest(text) => (Code::BadRequest, text),
            Fault::BadResponse(text) => {
                output::complain(&format!("the handler's response is not valid: {text}"));
                (Code::BadResponse, text)
            }
            Fault::NotLoaded(text) => {
                output::complain(&text);
                (Code::FunctionError, text)
            }
            Fault::Threw(error) => {
                let thrown = init::thrown(ctx, error);
                output::complain(&thrown.stack_or_title());
                (Code::FunctionError, thrown.title())
            }
        };
        // The head is out: the body ends without its end, which the client's side sees.
        let Some(out) = self.out.take() else { return };
        if matches!(code, Code::BadResponse) {
            // The host's to tell: it is an outcome of the platform, with a header that functions can't set.
            return ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some(detail))));
        }
        let (status, body) = problem::answer(code, &detail, self.path, self.id);
        let headers = vec![("content-type".to_owned(), b"application/problem+json".to_vec())];
        let answer = Answer { status, headers, body: Body::Whole(body), typed: true, length: None };
        self.out = Some(out);
        let _ = self.whole(answer, false);
    }
}

/// A response whose body comes in pieces.
struct Streaming {
    /// None once the head is out.
    out: Option<ResponseOutparam>,
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    typed: bool,
    length: Option<u64>,
    head_only: bool,
    // The stream goes before its body.
    body: Option<(Rc<OutputStream>, OutgoingBody)>,
    sent: u64,
    fault: Option<Fault>,
}

impl Streaming {
    /// Takes note of a piece, sending the head before the first; answers where to write it, or none if it isn't wanted.
    fn take(&mut self, length: usize, is_text: bool) -> std::result::Result<Option<Rc<OutputStream>>, Fault> {
        self.sent += length as u64;
        if let Some(expected) = self.length
            && self.sent > expected
        {
            return Err(Fault::BadResponse(format!(
                "`content-length` is {expected}, but the body has more bytes; leave the header out"
            )));
        }
        if let Some(out) = self.out.take() {
            if !self.typed {
                let kind = if is_text { TEXT } else { BINARY };
                self.headers.push(("content-type".to_owned(), kind.as_bytes().to_vec()));
            }
            if let Some(length) = self.length
                && !has_no_body(self.status)
                && !self.head_only
            {
                self.headers.push(("content-length".to_owned(), length.to_string().into_bytes()));
            }
            let body = send_head(out, self.status, &self.headers)?;
            if has_no_body(self.status) || self.head_only {
                let _ = OutgoingBody::finish(body, None);
                return Ok(None);
            }
            let stream = body.write().map_err(|()| Fault::Gone)?;
            self.body = Some((Rc::new(stream), body));
        }
        Ok(self.body.as_ref().map(|(stream, _)| stream.clone()))
    }
}

/// Takes a piece of the body: a promise of the moment when the host took it, or false if no more is wanted.
pub(crate) fn answer_piece<'js>(ctx: Ctx<'js>, piece: Value<'js>) -> Result<Value<'js>> {
    let fail = |fault: Fault| {
        STREAMING.with_borrow_mut(|streaming| {
            if let Some(streaming) = streaming {
                streaming.fault = Some(fault);
            }
        });
        crate::bytes::type_error(&ctx, "the piece can't be sent")
    };
    let (bytes, is_text) = match answer::piece(&ctx, &piece) {
        Ok(piece) => piece,
        Err(NoAnswer::Bad(text)) => return Err(fail(Fault::BadResponse(text))),
        Err(NoAnswer::Js(error)) => return Err(error),
    };
    if bytes.is_empty() {
        return Ok(Value::new_undefined(ctx));
    }
    let taken = STREAMING.with_borrow_mut(|streaming| match streaming {
        Some(streaming) => streaming.take(bytes.len(), is_text),
        None => Ok(None),
    });
    match taken {
        Err(fault) => Err(fail(fault)),
        Ok(None) => Ok(Value::new_bool(ctx, false)),
        Ok(Some(stream)) => {
            let (promise, promised) = Promised::new(&ctx)?;
            fetch::write_to(&ctx, stream, bytes, promised, NO_EXCHANGE)?;
            Ok(promise.into_value())
        }
    }
}
