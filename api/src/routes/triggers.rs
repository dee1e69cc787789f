//! Triggers: create, read, update, delete.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::LOCATION;
use serde::Deserialize;
use sless_core::trigger::TriggerSpec;
use sless_core::{Page, Trigger, TriggerName};
use utoipa::ToSchema;

use super::paths::{InNamespace, OfTrigger};
use crate::App;
use crate::auth::Ns;
use crate::error::ApiResult;
use crate::extract::{self, Expected, Named, PageParams, Params, Tagged};

/// A trigger to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTrigger {
    /// Its name.
    name: TriggerName,
    /// Which function it runs, and when.
    spec: TriggerSpec,
}

/// A trigger's new settings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerUpdate {
    /// Which function it runs, and when.
    spec: TriggerSpec,
}

/// List triggers by name
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/triggers", tag = "triggers", operation_id = "list_triggers",
    params(InNamespace, PageParams), responses((status = 200, description = "A page of triggers", body = Page<Trigger>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Ns(ns): Ns,
    Params(page): Params<PageParams>,
) -> ApiResult<Json<Page<Trigger>>> {
    Ok(Json(app.services.triggers.list(ns, page.request()?).await?))
}

/// Make a trigger
///
/// The function may come later. An `http` trigger makes it answer at `/fn/{ns}/{function}/` from now on.
#[utoipa::path(
    post, path = "/v1/namespaces/{ns}/triggers", tag = "triggers", operation_id = "create_trigger",
    params(InNamespace), request_body = NewTrigger,
    responses((
        status = 201, description = "Made", body = Trigger,
        headers(("Location" = String, description = "Its path"), ("ETag" = String, description = "Its state")),
    )),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Ns(ns): Ns,
    extract::Json(new): extract::Json<NewTrigger>,
) -> ApiResult<impl IntoResponse> {
    let trigger = app.services.triggers.create(ns, new.name, new.spec).await?;
    let location = format!("/v1/namespaces/{ns}/triggers/{}", trigger.metadata.name);
    Ok((StatusCode::CREATED, [(LOCATION, location)], tagged(trigger)))
}

/// Read a trigger
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/triggers/{name}", tag = "triggers", operation_id = "get_trigger", params(OfTrigger),
    responses((status = 200, description = "The trigger", body = Trigger, headers(("ETag" = String, description = "Its state")))),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<TriggerName>,
) -> ApiResult<Tagged<Trigger>> {
    Ok(tagged(app.services.triggers.get(ns, &name).await?))
}

/// Replace a trigger's settings
#[utoipa::path(
    put, path = "/v1/namespaces/{ns}/triggers/{name}", tag = "triggers", operation_id = "update_trigger",
    params(OfTrigger, ("If-Match" = Option<String>, Header, description = "Only if this is still its state: an ETag, or `*`")),
    request_body = TriggerUpdate,
    responses((status = 200, description = "The trigger", body = Trigger, headers(("ETag" = String, description = "Its state")))),
)]
pub(crate) async fn update(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<TriggerName>,
    expected: Expected,
    extract::Json(update): extract::Json<TriggerUpdate>,
) -> ApiResult<Tagged<Trigger>> {
    let updated = app.services.triggers.update(ns, &name, expected.version()?, update.spec).await;
    updated.map(tagged).map_err(|problem| expected.refused(problem))
}

/// Delete a trigger
#[utoipa::path(
    delete, path = "/v1/namespaces/{ns}/triggers/{name}", tag = "triggers", operation_id = "delete_trigger",
    params(OfTrigger, ("If-Match" = Option<String>, Header, description = "Only if this is still its state: an ETag, or `*`")),
    responses((status = 204, description = "It runs nothing more")),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<TriggerName>,
    expected: Expected,
) -> ApiResult<StatusCode> {
    let deleted = app.services.triggers.delete(ns, &name, expected.version()?).await;
    deleted.map(|()| StatusCode::NO_CONTENT).map_err(|problem| expected.refused(problem))
}

fn tagged(trigger: Trigger) -> Tagged<Trigger> {
    Tagged(trigger.metadata.resource_version.clone(), trigger)
}
