//! Secrets: written, listed by name, never read back.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use sless_core::ports::{self, SecretInfo};
use sless_core::{Page, Problem, SecretName};
use utoipa::ToSchema;

use super::paths::{InNamespace, OfSecret};
use crate::App;
use crate::auth::Ns;
use crate::error::ApiResult;
use crate::extract::{self, Named, PageParams, Params};

/// A secret's value. Not shown by `Debug`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSecretValue {
    /// At most 65,536 bytes, no NUL: it becomes an environment variable.
    #[schema(write_only)]
    value: String,
}

/// List secrets by name, without their values
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/secrets", tag = "secrets", operation_id = "list_secrets",
    params(InNamespace, PageParams), responses((status = 200, description = "A page of secrets", body = Page<SecretInfo>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Ns(ns): Ns,
    Params(page): Params<PageParams>,
) -> ApiResult<Json<Page<SecretInfo>>> {
    let page = page.request()?;
    let mut items = app.services.secrets.list(ns).await?;
    if let Some(cursor) = page.cursor {
        let after: SecretName = cursor.parse().map_err(|_| Problem::from(ports::Error::InvalidCursor))?;
        items.retain(|secret| secret.name > after);
    }
    let more = items.len() > page.limit as usize;
    items.truncate(page.limit as usize);
    let next = items.last().filter(|_| more).map(|secret| secret.name.to_string());
    Ok(Json(Page { items, next }))
}

/// Write a secret
///
/// Functions that refer to it have the new value with their next call.
#[utoipa::path(
    put, path = "/v1/namespaces/{ns}/secrets/{name}", tag = "secrets", operation_id = "put_secret",
    params(OfSecret), request_body = NewSecretValue,
    responses((status = 200, description = "Written", body = SecretInfo)),
)]
pub(crate) async fn put(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<SecretName>,
    extract::Json(new): extract::Json<NewSecretValue>,
) -> ApiResult<Json<SecretInfo>> {
    Ok(Json(app.services.secrets.put(ns, &name, new.value).await?))
}

/// Remove a secret
///
/// Functions that refer to it go on with the old value until their next version.
#[utoipa::path(
    delete, path = "/v1/namespaces/{ns}/secrets/{name}", tag = "secrets", operation_id = "delete_secret",
    params(OfSecret), responses((status = 204, description = "Removed")),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<SecretName>,
) -> ApiResult<StatusCode> {
    app.services.secrets.delete(ns, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
