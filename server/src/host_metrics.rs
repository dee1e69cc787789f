//! The host's counts as metrics.

use std::sync::Arc;

use sless_api::MetricsSource;
use sless_host::{Host, Stats};

/// A source that reads them at each scrape.
pub(crate) fn source(host: Arc<Host>) -> MetricsSource {
    Arc::new(move || read(&host.stats()))
}

fn read(stats: &Stats) -> Vec<(&'static str, f64)> {
    // Every field by name, so that a new one is not forgotten here.
    let Stats {
        instances_in_use,
        instances_limit,
        instances_idle,
        calls_waiting,
        calls_total,
        code_mapped_bytes,
        artifacts_cached,
        artifacts_cached_bytes,
        egress_refused_total,
        panics_total,
    } = *stats;
    [
        ("sless_host_instances_in_use", instances_in_use),
        ("sless_host_instances_limit", instances_limit),
        ("sless_host_instances_idle", instances_idle),
        ("sless_host_calls_waiting", calls_waiting),
        ("sless_host_calls_total", calls_total),
        ("sless_host_code_mapped_bytes", code_mapped_bytes),
        ("sless_host_artifacts_cached", artifacts_cached),
        ("sless_host_artifacts_cached_bytes", artifacts_cached_bytes),
        ("sless_host_egress_refused_total", egress_refused_total),
        ("sless_host_panics_total", panics_total),
    ]
    .map(|(name, count)| (name, count as f64))
    .to_vec()
}
