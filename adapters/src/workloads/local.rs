//! `Workloads` on this machine: images are folders, containers are processes on loopback.
//!
//! For development. A process has its own limits of memory and time, a folder of its own for temporary files, and ends with
//! the platform; but it has the files and the network of the platform's user, which containers have not.

mod call;
mod command;
mod image;
mod instance;
pub mod launch;
mod memory;
mod output;
mod process;
mod server;
mod toolchain;
mod unpack;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use sless_core::ports::{self, Blobs, BuildError, BuildJob, Clock, Image, Logs, Workloads};
use sless_core::version::Revision;
use sless_core::{Failure, Outcome, Runtime, Target};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use self::call::LocalTarget;
use self::image::Images;
use self::process::Spawner;
use self::server::{Look, Server};
use self::toolchain::Interpreter;

pub use self::command::Launcher;
pub use self::toolchain::Toolchains;

/// How often processes are looked at. A function that asks for memory as fast as it can gets some hundred MiB in it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a process outlives the last target that leads to it: a new target of the same version may come.
const LINGER: Duration = Duration::from_secs(2);
/// When to come back where all places are taken.
const FULL_RETRY: Duration = Duration::from_secs(1);

/// How functions are built and run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where images and processes have their folders. Of this process alone.
    pub folder: PathBuf,
    /// What makes a program a launcher of processes.
    pub launcher: Launcher,
    /// The interpreters.
    pub toolchains: Toolchains,
    /// What installers of packages get of the environment: `HOME`, proxies, indexes, certificates.
    pub build_env: Vec<(OsString, OsString)>,
    /// How long installing packages may take.
    pub install_limit: Duration,
    /// How long a process stays without a call.
    pub idle: Duration,
    /// The most processes at once; idle ones make room.
    pub max_processes: usize,
}

impl Settings {
    /// With the defaults of a developer's machine.
    pub fn new(folder: PathBuf, launcher: Launcher) -> Self {
        Self {
            folder,
            launcher,
            toolchains: Toolchains::default(),
            build_env: Vec::new(),
            install_limit: Duration::from_secs(600),
            idle: Duration::from_secs(300),
            // At 30 to 60 MB each.
            max_processes: 64,
        }
    }
}

/// What processes share.
struct Shared {
    images: Images,
    spawner: Spawner,
    launcher: Launcher,
    toolchains: Toolchains,
    run_folder: PathBuf,
    logs: Arc<dyn Logs>,
    clock: Arc<dyn Clock>,
    idle: Duration,
    places: Arc<Semaphore>,
    interpreters: Mutex<HashMap<Runtime, Interpreter>>,
    /// In the order in which their versions came.
    servers: Mutex<Vec<Arc<Server>>>,
}

impl Shared {
    /// A place for one more process; the one that was idle longest makes room.
    fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        for server in self.servers().iter().filter(|server| server.revision.spec.min_replicas == 0) {
            if matches!(server.look(), Look::Running(_)) && server.stop_unused(Duration::ZERO) {
                break;
            }
        }
        // Its place is free when it has ended.
        let detail = "all places for processes are taken";
        Err(Failure::new(Outcome::PoolExhausted, detail).retry_after(FULL_RETRY))
    }

    /// The interpreter of a runtime; looked for once, since asking it takes a tenth of a second.
    async fn interpreter(&self, runtime: Runtime) -> Result<Interpreter, String> {
        let known = self.interpreters.lock().unwrap_or_else(PoisonError::into_inner).get(&runtime).cloned();
        if let Some(known) = known.filter(|known| known.program.is_file()) {
            return Ok(known);
        }
        let toolchains = self.toolchains.clone();
        let found =
            tokio::task::spawn_blocking(move || toolchains.find(runtime)).await.map_err(|e| e.to_string())??;
        self.interpreters.lock().unwrap_or_else(PoisonError::into_inner).insert(runtime, found.clone());
        Ok(found)
    }

    /// Whether a version of the function has a process.
    fn is_warm(&self, uid: Uuid) -> bool {
        self.servers().iter().any(|server| server.revision.uid == uid && matches!(server.look(), Look::Running(_)))
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Arc<Server>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all processes once.
    fn round(&self) {
        let all: Vec<_> = self.servers().clone();
        // The newest of each function; targets of older ones may be let go late.
        let newest: HashMap<Uuid, &Arc<Server>> = all.iter().map(|server| (server.revision.uid, server)).collect();
        let mut forgotten = Vec::new();
        for server in &all {
            let superseded = newest.get(&server.revision.uid).is_some_and(|newest| !Arc::ptr_eq(newest, server));
            if let Look::Running(instance) = server.look() {
                instance.measure();
            }
            if server.forgotten() {
                if server.stop_unused(LINGER) {
                    forgotten.push(server);
                }
            } else if superseded {
                server.stop_unused(LINGER);
            } else if server.revision.spec.min_replicas > 0 {
                server.warm();
            } else {
                server.stop_unused(self.idle);
            }
        }
        if !forgotten.is_empty() {
            // Under the lock, since a target may have come meanwhile.
            self.servers()
                .retain(|server| !(server.forgotten() && forgotten.iter().any(|gone| Arc::ptr_eq(gone, server))));
        }
    }
}

/// Functions as processes of this machine.
pub struct LocalWorkloads(Arc<Shared>);

impl LocalWorkloads {
    /// Opens the folder, clears what an ended process left in it, and begins to look after processes.
    ///
    /// # Errors
    /// When the folder can't be used, or no thread can be started.
    pub fn start(
        settings: Settings,
        blobs: Arc<dyn Blobs>,
        logs: Arc<dyn Logs>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let run_folder = std::path::absolute(settings.folder.join("run"))?;
        match std::fs::remove_dir_all(&run_folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&run_folder)?;
        let shared = Arc::new(Shared {
            images: Images::open(&settings, blobs)?,
            spawner: Spawner::start()?,
            launcher: settings.launcher,
            toolchains: settings.toolchains,
            run_folder,
            logs,
            clock,
            idle: settings.idle,
            places: Arc::new(Semaphore::new(settings.max_processes.max(1))),
            interpreters: Mutex::default(),
            servers: Mutex::default(),
        });
        tokio::spawn(keep(Arc::downgrade(&shared)));
        Ok(Self(shared))
    }

    /// Stops all processes; calls under way have the grace.
    pub async fn drain(&self, grace: Duration) {
        let servers = std::mem::take(&mut *self.0.servers());
        futures::future::join_all(servers.iter().map(|server| server.stop(grace))).await;
    }

    /// How many processes there are.
    pub fn processes(&self) -> usize {
        self.0.servers().iter().filter(|server| matches!(server.look(), Look::Running(_))).count()
    }
}

impl Drop for LocalWorkloads {
    fn drop(&mut self) {
        for server in std::mem::take(&mut *self.0.servers()) {
            server.kill();
        }
    }
}

/// Looks after processes for as long as somebody wants them.
async fn keep(shared: Weak<Shared>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        shared.round();
    }
}

#[async_trait]
impl Workloads for LocalWorkloads {
    fn supports(&self, runtime: Runtime) -> Result<(), String> {
        let known = self.0.interpreters.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&runtime);
        if known { Ok(()) } else { self.0.toolchains.find(runtime).map(drop) }
    }

    async fn build(&self, job: BuildJob) -> Result<Image, BuildError> {
        self.0.images.build(&self.0.spawner, job).await
    }

    async fn exists(&self, image: &str) -> ports::Result<bool> {
        Ok(self.0.images.exists(image))
    }

    fn target(&self, revision: Arc<Revision>) -> Arc<dyn Target> {
        let mut servers = self.0.servers();
        let same = |server: &&Arc<Server>| {
            let other = &server.revision;
            (other.uid, other.version, &other.env) == (revision.uid, revision.version, &revision.env)
        };
        if let Some(server) = servers.iter().find(same) {
            return Arc::new(LocalTarget::new(server.clone()));
        }
        let server = Arc::new(Server::new(revision, self.0.clone()));
        // Counted before the keeper can see it.
        let target = LocalTarget::new(server.clone());
        servers.push(server);
        Arc::new(target)
    }

    async fn collect(&self, needed: &BTreeSet<String>) -> ports::Result<()> {
        let (shared, needed) = (self.0.clone(), needed.clone());
        let collected = tokio::task::spawn_blocking(move || shared.images.collect(&needed)).await;
        collected.map_err(io::Error::other).and_then(|done| done).map_err(ports::Error::unavailable("remove images"))
    }
}
