//! kill -9 of `sless dev` under load: nothing that was acknowledged is lost, nothing half-done is seen.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use sless_core::Digest;
use sless_core::services::recorder::FLUSH_INTERVAL;
use sless_tests::dev::Dev;
use sless_tests::{eventually, guests};

const ROUNDS: u32 = 6;
/// A row may be lost within the flush interval; the insert itself takes a moment too.
const FLUSHED: Duration = Duration::from_millis(FLUSH_INTERVAL.as_millis() as u64 * 3);

/// What was acknowledged before the kill.
#[derive(Default)]
struct Acknowledged {
    /// Digest of the last upload that was answered, and its version.
    upload: Option<(String, u64)>,
    /// Ids of calls and when they were answered.
    calls: Vec<(String, Instant)>,
    /// Secrets written.
    secrets: Vec<String>,
}

async fn load(dev: Arc<Dev>, seed: Arc<AtomicU32>) -> Acknowledged {
    let (uploads, calls, secrets) =
        tokio::join!(uploads(dev.clone(), seed.clone()), calls(dev.clone()), secrets(dev, seed));
    Acknowledged { upload: uploads, calls, secrets }
}

/// Uploads one component after another until the connection breaks.
async fn uploads(dev: Arc<Dev>, seed: Arc<AtomicU32>) -> Option<(String, u64)> {
    let mut last = None;
    loop {
        let code = guests::marked("hello", &format!("upload {}", seed.fetch_add(1, Ordering::Relaxed)));
        let digest = Digest::of(&code).to_string();
        let sent = dev
            .api(Method::POST, "/functions/hello/upload")
            .header("content-type", "application/wasm")
            .body(code)
            .send()
            .await;
        let Ok(response) = sent else { return last };
        let status = response.status();
        let Ok(body) = response.json::<Value>().await else { return last };
        assert_eq!(status, 202, "{body}");
        last = Some((digest, body["version"]["number"].as_u64().expect("an upload is answered with its version")));
    }
}

async fn calls(dev: Arc<Dev>) -> Vec<(String, Instant)> {
    let mut ids = Vec::new();
    loop {
        let Ok(response) = dev.http.get(dev.url("hello")).send().await else { return ids };
        assert_eq!(response.status(), 200, "a version is live at all times");
        let id = response.headers()["x-sless-invocation-id"].to_str().unwrap().to_owned();
        let Ok(body) = response.text().await else { return ids };
        assert!(body.contains("\"message\":\"hello\""), "{body}");
        ids.push((id, Instant::now()));
    }
}

async fn secrets(dev: Arc<Dev>, seed: Arc<AtomicU32>) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let name = format!("secret-{}", seed.fetch_add(1, Ordering::Relaxed));
        let sent = dev.api(Method::PUT, &format!("/secrets/{name}")).json(&json!({"value": "x"})).send().await;
        let Ok(response) = sent else { return names };
        if !response.status().is_success() || response.bytes().await.is_err() {
            return names;
        }
        names.push(name);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let dev = Dev::start(&data);
    dev.ok(["deploy", guests::path("hello").to_str().unwrap()]);
    dev.stop();
    let seed = Arc::new(AtomicU32::new(0));
    let (mut calls_checked, mut uploads_checked) = (0, 0);
    for round in 0..ROUNDS {
        let dev = Arc::new(Dev::start(&data));
        let loading = tokio::spawn(load(dev.clone(), seed.clone()));
        // From the first upload's middle to several builds later.
        tokio::time::sleep(Duration::from_millis(60 + 150 * u64::from(round))).await;
        let pid = rustix::process::Pid::from_raw(dev.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let killed = Instant::now();
        let acknowledged = loading.await.unwrap();
        Arc::into_inner(dev).expect("the load has ended").kill();

        let dev = Dev::start(&data);
        if let Some((digest, number)) = &acknowledged.upload {
            uploads_checked += 1;
            let function = eventually("the newest version serves", || async {
                let function = dev.get("/functions/hello").await;
                (function["status"]["phase"] == "Ready").then_some(function)
            })
            .await;
            // An upload that was not answered may have taken effect too.
            let newest = function["status"]["version"].as_u64().unwrap();
            assert!(newest >= *number, "version {number} was acknowledged, {newest} serves");
            let versions = dev.get("/functions/hello/versions?limit=500").await;
            let found = versions["items"].as_array().unwrap().iter().find(|version| version["number"] == *number);
            assert_eq!(found.expect("an acknowledged version is listed")["spec"]["sha256"], json!(digest));
            let source = dev.api(Method::GET, "/functions/hello/source").send().await.unwrap().bytes().await.unwrap();
            assert_eq!(
                Digest::of(&source).to_string(),
                function["spec"]["sha256"].as_str().unwrap(),
                "its code is whole"
            );
        }
        for (id, answered) in
            acknowledged.calls.iter().filter(|(_, answered)| killed.duration_since(*answered) > FLUSHED)
        {
            calls_checked += 1;
            let row = dev.get(&format!("/invocations/{id}")).await;
            assert_eq!((&row["status"], &row["outcome"]), (&json!(200), &json!("ok")), "answered {answered:?}");
        }
        let secrets = dev.get("/secrets?limit=500").await.to_string();
        for name in &acknowledged.secrets {
            assert!(secrets.contains(&format!("\"{name}\"")), "{name} was acknowledged");
        }
        assert_eq!(dev.http.get(dev.url("hello")).send().await.unwrap().status(), 200);
        dev.stop();
    }
    assert!(calls_checked > 0 && uploads_checked > 0, "the load has done something: {calls_checked} {uploads_checked}");
}
