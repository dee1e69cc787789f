//! `sless dev`: all roles of the embedded world in one process, on loopback, with its state in one folder.
//!
//! The functions of all tenants share this process, which is why it listens on loopback only and says so.

mod file;
mod world;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use sless_adapters::embedded;
use sless_core::auth::{MAX_LIFETIME, sign};
use sless_core::tenant::{Namespace, Tenant};
use tokio::net::TcpListener;

use crate::shutdown::Shutdown;
use world::{Ended, World};

pub use file::DevFile;
pub use sless_adapters::workloads::local::launch::run as launch;
pub use sless_adapters::workloads::local::{Launcher, Toolchains};

/// The subject of the token that `sless dev` prints.
pub const SUBJECT: &str = "dev";
/// The key file with the secret that tokens are signed with.
const JWT_KEY: &str = "jwt";
/// The key file with the secret that artifacts are signed with.
const SIGNING_KEY: &str = "signing";
/// How long calls under way may go on after the first signal: a developer who ends it does not want to wait for 30 s.
const DRAIN_GRACE: Duration = Duration::from_secs(10);

/// What can be set.
#[derive(Debug, Clone)]
pub struct DevConfig {
    /// The data folder; made if it is not there.
    pub data: PathBuf,
    /// Port of the API and the gateway; 0 takes a free one.
    pub port: u16,
    /// Port of health and metrics; 0 takes a free one.
    pub internal_port: u16,
    /// A program and its first arguments that make it a builder: it gets its job on standard input.
    pub builder: Vec<OsString>,
    /// A program that becomes the process of a function ([`launch`]).
    pub launcher: Launcher,
    /// The interpreters of functions that run as processes.
    pub toolchains: Toolchains,
    /// What installers of packages get of the environment.
    pub build_env: Vec<(OsString, OsString)>,
    /// How long a function's process stays without a call.
    pub idle: Duration,
    /// The folder of languages' engines; without it functions can't be deployed as source for wasm.
    pub engines: Option<PathBuf>,
}

/// What can be told of a `sless dev` that is ready.
#[derive(Debug, Clone, Serialize)]
pub struct Ready {
    /// Where the API and the gateway are.
    pub endpoint: String,
    /// Where health and metrics are.
    pub internal: String,
    /// The data folder.
    pub data: PathBuf,
    /// A token of [`SUBJECT`], valid for ten years.
    pub token: String,
    /// That subject's namespace.
    pub namespace: Namespace,
    /// The name of a function that can be called there, if there is one.
    pub function: Option<String>,
}

/// Why there is no `sless dev`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another program listens there.
    #[error("port {port} is taken by another program")]
    PortTaken {
        /// The port.
        port: u16,
        /// The option that sets it.
        option: &'static str,
    },
    /// Another `sless dev` has the folder.
    #[error("{0}")]
    Locked(String),
    /// Anything else.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl Error {
    /// What to do about it.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::PortTaken { option, .. } => {
                Some(format!("choose another port with {option} PORT, or let {option} 0 take a free one"))
            }
            Self::Locked(_) => Some("use the one that runs, or choose another folder with --data DIR".to_owned()),
            Self::Other(_) => None,
        }
    }
}

/// Runs until `shutdown`. `ready` is called once, when everything that was there before is there again.
pub async fn run(config: DevConfig, ready: impl FnOnce(&Ready), shutdown: Shutdown) -> Result<(), Error> {
    raise_file_limit();
    make_folder(&config.data).with_context(|| format!("make the data folder {}", config.data.display()))?;
    let data = std::path::absolute(&config.data).context("find the data folder")?;
    let opened = embedded::open(&data, embedded::Options::default()).await.map_err(locked)?;
    let ended = serve(&config, &data, &opened, ready, &shutdown).await;
    DevFile::remove(&data);
    tokio::select! {
        () = opened.close() => {}
        // All that was acknowledged is durable already.
        () = shutdown.now.cancelled() => {}
    }
    ended
}

async fn serve(
    config: &DevConfig,
    data: &Path,
    opened: &embedded::Embedded,
    ready: impl FnOnce(&Ready),
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let mut listener = listen(config.port, "--port").await?;
    let mut internal = listen(config.internal_port, "--internal-port").await?;
    let (address, internal_address) = (local(&listener)?, local(&internal)?);
    let endpoint = format!("http://{address}");
    let secret = hex::encode(embedded::key_file(data, JWT_KEY).map_err(other)?);
    let token = sign(&secret, SUBJECT, MAX_LIFETIME, opened.clock.now()).context("sign a token")?;
    let namespace = Tenant::from_subject(SUBJECT).namespace();
    let mut told = Some(ready);
    loop {
        let world = World::start(config, data, opened, &endpoint, &secret).await?;
        let services = world.services();
        let began = async {
            let Some(ready) = told.take() else { return Ok(()) };
            let (endpoint, internal) = (endpoint.clone(), format!("http://{internal_address}"));
            let file = DevFile { endpoint, internal, token: token.clone(), pid: std::process::id() };
            file.write(data)?;
            let DevFile { endpoint, internal, token, .. } = file;
            let function = world::callable(&services, namespace).await;
            ready(&Ready { endpoint, internal, data: data.to_owned(), token, namespace, function });
            anyhow::Ok(())
        };
        match world.serve(listener, internal, began, shutdown).await? {
            Ended::Shutdown => return Ok(()),
            Ended::HostPanicked => {
                tracing::error!("the host panicked, which is a defect of sless; it is replaced by a new one");
                listener = listen(address.port(), "--port").await?;
                internal = listen(internal_address.port(), "--internal-port").await?;
            }
        }
    }
}

/// Makes the data folder where it is not there: its owner's alone, since it holds keys, and out of the sight of git.
fn make_folder(data: &Path) -> std::io::Result<()> {
    if data.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    std::fs::write(data.join(".gitignore"), "*\n")
}

/// The secret that the `sless dev` of a data folder signs tokens with, as text.
///
/// # Errors
/// When none ran there yet, or the file is not readable.
pub fn read_jwt_secret(data: &Path) -> anyhow::Result<String> {
    let path = data.join("keys").join(JWT_KEY);
    anyhow::ensure!(path.exists(), "no `sless dev` has run in {} yet", data.display());
    Ok(hex::encode(embedded::key_file(data, JWT_KEY)?))
}

fn locked(error: embedded::Error) -> Error {
    match error {
        embedded::Error::InUse { path, pid } => {
            let owner = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            Error::Locked(format!(
                "the data folder {} is in use by {owner}, probably another `sless dev`",
                path.display()
            ))
        }
        error => other(error),
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Other(error.into())
}

async fn listen(port: u16, option: &'static str) -> Result<TcpListener, Error> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Error::PortTaken { port, option },
        _ => Error::Other(anyhow::Error::new(error).context(format!("listen on {address}"))),
    })
}

fn local(listener: &TcpListener) -> Result<SocketAddr, Error> {
    Ok(listener.local_addr().context("ask a listener for its address")?)
}

/// Every connection and every mapped artifact is a file; the usual soft limit of 1,024 is below the connections allowed.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

#[cfg(test)]
mod tests;
