//! Requests and responses: byte for byte, both ways, as they are written.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Method};
use http_body_util::BodyExt as _;
use sless_core::{Outcome, body};

use crate::world::{World, get, pieces, post, request};

#[tokio::test]
async fn the_path_and_query_reach_the_function_byte_for_byte() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let target = "/describe/a%2Fb/?x=1&x=2&y=";
    assert_eq!(kitchen.text(target).await, format!("GET http example.org example.org {target}\n"));
}

#[tokio::test]
async fn the_function_sees_its_clients_host_scheme_and_method() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let custom = request(Method::from_bytes(b"PURGE").unwrap(), "/describe").header("x-forwarded-proto", "https");
    let answer = kitchen.send(custom.body(body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.body(), "PURGE https example.org example.org /describe\n");
    let bare = http::Request::get("/describe").body(body::empty()).unwrap();
    assert_eq!(kitchen.send(bare).await.unwrap().body(), "GET http kitchen kitchen /describe\n");
}

#[tokio::test]
async fn bodies_are_echoed_exactly() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| {
        spec.limits.request_bytes = 64 << 20;
        spec.limits.response_bytes = 64 << 20;
    });
    let all: Bytes = (0..=255u8).collect::<Vec<_>>().into();
    assert_eq!(kitchen.send(post("/echo", all.clone())).await.unwrap().body(), &all);
    assert!(kitchen.send(post("/echo", Bytes::new())).await.unwrap().body().is_empty());

    let large: Bytes = (0..50u32 << 20).map(|i| (i % 251) as u8).collect::<Vec<_>>().into();
    assert!(kitchen.send(post("/echo", large.clone())).await.unwrap().body() == &large);

    let chunked = request(Method::POST, "/echo").body(pieces(vec![all.clone(), Bytes::from_static(b"end")])).unwrap();
    let expected = [&all[..], b"end"].concat();
    assert_eq!(kitchen.send(chunked).await.unwrap().body(), &expected);
}

#[tokio::test]
async fn methods_without_a_body_work_and_head_has_none_back() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    for method in [Method::GET, Method::OPTIONS, Method::DELETE] {
        let empty = request(method.clone(), "/hello").body(body::empty()).unwrap();
        assert_eq!(kitchen.send(empty).await.unwrap().body(), "hello\n", "{method}");
    }
    for path in ["/hello", "/big?3072", "/content-length?10,0", "/stream?40"] {
        let head = kitchen.send(request(Method::HEAD, path).body(body::empty()).unwrap()).await;
        // `finish` refuses a body that is shorter than its declared length, and this guest then panics.
        if path == "/content-length?10,0" {
            assert_eq!(head.unwrap_err().outcome, Outcome::FunctionTrapped);
            continue;
        }
        let head = head.unwrap();
        assert_eq!((head.status().as_u16(), head.body().len()), (200, 0), "{path}");
    }
    let head = kitchen.send(request(Method::HEAD, "/content-length?10,10").body(body::empty()).unwrap()).await.unwrap();
    assert_eq!(head.headers()["content-length"], "10");
    assert!(head.body().is_empty());
}

#[tokio::test]
async fn a_request_over_its_limit_is_refused_up_front_and_midway() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.limits.request_bytes = 1000);
    let calls_before = world.host.stats().calls_total;
    let declared = request(Method::POST, "/ignore-body").header("content-length", "1001");
    let failure = kitchen.send(declared.body(pieces(vec![])).unwrap()).await.unwrap_err();
    assert_eq!(failure.outcome, Outcome::PayloadTooLarge);
    assert!(failure.detail.contains("limits.requestBytes = 1000"), "{}", failure.detail);
    assert_eq!(kitchen.send(post("/echo", vec![0; 1001])).await.unwrap_err().outcome, Outcome::PayloadTooLarge);

    let chunk = Bytes::from(vec![0; 600]);
    let midway = request(Method::POST, "/echo").body(pieces(vec![chunk.clone(), chunk.clone()])).unwrap();
    assert_eq!(kitchen.send(midway).await.unwrap_err().outcome, Outcome::PayloadTooLarge);
    let exact = request(Method::POST, "/echo").body(pieces(vec![chunk, Bytes::from(vec![0; 400])])).unwrap();
    assert_eq!(kitchen.send(exact).await.unwrap().body().len(), 1000);
    assert_eq!(world.host.stats().calls_total, calls_before + 4);
    world.idle().await;
}

#[tokio::test]
async fn headers_survive_both_ways() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let cookies = kitchen.get("/cookies").await.unwrap();
    let set: Vec<_> = cookies.headers().get_all("set-cookie").iter().collect();
    assert_eq!(set, ["a=1", "b=2"]);
    assert_eq!(cookies.headers()["x-latin"].as_bytes(), b"caf\xe9");
    assert!(!cookies.headers().contains_key("x-sless-outcome"), "a function can't speak for the platform");

    let mut sent = request(Method::GET, "/headers").header("x-long", "l".repeat(7 << 10));
    for index in 0..97 {
        sent = sent.header(format!("x-n{index}"), index);
    }
    sent = sent.header("x-twice", "1").header("x-twice", "2");
    sent = sent.header("x-latin", HeaderValue::from_bytes(b"\x80\xff").unwrap());
    let back = kitchen.send(sent.body(body::empty()).unwrap()).await.unwrap();
    assert_eq!(back.headers()["x-long"].len(), 7 << 10);
    assert_eq!(back.headers()["x-n96"], "96");
    assert_eq!(back.headers().get_all("x-twice").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(back.headers()["x-latin"].as_bytes(), b"\x80\xff");

    assert_eq!(kitchen.get("/many-headers?100,500").await.unwrap().headers().len(), 100);
    for too_many in ["/many-headers?100,1000", "/many-headers?300,1", "/many-headers?3,60000"] {
        assert_eq!(kitchen.failure(too_many).await.outcome, Outcome::BadResponse, "{too_many}");
    }
    let huge = request(Method::GET, "/hello").header("x-huge", "h".repeat(65 << 10));
    let failure = kitchen.send(huge.body(body::empty()).unwrap()).await.unwrap_err();
    assert_eq!(failure.outcome, Outcome::HeadersTooLarge);
    kitchen.works().await;
}

#[tokio::test]
async fn a_large_response_that_was_written_before_its_head_was_read_arrives_whole() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let answer = kitchen.get("/big?3072").await.unwrap();
    let expected: Vec<u8> = (0..3072usize << 10).map(|i| (i % 1024) as u8).collect();
    assert!(answer.body() == &expected);
}

#[tokio::test]
async fn pieces_arrive_as_they_are_written() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let started = Instant::now();
    let mut body = kitchen.call(get("/stream?2000")).await.unwrap().into_body();
    let mut arrived = Vec::new();
    while let Some(frame) = body.frame().await {
        let piece = frame.unwrap().into_data().unwrap();
        arrived.push((started.elapsed(), String::from_utf8(piece.to_vec()).unwrap()));
    }
    let texts: Vec<_> = arrived.iter().map(|(_, text)| text.clone()).collect();
    let expected: Vec<_> = (0..19).map(|index| format!("piece {index}\n")).collect();
    assert_eq!(texts, expected);
    assert!(arrived[0].0 < Duration::from_millis(1000), "the first after {:?}", arrived[0].0);
    assert!(arrived[18].0 >= Duration::from_millis(1900), "the last after {:?}", arrived[18].0);
    assert!(arrived[9].0 < Duration::from_millis(1800), "the tenth after {:?}", arrived[9].0);
}

#[tokio::test]
async fn a_guest_reads_and_writes_at_the_same_time() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
    let frames = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (Ok(http_body::Frame::data(piece)), receiver))
    });
    let upload = http_body_util::StreamBody::new(frames).boxed_unsync();
    let mut answer = kitchen.call(request(Method::POST, "/echo").body(upload).unwrap()).await.unwrap().into_body();
    for piece in ["one", "two", "three"] {
        sender.send(piece.into()).await.unwrap();
        assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), piece);
    }
    drop(sender);
    assert!(answer.frame().await.is_none());
}

#[tokio::test]
async fn responses_that_break_http_are_the_functions_fault() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    for (path, words) in [
        ("/content-length?5,11", "content-length 5"),
        ("/content-length?11,5", "content-length 11"),
        ("/content-length?5,3000000", "content-length 5"),
        ("/unfinished", "dropped its response's body"),
        ("/no-response", "without a response"),
        ("/error-code", "error instead of a response"),
        ("/status?101", "status 101"),
        ("/status?700", "status 700"),
    ] {
        let failure = kitchen.failure(path).await;
        assert_eq!(failure.outcome, Outcome::BadResponse, "{path}: {}", failure.detail);
        assert!(failure.detail.contains(words), "{path}: {}", failure.detail);
        assert!(failure.detail.contains("function"), "{path}: {}", failure.detail);
        let row = world.row().await;
        assert_eq!((row.outcome, row.status), (Outcome::BadResponse, 502), "{path}");
    }
    assert_eq!(kitchen.get("/content-length?11,11").await.unwrap().body(), "yyyyyyyyyyy");
    assert_eq!(kitchen.get("/status?204").await.unwrap().status(), 204);
}

#[tokio::test]
async fn a_response_over_its_limit_is_cut() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.limits.response_bytes = 10_000);
    assert_eq!(kitchen.failure("/big?10").await.outcome, Outcome::BadResponse);
    assert_eq!(kitchen.failure("/big?3072").await.outcome, Outcome::BadResponse);
    assert_eq!(kitchen.get("/big?9").await.unwrap().body().len(), 9 << 10);
}

#[tokio::test]
async fn a_trap_after_the_head_ends_the_body_with_a_failure() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let mut body = kitchen.call(get("/trap-midway")).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "part");
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(matches!(error, body::BodyError::Failed(failure) if failure.outcome == Outcome::FunctionTrapped));
    drop(body);
    assert_eq!(world.row().await.outcome, Outcome::FunctionTrapped);
    kitchen.works().await;
}

#[tokio::test]
async fn what_a_guest_does_after_its_answer_is_done_too() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let started = Instant::now();
    assert_eq!(kitchen.text("/after?300").await, "answered\n");
    assert!(started.elapsed() < Duration::from_millis(250), "the client waited for it");
    let row = world.row().await;
    assert_eq!(row.outcome, Outcome::Ok);
    assert!(row.log_tail.contains("worked on"), "{:?}", row.log_tail);
    world.idle().await;
}
