//! `sless-host`: serves the wasm functions of one tenant's namespace.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use clap::{Parser, Subcommand};
use futures::TryStreamExt as _;
use sless_core::ports::blobs::ByteStream;
use sless_core::ports::clock::Clock;
use sless_core::ports::invoker::Artifacts;
use sless_core::ports::logs::{LogLine, LogQuery, LogStream, Logs};
use sless_core::ports::{Error as PortError, Result as PortResult};
use sless_core::{Digest, FunctionKey, Timestamp};
use sless_host::manifest::Manifest;
use sless_host::serve::{Routes, serve};
use sless_host::{Deps, Host, Settings};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves the wasm functions of one namespace.
#[derive(Parser)]
#[command(name = "sless-host", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves until SIGTERM, then drains.
    Serve(Serve),
    /// Prints the digest of the engine inside: artifacts of another engine are refused.
    Engine,
}

#[derive(clap::Args)]
struct Serve {
    /// JSON file with the functions to serve.
    #[arg(long, env = "SLESS_HOST_MANIFEST")]
    manifest: PathBuf,
    /// Folder with compiled artifacts, each named by its digest.
    #[arg(long, env = "SLESS_HOST_ARTIFACTS")]
    artifacts: PathBuf,
    /// Folder of the host's own for its copies of artifacts.
    #[arg(long, env = "SLESS_HOST_CACHE")]
    cache: PathBuf,
    /// Where to listen.
    #[arg(long, env = "SLESS_HOST_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Calls at once.
    #[arg(long, env = "SLESS_HOST_INSTANCES", default_value_t = Settings::default().instances)]
    instances: u32,
    /// Seconds that calls in flight have to finish after SIGTERM.
    #[arg(long, env = "SLESS_HOST_GRACE_SECONDS", default_value_t = 25)]
    grace_seconds: u32,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Engine => {
            writeln!(std::io::stdout(), "{}", sless_engine::digest())?;
            Ok(())
        }
        Command::Serve(arguments) => {
            let filter = tracing_subscriber::EnvFilter::try_from_env("SLESS_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
            tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(run(arguments))
        }
    }
}

async fn run(arguments: Serve) -> anyhow::Result<()> {
    let manifest = Manifest::read(&arguments.manifest)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let deps = Deps {
        artifacts: Arc::new(Folder(arguments.artifacts)),
        logs: Arc::new(StdoutLogs),
        public_key: manifest.public_key,
        clock: clock.clone(),
        cache_dir: arguments.cache,
    };
    let settings = Settings { instances: arguments.instances, ..Settings::default() };
    let host = Host::new(settings, deps)?;
    let routes = Arc::new(Routes::new(&host, &manifest.revisions, clock));
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("listen on {}; choose another address with --listen", arguments.listen))?;
    let address = listener.local_addr()?;
    tracing::info!(%address, functions = manifest.revisions.len(), instances = host.stats().instances_limit, "serving");
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let watched = host.clone();
    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => tracing::info!("asked to stop"),
            _ = interrupted.recv() => tracing::info!("interrupted"),
            () = watched.unhealthy() => tracing::error!("the host panicked in a call and is to be replaced"),
        }
    };
    serve(listener, host.clone(), routes, stop, Duration::from_secs(arguments.grace_seconds.into())).await;
    anyhow::ensure!(host.stats().panics_total == 0, "the host panicked in a call; start another one");
    Ok(())
}

/// Artifacts in a folder.
struct Folder(PathBuf);

#[async_trait]
impl Artifacts for Folder {
    async fn fetch(&self, artifact: &Digest) -> PortResult<ByteStream> {
        let path = self.0.join(artifact.to_string());
        let file = tokio::fs::File::open(&path).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => PortError::NotFound { kind: "artifact", name: artifact.to_string() },
            _ => PortError::unavailable("open an artifact")(error),
        })?;
        let pieces = tokio_util::io::ReaderStream::with_capacity(file, 256 << 10);
        Ok(Box::pin(pieces.map_err(PortError::unavailable("read an artifact"))))
    }
}

/// What functions print, as JSON lines on standard output, where a pod's log is read from.
struct StdoutLogs;

#[async_trait]
impl Logs for StdoutLogs {
    fn append(&self, function: &FunctionKey, lines: Vec<LogLine>) {
        let mut out = std::io::stdout().lock();
        for line in lines {
            let mut fields: HashMap<&str, serde_json::Value> = HashMap::new();
            fields.insert("function", function.name.as_str().into());
            fields.insert("namespace", function.namespace.to_string().into());
            let Ok(serde_json::Value::Object(mut object)) = serde_json::to_value(&line) else { continue };
            object.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
            // A closed standard output is no reason to fail a call.
            let _ = writeln!(out, "{}", serde_json::Value::Object(object));
        }
    }

    async fn read(&self, function: &FunctionKey, _: LogQuery) -> PortResult<LogStream> {
        Err(PortError::NotFound { kind: "log on this host; read the pod's", name: function.to_string() })
    }

    async fn delete(&self, _: &FunctionKey) -> PortResult<()> {
        Ok(())
    }

    async fn flush(&self) -> PortResult<()> {
        Ok(())
    }
}

struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep_until(&self, instant: Timestamp) {
        let wait = Duration::try_from(instant.duration_since(Timestamp::now())).unwrap_or_default();
        tokio::time::sleep(wait).await;
    }
}
