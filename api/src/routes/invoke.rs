//! `POST …/invoke`: a synchronous call by the function's owner, whether or not a trigger exposes it.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::uri::PathAndQuery;
use http::{Method, Uri};
use serde::Deserialize;
use sless_core::{Code, FunctionName};
use utoipa::IntoParams;

use super::paths::OfFunction;
use crate::App;
use crate::auth::Ns;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Named, Params};
use crate::gateway::Peer;
use crate::openapi::Binary;

/// How the function sees the call.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InvokeParams {
    /// Path and query.
    #[serde(default)]
    #[param(default = "/")]
    path: Option<String>,
    /// Method.
    #[serde(default)]
    #[param(default = "POST")]
    method: Option<String>,
}

/// Call a function
///
/// The body and headers reach the function, but for `Authorization`. The answer is the function's own; where the
/// platform answers in its place, `X-Sless-Outcome` says why.
#[utoipa::path(
    post, path = "/v1/namespaces/{ns}/functions/{name}/invoke", tag = "functions", operation_id = "invoke_function",
    params(OfFunction, InvokeParams),
    request_body(description = "What the function gets", content((Binary = "*/*"))),
    responses((
        status = 200, description = "The function's own answer, with the status that it chose", body = Binary, content_type = "*/*",
        headers(
            ("X-Sless-Invocation-Id" = String, description = "The call's id in the invocation log"),
            ("X-Sless-Outcome" = Option<String>, description = "Where the platform answered in the function's place: why"),
        ),
    )),
)]
pub(crate) async fn invoke(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    Params(query): Params<InvokeParams>,
    mut request: Request,
) -> ApiResult<Response> {
    let method = method(query.method.as_deref())?;
    let uri = uri(query.path.as_deref().unwrap_or("/"))?;
    let route = app.services.functions.target(ns, &name).await?;

    let instance = std::mem::replace(request.uri_mut(), uri);
    let head = method == Method::HEAD;
    *request.method_mut() = method;
    // The caller's token is for the platform; the function must not be able to use it.
    request.headers_mut().remove(AUTHORIZATION);
    let peer = request.extensions_mut().remove::<Peer>().unwrap_or_else(Peer::unknown);
    request.extensions_mut().clear();
    let mut response = app.gateway.invoke(&route, request, &peer, &instance).await;
    if head {
        // It speaks of what GET would get, but this exchange is a POST.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    Ok(response.map(Body::new))
}

fn method(text: Option<&str>) -> ApiResult<Method> {
    let Some(text) = text else { return Ok(Method::POST) };
    match text.parse() {
        Ok(method) if method != Method::CONNECT => Ok(method),
        _ => {
            Err(ApiError::new(Code::Invalid, "query parameter method: not a method that a function can be called with"))
        }
    }
}

fn uri(path: &str) -> ApiResult<Uri> {
    let wrong = || {
        ApiError::new(
            Code::Invalid,
            "query parameter path: it starts with `/` and has no characters that a URL must escape",
        )
    };
    if !path.starts_with('/') {
        return Err(wrong());
    }
    let parsed: PathAndQuery = path.parse().map_err(|_| wrong())?;
    // A fragment would be dropped in silence.
    if parsed.as_str() == path { Ok(parsed.into()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods_are_checked() {
        assert_eq!(uri("/a%2Fb?x=1&x=2").ok(), Some(Uri::from_static("/a%2Fb?x=1&x=2")));
        for bad in ["", "a", "http://x/", "/a b", "/a#b", "/\n"] {
            assert_eq!(uri(bad).err().map(|e| e.code()), Some(Code::Invalid), "{bad:?}");
        }
        assert_eq!(method(None).ok(), Some(Method::POST));
        assert_eq!(method(Some("PROPFIND")).ok(), Some("PROPFIND".parse().unwrap()));
        for bad in ["", "CONNECT", "A B"] {
            assert_eq!(method(Some(bad)).err().map(|e| e.code()), Some(Code::Invalid), "{bad:?}");
        }
    }
}
