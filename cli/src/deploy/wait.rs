//! Waiting until a function serves what it was given, or can't.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sless_client::Client;
use sless_core::{Function, Phase};

use crate::failure::{Exit, Failure};
use crate::output::{say, watched};

/// How long to wait where nothing is said.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// The pauses between looks: most builds take a tenth of a second, the longest ones a minute.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// How many lines of a build log a failure shows.
const LOG_TAIL_LINES: usize = 20;

/// Returns when the function's given generation, or a newer one, serves; [`Exit::BuildFailed`] when it can't.
pub(crate) async fn until_ready(
    client: &Client,
    name: &str,
    generation: u64,
    timeout: Duration,
) -> Result<Function, Failure> {
    let started = Instant::now();
    let spinner = watched().then(spinner);
    let mut pause = PAUSES.0;
    let mut shown = Phase::Ready;
    loop {
        let function = client.function(name).await?;
        let status = &function.status;
        if status.observed_generation >= generation {
            match status.phase {
                Phase::Ready => return Ok(function),
                Phase::Failed => return Err(build_failed(client, &function).await),
                Phase::Pending | Phase::Building => {}
            }
        }
        if started.elapsed() >= timeout {
            let text = format!("{name} is not ready after {} s; it goes on without this command", timeout.as_secs());
            return Err(Failure::new(Exit::Unavailable, text)
                .remedy(format!("look again with `sless functions get {name}`, or wait longer with --wait-timeout")));
        }
        let phase = if status.observed_generation >= generation { status.phase } else { Phase::Pending };
        match &spinner {
            Some(spinner) => spinner.set_message(words(phase)),
            None if phase != shown => say(words(phase)),
            None => {}
        }
        shown = phase;
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(PAUSES.1);
    }
}

fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "waiting for the build",
        Phase::Building => "building",
        Phase::Ready => "ready",
        Phase::Failed => "failed",
    }
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

async fn build_failed(client: &Client, function: &Function) -> Failure {
    let name = &function.metadata.name;
    let reason = function.status.last_error.as_deref().unwrap_or("the platform gives no reason");
    let mut text = format!("the build of {name} failed: {reason}");
    // The reason is known already; a log that can't be had does not hide it.
    if let Ok(log) = client.build_log(name, None).await {
        let lines: Vec<_> = log.lines().collect();
        for line in &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..] {
            text += &format!("\n  | {line}");
        }
    }
    let remedy = match function.status.version {
        Some(version) => format!("version {version} still serves; `sless build-log {name}` has the whole output"),
        None => format!("`sless build-log {name}` has the whole output"),
    };
    Failure::new(Exit::BuildFailed, text).remedy(remedy)
}
