//! How commands fail: one sentence, a remedy, the request's id, and an exit code that scripts can decide by.

use std::io::Write as _;
use std::process::ExitCode;

use sless_client::{Error, Problem};

use crate::output::Format;

/// Exit codes. They are part of the interface: `sless --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Anything that has no code of its own.
    Failure = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// There is no such function, version, secret, trigger.
    NotFound = 3,
    /// No valid token, or one that may not do this.
    Denied = 4,
    /// It exists already, or was changed by someone else meanwhile.
    Conflict = 5,
    /// A value, a file or a component is refused.
    Invalid = 6,
    /// The build failed.
    BuildFailed = 7,
    /// Nothing answers, or it is busy: trying again may help.
    Unavailable = 8,
}

/// What `--help` says of them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed for another reason; `invoke`: the function answered with an error
  2  the command line or a setting is wrong
  3  not found
  4  not allowed: no valid token, or one of another tenant
  5  conflict: it exists already, or was changed meanwhile
  6  invalid: a value, a file or a component is refused, or too large
  7  the build failed
  8  not reachable or busy; trying again may help";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    remedy: Option<String>,
    problem: Option<Box<Problem>>,
    /// Standard output was closed by its reader, which is no failure of ours and nobody is left to be told.
    quiet: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), remedy: None, problem: None, quiet: false }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// A failure to read a file that the user named.
    pub(crate) fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(Exit::Invalid, format!("read {}: {error}", path.display()))
    }

    /// Prints it and answers its exit code.
    pub(crate) fn report(self, format: Format) -> ExitCode {
        if self.quiet {
            return ExitCode::SUCCESS;
        }
        let mut stderr = std::io::stderr().lock();
        let _ = match format {
            Format::Table => write!(stderr, "{}", self.text()),
            Format::Json => writeln!(stderr, "{}", self.json()),
        };
        self.exit.into()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        if let Some(problem) = &self.problem
            && problem.errors.len() > 1
        {
            for field in &problem.errors {
                text += &format!("  {}: {}\n", field.pointer, field.detail);
            }
        }
        if let Some(remedy) = &self.remedy {
            text += &format!("  help: {remedy}\n");
        }
        if let Some(id) = self.problem.as_ref().and_then(|p| p.request_id.as_deref()) {
            text += &format!("  request id: {id}\n");
        }
        text
    }

    pub(crate) fn json(&self) -> String {
        let own = || Problem {
            title: "The command failed".to_owned(),
            detail: self.message.clone(),
            code: self.word().to_owned(),
            ..Problem::default()
        };
        let mut document = serde_json::to_value(self.problem.as_deref().cloned().unwrap_or_else(own))
            .expect("a problem has string keys only");
        if self.problem.is_none() {
            // No HTTP answer stands behind it.
            document.as_object_mut().map(|o| o.remove("status"));
        }
        if let Some(remedy) = &self.remedy {
            document["remedy"] = remedy.as_str().into();
        }
        document["exitCode"] = (self.exit as u8).into();
        format!("{document:#}")
    }

    fn word(&self) -> &'static str {
        match self.exit {
            Exit::Failure => "failed",
            Exit::Usage => "usage",
            Exit::NotFound => "not_found",
            Exit::Denied => "denied",
            Exit::Conflict => "conflict",
            Exit::Invalid => "invalid",
            Exit::BuildFailed => "build_failed",
            Exit::Unavailable => "unavailable",
        }
    }
}

/// The exit code of an HTTP status.
pub(crate) fn exit_of(status: u16) -> Exit {
    match status {
        401 | 403 => Exit::Denied,
        404 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        400 | 413 | 415 | 422 | 431 => Exit::Invalid,
        429 | 502..=504 => Exit::Unavailable,
        _ => Exit::Failure,
    }
}

fn remedy_of(problem: &Problem) -> Option<String> {
    let text = match problem.code.as_str() {
        "unauthenticated" => "set a valid token with --token or SLESS_TOKEN; `sless token` makes one for `sless dev`",
        "forbidden" => "check --namespace and whose token it is; without --namespace the token's own is used",
        "namespace_not_found" => "deploy something first: `sless deploy FILE`",
        "precondition_failed" => "someone else changed it meanwhile; run the command again",
        _ => match problem.retry_after {
            Some(after) => return Some(format!("try again in {} s", after.as_secs().max(1))),
            None => return None,
        },
    };
    Some(text.to_owned())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Problem(problem) => Self {
                exit: exit_of(problem.status),
                message,
                remedy: remedy_of(&problem),
                problem: Some(problem),
                quiet: false,
            },
            Error::NotTheApi { status, .. } => {
                Self::new(exit_of(status), message).remedy("check --endpoint or SLESS_ENDPOINT")
            }
            Error::Unreachable { .. } => Self::new(Exit::Unavailable, message)
                .remedy("start `sless dev`, or name the API with --endpoint or SLESS_ENDPOINT"),
            Error::Transport { .. } => Self::new(Exit::Unavailable, message),
            Error::Unreadable { .. } | Error::LineTooLong { .. } => {
                Self::new(Exit::Failure, message).remedy("compare `sless --version` with the platform's version")
            }
            Error::InvalidEndpoint { .. } | Error::InvalidToken(_) => Self::new(Exit::Usage, message),
            Error::File { .. } => Self::new(Exit::Invalid, message),
        }
    }
}

/// Of standard output.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let quiet = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self { quiet, ..Self::new(Exit::Failure, format!("write the output: {error}")) }
    }
}
