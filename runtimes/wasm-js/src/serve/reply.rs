//! The way back: heads, whole bodies, bodies in pieces, and problems.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs_core::{Ctx, Function, Promise, Result, Value};
use wasip2::http::types::{ErrorCode, Fields, OutgoingBody, OutgoingResponse, ResponseOutparam};
use wasip2::io::streams::OutputStream;

use super::{Fault, awaited};
use crate::answer::{self, Answer, BINARY, Body, NoAnswer, TEXT};
use crate::fetch::{self, Promised};
use crate::init::core;
use crate::problem::{self, Code};
use crate::{output, pump, thrown};

/// Writes of a response's body belong to no exchange.
const NO_EXCHANGE: u32 = 0;
/// What a HEAD without a body may give as its length; more would take longer to write than it is worth.
const MAX_FILLER_BYTES: u64 = 16 << 20;
const FILLER: [u8; 16 << 10] = [0; 16 << 10];

thread_local! {
    static STREAMING: RefCell<Option<Streaming>> = const { RefCell::new(None) };
}

/// The way back to the client.
pub(super) struct Reply<'a> {
    /// None once the head is out.
    out: Option<ResponseOutparam>,
    path: &'a str,
    pub(super) id: &'a str,
}

/// Sends a head.
fn send_head(
    out: ResponseOutparam,
    status: u16,
    headers: &[(String, Vec<u8>)],
) -> std::result::Result<OutgoingBody, Fault> {
    let fields = Fields::new();
    for (name, value) in headers {
        // Checked before; what the host still refuses belongs to the connection.
        let _ = fields.append(name, value);
    }
    let response = OutgoingResponse::new(fields);
    response
        .set_status_code(status)
        .map_err(|()| Fault::BadResponse(format!("the host refuses the status {status}")))?;
    let body = response.body().map_err(|()| Fault::Gone)?;
    ResponseOutparam::set(out, Ok(response));
    Ok(body)
}

const fn has_no_body(status: u16) -> bool {
    matches!(status, 204 | 304)
}

impl<'a> Reply<'a> {
    pub(super) fn new(out: ResponseOutparam, path: &'a str, id: &'a str) -> Self {
        Self { out: Some(out), path, id }
    }

    /// Sends an answer whose body is whole.
    pub(super) fn whole(&mut self, answer: Answer<'_>, head_only: bool) -> std::result::Result<(), Fault> {
        let Answer { status, mut headers, body: Body::Whole(bytes), length, .. } = answer else {
            return Err(Fault::Gone);
        };
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
        // The answer to HEAD may say the length of a body that GET would have. The interface wants that many bytes written,
        // which are dropped on the way.
        let filler = length.filter(|length| head_only && *length > actual && *length <= MAX_FILLER_BYTES).unwrap_or(0);
        headers.push(("content-length".to_owned(), actual.max(filler).to_string().into_bytes()));
        let body = send_head(out, status, &headers)?;
        if filler > 0 {
            let stream = body.write().map_err(|()| Fault::Gone)?;
            for at in (0..filler).step_by(FILLER.len()) {
                let piece = &FILLER[..FILLER.len().min((filler - at) as usize)];
                fetch::write_all(&stream, piece).map_err(|_| Fault::Gone)?;
            }
        }
        if !bytes.is_empty() {
            let stream = body.write().map_err(|()| Fault::Gone)?;
            fetch::write_all(&stream, &bytes).map_err(|_| Fault::Gone)?;
        }
        OutgoingBody::finish(body, None).map_err(|_| Fault::Gone)
    }

    /// Sends an answer whose body comes in pieces.
    pub(super) fn stream<'js>(
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
        // A write that still waits holds the stream, which has to go before its body.
        pump::abort(NO_EXCHANGE);
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
            if !has_no_body(streaming.status) {
                streaming.headers.push(("content-length".to_owned(), b"0".to_vec()));
            }
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
    pub(super) fn fail(&mut self, ctx: &Ctx<'_>, fault: Fault) {
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
                let thrown = thrown::take(ctx, error);
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
