//! The invocation log.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use sless_core::ports::InvocationFilter;
use sless_core::{FunctionName, Invocation, InvocationId, Outcome, Page, Timestamp};
use utoipa::IntoParams;

use super::paths::{InNamespace, OfFunction, OfInvocation};
use crate::App;
use crate::auth::Ns;
use crate::error::ApiResult;
use crate::extract::{Named, Params, instant, page};

/// Which calls of a function.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallParams {
    /// At most so many items.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[serde(default)]
    cursor: Option<String>,
    /// Only those that ended like this.
    #[serde(default)]
    outcome: Option<Outcome>,
    /// Only those begun at or after this instant.
    #[serde(default, deserialize_with = "instant")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// Only those begun before this instant.
    #[serde(default, deserialize_with = "instant")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
}

/// Which calls of a namespace.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NamespaceCallParams {
    /// Only those of this function.
    #[serde(default)]
    function: Option<FunctionName>,
    /// At most so many items.
    #[serde(default)]
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<u32>,
    /// `next` of the page before.
    #[serde(default)]
    cursor: Option<String>,
    /// Only those that ended like this.
    #[serde(default)]
    outcome: Option<Outcome>,
    /// Only those begun at or after this instant.
    #[serde(default, deserialize_with = "instant")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// Only those begun before this instant.
    #[serde(default, deserialize_with = "instant")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
}

/// List a function's calls, newest first
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/functions/{name}/invocations", tag = "invocations", operation_id = "list_function_invocations",
    params(OfFunction, CallParams), responses((status = 200, description = "A page of calls", body = Page<Invocation>)),
)]
pub(crate) async fn of_function(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(name): Named<FunctionName>,
    Params(query): Params<CallParams>,
) -> ApiResult<Json<Page<Invocation>>> {
    let filter = InvocationFilter { function: Some(name), outcome: query.outcome, from: query.from, to: query.to };
    Ok(Json(app.services.invocations.list(ns, filter, page(query.limit, query.cursor)?).await?))
}

/// List a namespace's calls, newest first
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/invocations", tag = "invocations", operation_id = "list_invocations",
    params(InNamespace, NamespaceCallParams), responses((status = 200, description = "A page of calls", body = Page<Invocation>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Ns(ns): Ns,
    Params(query): Params<NamespaceCallParams>,
) -> ApiResult<Json<Page<Invocation>>> {
    let filter = InvocationFilter { function: query.function, outcome: query.outcome, from: query.from, to: query.to };
    Ok(Json(app.services.invocations.list(ns, filter, page(query.limit, query.cursor)?).await?))
}

/// Read a call
#[utoipa::path(
    get, path = "/v1/namespaces/{ns}/invocations/{id}", tag = "invocations", operation_id = "get_invocation",
    params(OfInvocation), responses((status = 200, description = "The call", body = Invocation)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Ns(ns): Ns,
    Named(id): Named<InvocationId>,
) -> ApiResult<Json<Invocation>> {
    Ok(Json(app.services.invocations.get(ns, id).await?))
}
