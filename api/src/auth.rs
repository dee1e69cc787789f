//! Who may do what, decided for every path below `/v1` before anything is looked up: unknown routes and names are
//! refused like known ones, so that an answer never tells what exists. Handlers see the namespace that was checked and
//! never the one in the path.

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method};
use sless_core::auth::AuthError;
use sless_core::{Code, Namespace};

use crate::App;
use crate::error::ApiError;

/// What can be read without a token.
pub(crate) const OPENAPI_PATH: &str = "/v1/openapi.json";
const NAMESPACES: &str = "/v1/namespaces/";

/// The namespace of the path, which the caller may use as the method wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ns(pub(crate) Namespace);

pub(crate) async fn layer(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match authorize(&app, &request) {
        Ok(namespace) => {
            if let Some(namespace) = namespace {
                request.extensions_mut().insert(Ns(namespace));
            }
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

fn authorize(app: &App, request: &Request) -> Result<Option<Namespace>, ApiError> {
    let path = request.uri().path();
    if !path.starts_with("/v1/") || path == OPENAPI_PATH {
        return Ok(None);
    }
    let caller = app.verifier.verify(authorization(request.headers())?, app.services.clock.now())?;
    let Some(rest) = path.strip_prefix(NAMESPACES) else { return Ok(None) };
    // As it stands, not decoded: what only decoding would make a namespace is nobody's.
    let segment = rest.split('/').next().unwrap_or_default();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let allowed = segment.parse().ok().filter(|namespace| match reads {
        true => caller.may_read(*namespace),
        false => caller.may_write(*namespace),
    });
    match allowed {
        Some(namespace) => Ok(Some(namespace)),
        None if caller.service => {
            Err(ApiError::new(Code::Forbidden, "a service's token may read every namespace and change none"))
        }
        None => {
            let own = caller.tenant.namespace();
            Err(ApiError::new(Code::Forbidden, format!("this token is for namespace `{own}` only")))
        }
    }
}

fn authorization(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| AuthError::NotBearer),
        // Which of two counts is what proxies disagree about.
        (Some(_), Some(_)) => Err(AuthError::NotBearer),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Ns {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // Without a check there is no namespace: a route that was mounted elsewhere by mistake stays shut.
        let missing = || ApiError::new(Code::Forbidden, "no namespace was checked for this route");
        parts.extensions.get::<Self>().copied().ok_or_else(missing)
    }
}
