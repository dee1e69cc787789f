//! What a handler gets: the event of a request, and the context.

use std::collections::BTreeMap;

use rquickjs_core::{Array, Ctx, Error, Object, Result, Value};

use crate::bytes;

const CLOUD_EVENT: &str = "application/cloudevents+json";

/// Of the connection, not of the request: a handler never sees them.
pub(crate) const HOP_BY_HOP: &[&str] =
    &["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// A request as it came.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    /// Names in lower case, joined where repeated; values as latin-1.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Why there is no event.
pub(crate) enum NoEvent {
    /// The body is no CloudEvent; says why.
    Bad(String),
    /// JavaScript failed.
    Js(Error),
}

impl From<Error> for NoEvent {
    fn from(error: Error) -> Self {
        Self::Js(error)
    }
}

/// Names in lower case; repeated ones joined as RFC 9110 says, cookies as RFC 6265 does.
pub(crate) fn join_headers(entries: Vec<(String, Vec<u8>)>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::with_capacity(entries.len());
    for (mut name, value) in entries {
        name.make_ascii_lowercase();
        if HOP_BY_HOP.contains(&name.as_str()) {
            continue;
        }
        let value = bytes::from_latin1(&value);
        match headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                known.push_str(if name == "cookie" { "; " } else { ", " });
                known.push_str(&value);
            }
            None => headers.push((name, value)),
        }
    }
    headers
}

/// The value of a header.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// `text/html; charset=x` → `text/html`.
fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The media types whose bodies are text if they are valid UTF-8: the same list in every runtime.
fn is_text(kind: &str) -> bool {
    const SUBTYPES: &[&str] = &[
        "json",
        "xml",
        "javascript",
        "ecmascript",
        "yaml",
        "x-yaml",
        "toml",
        "graphql",
        "sql",
        "ndjson",
        "x-ndjson",
        "jsonl",
        "x-www-form-urlencoded",
    ];
    let ends_in = |separator: char, names: &[&str]| {
        kind.rsplit_once(separator).is_some_and(|(before, last)| !before.is_empty() && names.contains(&last))
    };
    kind.is_empty()
        || kind.strip_prefix("text/").is_some_and(|subtype| !subtype.is_empty())
        || ends_in('/', SUBTYPES)
        || ends_in('+', &["json", "xml", "yaml"])
}

/// An object without a prototype: `__proto__` is a name like any other.
fn bare<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set_prototype(None)?;
    Ok(object)
}

/// The event of a request: a CloudEvent as it is, else the HTTP request.
pub(crate) fn make<'js>(ctx: &Ctx<'js>, request: &Request) -> std::result::Result<Value<'js>, NoEvent> {
    let kind = media_type(header(&request.headers, "content-type").unwrap_or_default());
    if kind == CLOUD_EVENT {
        return cloud_event(ctx, &request.body);
    }
    let event = Object::new(ctx.clone())?;
    event.set("method", request.method.as_str())?;
    event.set("path", request.path.as_str())?;
    event.set("rawQuery", request.query.as_str())?;
    event.set("query", parse_query(ctx, &request.query)?)?;
    let headers = bare(ctx)?;
    for (name, value) in &request.headers {
        headers.set(name.as_str(), value.as_str())?;
    }
    event.set("headers", headers)?;
    let text = if is_text(&kind) { std::str::from_utf8(&request.body).ok() } else { None };
    match text {
        Some(text) => event.set("body", text)?,
        None if request.body.is_empty() => event.set("body", "")?,
        None => event.set("body", crate::native::to_base64(&request.body))?,
    }
    event.set("isBase64Encoded", text.is_none() && !request.body.is_empty())?;
    Ok(event.into_value())
}

fn cloud_event<'js>(ctx: &Ctx<'js>, body: &[u8]) -> std::result::Result<Value<'js>, NoEvent> {
    let not_json = |why: &str| NoEvent::Bad(format!("the body is not JSON: {why}"));
    let Ok(text) = std::str::from_utf8(body) else { return Err(not_json("it is not UTF-8")) };
    let event = ctx.json_parse(text).map_err(|_| {
        let error = ctx.catch();
        not_json(&error.as_exception().and_then(|e| e.message()).unwrap_or_else(|| "it can't be parsed".to_owned()))
    })?;
    let Some(object) = event.as_object().filter(|object| !object.is_array()) else {
        return Err(NoEvent::Bad("a CloudEvent is a JSON object".to_owned()));
    };
    for attribute in ["specversion", "id", "source", "type"] {
        if bytes::text_field(object, attribute).is_none_or(|text| text.is_empty()) {
            return Err(NoEvent::Bad(format!("a CloudEvent needs `{attribute}`, a string that is not empty")));
        }
    }
    Ok(event)
}

/// `x=1&x=2&y=` → `{x: ['1', '2'], y: ''}`: form encoding in UTF-8, wrong bytes replaced, wrong `%` kept.
fn parse_query<'js>(ctx: &Ctx<'js>, raw: &str) -> Result<Object<'js>> {
    let query = bare(ctx)?;
    let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (name, value) in decode_query(raw) {
        match places.get(&name) {
            Some(place) => pairs[*place].1.push(value),
            None => {
                places.insert(name.clone(), pairs.len());
                pairs.push((name, vec![value]));
            }
        }
    }
    for (name, mut values) in pairs {
        if values.len() == 1 {
            query.set(name, values.pop())?;
        } else {
            let list = Array::new(ctx.clone())?;
            for (index, value) in values.into_iter().enumerate() {
                list.set(index, value)?;
            }
            query.set(name, list)?;
        }
    }
    Ok(query)
}

fn decode_query(raw: &str) -> impl Iterator<Item = (String, String)> {
    raw.split('&').filter(|piece| !piece.is_empty()).map(|piece| {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        (decode(name), decode(value))
    })
}

fn decode(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let hex = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = match bytes[at..] {
            [b'%', high, low, ..] => hex(high).zip(hex(low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        if let Some(byte) = escaped {
            out.push(byte);
            at += 3;
        } else {
            out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
            at += 1;
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
