//! Loads a URL: with `wrk` where it is installed, else with a client of our own. The same for ours and for peers.

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;

use crate::servers::Server;
use crate::stats::{micros, percentile};

/// What a load saw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Answers a second.
    pub requests_per_second: f64,
    /// The median latency in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}

/// Loads a server over that many connections, each with one request at a time. An answer that is not 2xx is an error: a
/// server that refuses is quick.
pub(crate) fn load(server: &Server, connections: u32, seconds: u32) -> Result<Load> {
    if has_wrk() { wrk(server, connections, seconds) } else { own(server, connections, seconds) }
}

/// Which of the two it is.
pub(crate) fn generator() -> &'static str {
    if has_wrk() { "wrk" } else { "hyper client" }
}

fn has_wrk() -> bool {
    static WRK: OnceLock<bool> = OnceLock::new();
    // It prints its version and ends with 1.
    *WRK.get_or_init(|| Command::new("wrk").arg("--version").output().is_ok())
}

fn wrk(server: &Server, connections: u32, seconds: u32) -> Result<Load> {
    let mut command = Command::new("wrk");
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "--latency", &server.url]);
    if let Some((name, value)) = server.header {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    let output = command.output().context("start wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("wrk ended with {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    parse_wrk(&text).with_context(|| format!("wrk on {}: {text}", server.url))
}

fn parse_wrk(text: &str) -> Result<Load> {
    if let Some(line) = text.lines().find(|line| line.contains("Non-2xx") || line.contains("Socket errors")) {
        bail!("{}", line.trim());
    }
    let field = |key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
        line.map(str::trim).with_context(|| format!("no `{key}`"))
    };
    let requests_per_second = field("Requests/sec:")?.parse().context("requests a second")?;
    Ok(Load { requests_per_second, p50_us: latency(field("50%")?)?, p99_us: latency(field("99%")?)? })
}

/// `33.00us`, `1.20ms`, `2.00s` in microseconds.
fn latency(text: &str) -> Result<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(number.parse::<f64>().with_context(|| format!("latency `{text}`"))? * factor);
        }
    }
    bail!("latency `{text}` has no unit")
}

#[tokio::main(flavor = "current_thread")]
async fn own(server: &Server, connections: u32, seconds: u32) -> Result<Load> {
    let stop = &AtomicBool::new(false);
    let count = &AtomicU64::new(0);
    let start = Instant::now();
    let clients = (0..connections).map(|_| client(server, stop, count));
    let clock = async {
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        stop.store(true, Ordering::Relaxed);
        Ok(Vec::<Vec<Duration>>::new())
    };
    let (all, _clock): (Vec<Vec<Duration>>, _) = tokio::try_join!(futures::future::try_join_all(clients), clock)?;
    let elapsed = start.elapsed();
    let mut latencies: Vec<Duration> = all.into_iter().flatten().collect();
    latencies.sort_unstable();
    Ok(Load {
        requests_per_second: count.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64(),
        p50_us: micros(percentile(&latencies, 0.5)),
        p99_us: micros(percentile(&latencies, 0.99)),
    })
}

async fn client(server: &Server, stop: &AtomicBool, count: &AtomicU64) -> Result<Vec<Duration>> {
    let uri: http::Uri = server.url.parse().context("a URL")?;
    let address = uri.authority().context("a URL with a host")?.as_str();
    let stream = tokio::net::TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut request = http::Request::get(target).header("host", address);
        if let Some((name, value)) = server.header {
            request = request.header(name, value);
        }
        let request = request.body(Empty::<bytes::Bytes>::new())?;
        let begun = Instant::now();
        let response = sender.send_request(request).await.context("send a request")?;
        if !response.status().is_success() {
            bail!("answered with {}", response.status());
        }
        response.into_body().collect().await.context("read the answer")?;
        latencies.push(begun.elapsed());
        count.fetch_add(1, Ordering::Relaxed);
    }
    driver.abort();
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 4 connections\n  Latency Distribution\n     50%   33.00us\n     75%   60.00us\n     90%    1.20ms\n     99%    2.50ms\n  100 requests in 2.00s, 1.00MB read\nRequests/sec:  24000.50\nTransfer/sec:      1.00MB\n";

    #[test]
    fn wrks_report_is_read() {
        let load = parse_wrk(GOOD).unwrap();
        assert_eq!((load.requests_per_second, load.p50_us, load.p99_us), (24000.5, 33.0, 2500.0));
    }

    #[test]
    fn refusals_are_no_throughput() {
        let text = GOOD.to_owned() + "  Non-2xx or 3xx responses: 100\n";
        assert!(parse_wrk(&text).unwrap_err().to_string().contains("Non-2xx"));
        assert!(parse_wrk("nothing").is_err());
        assert!(latency("33").is_err());
    }
}
