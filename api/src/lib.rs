//! The HTTP face of sless: `/v1` REST and the `/fn` gateway on one listener, health and metrics on another.
//!
//! It knows HTTP and the use-cases of `sless-core`, and nothing of what stands behind them.

mod auth;
mod context;
mod error;
mod extract;
mod gateway;
mod internal;
mod metrics;
mod openapi;
mod routes;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use bytes::Bytes;
use sless_core::auth::Verifier;
use sless_core::services::Services;
use tokio_util::sync::CancellationToken;

pub use internal::serve_internal;
pub use metrics::Source as MetricsSource;
pub use openapi::openapi;
pub use serve::{Drained, serve};

use gateway::Gateway;
use metrics::Metrics;

/// What can be set.
#[derive(Clone)]
pub struct ApiSettings {
    /// Networks of proxies whose `X-Forwarded-…` and `Forwarded` headers are believed. None by default: anyone could
    /// write them.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Connections at once; more wait to be accepted. Each may hold buffers of up to about 2 MiB at worst, a few KiB as a
    /// rule.
    pub max_connections: usize,
    /// How long calls under way may go on after shutdown began.
    pub drain_grace: Duration,
    /// Gauges and counters of other parts of the process, read at each scrape.
    pub metrics_sources: Vec<MetricsSource>,
}

impl Default for ApiSettings {
    fn default() -> Self {
        // 30 s is the default timeout of a function and what Kubernetes grants a pod.
        Self {
            trusted_proxies: Vec::new(),
            max_connections: 10_000,
            drain_grace: Duration::from_secs(30),
            metrics_sources: Vec::new(),
        }
    }
}

/// The API of one process. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    app: App,
    router: Router,
}

/// What handlers share.
pub(crate) struct AppState {
    services: Services,
    verifier: Arc<Verifier>,
    gateway: Gateway,
    metrics: Arc<Metrics>,
    settings: ApiSettings,
    openapi: Bytes,
    /// Cancelled when shutdown begins: followed logs end, readiness goes.
    closing: CancellationToken,
}

pub(crate) type App = Arc<AppState>;

impl Api {
    /// An API over the use-cases. To be made once a process: its metrics follow all rows of `services`.
    pub fn new(services: Services, verifier: Arc<Verifier>, settings: ApiSettings) -> Self {
        let metrics = Metrics::new(&services, settings.metrics_sources.clone());
        let document = openapi().to_json().expect("the document is made of texts, numbers and maps");
        let app = Arc::new(AppState {
            gateway: Gateway::new(&services, metrics.clone()),
            services,
            verifier,
            metrics,
            settings,
            openapi: document.into(),
            closing: CancellationToken::new(),
        });
        Self { router: v1(app.clone()), app }
    }

    /// `/v1`, for tests and for mounting elsewhere. Without a listener there is no peer address.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The text that `/metrics` answers.
    pub fn metrics(&self) -> String {
        self.app.metrics.render()
    }
}

fn v1(app: App) -> Router {
    let (router, _) = routes::all().split_for_parts();
    router
        .fallback(context::not_found)
        .method_not_allowed_fallback(context::method_not_allowed)
        // The last is the outermost: problems of the authorisation are written too.
        .layer(from_fn_with_state(app.clone(), auth::layer))
        .layer(from_fn_with_state(app.clone(), context::layer))
        .with_state(app)
}
