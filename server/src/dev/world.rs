//! The embedded world, joined: adapters, host, use-cases, API.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sless_adapters::builds::{self, LocalBuilds};
use sless_adapters::embedded::{self, Embedded};
use sless_adapters::workloads::local::{self, LocalWorkloads};
use sless_api::{Api, ApiSettings};
use sless_core::artifact::PrivateKey;
use sless_core::auth::{Config, Mode, Verifier};
use sless_core::build_protocol::Limits;
use sless_core::page::PageRequest;
use sless_core::ports::invoker::BlobArtifacts;
use sless_core::services::{self, Background, Services};
use sless_core::tenant::Namespace;
use sless_host::Host;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{DRAIN_GRACE, DevConfig, SIGNING_KEY};
use crate::host_metrics;
use crate::shutdown::Shutdown;

/// What the cache of compiled functions of one namespace may hold on a developer's disk.
const BUILD_CACHE_BYTES: u64 = 1 << 30;
/// Builds at once: one uses all processors, the second fills the gaps.
const BUILDS_AT_ONCE: usize = 2;
/// Between two looks at whether everything is read again.
const RECOVERY_PAUSE: Duration = Duration::from_millis(2);

/// Why a world ended.
pub(super) enum Ended {
    /// It was asked to.
    Shutdown,
    /// Its host can't be trusted any more.
    HostPanicked,
}

/// Everything of one process, not serving yet.
pub(super) struct World {
    host: Arc<Host>,
    workloads: Arc<LocalWorkloads>,
    services: Services,
    api: Api,
    background: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl World {
    pub(super) async fn start(
        config: &DevConfig,
        data: &Path,
        opened: &Embedded,
        endpoint: &str,
        secret: &str,
    ) -> anyhow::Result<Self> {
        let key = Arc::new(PrivateKey::from_bytes(&embedded::key_file(data, SIGNING_KEY)?));
        let builds = start_builds(config, data, opened).await?;
        let workloads = Arc::new(start_workloads(config, data, opened)?);
        let host = Host::new(
            sless_host::Settings::default(),
            sless_host::Deps {
                artifacts: Arc::new(BlobArtifacts(opened.blobs.clone())),
                logs: opened.logs.clone(),
                public_key: key.public(),
                clock: opened.clock.clone(),
                cache_dir: data.join("cache").join("artifacts"),
            },
        )
        .context("start the host")?;
        let (services, background) = Services::new(services::Deps {
            resources: opened.resources.clone(),
            records: opened.records.clone(),
            blobs: opened.blobs.clone(),
            secrets: opened.secrets.clone(),
            limits: opened.limits.clone(),
            logs: opened.logs.clone(),
            builds: Arc::new(builds),
            invoker: host.clone(),
            workloads: workloads.clone(),
            clock: opened.clock.clone(),
            signing_key: key,
            settings: services::Settings {
                external_url: endpoint.to_owned(),
                builds_at_once: BUILDS_AT_ONCE,
                ..services::Settings::default()
            },
        });
        let verifier = Verifier::new(Config::new(Mode::Secret(secret.to_owned()))).context("set up authentication")?;
        let settings = ApiSettings {
            drain_grace: DRAIN_GRACE,
            metrics_sources: vec![host_metrics::source(host.clone())],
            ..ApiSettings::default()
        };
        let api = Api::new(services.clone(), Arc::new(verifier), settings);
        let stop = CancellationToken::new();
        let running = tokio::spawn(run_background(background, stop.clone()));
        Ok(Self { host, workloads, services, api, background: stop, running })
    }

    pub(super) fn services(&self) -> Services {
        self.services.clone()
    }

    /// Serves until shutdown, or until the host panics; then drains: calls first, then what they leave behind. `began`
    /// runs when calls are taken, which is when every function that was there before is there again.
    pub(super) async fn serve(
        self,
        listener: TcpListener,
        internal: TcpListener,
        began: impl Future<Output = anyhow::Result<()>>,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Ended> {
        let Self { host, workloads, services, api, background, mut running } = self;
        let (stop, stop_internal) = (CancellationToken::new(), CancellationToken::new());
        let serving_internal = tokio::spawn(sless_api::serve_internal(internal, api.clone(), stop_internal.clone()));
        let mut serving = JoinSet::new();
        let ended = async {
            // Until then clients wait in the listener's queue, rather than being told that functions are not there.
            while !services.routes.synced() {
                tokio::time::sleep(RECOVERY_PAUSE).await;
            }
            serving.spawn(sless_api::serve(listener, api, stop.clone()));
            began.await?;
            tokio::select! {
                () = shutdown.graceful.cancelled() => Ok(Ended::Shutdown),
                () = host.unhealthy() => Ok(Ended::HostPanicked),
                // It ends by itself only if it panics.
                _ = &mut running => Err(anyhow::anyhow!("the background work ended, which is a defect of sless")),
            }
        };
        let ended = tokio::select! {
            ended = ended => ended,
            () = shutdown.now.cancelled() => Ok(Ended::Shutdown),
        };
        let drained = async {
            stop.cancel();
            while serving.join_next().await.is_some() {}
            tracing::debug!("connections have ended");
            tokio::join!(host.drain(DRAIN_GRACE), workloads.drain(DRAIN_GRACE));
            tracing::debug!("calls have ended");
            background.cancel();
            if !running.is_finished() {
                let _ = running.await;
            }
            tracing::debug!("background work has ended");
            stop_internal.cancel();
            let _ = serving_internal.await;
        };
        tokio::select! {
            () = drained => {}
            () = shutdown.now.cancelled() => tracing::warn!("ended without waiting for what was under way"),
        }
        ended
    }
}

async fn run_background(background: Background, stop: CancellationToken) {
    background.run(stop).await;
}

fn start_workloads(config: &DevConfig, data: &Path, opened: &Embedded) -> anyhow::Result<LocalWorkloads> {
    let settings = local::Settings {
        toolchains: config.toolchains.clone(),
        build_env: config.build_env.clone(),
        idle: config.idle,
        ..local::Settings::new(data.join("workloads"), config.launcher.clone())
    };
    let (blobs, logs, clock) = (opened.blobs.clone(), opened.logs.clone(), opened.clock.clone());
    LocalWorkloads::start(settings, blobs, logs, clock).context("start workloads")
}

async fn start_builds(config: &DevConfig, data: &Path, opened: &Embedded) -> anyhow::Result<LocalBuilds> {
    let (program, args) = config.builder.split_first().context("no builder is set")?;
    let settings = builds::Settings {
        program: program.into(),
        args: args.to_vec(),
        work_dir: data.join("builds"),
        cache_dir: data.join("cache").join("builds"),
        base_cache: None,
        engines: config.engines.clone(),
        search_path: config.toolchains.path.clone(),
        engine_cache: data.join("cache").join("engines"),
        cache_bytes: BUILD_CACHE_BYTES,
        max_parallel: BUILDS_AT_ONCE,
        limits: Limits::default(),
    };
    LocalBuilds::start(settings, opened.blobs.clone()).await.context("start builds")
}

/// A function of the namespace that answers at `/fn`, if there is one.
pub(super) async fn callable(services: &Services, namespace: Namespace) -> Option<String> {
    // The namespace may not be there yet.
    let page = services.functions.list(namespace, PageRequest::default()).await.ok()?;
    let callable = |f: &sless_core::Function| f.status.version.is_some() && f.status.url.is_some();
    page.items.into_iter().find(callable).map(|function| function.metadata.name)
}
