//! How cold the calls of a run were, by their rows in the invocation log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Uri;
use jiff::Timestamp;
use serde::Serialize;
use sless_client::Client;
use sless_core::Invocation;

/// The newest rows that are looked at; a longer run is judged by its end.
const MAX_ROWS: usize = 5_000;
/// Rows are written in batches beside the calls: how long to wait for the last ones.
const FLUSH_WAIT: Duration = Duration::from_secs(5);
const FLUSH_PAUSE: Duration = Duration::from_millis(200);

/// The calls of one grade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grade {
    pub(super) calls: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
}

/// Grades of the function's calls since `began`; none where the URL is no function of this client's, or can't be read.
pub(super) async fn grades(
    client: &Client,
    url: &Uri,
    began: Timestamp,
    answered: u64,
) -> Option<BTreeMap<String, Grade>> {
    let name = function_of(url, &client.namespace().to_string())?;
    let expected = usize::try_from(answered).unwrap_or(MAX_ROWS).min(MAX_ROWS);
    let deadline = Instant::now() + FLUSH_WAIT;
    loop {
        let mut rows = client.invocations(name, MAX_ROWS).await.ok()?;
        rows.retain(|row| row.started_at >= began);
        if rows.len() >= expected || Instant::now() >= deadline {
            return Some(by_grade(&rows)).filter(|grades| !grades.is_empty());
        }
        tokio::time::sleep(FLUSH_PAUSE).await;
    }
}

fn function_of<'u>(url: &'u Uri, namespace: &str) -> Option<&'u str> {
    let mut segments = url.path().strip_prefix("/fn/")?.split('/');
    (segments.next()? == namespace).then(|| segments.next()).flatten().filter(|name| !name.is_empty())
}

fn by_grade(rows: &[Invocation]) -> BTreeMap<String, Grade> {
    let mut durations: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in rows {
        if let Some(cold) = row.cold {
            durations.entry(cold.to_string()).or_default().push(row.duration_us);
        }
    }
    let grade = |mut all: Vec<u64>| {
        all.sort_unstable();
        // The smallest value that the given part of all does not exceed.
        let at = |percent: usize| all[(all.len() * percent).div_ceil(100).max(1) - 1];
        Grade { calls: all.len() as u64, p50_us: at(50), p99_us: at(99) }
    };
    durations.into_iter().map(|(name, all)| (name, grade(all))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_the_namespace_are_its_functions() {
        let name = |url: &str| function_of(&url.parse().unwrap(), "ns").map(str::to_owned);
        assert_eq!(name("http://h/fn/ns/hello/a?b").as_deref(), Some("hello"));
        assert_eq!(name("http://h/fn/ns/hello").as_deref(), Some("hello"));
        for other in ["http://h/fn/other/hello", "http://h/fn/ns", "http://h/fn/ns/", "http://h/x"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn percentiles_are_of_each_grade() {
        let row = |us: u64, cold: &str| -> Invocation {
            serde_json::from_value(serde_json::json!({
                "id": "0199e325-1cdf-7cda-9319-e5302a85e291", "namespace": "sless-cdd874dfa31ba6ca", "function": "f",
                "functionUid": "0199e325-1cdf-7cda-9319-e5302a85e291", "version": 1, "trigger": "http",
                "startedAt": "2026-01-01T00:00:00Z", "durationUs": us, "status": 200, "outcome": "ok", "cold": cold,
                "cpuUs": 0, "peakMemoryBytes": 0, "bytesIn": 0, "bytesOut": 0,
            }))
            .unwrap()
        };
        let mut rows: Vec<_> = (1..=100).map(|us| row(us, "instance")).collect();
        rows.push(row(900, "code"));
        let grades = by_grade(&rows);
        assert_eq!(grades["instance"], Grade { calls: 100, p50_us: 50, p99_us: 99 });
        assert_eq!(grades["code"], Grade { calls: 1, p50_us: 900, p99_us: 900 });
    }
}
