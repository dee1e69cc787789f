//! Use-cases: what the routes of the API and the controllers do, in terms of ports only.
//!
//! [`Services::new`] joins the ports; [`Background::run`] is everything that goes on by itself: builds, routes, the
//! invocation log, collecting what nothing needs.

pub mod deployer;
pub mod functions;
pub mod invocations;
pub mod janitor;
pub mod logs;
pub mod namespaces;
pub mod recorder;
pub mod routes;
pub mod secrets;
pub mod triggers;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::artifact::PrivateKey;
use crate::ports::{Blobs, Builds, Clock, Invoker, Limits, Logs, Records, Resources, Secrets, Workloads};

pub use functions::{Functions, Source, UploadKind, Uploaded};
pub use invocations::Invocations;
pub use logs::LogsService;
pub use namespaces::Namespaces;
pub use recorder::Recorder;
pub use routes::{Live, Route, Routes};
pub use secrets::SecretsService;
pub use triggers::Triggers;

/// What the use-cases stand on.
pub struct Deps {
    /// Functions, triggers, namespaces.
    pub resources: Resources,
    /// Versions and invocations.
    pub records: Arc<dyn Records>,
    /// Code, artifacts, build logs.
    pub blobs: Arc<dyn Blobs>,
    /// Write-only values.
    pub secrets: Arc<dyn Secrets>,
    /// Calls a second.
    pub limits: Arc<dyn Limits>,
    /// What functions print.
    pub logs: Arc<dyn Logs>,
    /// Checks and builds.
    pub builds: Arc<dyn Builds>,
    /// Makes versions callable that the host pool serves.
    pub invoker: Arc<dyn Invoker>,
    /// Builds and runs the others.
    pub workloads: Arc<dyn Workloads>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Signs artifacts.
    pub signing_key: Arc<PrivateKey>,
    /// What can be set.
    pub settings: Settings,
}

/// What can be set of the use-cases.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the gateway answers, without a trailing slash: `http://127.0.0.1:9090`.
    pub external_url: String,
    /// Versions kept of a function, the live one not counted.
    pub versions_kept: usize,
    /// Age at which invocation rows go.
    pub invocations_kept_for: Duration,
    /// Number of invocation rows beyond which the oldest go.
    pub invocations_kept: u64,
    /// The largest upload in bytes.
    pub max_upload_bytes: u64,
    /// Builds at once; more wait.
    pub builds_at_once: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            external_url: "http://127.0.0.1:9090".to_owned(),
            versions_kept: 20,
            invocations_kept_for: Duration::from_secs(7 * 24 * 3600),
            invocations_kept: 5_000_000,
            // The largest components in the field (StarlingMonkey, CPython) are 12 to 20 MB.
            max_upload_bytes: 64 << 20,
            builds_at_once: 2,
        }
    }
}

/// The use-cases. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// `ensure`.
    pub namespaces: Namespaces,
    /// Functions, uploads, versions.
    pub functions: Functions,
    /// Triggers.
    pub triggers: Triggers,
    /// Write-only values.
    pub secrets: SecretsService,
    /// The invocation log.
    pub invocations: Invocations,
    /// What functions print.
    pub logs: LogsService,
    /// What the gateway looks up.
    pub routes: Arc<Routes>,
    /// Where calls leave their rows.
    pub recorder: Recorder,
    /// Calls a second.
    pub limits: Arc<dyn Limits>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// For readiness.
    pub records: Arc<dyn Records>,
}

impl Services {
    /// Joins the ports. Nothing happens by itself until [`Background::run`].
    pub fn new(deps: Deps) -> (Self, Background) {
        let settings = Arc::new(deps.settings);
        let gate = janitor::Gate::default();
        let routes = Arc::new(Routes::new(routes::Deps {
            records: deps.records.clone(),
            secrets: deps.secrets.clone(),
            invoker: deps.invoker.clone(),
            workloads: deps.workloads.clone(),
            engine: deps.builds.engine(),
        }));
        let (recorder, rows) = recorder::new(deps.records.clone());
        let namespaces = Namespaces::new(deps.resources.namespaces.clone());
        let functions = Functions::new(functions::Deps {
            namespaces: namespaces.clone(),
            functions: deps.resources.functions.clone(),
            records: deps.records.clone(),
            blobs: deps.blobs.clone(),
            builds: deps.builds.clone(),
            workloads: deps.workloads.clone(),
            clock: deps.clock.clone(),
            routes: routes.clone(),
            gate: gate.clone(),
            settings: settings.clone(),
        });
        let deployer = deployer::Deployer::new(deployer::Deps {
            functions: deps.resources.functions.clone(),
            records: deps.records.clone(),
            blobs: deps.blobs.clone(),
            secrets: deps.secrets.clone(),
            logs: deps.logs.clone(),
            builds: deps.builds,
            workloads: deps.workloads.clone(),
            clock: deps.clock.clone(),
            signing_key: deps.signing_key,
            routes: routes.clone(),
            gate: gate.clone(),
            settings: settings.clone(),
        });
        let janitor = janitor::Janitor::new(janitor::Deps {
            functions: deps.resources.functions.clone(),
            records: deps.records.clone(),
            blobs: deps.blobs,
            workloads: deps.workloads,
            clock: deps.clock.clone(),
            gate,
            settings: settings.clone(),
        });
        let services = Self {
            triggers: Triggers::new(namespaces.clone(), deps.resources.triggers.clone(), routes.clone(), settings),
            secrets: SecretsService::new(namespaces.clone(), deps.secrets.clone()),
            invocations: Invocations::new(namespaces.clone(), deps.records.clone()),
            logs: LogsService::new(functions.clone(), deps.logs),
            namespaces,
            functions,
            routes: routes.clone(),
            recorder,
            limits: deps.limits,
            clock: deps.clock,
            records: deps.records,
        };
        let background =
            Background { resources: deps.resources, secrets: deps.secrets, routes, rows, deployer, janitor };
        (services, background)
    }
}

/// What goes on by itself.
pub struct Background {
    resources: Resources,
    secrets: Arc<dyn Secrets>,
    routes: Arc<Routes>,
    rows: recorder::Rows,
    deployer: deployer::Deployer,
    janitor: janitor::Janitor,
}

impl Background {
    /// Runs until `shutdown`, then writes out what calls have left. Calls should have ended by then.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { resources, secrets, routes, rows, deployer, janitor } = self;
        tokio::join!(
            routes.keep(&resources, secrets.as_ref(), shutdown.clone()),
            deployer.run(shutdown.clone()),
            janitor.run(shutdown.clone()),
            rows.write(shutdown),
        );
    }
}
