//! The routes of `/v1`, one file a noun. Handlers extract, call one use-case, wrap.

mod functions;
mod invocations;
mod invoke;
mod logs;
mod namespaces;
mod paths;
mod secrets;
mod triggers;
mod upload;
mod versions;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{App, openapi};

/// All routes, and their document.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(openapi::document))
        .routes(routes!(namespaces::ensure))
        .routes(routes!(functions::list, functions::create))
        .routes(routes!(functions::get, functions::update, functions::delete))
        .routes(routes!(upload::upload))
        .routes(routes!(upload::source))
        .routes(routes!(versions::list))
        .routes(routes!(versions::rollback))
        .routes(routes!(versions::build_log))
        .routes(routes!(invoke::invoke))
        .routes(routes!(logs::read))
        .routes(routes!(invocations::of_function))
        .routes(routes!(invocations::list))
        .routes(routes!(invocations::get))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::put, secrets::delete))
        .routes(routes!(triggers::list, triggers::create))
        .routes(routes!(triggers::get, triggers::update, triggers::delete))
}
