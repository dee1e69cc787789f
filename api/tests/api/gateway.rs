//! `/fn`: byte for byte, both ways.

mod streams;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Request};
use http_body::Frame;
use http_body_util::{Empty, Full, StreamBody};
use proptest::prelude::*;
use serde_json::{Value, json};
use sless_api::ApiSettings;
use sless_core::{BodyError, Outcome, TriggerKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{Answer, DEADLINE, World, bytes, call_id, namespace};

fn get(uri: impl AsRef<str>) -> Request<Empty<Bytes>> {
    Request::get(uri.as_ref()).body(Empty::new()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn paths_reach_the_function_byte_for_byte() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    for (sent, seen) in [
        ("", "/"),
        ("/", "/"),
        ("?", "/?"),
        ("?a=b", "/?a=b"),
        ("/a%2Fb?x=1&x=2&y=", "/a%2Fb?x=1&x=2&y="),
        ("//a///?//", "//a///?//"),
        ("/a/../b/./", "/a/../b/./"),
        ("/%00%zz%E4", "/%00%zz%E4"),
        ("/f/", "/f/"),
    ] {
        let answer = world.raw(format!("GET {f}{sent} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", text(&answer));
        assert_eq!(world.echo.last().uri.to_string(), seen, "{sent}");
    }
    // In absolute form too (RFC 9112, section 3.2.2).
    world.raw(format!("GET http://h{f}/a%2Fb HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")).await;
    assert_eq!(world.echo.last().uri.to_string(), "/a%2Fb");
}

#[test]
fn any_path_and_query_passes_unchanged() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (world, f) = runtime.block_on(async {
        let world = World::start().await;
        let f = world.deploy("a", "f", json!({})).await;
        (world, f)
    });
    proptest!(ProptestConfig::with_cases(200), |(rest in "/x[!-~&&[^#\"<>\\\\^`{|}]]{0,60}")| {
        let answer = runtime.block_on(world.raw(format!("GET {f}{rest} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")));
        prop_assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        prop_assert_eq!(world.echo.last().uri.to_string(), rest);
    });
    let _in = runtime.enter();
    drop(world);
}

#[tokio::test]
async fn every_method_passes_and_head_has_no_body() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "x"] {
        let answer = world
            .raw(format!("{method} {f}/m HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"))
            .await;
        assert!(
            text(&answer).ends_with("\r\n\r\nok") || text(&answer).ends_with("2\r\nok\r\n0\r\n\r\n"),
            "{}",
            text(&answer)
        );
        assert_eq!(world.echo.last().method, method);
    }
    let head = text(&world.raw(format!("HEAD {f}/described HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await);
    assert!(head.ends_with("\r\n\r\n") && head.contains("content-length: 9\r\n"), "{head}");
    assert_eq!(world.echo.last().method, "HEAD");
    // The next answer on the same connection is not confused by it, and 204 has no body either.
    let both = format!(
        "HEAD {f}/status/200 HTTP/1.1\r\nhost: x\r\n\r\nGET {f}/status/204 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    );
    let both = text(&world.raw(both).await);
    assert_eq!((both.matches("HTTP/1.1 2").count(), both.contains("a body")), (2, false), "{both}");
    world.no_call_lives().await;
    let rows = world.rows_where(12, |row| row.trigger == TriggerKind::Http).await;
    assert!(rows.iter().all(|row| row.outcome == Outcome::Ok && row.error.is_none()), "{rows:?}");
}

#[tokio::test]
async fn bodies_are_echoed_exactly() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({"limits": {"requestBytes": 60 << 20, "responseBytes": 60 << 20}})).await;
    let all: Bytes = (0..=255u8).collect::<Vec<_>>().into();
    let large: Bytes = (0..50 << 20).map(|i: u32| (i % 251) as u8).collect::<Vec<_>>().into();
    for body in [Bytes::new(), all.clone(), large] {
        let response = world.http1(Request::post(&f).body(Full::new(body.clone())).unwrap()).await;
        let id = call_id(&response);
        assert!(bytes(response).await == body, "{} bytes came back otherwise", body.len());
        let row = world.row(id).await;
        assert_eq!((row.bytes_in, row.bytes_out, row.outcome), (body.len() as u64, body.len() as u64, Outcome::Ok));
    }
    // Without a length.
    let pieces = futures::stream::iter(vec![all.slice(..100), all.slice(100..)])
        .map(|piece| Ok::<_, BodyError>(Frame::data(piece)));
    let response = world.http1(Request::put(&f).body(StreamBody::new(pieces)).unwrap()).await;
    assert_eq!(bytes(response).await, all);
    assert!(!world.echo.last().headers.contains_key("transfer-encoding"));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({"limits": {"requestBytes": 10}})).await;
    // The client waits for `100 Continue`, so nothing is sent.
    let answer = world
        .raw(format!(
            "POST {f} HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", text(&answer));
    let response = world.http1(Request::post(&f).body(Full::new(Bytes::from_static(b"12345678901"))).unwrap()).await;
    let id = call_id(&response);
    let answer = Answer::of(response).await;
    assert_eq!(answer.headers["x-sless-outcome"], "payload_too_large");
    assert!(answer.problem(413, "payload_too_large")["detail"].as_str().unwrap().contains("limits.requestBytes"));
    let row = world.row(id).await;
    assert_eq!((row.status, row.outcome), (413, Outcome::PayloadTooLarge));
    let fits = world.http1(Request::post(&f).body(Full::new(Bytes::from_static(b"1234567890"))).unwrap()).await;
    assert_eq!(bytes(fits).await, "1234567890");
}

#[tokio::test]
async fn a_client_that_expects_100_gets_it_when_the_function_reads() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let mut stream = world.connect().await;
    stream.write_all(format!("POST {f}/read HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    tokio::time::timeout(DEADLINE, stream.read_exact(&mut interim)).await.unwrap().unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"ok").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\n2"), "{answer}");
}

#[tokio::test]
async fn headers_survive_or_are_refused_in_words() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let mut request = get(format!("{f}/forge"));
    let headers = request.headers_mut();
    headers.append("accept", HeaderValue::from_static("a"));
    headers.append("accept", HeaderValue::from_static("b"));
    headers.insert("x-large", HeaderValue::from_bytes(&[b'a'; 7 << 10]).unwrap());
    headers.insert("x-latin", HeaderValue::from_bytes(&[0x80, 0xff]).unwrap());
    for index in 0..100 {
        headers.insert(
            http::HeaderName::from_bytes(format!("x-many-{index}").as_bytes()).unwrap(),
            HeaderValue::from(index),
        );
    }
    let sent = headers.clone();
    let response = world.http1(request).await;
    let seen = world.echo.last().headers;
    for name in sent.keys() {
        let values = |map: &http::HeaderMap| map.get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(values(&sent), values(&seen), "{name}");
    }
    let got = response.headers();
    assert_eq!(got.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!((got["x-large"].len(), got["x-latin"].as_bytes()), (7 << 10, &[0x80, 0xff][..]));
    assert_eq!(got.keys().filter(|name| name.as_str().starts_with("x-many-")).count(), 100);
    // What only the platform may say.
    assert!(!got.contains_key("x-sless-outcome") && !got.contains_key("x-hop"));
    assert_ne!(got["x-request-id"], "forged");

    let mut request = get(&f);
    request.headers_mut().insert("x-huge", HeaderValue::from_bytes(&[b'a'; 65 << 10]).unwrap());
    let answer = Answer::of(world.http1(request).await).await;
    answer.problem(431, "headers_too_large");
    assert_eq!(answer.headers["x-sless-outcome"], "headers_too_large");
}

#[tokio::test]
async fn clients_can_not_speak_for_the_platform() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let request = Request::get(&f)
        .header("connection", "x-hop, keep-alive")
        .header("x-hop", "1")
        .header("te", "trailers")
        .header("x-sless-key", "secret")
        .header("x-sless-function", "other")
        .header("x-forwarded-for", "6.6.6.6")
        .header("x-forwarded-proto", "https")
        .header("authorization", "Bearer of-the-function")
        .body(Empty::<Bytes>::new());
    world.http1(request.unwrap()).await;
    let seen = world.echo.last().headers;
    for gone in ["connection", "x-hop", "te", "x-sless-key", "x-sless-function"] {
        assert!(!seen.contains_key(gone), "{gone}");
    }
    for (name, value) in [
        ("host", "a.example"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "a.example"),
        ("x-forwarded-prefix", f.as_str()),
        ("authorization", "Bearer of-the-function"),
    ] {
        assert_eq!(seen[name], value, "{name}");
    }
}

#[tokio::test]
async fn a_trusted_proxy_may_say_where_a_call_came_from() {
    let settings = ApiSettings { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..ApiSettings::default() };
    let world = World::with(settings).await;
    let f = world.deploy("a", "f", json!({})).await;
    let request = Request::get(&f).header("x-forwarded-for", "198.51.100.1").header("x-forwarded-proto", "https");
    world.http1(request.body(Empty::<Bytes>::new()).unwrap()).await;
    let seen = world.echo.last().headers;
    assert_eq!(
        (&seen["x-forwarded-for"], &seen["x-forwarded-proto"]),
        (&HeaderValue::from_static("198.51.100.1, 127.0.0.1"), &HeaderValue::from_static("https"))
    );
}

#[tokio::test]
async fn calls_are_known_by_their_ids() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request =
        Request::get(&f).header("x-request-id", "mine").header("traceparent", parent).body(Empty::<Bytes>::new());
    let response = world.http1(request.unwrap()).await;
    let id = call_id(&response);
    assert_eq!(response.headers()["x-request-id"], "mine");
    let seen = world.echo.last().headers;
    assert_eq!(seen["x-request-id"], "mine");
    let trace = seen["traceparent"].to_str().unwrap();
    assert!(trace.starts_with(&parent[..36]) && trace != parent, "{trace}");
    assert!(!seen.contains_key("x-sless-invocation-id"));
    drop(response);
    assert_eq!(world.row(id).await.request_id.as_deref(), Some("mine"));

    let response = world.http1(get(&f)).await;
    let id = call_id(&response);
    assert_eq!(response.headers()["x-request-id"], id.to_string());
    let seen = world.echo.last().headers;
    assert_eq!(seen["x-request-id"], id.to_string());
    assert!(seen["traceparent"].to_str().unwrap().starts_with(&format!("00-{}-", id.0.simple())));
    drop(response);
    assert_eq!(world.row(id).await.request_id, None);
}

#[tokio::test]
async fn the_platforms_own_answers_say_so() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    for outcome in Outcome::ALL.iter().filter(|outcome| !matches!(outcome, Outcome::Ok | Outcome::ClientClosed)) {
        let response = world.http1(get(format!("{f}/fail/{outcome}"))).await;
        let id = call_id(&response);
        let answer = Answer::of(response).await;
        assert_eq!(answer.headers["x-sless-outcome"], outcome.name());
        assert_eq!(answer.headers["retry-after"], "3");
        let problem = answer.problem(outcome.status(), outcome.name());
        assert_eq!(
            (&problem["detail"], &problem["instance"]),
            (&json!("as asked"), &json!(format!("{f}/fail/{outcome}")))
        );
        let row = world.row(id).await;
        assert_eq!((row.outcome, row.status, row.error.as_deref()), (*outcome, outcome.status(), Some("as asked")));
    }
    assert_eq!(
        Answer::of(world.http1(get(format!("{f}/status/103"))).await).await.headers["x-sless-outcome"],
        "bad_response"
    );
}

#[tokio::test]
async fn what_does_not_answer_here_is_not_there() {
    let world = World::start().await;
    world.deploy_unexposed("a", "hidden", json!({})).await;
    let ns = namespace("a");
    let mut bodies = Vec::new();
    for path in [
        format!("/fn/{ns}/hidden"),
        format!("/fn/{ns}/nothing"),
        format!("/fn/{}/hidden", namespace("b")),
        "/fn/x/y".into(),
        "/fn/".into(),
        format!("/fn/{ns}/%68idden"),
    ] {
        let answer = Answer::of(world.http1(get(&path)).await).await;
        let mut problem = answer.problem(404, "function_not_found");
        assert_eq!(answer.headers["x-sless-outcome"], "function_not_found");
        problem.as_object_mut().unwrap().retain(|key, _| key != "instance" && key != "requestId");
        bodies.push(problem);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
}

#[tokio::test]
async fn a_function_without_a_version_is_not_ready() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    world.request("a", "POST", "/functions", Some(json!({"name": "f", "spec": {"runtime": "wasm"}}))).await.expect(201);
    world
        .request("a", "POST", "/triggers", Some(json!({"name": "f", "spec": {"function": "f", "http": {}}})))
        .await
        .expect(201);
    let answer = Answer::of(world.http1(get(format!("/fn/{}/f", namespace("a")))).await).await;
    let problem = answer.problem(503, "function_not_ready");
    assert!(problem["detail"].as_str().unwrap().contains("no code was uploaded"), "{problem}");
    assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() >= 1);
}

#[tokio::test]
async fn more_calls_a_second_than_allowed_are_told_when_to_come_back() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({"limits": {"ratePerSecond": 5}})).await;
    // One was used up by waiting until it is ready.
    for _ in 0..4 {
        assert_eq!(world.http1(get(&f)).await.status(), 200);
    }
    let answer = Answer::of(world.http1(get(&f)).await).await;
    answer.problem(429, "rate_limited");
    assert_eq!(answer.headers["retry-after"], "2");
    assert_eq!(world.rows_where(1, |row| row.outcome == Outcome::RateLimited).await.len(), 1);
}

#[tokio::test]
async fn upgrades_are_refused_in_words() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let request = Request::get(&f)
        .header("connection", "upgrade")
        .header("upgrade", "WebSocket")
        .header("sec-websocket-version", "13");
    let answer = Answer::of(world.http1(request.body(Empty::<Bytes>::new()).unwrap()).await).await;
    answer.problem(501, "upgrade_not_supported");
    // One that may be ignored (RFC 9110, section 7.8) is.
    let request = Request::get(&f)
        .header("connection", "upgrade, http2-settings")
        .header("upgrade", "h2c")
        .header("http2-settings", "x");
    assert_eq!(world.http1(request.body(Empty::<Bytes>::new()).unwrap()).await.status(), 200);
    assert!(
        !world.echo.last().headers.contains_key("upgrade") && !world.echo.last().headers.contains_key("http2-settings")
    );
}

#[tokio::test]
async fn owners_call_what_is_not_exposed() {
    let world = World::start().await;
    world.deploy_unexposed("a", "f", json!({})).await;
    let uri = format!("/v1/namespaces/{}/functions/f/invoke?path=/a%252Fb%3Fx=1&method=PUT", namespace("a"));
    let request = Request::post(uri)
        .header("authorization", format!("Bearer {}", crate::world::token("a")))
        .header("x-mine", "1");
    let response = world.http1(request.body(Full::new(Bytes::from_static(b"raw"))).unwrap()).await;
    let id = call_id(&response);
    assert_eq!(bytes(response).await, "raw");
    let seen = world.echo.last();
    assert_eq!((seen.uri.to_string().as_str(), seen.method.as_str()), ("/a%2Fb?x=1", "PUT"));
    assert_eq!(
        (&seen.headers["x-mine"], &seen.headers["x-forwarded-for"]),
        (&HeaderValue::from_static("1"), &HeaderValue::from_static("127.0.0.1"))
    );
    assert!(!seen.headers.contains_key("authorization"), "the caller's token is the platform's business");
    assert_eq!(world.row(id).await.trigger, TriggerKind::Invoke);

    let failed = world.request("a", "POST", "/functions/f/invoke?path=/fail/out_of_memory", None).await;
    assert_eq!(failed.headers["x-sless-outcome"], "out_of_memory");
    failed.problem(500, "out_of_memory");
    let head = world.request("a", "POST", "/functions/f/invoke?path=/described&method=HEAD", None).await;
    assert_eq!((head.expect(200), head.headers.get("content-length")), (Value::Null, None));
    world.request("a", "POST", "/functions/f/invoke?path=a", None).await.problem(422, "invalid");
    world.request("a", "POST", "/functions/none/invoke", None).await.problem(404, "not_found");
}
