//! Logs on standard error, and traces over OTLP where the environment asks for them.
//!
//! | variable | is |
//! |---|---|
//! | `SLESS_LOG` | what is logged, as `tracing_subscriber::EnvFilter` reads it; by default what sless itself says from INFO on, and warnings of the rest |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | where traces go, over HTTP; nowhere when it is not set. The other `OTEL_…` variables of the OTLP exporter and the SDK count too |

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

const DEFAULT_FILTER: &str = "warn,sless=info";
/// How long one export may take; the next waits behind it.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last export may hold the end of the process back.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Keeps the exporter of traces.
#[must_use = "traces are flushed through it"]
pub struct Telemetry(Option<SdkTracerProvider>);

/// Sets up logs and traces of this process, once. Needs a runtime.
///
/// # Errors
/// When a variable has a value that can't be used, or it was done before.
pub fn init(service: &'static str) -> anyhow::Result<Telemetry> {
    let filter = match variable("SLESS_LOG") {
        Some(text) => EnvFilter::try_new(&text).with_context(|| format!("SLESS_LOG `{text}` can't be used"))?,
        None => EnvFilter::new(DEFAULT_FILTER),
    };
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = if std::io::stderr().is_terminal() { logs.compact().boxed() } else { logs.json().boxed() };
    let traced =
        ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"].iter().any(|n| variable(n).is_some());
    let provider = traced.then(|| exporter(service)).transpose()?;
    let traces = provider.as_ref().map(|p| tracing_opentelemetry::layer().with_tracer(p.tracer("sless")));
    tracing_subscriber::registry().with(filter).with(logs).with(traces).try_init().context("set up logs")?;
    Ok(Telemetry(provider))
}

impl Telemetry {
    /// Sends what is left.
    pub async fn flush(self) {
        let Some(provider) = self.0 else { return };
        // The exporter's own thread answers, so this blocks.
        let flushed = tokio::task::spawn_blocking(move || provider.shutdown());
        match tokio::time::timeout(FLUSH_TIMEOUT, flushed).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the last traces were not sent"),
            Ok(Err(_)) | Err(_) => tracing::warn!("the last traces were not sent in time"),
        }
    }
}

fn exporter(service: &'static str) -> anyhow::Result<SdkTracerProvider> {
    let client = Client::new().context("make a client for OTLP")?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .build()
        .context("set up OTLP from OTEL_… variables")?;
    // `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` beat the name given here.
    let resource = match variable("OTEL_SERVICE_NAME") {
        Some(_) => Resource::builder().build(),
        None => Resource::builder().with_service_name(service).build(),
    };
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

#[expect(clippy::disallowed_methods, reason = "settings of this process are read here")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The exporter works in a thread of its own, outside the runtime that sockets need.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    runtime: tokio::runtime::Handle,
}

impl Client {
    fn new() -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let http = reqwest::Client::builder().timeout(EXPORT_TIMEOUT).tls_backend_preconfigured(tls).build()?;
        Ok(Self { http, runtime: tokio::runtime::Handle::try_current()? })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move {
            let mut response = http.execute(request.try_into()?).await?;
            let mut answer = http::Response::builder().status(response.status());
            if let Some(headers) = answer.headers_mut() {
                *headers = std::mem::take(response.headers_mut());
            }
            Ok::<_, HttpError>(answer.body(response.bytes().await?)?)
        });
        sent.await?
    }
}
