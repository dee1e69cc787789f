//! What Prometheus sees. Metrics of calls are made from their rows, beside the calls' way; only gauges and refusals are
//! counted on it.
//!
//! Labels are bounded: functions beyond [`MAX_FUNCTIONS`] share the label `_other`, a function's series go away
//! [`IDLE`] after its last call, and API routes are labelled by their template.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram, Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use metrics_util::MetricKindMask;
use sless_core::services::{Recorder, Routes, Services};
use sless_core::{FunctionKey, Invocation, Outcome, TriggerKind};

/// Functions with series of their own. At about 100 series each that is as much as one scrape should carry.
const MAX_FUNCTIONS: usize = 1_000;
/// How long a series stays without a change.
const IDLE: Duration = Duration::from_secs(3_600);
/// How long a handle is kept for a function that is not called: well below [`IDLE`], after which it would count into
/// nothing.
const KEPT: Duration = Duration::from_secs(IDLE.as_secs() / 2);
/// The label of functions beyond the bound.
const OTHER: &str = "_other";

/// From 10 µs (a warm instance answers in tens of them) to a minute, and the longest timeout.
const SECONDS: &[f64] = &[
    10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0, 900.0,
];

const INVOCATIONS: &str = "sless_invocations_total";
const DURATION: &str = "sless_invocation_duration_seconds";
const CPU: &str = "sless_invocation_cpu_seconds";
const COLD: &str = "sless_cold_start_duration_seconds";
const BYTES_IN: &str = "sless_invocation_request_bytes_total";
const BYTES_OUT: &str = "sless_invocation_response_bytes_total";
const REFUSED: &str = "sless_gateway_refused_total";
const API_REQUESTS: &str = "sless_api_requests_total";
const API_DURATION: &str = "sless_api_request_duration_seconds";

/// Gauges and counters of a part of the process, read at each scrape: names by Prometheus' convention, `_total` for
/// counters.
pub type Source = Arc<dyn Fn() -> Vec<(&'static str, f64)> + Send + Sync>;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// All metrics of one server. No global state: tests have as many as they like.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    functions: Mutex<HashMap<FunctionKey, Series>>,
    calls: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
    rows: Recorder,
    routes: Arc<Routes>,
    sources: Vec<Source>,
}

/// The handles of one function.
struct Series {
    used: Instant,
    ended: Vec<(Outcome, TriggerKind, Counter)>,
    duration: Histogram,
    cpu: Histogram,
    bytes_in: Counter,
    bytes_out: Counter,
    labels: [Label; 2],
}

/// Something under way; counted as long as this lives.
pub(crate) struct Gauge(Arc<AtomicU64>);

impl Gauge {
    fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Metrics that follow the rows of `services`.
    pub(crate) fn new(services: &Services, sources: Vec<Source>) -> Arc<Self> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
            .expect("there are buckets")
            .idle_timeout(MetricKindMask::ALL, Some(IDLE))
            .build_recorder();
        describe(&recorder);
        let metrics = Arc::new(Self {
            handle: recorder.handle(),
            recorder,
            functions: Mutex::default(),
            calls: Arc::default(),
            requests: Arc::default(),
            rows: services.recorder.clone(),
            routes: services.routes.clone(),
            sources,
        });
        // Weak: the recorder of rows outlives the server, not the other way round.
        let weak = Arc::downgrade(&metrics);
        services.recorder.subscribe(Arc::new(move |row| {
            if let Some(metrics) = weak.upgrade() {
                metrics.row(row);
            }
        }));
        metrics
    }

    /// A call begins.
    pub(crate) fn call_begins(&self) -> Gauge {
        Gauge::new(&self.calls)
    }

    /// A request to the API begins.
    pub(crate) fn request_begins(&self) -> Gauge {
        Gauge::new(&self.requests)
    }

    /// A call that has no row: there was no version that it could be of.
    pub(crate) fn call_refused(&self, outcome: Outcome) {
        self.counter(REFUSED, vec![Label::from_static_parts("outcome", outcome.name())]).increment(1);
    }

    /// A request to the API was answered. `route` is the template, so that there are as many as routes.
    pub(crate) fn request_ended(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let base = [Label::from_static_parts("method", method), Label::new("route", route.to_owned())];
        self.histogram(API_DURATION, base.to_vec()).record(took);
        let status = Label::new("status", status.to_string());
        self.counter(API_REQUESTS, base.into_iter().chain([status]).collect()).increment(1);
    }

    /// Moves recorded values from their buffers into buckets. To be called every few seconds, scraped or not.
    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// The text exposition format.
    pub(crate) fn render(&self) -> String {
        let mut text = self.handle.render();
        let own = [
            ("sless_invocations_in_flight", self.calls.load(Ordering::Relaxed) as f64),
            ("sless_api_requests_in_flight", self.requests.load(Ordering::Relaxed) as f64),
            ("sless_invocation_rows_pending", self.rows.pending() as f64),
            ("sless_invocation_rows_dropped_total", self.rows.dropped() as f64),
            ("sless_functions", self.routes.len() as f64),
        ];
        for (name, value) in own.into_iter().chain(self.sources.iter().flat_map(|source| source())) {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            let _ = write!(text, "# TYPE {name} {kind}\n{name} {value}\n\n");
        }
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(text, "# TYPE sless_build_info gauge\nsless_build_info{{version=\"{version}\"}} 1\n");
        text
    }

    fn row(&self, row: &Invocation) {
        if let Some(grade) = row.cold {
            let labels = vec![Label::from_static_parts("grade", grade.name())];
            self.histogram(COLD, labels).record(Duration::from_micros(row.duration_us));
        }
        let key = FunctionKey::new(row.namespace, row.function.clone());
        let mut functions = self.functions();
        if !functions.contains_key(&key) && functions.len() >= MAX_FUNCTIONS {
            functions.retain(|_, series| series.used.elapsed() < IDLE);
        }
        let now = Instant::now();
        let labels = |known: bool| {
            let (namespace, function) = if known {
                (key.namespace.to_string(), key.name.to_string())
            } else {
                (OTHER.to_owned(), OTHER.to_owned())
            };
            [Label::new("namespace", namespace), Label::new("function", function)]
        };
        let mut other;
        let series = if functions.contains_key(&key) || functions.len() < MAX_FUNCTIONS {
            let series = functions.entry(key.clone()).or_insert_with(|| self.series(labels(true), now));
            if now.duration_since(series.used) > KEPT {
                *series = self.series(labels(true), now);
            }
            series
        } else {
            other = self.series(labels(false), now);
            &mut other
        };
        series.used = now;
        series.duration.record(Duration::from_micros(row.duration_us));
        series.cpu.record(Duration::from_micros(row.cpu_us));
        series.bytes_in.increment(row.bytes_in);
        series.bytes_out.increment(row.bytes_out);
        match series.ended.iter().find(|(outcome, trigger, _)| (*outcome, *trigger) == (row.outcome, row.trigger)) {
            Some((_, _, counter)) => counter.increment(1),
            None => {
                let mut labels = series.labels.to_vec();
                labels.push(Label::from_static_parts("outcome", row.outcome.name()));
                labels.push(Label::from_static_parts("trigger", row.trigger.name()));
                let counter = self.counter(INVOCATIONS, labels);
                counter.increment(1);
                series.ended.push((row.outcome, row.trigger, counter));
            }
        }
    }

    fn series(&self, labels: [Label; 2], now: Instant) -> Series {
        Series {
            used: now,
            ended: Vec::new(),
            duration: self.histogram(DURATION, labels.to_vec()),
            cpu: self.histogram(CPU, labels.to_vec()),
            bytes_in: self.counter(BYTES_IN, labels.to_vec()),
            bytes_out: self.counter(BYTES_OUT, labels.to_vec()),
            labels,
        }
    }

    fn counter(&self, name: &'static str, labels: Vec<Label>) -> Counter {
        self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    }

    fn histogram(&self, name: &'static str, labels: Vec<Label>) -> Histogram {
        self.recorder.register_histogram(&Key::from_parts(name, labels), &METADATA)
    }

    fn functions(&self) -> MutexGuard<'_, HashMap<FunctionKey, Series>> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(recorder: &PrometheusRecorder) {
    let counters = [
        (INVOCATIONS, "Calls that have a row, by how they ended."),
        (BYTES_IN, "Body bytes from clients to functions."),
        (BYTES_OUT, "Body bytes from functions to clients."),
        (REFUSED, "Calls without a row: no such function, or none of its versions can serve."),
        (API_REQUESTS, "Requests to /v1, by route template."),
    ];
    for (name, text) in counters {
        recorder.describe_counter(name.into(), None, text.into());
    }
    let histograms = [
        (DURATION, "From a call's head to its response's end."),
        (CPU, "Processor time of calls."),
        (COLD, "Duration of calls by how cold their start was."),
        (API_DURATION, "From a request's head to its response's head, by route template."),
    ];
    for (name, text) in histograms {
        recorder.describe_histogram(name.into(), None, text.into());
    }
}
