//! `sless logs`, `sless build-log`.

use jiff::Timestamp;
use sless_client::{Client, LogRequest};
use sless_core::ports::{LogLine, Stream};

use crate::args::{BuildLogArgs, LogsArgs, duration};
use crate::failure::{Exit, Failure};
use crate::output::{Output, say};

pub(crate) async fn run(args: LogsArgs, client: &Client, out: &mut Output) -> Result<(), Failure> {
    let since = args.since.as_deref().map(|text| since(text, Timestamp::now())).transpose()?;
    let request = LogRequest { follow: args.follow, since, tail: args.tail };
    let mut lines = client.logs(args.name.as_str(), &request).await?;
    loop {
        let next = tokio::select! {
            line = lines.next() => line?,
            // Ctrl-C is how one stops following: done, not failed.
            _ = tokio::signal::ctrl_c(), if args.follow => None,
        };
        let Some(line) = next else { return Ok(()) };
        if out.is_json() {
            // A document a line, as the API has it: a log has no end to close a list at.
            out.text(&serde_json::to_string(&line).expect("a line has string keys only"))?;
        } else {
            out.text(&shown(&line))?;
        }
    }
}

/// An instant, or how long ago.
fn since(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let say = || {
        Failure::new(
            Exit::Usage,
            format!("--since `{text}` is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 10m"),
        )
    };
    match text.parse::<Timestamp>() {
        Ok(instant) => Ok(instant),
        Err(_) => now.checked_sub(duration(text).map_err(|_| say())?).map_err(|_| say()),
    }
}

fn shown(line: &LogLine) -> String {
    let stream = match line.stream {
        Stream::Stdout => "out",
        Stream::Stderr => "err",
        Stream::Platform => "---",
    };
    // Enough of the id to tell calls apart; its beginning is the time, which is here already.
    let id = line.invocation.to_string();
    format!(
        "{} v{} {} {stream} {}",
        line.at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
        line.version,
        &id[id.len() - 8..],
        line.line
    )
}

pub(crate) async fn build_log(args: BuildLogArgs, client: &Client, out: &mut Output) -> Result<(), Failure> {
    let name = args.name.as_str();
    let mut log = client.build_log(name, args.version).await?;
    if log.is_empty() && args.version.is_none() {
        // Settings and rollbacks make versions without a build: the newest that was built is meant.
        let versions = client.versions(name).await?;
        if let Some(built) = versions.iter().find(|version| version.build_ms.is_some()) {
            log = client.build_log(name, Some(built.number.0)).await?;
        }
    }
    if log.is_empty() {
        say("that version was not built, or its build printed nothing");
    }
    out.text(&log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_an_instant_or_an_age() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        assert_eq!(since("10m", now).unwrap().to_string(), "2026-01-31T11:50:00Z");
        assert_eq!(since("2026-01-01T00:00:00+01:00", now).unwrap().to_string(), "2025-12-31T23:00:00Z");
        assert_eq!(since("yesterday", now).unwrap_err().exit, Exit::Usage);
        assert_eq!(since("-5m", now).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_line_is_shown_with_its_call() {
        let line: LogLine = serde_json::from_str(
            r#"{"at":"2026-01-31T12:00:00.5Z","version":3,"invocation":"0199e325-1cdf-7cda-9319-e5302a85e291","stream":"stderr","line":"hello"}"#,
        )
        .unwrap();
        assert_eq!(shown(&line), "2026-01-31T12:00:00.500Z v3 2a85e291 err hello");
    }
}
