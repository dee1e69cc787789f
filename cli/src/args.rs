//! The command line as it is written. What the words mean is in `commands`, `deploy` and `bench`.

mod bench;
mod new;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use sless_core::auth::MAX_LIFETIME;
use sless_core::names::{FunctionName, SecretName, TriggerName};
use sless_core::trigger::HttpAuth;
use sless_core::{Namespace, Runtime};

use crate::failure::EXIT_CODES;
use crate::output::Format;

pub(crate) use bench::BenchArgs;
pub(crate) use new::{Language, NewArgs};

const SETTINGS: &str = "\
Settings: a flag beats its environment variable, which beats the file (--config), which beats the default.
When no endpoint or token is set, a `sless dev` of this folder or the nearest one above is used.";

/// Serverless functions: develop, deploy, call and look after them.
#[derive(Debug, Parser)]
#[command(name = "sless", version, max_term_width = 100, after_help = EXIT_CODES, after_long_help = format!("{SETTINGS}\n\n{EXIT_CODES}"))]
#[command(arg_required_else_help = true, infer_long_args = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of all commands.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the API is, such as http://127.0.0.1:9090
    #[arg(long, global = true, env = "SLESS_ENDPOINT", hide_env_values = true, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) endpoint: Option<String>,
    /// The bearer token
    #[arg(long, global = true, env = "SLESS_TOKEN", hide_env_values = true, value_name = "JWT")]
    pub(crate) token: Option<String>,
    /// Whose functions; the token's own by default
    #[arg(long, global = true, env = "SLESS_NAMESPACE", hide_env_values = true, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// How results and errors are printed
    #[arg(
        long,
        short,
        global = true,
        env = "SLESS_OUTPUT",
        hide_env_values = true,
        value_name = "FORMAT",
        value_enum,
        ignore_case = true
    )]
    pub(crate) output: Option<Format>,
    /// The file of settings [default: ~/.config/sless/config.toml]
    #[arg(long, global = true, env = "SLESS_CONFIG", hide_env_values = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// The data folder of `sless dev` [default: .sless here or in the nearest folder above]
    #[arg(long, global = true, env = "SLESS_DATA", hide_env_values = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write the folder of a new function, ready to test and deploy
    New(NewArgs),
    /// Run the whole platform in one process, for development
    Dev(DevArgs),
    /// Create or update a function from source or a component, and wait until it serves
    Deploy(Box<DeployArgs>),
    /// List, show and delete functions
    #[command(subcommand)]
    Functions(FunctionsCommand),
    /// List a function's versions
    Versions(NameArgs),
    /// Go back to an older version, without a build
    Rollback(RollbackArgs),
    /// Call a function as its owner, also one without an http trigger
    Invoke(InvokeArgs),
    /// Show what a function prints
    Logs(LogsArgs),
    /// Show what a function's build printed
    BuildLog(BuildLogArgs),
    /// List a function's newest calls
    Invocations(InvocationsArgs),
    /// Set, list and delete secrets; values can't be read back
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// List, create and delete triggers
    #[command(subcommand)]
    Triggers(TriggersCommand),
    /// Print a token: the one in use, or a new one
    Token(TokenArgs),
    /// Load a URL and print latency, throughput and cold starts
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the API's OpenAPI document
    Openapi,
}

#[derive(Debug, Args)]
#[command(after_help = "In `sless dev` the functions of all tenants share one process. It listens on loopback only.")]
pub(crate) struct DevArgs {
    /// Port of the API and the gateway; 0 takes a free one
    #[arg(long, env = "SLESS_PORT", hide_env_values = true, default_value_t = 9090)]
    pub(crate) port: u16,
    /// Port of health and metrics; 0 takes a free one [default: 9091, or a free one with --port 0]
    #[arg(long, env = "SLESS_INTERNAL_PORT", hide_env_values = true)]
    pub(crate) internal_port: Option<u16>,
    /// Deploy the functions of these folders, and again whenever a file in them changes [default DIR: .]
    #[arg(long, value_name = "DIR", num_args = 0.., default_missing_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) watch: Option<Vec<PathBuf>>,
    /// The Python of python3.11 functions, a name or a path [default: python3.11]
    #[arg(long, env = "SLESS_PYTHON", hide_env_values = true, value_name = "PROGRAM")]
    pub(crate) python: Option<OsString>,
    /// The Node.js of nodejs20 functions, a name or a path [default: node]
    #[arg(long, env = "SLESS_NODE", hide_env_values = true, value_name = "PROGRAM")]
    pub(crate) node: Option<OsString>,
    /// How long the process of such a function stays without a call, such as 30s or 5m
    #[arg(long, env = "SLESS_IDLE", hide_env_values = true, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) idle: Duration,
    /// Folder of the engines for functions in JavaScript and Python on wasm [default: `engines` beside this program]
    #[arg(long, env = "SLESS_ENGINES", hide_env_values = true, value_name = "DIR")]
    pub(crate) engines: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// The function
    pub(crate) name: FunctionName,
}

#[derive(Debug, Args)]
pub(crate) struct BuildLogArgs {
    /// The function
    pub(crate) name: FunctionName,
    /// The version whose build it was [default: the newest]
    #[arg(long)]
    pub(crate) version: Option<u32>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A sless.toml beside the component, or in the folder, describes the function; flags override it.
Without one, what is not given stays as it is, or has its default where the function is new.")]
pub(crate) struct DeployArgs {
    /// A folder of source or with sless.toml, one file of source (.py, .js), a component (.wasm), or a built Rust project
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
    /// The function's name [default: as in sless.toml, else that of the file or folder]
    #[arg(long)]
    pub(crate) name: Option<FunctionName>,
    /// What runs it [default: wasm]
    #[arg(long)]
    pub(crate) runtime: Option<Runtime>,
    /// The handler of source, as file.export [default: handler.handler]
    #[arg(long, value_name = "FILE.EXPORT")]
    pub(crate) entrypoint: Option<String>,
    /// Memory of an instance in MiB
    #[arg(long, value_name = "MIB")]
    pub(crate) memory: Option<u32>,
    /// Wall clock of a call in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u32>,
    /// Processor time of a call in milliseconds
    #[arg(long, value_name = "MS")]
    pub(crate) cpu: Option<u32>,
    /// Calls at once
    #[arg(long, value_name = "CALLS")]
    pub(crate) concurrency: Option<u32>,
    /// Calls a second
    #[arg(long, value_name = "CALLS")]
    pub(crate) rate: Option<u32>,
    /// Whether an instance may serve one call after another
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) reuse: Option<bool>,
    /// An environment variable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// An environment variable whose value is a secret
    #[arg(long, value_name = "KEY=SECRET", value_parser = secret_pair)]
    pub(crate) secret: Vec<(String, SecretName)>,
    /// Where it may connect to; once given, nowhere else (host, host:port, network/prefix, *)
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Don't run the build command of sless.toml: deploy what it left
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Make no http trigger: the function does not answer at /fn
    #[arg(long)]
    pub(crate) no_http: bool,
    /// Return after the upload instead of waiting until it serves
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait, such as 90s or 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) wait_timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FunctionsCommand {
    /// List all functions
    List,
    /// Show one function
    Get(NameArgs),
    /// Delete a function with its versions, code and rows
    Delete {
        /// The function
        name: FunctionName,
        /// Also its http triggers
        #[arg(long)]
        triggers: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The function
    pub(crate) name: FunctionName,
    /// The version to go back to, as `sless versions` lists it
    pub(crate) version: u32,
    /// Return at once instead of waiting until it serves
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InvokeArgs {
    /// The function
    pub(crate) name: FunctionName,
    /// The body: text, @FILE, or - for standard input
    #[arg(long, short = 'd', value_name = "BODY")]
    pub(crate) body: Option<String>,
    /// Path and query that the function sees
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// The method that it sees [default: POST with a body, else GET]
    #[arg(long, short = 'X')]
    pub(crate) method: Option<String>,
    /// A header that it sees
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// Print the answer's status and headers too
    #[arg(long, short)]
    pub(crate) include: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The function
    pub(crate) name: FunctionName,
    /// Go on with new lines as they come
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only lines since then: a time such as 2026-01-31T12:00:00Z, or how long ago, such as 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only the last so many of the lines that are there, at most 10,000
    #[arg(long, value_name = "LINES")]
    pub(crate) tail: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct InvocationsArgs {
    /// The function
    pub(crate) name: FunctionName,
    /// How many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Write a secret, from standard input if no value is given
    Set {
        /// The secret
        name: SecretName,
        /// Its value: text, @FILE, or - for standard input; text is seen by other users of this machine
        value: Option<String>,
    },
    /// List all secrets, without their values
    List,
    /// Delete a secret
    Delete {
        /// The secret
        name: SecretName,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TriggersCommand {
    /// List all triggers
    List,
    /// Make a function answer at /fn
    Create {
        /// The function
        function: FunctionName,
        /// The trigger's name [default: that of the function]
        #[arg(long)]
        name: Option<TriggerName>,
        /// Who may call: none asks for nothing
        #[arg(long, value_name = "AUTH", default_value = "none", value_parser = http_auth)]
        auth: HttpAuth,
    },
    /// Delete a trigger
    Delete {
        /// The trigger
        name: TriggerName,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without options the token in use is printed. With --subject a new one is signed: with SLESS_JWT_SECRET, the secret of
--secret-file, or that of the `sless dev` in use.")]
pub(crate) struct TokenArgs {
    /// Sign a token for this subject
    #[arg(long, value_name = "SUB")]
    pub(crate) subject: Option<String>,
    /// How long a new token is valid, such as 1h or 30d
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = lifetime, requires = "subject")]
    pub(crate) lifetime: Duration,
    /// A file with the secret to sign with
    #[arg(long, value_name = "FILE", requires = "subject", value_hint = ValueHint::FilePath)]
    pub(crate) secret_file: Option<PathBuf>,
    /// The secret to sign with; only from the environment, where no other user sees it
    #[arg(long, env = "SLESS_JWT_SECRET", hide = true, hide_env_values = true)]
    pub(crate) jwt_secret: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

fn secret_pair(text: &str) -> Result<(String, SecretName), String> {
    let (key, name) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("write it as KEY=SECRET")?;
    Ok((key.to_owned(), name.parse().map_err(|e: sless_core::names::InvalidName| e.to_string())?))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn http_auth(text: &str) -> Result<HttpAuth, String> {
    match text {
        "none" => Ok(HttpAuth::None),
        _ => Err("there is `none`".to_owned()),
    }
}

/// A positive duration such as `90s`, `5m`, `1h30m`, `30d`; days have 24 hours.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let say = "write it as 90s, 5m, 1h30m or 30d";
    let span: jiff::Span = text.parse().map_err(|_| say)?;
    let duration = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| say)?;
    Duration::try_from(duration).ok().filter(|d| !d.is_zero()).ok_or_else(|| say.to_owned())
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = duration(text)?;
    if lifetime < Duration::from_secs(1) || lifetime > MAX_LIFETIME {
        return Err("a lifetime is from one second to ten years".to_owned());
    }
    Ok(lifetime)
}

/// A namespace of the environment or the file, which clap does not check.
pub(crate) fn namespace(text: &str) -> Result<Namespace, String> {
    text.parse().map_err(|e: sless_core::tenant::InvalidNamespace| format!("`{text}`: {e}"))
}
