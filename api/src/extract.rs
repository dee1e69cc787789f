//! What handlers take from a request. Every refusal names what is wrong and where.

use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_path_to_error::{Path, Segment};
use sless_core::function::escape_pointer;
use sless_core::page::{DEFAULT_LIMIT, MAX_LIMIT};
use sless_core::problem::FieldError;
use sless_core::resource::ResourceVersion;
use sless_core::{Code, PageRequest, Problem, Timestamp};

use crate::error::{ApiError, ApiResult};

/// The largest JSON body: a secret of 64 KiB whose every byte is escaped (`\u0001`), and some room.
const MAX_JSON_BYTES: usize = 512 << 10;
/// How long a JSON body may take to arrive; a slow client must not hold memory for ever.
const JSON_TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON body of a known shape.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let media = media_type(request.headers());
        if !(media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))) {
            let detail = format!("the Content-Type is {}; this route takes application/json", named(&media));
            return Err(ApiError::new(Code::UnsupportedMediaType, detail));
        }
        parse(&collect(request).await?).map(Self)
    }
}

async fn collect(request: Request) -> ApiResult<Bytes> {
    let body = Limited::new(request.into_body(), MAX_JSON_BYTES).collect();
    match tokio::time::timeout(JSON_TIMEOUT, body).await {
        Ok(Ok(all)) => Ok(all.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(ApiError::new(Code::PayloadTooLarge, format!("a JSON body has at most {MAX_JSON_BYTES} bytes")))
        }
        Ok(Err(error)) => Err(ApiError::new(Code::BadRequest, format!("the body ended early: {error}"))),
        Err(_) => {
            let detail = format!("the body did not arrive within {} seconds", JSON_TIMEOUT.as_secs());
            Err(ApiError::new(Code::BadRequest, detail))
        }
    }
}

/// Reads JSON: malformed text is 400 with its place, a wrong value is 422 with its pointer.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let cause = error.inner();
        if cause.is_data() {
            // The place in the text says less than the pointer.
            let text = cause.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            Problem::invalid(vec![FieldError::new(pointer(error.path()), text)]).into()
        } else {
            ApiError::new(Code::BadRequest, format!("the body is not JSON: {cause}"))
        }
    })?;
    reader
        .end()
        .map_err(|error| ApiError::new(Code::BadRequest, format!("the body is not one JSON value: {error}")))?;
    Ok(value)
}

/// A path as a JSON Pointer (RFC 6901).
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push_str(&format!("/{}", escape_pointer(key)))
            }
            Segment::Unknown => break,
        }
    }
    pointer
}

/// The media type without its parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A media type in a sentence.
pub(crate) fn named(media: &str) -> String {
    if media.is_empty() { "missing".to_owned() } else { format!("`{media}`") }
}

/// The `{name}` of the path.
pub(crate) struct Named<T>(pub(crate) T);

impl<S: Send + Sync, T> FromRequestParts<S> for Named<T>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let unreadable =
            |error: &dyn std::fmt::Display| ApiError::new(Code::BadRequest, format!("the path can't be read: {error}"));
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|error| unreadable(&error))?;
        let name = params.iter().find(|(key, _)| *key == "name" || *key == "id").map_or("", |(_, value)| value);
        name.parse().map(Self).map_err(|error: T::Err| ApiError::new(Code::Invalid, error.to_string()))
    }
}

/// The query, with unknown parameters refused by name.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => {
                let text = error.body_text();
                let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
                Err(ApiError::new(Code::Invalid, format!("query parameter {text}")))
            }
        }
    }
}

/// Which page of a list.
#[derive(Debug, Clone, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// At most so many items.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 100)]
    pub(crate) limit: Option<u32>,
    /// `next` of the page before.
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

impl PageParams {
    pub(crate) fn request(self) -> ApiResult<PageRequest> {
        page(self.limit, self.cursor)
    }
}

/// A page request with its bounds checked.
pub(crate) fn page(limit: Option<u32>, cursor: Option<String>) -> ApiResult<PageRequest> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let detail = format!("query parameter limit: {limit} is out of range; it must be from 1 to {MAX_LIMIT}");
        return Err(ApiError::new(Code::Invalid, detail));
    }
    Ok(PageRequest { limit, cursor })
}

/// An instant in a query, RFC 3339.
pub(crate) fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = |_| serde::de::Error::custom(format!("`{text}` is not an instant such as 2006-01-02T15:04:05Z"));
    // A `+` of an offset arrives as a space when it was not escaped.
    text.replace(' ', "+").parse().map(Some).map_err(wrong)
}

/// A switch in a query: `?follow` and `?follow=true`.
pub(crate) fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "" | "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(serde::de::Error::custom(format!("`{other}` is neither true nor false"))),
    }
}

/// The state that a change is made for (`If-Match`, RFC 9110, section 13.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Any: the last change wins.
    Anything,
    /// `*`: whatever is there, but something.
    Existing,
    /// This one.
    State(ResourceVersion),
    /// A weak tag, which never matches here.
    Never,
}

impl<S: Send + Sync> FromRequestParts<S> for Expected {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all(IF_MATCH).iter();
        let (Some(value), next) = (values.next(), values.next()) else { return Ok(Self::Anything) };
        let wrong = || {
            ApiError::new(
                Code::BadRequest,
                "the If-Match header is not one quoted ETag, as an object was answered with, or *",
            )
        };
        let text = value.to_str().map_err(|_| wrong())?.trim();
        if next.is_some() {
            return Err(wrong());
        }
        if text == "*" {
            return Ok(Self::Existing);
        }
        let (text, weak) = text.strip_prefix("W/").map_or((text, false), |text| (text, true));
        let tag = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        match tag.filter(|tag| !tag.contains('"')) {
            Some(_) if weak => Ok(Self::Never),
            Some(tag) => Ok(Self::State(ResourceVersion(tag.to_owned()))),
            None => Err(wrong()),
        }
    }
}

impl Expected {
    /// For the use-case; refuses at once what can't match.
    pub(crate) fn version(&self) -> ApiResult<Option<ResourceVersion>> {
        match self {
            Self::Anything | Self::Existing => Ok(None),
            Self::State(version) => Ok(Some(version.clone())),
            Self::Never => Err(ApiError::new(
                Code::PreconditionFailed,
                "a weak ETag never matches; send the one that the object was answered with",
            )),
        }
    }

    /// What a use-case's refusal means to this client: with `*`, nothing there is a failed precondition.
    pub(crate) fn refused(&self, problem: Problem) -> ApiError {
        let error = ApiError::from(problem);
        match (self, error.code()) {
            (Self::Existing, Code::NotFound) => error.with_code(Code::PreconditionFailed),
            _ => error,
        }
    }
}

/// An object with its `ETag`.
pub(crate) struct Tagged<T>(pub(crate) ResourceVersion, pub(crate) T);

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut response = axum::Json(self.1).into_response();
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.0.0)) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sless_core::{FunctionName, FunctionSpec};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Shape {
        name: FunctionName,
        spec: FunctionSpec,
    }

    fn refused(body: &str) -> (Code, String) {
        let response = parse::<Shape>(body.as_bytes()).unwrap_err().into_response();
        let problem = response.extensions().get::<std::sync::Arc<Problem>>().unwrap();
        let detail = problem.errors.first().map_or(problem.detail.clone(), |e| format!("{} {}", e.pointer, e.detail));
        (problem.code, detail)
    }

    #[test]
    fn malformed_text_is_placed() {
        for body in [
            "",
            "{",
            "{\"name\": \"a\",\n\"spec\": }",
            "{\"name\":\"a\",\"spec\":{\"runtime\":\"wasm\"}} x",
            "\u{feff}{}",
        ] {
            let (code, detail) = refused(body);
            assert_eq!(code, Code::BadRequest, "{body}");
            assert!(detail.contains("line"), "{detail}");
        }
    }

    #[test]
    fn a_wrong_value_is_pointed_at() {
        for (body, pointer) in [
            (r#"{"name":"a","spec":{"runtime":"wasm","limits":{"cpuMs":"x"}}}"#, "/spec/limits/cpuMs "),
            (r#"{"name":"a","spec":{"runtime":"wasm","egress":{"allow":["a",1]}}}"#, "/spec/egress/allow/1 "),
            (r#"{"name":"A_b","spec":{"runtime":"wasm"}}"#, "/name "),
            (r#"{"name":"a","spec":{"runtime":"cobol"}}"#, "/spec/runtime "),
            (r#"{"name":"a","spec":{"runtime":"wasm","env":{"a/b":1}}}"#, "/spec/env/a~1b "),
            (r#"{"name":"a","spec":{"runtime":"wasm","memoryMB":1}}"#, "/spec/memoryMB "),
            (r#"{"name":"a","spec":{"runtime":"wasm"},"x":1}"#, "/x "),
            (r#"{"spec":{"runtime":"wasm"}}"#, " missing field `name`"),
            (r#"[]"#, " "),
        ] {
            let (code, detail) = refused(body);
            assert_eq!(code, Code::Invalid, "{body}");
            assert!(detail.starts_with(pointer), "{body}: {detail}");
            assert!(!detail.contains("line"), "{detail}");
        }
        assert!(refused(r#"{"name":"A_b","spec":{"runtime":"wasm"}}"#).1.contains("at most 48 characters"));
    }

    #[tokio::test]
    async fn if_match_is_read_as_http_has_it() {
        let of = |value: &str| {
            let (mut parts, ()) = http::Request::builder().header(IF_MATCH, value).body(()).unwrap().into_parts();
            async move { Expected::from_request_parts(&mut parts, &()).await.map_err(|e| e.code()) }
        };
        assert_eq!(of("*").await, Ok(Expected::Existing));
        assert_eq!(of("\"12\"").await, Ok(Expected::State(ResourceVersion("12".into()))));
        assert_eq!(of("W/\"12\"").await, Ok(Expected::Never));
        for bad in ["12", "\"", "\"1\", \"2\"", ""] {
            assert_eq!(of(bad).await, Err(Code::BadRequest), "{bad}");
        }
        let (mut parts, ()) = http::Request::new(()).into_parts();
        assert_eq!(Expected::from_request_parts(&mut parts, &()).await.ok(), Some(Expected::Anything));
    }
}
