//! The figures by name. Each is a module that answers one question.

mod compile;
mod deploy;
mod gateway;
mod process;
mod registered;
mod throughput;

use anyhow::Result;

use crate::Args;
use crate::figure::Figure;

pub(crate) use throughput::{Row, loads};

/// Measures the figure of that name.
pub(crate) type Measure = fn(&Args, &'static str) -> Result<Figure>;

/// All of them, in the order in which they are measured.
pub(crate) const ALL: &[(&str, Measure)] = &[
    ("instance_cold_vs_bare", process::instance_cold),
    ("instance_cold_p99_us", process::instance_cold_p99),
    ("code_cold_vs_bare", process::code_cold),
    ("js_instance_cold_us", process::javascript_instance_cold),
    ("js_code_cold_us", process::javascript_code_cold),
    ("js_deploy_again_ms", deploy::javascript),
    ("python_instance_cold_us", process::python_instance_cold),
    ("python_code_cold_us", process::python_code_cold),
    ("python_deploy_again_ms", deploy::python),
    ("second_compile_speedup", compile::second),
    ("rps_vs_serve_pooled", throughput::vs_serve_pooled),
    ("rps_vs_serve_tuned", throughput::vs_serve_tuned),
    ("rps_vs_hyper", throughput::vs_hyper),
    ("gateway_added_us", gateway::added),
    ("registered_10k_latency_ratio", registered::latency),
    ("registered_idle_bytes", registered::idle_bytes),
];
