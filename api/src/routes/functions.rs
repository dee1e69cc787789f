//! Functions: create, read, update, delete.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::LOCATION;
use serde::Deserialize;
use sless_core::{Function, FunctionName, FunctionSpec, Page};
use utoipa::ToSchema;

use super::paths::{InNamespace, OfFunction};
use crate::App;
use crate::auth::Ns;
use crate::error::ApiResult;
use crate::extract::{self, Expected, Named, PageParams, Params, Tagged};

/// A function to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFunction {
    /// Its name.
    name: FunctionName,
    /// Its settings.
    spec: FunctionSpec,
}

/// A function's new settings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FunctionUpdate {
    /// All of its settings: what is left out has its default again.
    spec: FunctionSpec,
}

/// List functions by name
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/functions", tag = "functions", operation_id = "list_functions",
    params(InNamespace, PageParams), responses((status = 200, description = "A page of functions", body = Page<Function>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Ns(ns): Ns,
    Params(page): Params<PageParams>,
) -> ApiResult<Json<Page<Function>>> {
    Ok(Json(app.services.functions.list(ns, page.request()?).await?))
}

/// Make a function
///
/// It has no code yet: upload it next.
#[utoipa::path(
    post, path = "/v1/namespaces/{ns}/functions", tag = "functions", operation_id = "create_function",
    params(InNamespace), request_body = NewFunction,
    responses((
        status = 201, description = "Made", body = Function,
        headers(("Location" = String, description = "Its path"), ("ETag" = String, description = "Its state")),
    )),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Ns(ns): Ns,
    extract::Json(new): extract::Json<NewFunction>,
) -> ApiResult<impl IntoResponse> {
    let function = app.services.functions.create(ns, new.name, new.spec).await?;
    let location = format!("/v1/namespaces/{ns}/functions/{}", function.metadata.name);
    Ok((StatusCode::CREATED, [(LOCATION, location)], tagged(function)))
}

/// Read a function
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/functions/{name}", tag = "functions", operation_id = "get_function", params(OfFunction),
    responses((status = 200, description = "The function", body = Function, headers(("ETag" = String, description = "Its state")))),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
) -> ApiResult<Tagged<Function>> {
    Ok(tagged(app.services.functions.get(ns, &name).await?))
}

/// Replace a function's settings
///
/// The code stays. A change makes a version; the same settings again change nothing.
#[utoipa::path(
    put, path = "/v1/namespaces/{ns}/functions/{name}", tag = "functions", operation_id = "update_function",
    params(OfFunction, ("If-Match" = Option<String>, Header, description = "Only if this is still its state: an ETag, or `*`")),
    request_body = FunctionUpdate,
    responses((status = 200, description = "The function", body = Function, headers(("ETag" = String, description = "Its state")))),
)]
pub(crate) async fn update(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    expected: Expected,
    extract::Json(update): extract::Json<FunctionUpdate>,
) -> ApiResult<Tagged<Function>> {
    let updated = app.services.functions.update(ns, &name, expected.version()?, update.spec).await;
    updated.map(tagged).map_err(|problem| expected.refused(problem))
}

/// Delete a function
///
/// With its versions, code and invocation log. A build under way ends.
#[utoipa::path(
    delete, path = "/v1/namespaces/{ns}/functions/{name}", tag = "functions", operation_id = "delete_function",
    params(OfFunction, ("If-Match" = Option<String>, Header, description = "Only if this is still its state: an ETag, or `*`")),
    responses((status = 204, description = "It answers no more")),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    expected: Expected,
) -> ApiResult<StatusCode> {
    let deleted = app.services.functions.delete(ns, &name, expected.version()?).await;
    deleted.map(|()| StatusCode::NO_CONTENT).map_err(|problem| expected.refused(problem))
}

fn tagged(function: Function) -> Tagged<Function> {
    Tagged(function.metadata.resource_version.clone(), function)
}
