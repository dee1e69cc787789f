//! Versions, rollback, and what builds printed.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use sless_core::services::Uploaded;
use sless_core::{Function, FunctionName, Page, Version, VersionNumber};
use utoipa::{IntoParams, ToSchema};

use super::paths::OfFunction;
use crate::App;
use crate::auth::Ns;
use crate::error::ApiResult;
use crate::extract::{self, Expected, Named, PageParams, Params, Tagged};

/// What an upload or a rollback made.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deployed {
    /// The function now.
    function: Function,
    /// The version that is of this code and these settings.
    version: Version,
    /// What its owner should know though it was accepted.
    notes: Vec<String>,
    /// False where this very code and these settings were there already: no new version.
    changed: bool,
}

impl From<Uploaded> for Tagged<Deployed> {
    fn from(Uploaded { function, version, notes, changed }: Uploaded) -> Self {
        Self(function.metadata.resource_version.clone(), Deployed { function, version, notes, changed })
    }
}

/// List versions, newest first
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/functions/{name}/versions", tag = "versions", operation_id = "list_versions",
    params(OfFunction, PageParams), responses((status = 200, description = "A page of versions", body = Page<Version>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    Params(page): Params<PageParams>,
) -> ApiResult<Json<Page<Version>>> {
    Ok(Json(app.services.functions.versions(ns, &name, page.request()?).await?))
}

/// The version to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rollback {
    /// Its number.
    version: VersionNumber,
}

/// Go back to a version
///
/// Its code and settings come back as a new version, without a build.
#[utoipa::path(
    post, path = "/v1/namespaces/{ns}/functions/{name}/rollback", tag = "versions", operation_id = "rollback_function",
    params(OfFunction, ("If-Match" = Option<String>, Header, description = "Only if this is still its state: an ETag, or `*`")),
    request_body = Rollback,
    responses((status = 200, description = "The new version", body = Deployed, headers(("ETag" = String, description = "The function's state")))),
)]
pub(crate) async fn rollback(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    expected: Expected,
    extract::Json(rollback): extract::Json<Rollback>,
) -> ApiResult<Tagged<Deployed>> {
    let done = app.services.functions.rollback(ns, &name, rollback.version, expected.version()?).await;
    done.map(Tagged::from).map_err(|problem| expected.refused(problem))
}

/// Which build.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BuildLogParams {
    /// Of this version; of the newest when absent.
    #[param(value_type = Option<u32>)]
    version: Option<VersionNumber>,
}

/// Read what a build printed
///
/// Kept after failure. Empty where nothing was built.
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/functions/{name}/build-log", tag = "versions", operation_id = "get_build_log",
    params(OfFunction, BuildLogParams),
    responses((status = 200, description = "The build's output", body = String, content_type = "text/plain")),
)]
pub(crate) async fn build_log(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    Params(query): Params<BuildLogParams>,
) -> ApiResult<Response> {
    // A string is answered as `text/plain; charset=utf-8`.
    Ok(app.services.functions.build_log(ns, &name, query.version).await?.into_response())
}
