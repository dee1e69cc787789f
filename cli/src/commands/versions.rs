//! `sless versions`, `sless rollback`.

use sless_client::Client;
use sless_core::version::{Version, VersionCause, VersionState};

use crate::args::{NameArgs, RollbackArgs};
use crate::deploy::wait;
use crate::failure::Failure;
use crate::output::{Output, bytes, instant, say, table};

pub(crate) async fn list(args: NameArgs, client: &Client, out: &mut Output) -> Result<(), Failure> {
    let function = client.function(args.name.as_str()).await?;
    let versions = client.versions(args.name.as_str()).await?;
    if versions.is_empty() && !out.is_json() {
        say("no versions yet; `sless deploy` makes one");
        return Ok(());
    }
    let live = function.status.version;
    out.result(&versions, |versions| {
        table(
            ["VERSION", "STATE", "CAUSE", "SIZE", "BUILD", "CREATED"],
            versions.iter().map(|v| {
                [
                    v.number.to_string(),
                    if Some(v.number) == live { "live".to_owned() } else { state(v).to_owned() },
                    cause(v),
                    bytes(v.source_bytes),
                    v.build_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms")),
                    instant(v.created_at),
                ]
            }),
        )
    })
}

fn state(version: &Version) -> &'static str {
    match version.state {
        VersionState::Pending => "pending",
        VersionState::Ready { .. } => "ready",
        VersionState::Failed { .. } => "failed",
        VersionState::Superseded => "superseded",
    }
}

fn cause(version: &Version) -> String {
    match version.cause {
        VersionCause::Upload => "upload".to_owned(),
        VersionCause::Settings => "settings".to_owned(),
        VersionCause::Rollback { to } => format!("rollback to {to}"),
    }
}

pub(crate) async fn rollback(args: RollbackArgs, client: &Client, out: &mut Output) -> Result<(), Failure> {
    let accepted = client.rollback(args.name.as_str(), args.version).await?;
    let generation = accepted.function.metadata.generation;
    let function = if args.no_wait {
        accepted.function
    } else {
        wait::until_ready(client, args.name.as_str(), generation, wait::DEFAULT_TIMEOUT).await?
    };
    out.result(&function, |function| {
        let number = accepted.version.number;
        let serves = function.status.version.is_some_and(|v| v == number);
        let (to, name) = (args.version, &args.name);
        match (accepted.changed, serves) {
            (false, _) => format!("{name} has the code and settings of version {to} already\n"),
            (true, true) => format!("{name} is back at version {to}, as version {number}\n"),
            (true, false) => format!("{name} goes back to version {to}, as version {number}\n"),
        }
    })
}
