//! What a run came to.

use std::collections::BTreeMap;

use http::Uri;
use serde::Serialize;

use super::cold::Grade;
use super::load::{Measured, Plan};
use crate::output::{bytes, fields, micros};

/// Figures of one run. Times are in microseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) url: String,
    pub(super) connections: u32,
    pub(super) requests: u64,
    pub(super) elapsed_ms: u64,
    pub(super) requests_per_second: f64,
    pub(super) p50_us: u64,
    pub(super) p90_us: u64,
    pub(super) p99_us: u64,
    pub(super) max_us: u64,
    pub(super) body_bytes: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) errors: BTreeMap<String, u64>,
    /// Calls by cold-start grade, with the platform's own durations; absent where they can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cold: Option<BTreeMap<String, Grade>>,
}

impl Report {
    pub(super) fn new(url: &Uri, plan: &Plan, measured: &Measured, cold: Option<BTreeMap<String, Grade>>) -> Self {
        let at = |quantile| measured.latency.value_at_quantile(quantile);
        let rate = measured.answered() as f64 / measured.elapsed.as_secs_f64().max(f64::EPSILON);
        Self {
            url: url.to_string(),
            connections: plan.connections,
            requests: measured.answered(),
            elapsed_ms: measured.elapsed.as_millis() as u64,
            requests_per_second: (rate * 10.0).round() / 10.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: measured.latency.max(),
            body_bytes: measured.bytes,
            statuses: measured.statuses.clone(),
            errors: measured.errors.clone(),
            cold,
        }
    }
}

pub(super) fn shown(report: &Report) -> String {
    let seconds = report.elapsed_ms as f64 / 1e3;
    let counts = |counts: Vec<String>| if counts.is_empty() { "-".to_owned() } else { counts.join("\n") };
    let [p50, p90, p99, max] = [report.p50_us, report.p90_us, report.p99_us, report.max_us].map(micros);
    let mut pairs = vec![
        ("Requests", format!("{} in {seconds:.2} s over {} connections", report.requests, report.connections)),
        ("Rate", format!("{:.1} requests/s", report.requests_per_second)),
        ("Latency", format!("p50 {p50}  p90 {p90}  p99 {p99}  max {max}")),
        ("Received", bytes(report.body_bytes)),
        ("Statuses", counts(report.statuses.iter().map(|(status, n)| format!("{status}: {n}")).collect())),
    ];
    if !report.errors.is_empty() {
        pairs.push(("Errors", counts(report.errors.iter().map(|(text, n)| format!("{n} × {text}")).collect())));
    }
    if let Some(cold) = &report.cold {
        let line = |(name, grade): (&String, &Grade)| {
            format!("{name}: {} calls, p50 {}  p99 {}", grade.calls, micros(grade.p50_us), micros(grade.p99_us))
        };
        pairs.push(("Cold starts", counts(cold.iter().map(line).collect())));
    }
    fields(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_at_a_glance() {
        let report = Report {
            url: "http://h/".into(),
            connections: 8,
            requests: 1000,
            elapsed_ms: 1500,
            requests_per_second: 666.7,
            p50_us: 87,
            p90_us: 1300,
            p99_us: 2_100_000,
            max_us: 3_000_000,
            body_bytes: 12_000,
            statuses: BTreeMap::from([(200, 990), (429, 10)]),
            errors: BTreeMap::from([("Connection refused".into(), 2)]),
            cold: Some(BTreeMap::from([("instance".into(), Grade { calls: 1000, p50_us: 50, p99_us: 900 })])),
        };
        insta::assert_snapshot!(shown(&report), @"
        Requests     1000 in 1.50 s over 8 connections
        Rate         666.7 requests/s
        Latency      p50 87 µs  p90 1.3 ms  p99 2.1 s  max 3.0 s
        Received     11.7 KiB
        Statuses     200: 990
                     429: 10
        Errors       2 × Connection refused
        Cold starts  instance: 1000 calls, p50 50 µs  p99 900 µs
        ");
    }
}
