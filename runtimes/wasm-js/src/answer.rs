//! What a handler returned → status, headers and body. Whatever is not a response is refused with the fault's name.

use rquickjs_core::{Array, Ctx, Object, Result, Value};

use crate::bytes;
use crate::event::HOP_BY_HOP;
use crate::init::core;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const BINARY: &str = "application/octet-stream";
const JSON: &str = "application/json";
const FIELDS: &[&str] = &["statusCode", "headers", "body", "isBase64Encoded"];

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The function's fault, named.
    Bad(String),
    /// JavaScript threw while the value was read (a getter, a `toJSON`).
    Js(rquickjs_core::Error),
}

impl From<rquickjs_core::Error> for NoAnswer {
    fn from(error: rquickjs_core::Error) -> Self {
        Self::Js(error)
    }
}

fn bad<T>(text: impl Into<String>) -> std::result::Result<T, NoAnswer> {
    Err(NoAnswer::Bad(text.into()))
}

/// A body, whole or in pieces.
pub(crate) enum Body<'js> {
    Whole(Vec<u8>),
    Stream(Value<'js>),
}

/// An answer ready to be sent.
pub(crate) struct Answer<'js> {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Body<'js>,
    /// Whether there is a content-type among the headers.
    pub(crate) typed: bool,
    /// What the function said in content-length.
    pub(crate) length: Option<u64>,
}

impl Answer<'_> {
    fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Whole(Vec::new()), typed: false, length: None }
    }

    fn type_is(&mut self, kind: &str) {
        self.headers.push(("content-type".to_owned(), kind.as_bytes().to_vec()));
        self.typed = true;
    }
}

/// The answer that a handler's return value stands for.
pub(crate) fn prepare<'js>(ctx: &Ctx<'js>, result: Value<'js>) -> std::result::Result<Answer<'js>, NoAnswer> {
    if result.is_undefined() || result.is_null() {
        return Ok(Answer::new(204));
    }
    let object = result.as_object().filter(|object| !object.is_array());
    if let Some(object) = object {
        if is_response(ctx, object)? {
            return from_response(ctx, object);
        }
        if has_own(ctx, object, "statusCode")? {
            return from_fields(ctx, object);
        }
    }
    let mut answer = Answer::new(200);
    if let Some(kind) = take_body(ctx, &mut answer, result, false)? {
        answer.type_is(kind);
    }
    Ok(answer)
}

fn is_response<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Result<bool> {
    core(ctx)?.get::<_, rquickjs_core::Function<'js>>("isResponse")?.call((object.clone(),))
}

fn has_own<'js>(ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> Result<bool> {
    core(ctx)?.get::<_, rquickjs_core::Function<'js>>("hasOwn")?.call((object.clone(), name))
}

/// What a value is, for a message.
fn kind_of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    core(ctx)
        .and_then(|core| core.get::<_, rquickjs_core::Function<'js>>("kindOf"))
        .and_then(|f| f.call((value.clone(),)))
        .unwrap_or_else(|_| "value".to_owned())
}

/// A value as JSON, for a message.
fn show<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    core(ctx)
        .and_then(|core| core.get::<_, rquickjs_core::Function<'js>>("show"))
        .and_then(|f| f.call((value.clone(),)))
        .unwrap_or_else(|_| "a value".to_owned())
}

fn from_response<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> std::result::Result<Answer<'js>, NoAnswer> {
    // `[status, headers (flat list), body]`.
    let parts: Array<'js> =
        core(ctx)?.get::<_, rquickjs_core::Function<'js>>("responseParts")?.call((object.clone(),))?;
    let mut answer = Answer::new(status(ctx, &parts.get(0)?)?);
    let headers: Array<'js> = parts.get(1)?;
    for index in (0..headers.len()).step_by(2) {
        take_header(ctx, &mut answer, &headers.get::<String>(index)?, &headers.get(index + 1)?)?;
    }
    let body: Value<'js> = parts.get(2)?;
    take_body(ctx, &mut answer, body, false)?;
    if let (Body::Whole(body), false) = (&answer.body, answer.typed)
        && !body.is_empty()
    {
        answer.type_is(BINARY);
    }
    Ok(answer)
}

fn from_fields<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> std::result::Result<Answer<'js>, NoAnswer> {
    for field in object.keys::<String>() {
        let field = field?;
        if !FIELDS.contains(&field.as_str()) {
            return bad(format!(
                "`{field}` is no field of a response; there are {} (a header with several values has a list)",
                FIELDS.join(", ")
            ));
        }
    }
    let mut answer = Answer::new(status(ctx, &object.get("statusCode")?)?);
    take_headers(ctx, &mut answer, object.get("headers")?)?;
    let is_base64: Value<'js> = object.get("isBase64Encoded")?;
    let is_base64 = match is_base64.as_bool() {
        Some(is_base64) => is_base64,
        None if is_base64.is_undefined() || is_base64.is_null() => false,
        None => return bad(format!("`isBase64Encoded` is {}; use true or false", show(ctx, &is_base64))),
    };
    let body: Value<'js> = object.get("body")?;
    let kind = take_body(ctx, &mut answer, body, is_base64)?;
    if let (Some(kind), false, Body::Whole(body)) = (kind, answer.typed, &answer.body)
        && !body.is_empty()
    {
        answer.type_is(kind);
    }
    Ok(answer)
}

fn status<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> std::result::Result<u16, NoAnswer> {
    let number = value.as_number().filter(|n| n.fract() == 0.0 && (200.0..=599.0).contains(n));
    match number {
        Some(number) => Ok(number as u16),
        None => bad(format!("`statusCode` is {}; use a whole number from 200 to 599", show(ctx, value))),
    }
}

fn take_headers<'js>(ctx: &Ctx<'js>, answer: &mut Answer<'js>, given: Value<'js>) -> std::result::Result<(), NoAnswer> {
    if given.is_undefined() || given.is_null() {
        return Ok(());
    }
    let Some(object) = given.as_object().filter(|object| !object.is_array()) else {
        return bad(format!("`headers` is a {}; use an object of names and values", kind_of(ctx, &given)));
    };
    let list: Option<Array<'js>> =
        core(ctx)?.get::<_, rquickjs_core::Function<'js>>("headersList")?.call((object.clone(),))?;
    match list {
        Some(list) => {
            for index in (0..list.len()).step_by(2) {
                take_header(ctx, answer, &list.get::<String>(index)?, &list.get(index + 1)?)?;
            }
        }
        None => {
            for pair in object.props::<String, Value<'js>>() {
                let (name, value) = pair?;
                take_header(ctx, answer, &name, &value)?;
            }
        }
    }
    Ok(())
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn take_header<'js>(
    ctx: &Ctx<'js>,
    answer: &mut Answer<'js>,
    name: &str,
    value: &Value<'js>,
) -> std::result::Result<(), NoAnswer> {
    if !is_token(name) {
        return bad(format!("{} is no header name", serde_json::Value::from(name)));
    }
    let lower = name.to_ascii_lowercase();
    let mut texts = Vec::new();
    match value.as_array() {
        Some(values) => {
            for value in values.iter::<Value<'js>>() {
                texts.push(header_text(ctx, name, &value?)?);
            }
        }
        None => texts.push(header_text(ctx, name, value)?),
    }
    // The connection is the runtime's; X-Sless-* are the platform's own words; the date is the server's.
    if HOP_BY_HOP.contains(&lower.as_str()) || lower.starts_with("x-sless-") || lower == "date" {
        return Ok(());
    }
    if lower == "content-length" {
        let text = texts.iter().map(|t| bytes::from_latin1(t)).collect::<Vec<_>>().join(", ");
        let valid = texts.len() == 1 && (1..=15).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let Some(length) = valid.then(|| text.parse().ok()).flatten() else {
            let text = serde_json::Value::from(text);
            return bad(format!("`content-length` is {text}; use the body's length, or leave it out"));
        };
        answer.length = Some(length);
        return Ok(());
    }
    answer.typed |= lower == "content-type";
    answer.headers.extend(texts.into_iter().map(|text| (lower.clone(), text)));
    Ok(())
}

fn header_text<'js>(ctx: &Ctx<'js>, name: &str, value: &Value<'js>) -> std::result::Result<Vec<u8>, NoAnswer> {
    let text = if let Some(text) = value.as_string() {
        bytes::text(text)?.trim_matches([' ', '\t']).to_owned()
    } else if let Some(number) = value.as_number().filter(|n| n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_991.0) {
        format!("{number:.0}")
    } else if value.is_big_int() {
        show(ctx, value).trim_end_matches('n').to_owned()
    } else {
        let kind = kind_of(ctx, value);
        return bad(format!("header `{name}` is a {kind}; use text, a whole number, or a list of them"));
    };
    let valid = |b: &u8| *b == b'\t' || (0x20..=0x7e).contains(b) || *b >= 0x80;
    match bytes::to_latin1(&text).filter(|bytes| bytes.iter().all(valid)) {
        Some(bytes) => Ok(bytes),
        None => bad(format!(
            "header `{name}` has a character that headers can't carry; allowed are U+0020 to U+007E and U+0080 to U+00FF"
        )),
    }
}

/// Fills the body; gives the content type that goes with it.
fn take_body<'js>(
    ctx: &Ctx<'js>,
    answer: &mut Answer<'js>,
    value: Value<'js>,
    is_base64: bool,
) -> std::result::Result<Option<&'static str>, NoAnswer> {
    if is_base64 {
        let Some(text) = value.as_string() else {
            let kind = kind_of(ctx, &value);
            return bad(format!("`isBase64Encoded` is true, but `body` is a {kind}; use base64 text"));
        };
        let Some(decoded) = crate::native::from_base64(&bytes::utf8(text)?) else {
            return bad("`isBase64Encoded` is true, but `body` is not base64");
        };
        answer.body = Body::Whole(decoded);
        return Ok(Some(BINARY));
    }
    if value.is_undefined() || value.is_null() {
        return Ok(None);
    }
    if let Some(text) = value.as_string() {
        answer.body = Body::Whole(bytes::utf8(text)?);
        return Ok(Some(TEXT));
    }
    if value.is_object() && !value.is_array() {
        if let Some(bytes) = bytes_of(ctx, &value)? {
            answer.body = Body::Whole(bytes);
            return Ok(Some(BINARY));
        }
        let is_stream: bool = core(ctx)?.get::<_, rquickjs_core::Function<'js>>("isStream")?.call((value.clone(),))?;
        if is_stream {
            answer.body = Body::Stream(value);
            return Ok(None);
        }
    }
    answer.body = Body::Whole(to_json(ctx, &value)?);
    Ok(Some(JSON))
}

/// Bytes of a Buffer, typed array, DataView or ArrayBuffer; none for anything else.
fn bytes_of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Option<Vec<u8>>> {
    let array: Option<rquickjs_core::TypedArray<'js, u8>> =
        core(ctx)?.get::<_, rquickjs_core::Function<'js>>("bytesOf")?.call((value.clone(),))?;
    Ok(array.map(|array| bytes::from_array(&array)))
}

fn to_json<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> std::result::Result<Vec<u8>, NoAnswer> {
    match ctx.json_stringify(value.clone()) {
        Ok(Some(text)) => Ok(bytes::utf8(&text)?),
        Ok(None) => {
            let kind = kind_of(ctx, value);
            bad(format!(
                "the handler returned a {kind}, which is not JSON; return text, bytes, JSON values or a response"
            ))
        }
        Err(_) => {
            let error = ctx.catch();
            let why = error.as_exception().and_then(|e| e.message()).unwrap_or_else(|| "it can't be".to_owned());
            let why = why.lines().next().unwrap_or_default();
            bad(format!("the handler returned a value that can't be written as JSON: {why}"))
        }
    }
}

/// A piece of a streamed body, and whether it was text.
pub(crate) fn piece<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> std::result::Result<(Vec<u8>, bool), NoAnswer> {
    if let Some(text) = value.as_string() {
        return Ok((bytes::utf8(text)?, true));
    }
    if value.is_object()
        && let Some(bytes) = bytes_of(ctx, value)?
    {
        return Ok((bytes, false));
    }
    bad(format!("the body's stream gave a {}; give strings or bytes", kind_of(ctx, value)))
}
