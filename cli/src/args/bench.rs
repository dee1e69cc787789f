//! Arguments of `sless bench`.

use std::time::Duration;

use clap::{Args, ValueHint};

use super::{duration, header};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to load, such as a function's URL
    #[arg(value_hint = ValueHint::Url)]
    pub(crate) url: String,
    /// Connections, each with one request at a time
    #[arg(long, short, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) connections: u32,
    /// Stop after so many requests
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u64).range(1..=100_000_000), conflicts_with = "duration")]
    pub(crate) requests: Option<u64>,
    /// Stop after this time, at most 10m
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = bench_duration)]
    pub(crate) duration: Duration,
    /// The method [default: POST with a body, else GET]
    #[arg(long, short = 'X')]
    pub(crate) method: Option<String>,
    /// A header
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// The body: text, @FILE, or - for standard input
    #[arg(long, value_name = "BODY")]
    pub(crate) body: Option<String>,
}

fn bench_duration(text: &str) -> Result<Duration, String> {
    let longest = Duration::from_secs(600);
    let duration = duration(text)?;
    if duration <= longest { Ok(duration) } else { Err("at most 10m".to_owned()) }
}
