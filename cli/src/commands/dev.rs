//! `sless dev`: settings for the server, and what it says when it is ready.

mod watch;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use sless_client::{Client, Config};
use sless_server::dev::{self, DevConfig, Launcher, Ready, Toolchains};
use sless_server::telemetry;

use crate::args::DevArgs;
use crate::connection::Settings;
use crate::failure::{Exit, Failure};
use crate::output::Format;

pub(crate) async fn run(args: DevArgs, settings: &Settings) -> Result<(), Failure> {
    let folders = watch::folders(args.watch.unwrap_or_default())?;
    let failed = |error: dev::Error| {
        let exit = match error {
            dev::Error::PortTaken { .. } | dev::Error::Locked { .. } => Exit::Conflict,
            dev::Error::Other(_) => Exit::Failure,
        };
        let remedy = error.remedy();
        let failure = Failure::new(exit, error.to_string());
        match remedy {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    };
    let telemetry = telemetry::init("sless dev").map_err(|e| Failure::new(Exit::Usage, format!("{e:#}")))?;
    let program =
        own_program().map_err(|e| Failure::new(Exit::Failure, format!("find this program's own file: {e}")))?;
    let config = DevConfig {
        data: settings.data_folder(),
        port: args.port,
        internal_port: args.internal_port.unwrap_or(if args.port == 0 { 0 } else { 9091 }),
        builder: vec![program.clone().into(), crate::BUILDER_COMMAND.into()],
        launcher: Launcher { program, args: vec![crate::LAUNCHER_COMMAND.into()] },
        toolchains: Toolchains { path: path(), python: args.python, node: args.node },
        build_env: build_env(),
        idle: args.idle,
        engines: args.engines.or_else(engines_beside),
    };
    let format = settings.output;
    let (tell, told) = tokio::sync::oneshot::channel();
    let ready = move |ready: &Ready| {
        let text = match format {
            Format::Table => welcome(ready),
            Format::Json => format!("{}\n", serde_json::to_string(ready).expect("it has string keys only")),
        };
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        let _ = tell.send(ready.clone());
    };
    let signals = sless_server::shutdown::signals()
        .map_err(|e| Failure::new(Exit::Failure, format!("listen for signals: {e}")))?;
    let watching = async {
        if let Ok(Ready { endpoint, token, .. }) = told.await
            && !folders.is_empty()
        {
            match Client::new(Config { endpoint, token, namespace: None }) {
                Ok(client) => watch::run(folders, client, format).await,
                Err(error) => _ = Failure::from(error).report(format),
            }
        }
        // Whatever becomes of the watch, the platform stays until it is ended.
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = dev::run(config, ready, signals) => result,
        () = watching => unreachable!("it is pending"),
    };
    telemetry.flush().await;
    result.map_err(failed)
}

/// This very program, to be run as the builder: through `/proc`, so that builds go on with the same engine when the file
/// is replaced or removed meanwhile, as `cargo build` does.
fn own_program() -> std::io::Result<PathBuf> {
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// Where interpreters and installers are looked for.
#[expect(clippy::disallowed_methods, reason = "the command line is where the environment is read")]
fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// What installers of packages need of the developer's environment. Nothing else of it reaches a build.
fn build_env() -> Vec<(OsString, OsString)> {
    const NAMES: &[&str] = &[
        "HOME",
        "USER",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
    ];
    let wanted = |name: &OsString| {
        let Some(name) = name.to_str() else { return false };
        let upper = name.to_ascii_uppercase();
        NAMES.contains(&name)
            || upper.ends_with("_PROXY")
            || ["PIP_", "UV_", "NPM_CONFIG_"].iter().any(|prefix| upper.starts_with(prefix))
    };
    std::env::vars_os().filter(|(name, _)| wanted(name)).collect()
}

/// Where `cargo xtask engines` and releases put engines: beside the program.
fn engines_beside() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.join("engines");
    folder.is_dir().then_some(folder)
}

pub(crate) fn welcome(ready: &Ready) -> String {
    let Ready { endpoint, internal, data, token, namespace, function } = ready;
    let call = match function {
        Some(name) => format!("# call {name}\ncurl {endpoint}/fn/{namespace}/{name}/"),
        None => format!(
            "# call a function, once `sless deploy FILE` made one named hello\ncurl {endpoint}/fn/{namespace}/hello/"
        ),
    };
    format!(
        "sless dev is ready at {endpoint}

  data       {}
  namespace  {namespace}
  internal   {internal} (/healthz, /readyz, /metrics)
  token      {token}

# make the namespace
curl -X POST -H 'Authorization: Bearer {token}' {endpoint}/v1/namespaces/{namespace}/ensure
# list its functions
curl -H 'Authorization: Bearer {token}' {endpoint}/v1/namespaces/{namespace}/functions
{call}

The functions of all tenants share this one process: that is for development, not for strangers' code.
Stop it with Ctrl-C; a second one does not wait for calls that are under way.
",
        data.display()
    )
}
