//! The internal listener: health, readiness, metrics. No tokens; it must not be reachable from outside.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::serve::is_closing;
use crate::{Api, App};

/// How long the store may take to answer before the process counts as not ready: below the second that probes wait.
const PING_TIMEOUT: Duration = Duration::from_millis(800);
/// The text exposition format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves `/healthz`, `/readyz` and `/metrics` until `shutdown`, which should come after the public listener has drained:
/// probes are answered till then.
pub async fn serve_internal(listener: TcpListener, api: Api, shutdown: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router(api.app)).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

fn router(app: App) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(app)
}

async fn ready(State(app): State<App>) -> Response {
    match why_not_ready(&app).await {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn why_not_ready(app: &App) -> Option<String> {
    if is_closing(app) {
        return Some("shutting down".to_owned());
    }
    if !app.services.routes.synced() {
        return Some("functions are still being read".to_owned());
    }
    match tokio::time::timeout(PING_TIMEOUT, app.services.records.ping()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("the store of records does not answer: {}", chain(&error))),
        Err(_) => Some("the store of records does not answer in time".to_owned()),
    }
}

async fn metrics(State(app): State<App>) -> Response {
    ([(CONTENT_TYPE, EXPOSITION)], app.metrics.render()).into_response()
}
