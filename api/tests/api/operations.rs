//! The internal listener.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::Request;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use serde_json::json;
use sless_api::ApiSettings;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::world::{Answer, World, until};

async fn ask(address: std::net::SocketAddr, path: &str) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "x").body(Empty::<bytes::Bytes>::new()).unwrap();
    Answer::of(sender.send_request(request).await.unwrap()).await
}

#[tokio::test]
async fn health_readiness_and_metrics() {
    let source: sless_api::MetricsSource =
        Arc::new(|| vec![("sless_host_instances", 3.0), ("sless_host_traps_total", 1.0)]);
    let world = World::with(ApiSettings { metrics_sources: vec![source], ..ApiSettings::default() }).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let internal = tokio::spawn(sless_api::serve_internal(listener, world.api.clone(), stop.clone()));

    assert_eq!(ask(address, "/healthz").await.body, "ok\n");
    until("it is ready", async || (ask(address, "/readyz").await.status == 200).then_some(())).await;
    world.rows.down.store(true, Ordering::SeqCst);
    let down = ask(address, "/readyz").await;
    assert_eq!(
        (down.status.as_u16(), &down.body[..]),
        (503, &b"the store of records does not answer: ask the store: it is down\n"[..])
    );
    world.rows.down.store(false, Ordering::SeqCst);
    assert_eq!(ask(address, "/healthz").await.status, 200, "an outage of the store is no reason to be killed");

    let f = world.deploy("a", "f", json!({})).await;
    for path in [format!("{f}/x"), format!("{f}/fail/function_trapped"), "/fn/no/body".into()] {
        world.http1(Request::get(path).body(Empty::<bytes::Bytes>::new()).unwrap()).await;
    }
    let labels = format!("namespace=\"{}\",function=\"f\"", crate::world::namespace("a"));
    let wanted = [
        format!("sless_invocations_total{{{labels},outcome=\"ok\",trigger=\"http\"}} 1\n"),
        format!("sless_invocations_total{{{labels},outcome=\"function_trapped\",trigger=\"http\"}} 1\n"),
        format!("sless_invocation_duration_seconds_bucket{{{labels},le=\"0.00001\"}} "),
        format!("sless_invocation_duration_seconds_count{{{labels}}} "),
        "sless_cold_start_duration_seconds_count{grade=\"instance\"} ".into(),
        "sless_gateway_refused_total{outcome=\"function_not_found\"} 1\n".into(),
        "sless_api_requests_total{method=\"POST\",route=\"/v1/namespaces/{ns}/functions/{name}/upload\",status=\"202\"} 1\n".into(),
        "sless_api_request_duration_seconds_count{".into(),
        "sless_invocations_in_flight 0\n".into(),
        "sless_invocation_rows_dropped_total 0\n".into(),
        "# TYPE sless_host_instances gauge\nsless_host_instances 3\n".into(),
        "# TYPE sless_host_traps_total counter\nsless_host_traps_total 1\n".into(),
        "sless_functions 1\n".into(),
    ];
    world.rows_where(3, |_| true).await;
    let text = String::from_utf8(ask(address, "/metrics").await.body.to_vec()).unwrap();
    for line in &wanted {
        assert!(text.contains(line.as_str()), "{line} is not in\n{text}");
    }

    // The public listener drains; probes see it.
    world.shutdown.cancel();
    until("it is not ready", async || (ask(address, "/readyz").await.status == 503).then_some(())).await;
    assert_eq!(ask(address, "/healthz").await.status, 200);
    stop.cancel();
    internal.await.unwrap().unwrap();
}
