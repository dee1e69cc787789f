//! Namespaces.

use axum::Json;
use axum::extract::State;
use sless_core::ports::NamespaceInfo;

use super::paths::InNamespace;
use crate::App;
use crate::auth::Ns;
use crate::error::ApiResult;

/// Make the caller's namespace
///
/// Idempotent. Everything else in the namespace answers 404 `namespace_not_found` until it was called once.
#[utoipa::path(
    post, path = "/v1/namespaces/{ns}/ensure", tag = "namespaces", params(InNamespace),
    responses((status = 200, description = "It is there", body = NamespaceInfo)),
)]
pub(crate) async fn ensure(State(app): State<App>, Ns(namespace): Ns) -> ApiResult<Json<NamespaceInfo>> {
    Ok(Json(app.services.namespaces.ensure(namespace).await?))
}
