//! A call: request → event → handler → response.

mod reply;

use std::cell::{Cell, OnceCell};

use rquickjs_core::{Ctx, Function, Object, Promise, Result, Value};
use wasip2::cli::environment::get_environment;
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::http::types::{ErrorCode, IncomingRequest, Method, ResponseOutparam};
use wasip2::io::streams::StreamError;

use crate::answer::{self, Body, NoAnswer};
use crate::event::{self, NoEvent, Request};
use crate::init::{self, Failed, core};
use crate::pump::{self, Stuck};
use crate::{phase, thrown};

use reply::Reply;
pub(crate) use reply::answer_piece;

/// A longer one is not taken over; the call gets one of its own.
const MAX_REQUEST_ID_CHARS: usize = 128;
/// What a read takes at most.
const READ_BYTES: u64 = 256 << 10;
/// What `timeoutSeconds` is where the platform does not say (`SLESS_TIMEOUT_SECONDS`).
const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;

thread_local! {
    static STARTED: Cell<u64> = const { Cell::new(0) };
    static ENVIRONMENT: OnceCell<Vec<(String, String)>> = const { OnceCell::new() };
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
    let mut reply = Reply::new(out, &request.path, &id);
    context.with(|ctx| {
        if let Err(fault) = call(&ctx, &request, &mut reply) {
            reply.fail(&ctx, fault);
        }
        for reason in pump::take_rejected(&ctx, None) {
            thrown::log_rejection(&ctx, reason);
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
    let timeout =
        variable("SLESS_TIMEOUT_SECONDS").and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    let now = wall_clock::now();
    let now_ms = now.seconds as f64 * 1e3 + f64::from(now.nanoseconds / 1_000_000);
    context.set("deadlineMs", (now_ms + timeout * 1e3).trunc())?;
    context.set("log", core(ctx)?.get::<_, Value<'js>>("log")?)?;
    Ok(context)
}
