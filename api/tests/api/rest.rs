//! `/v1`: objects, uploads, lists, logs, and the shape of every refusal.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::world::{Answer, DEADLINE, World, call_id, namespace, token};

fn authorized(method: &str, path: &str) -> http::request::Builder {
    let uri = format!("/v1/namespaces/{}{path}", namespace("a"));
    Request::builder().method(method).uri(uri).header("authorization", format!("Bearer {}", token("a")))
}

async fn send(world: &World, request: http::request::Builder, body: impl Into<Body>) -> Answer {
    Answer::of(world.send(request.body(body.into()).unwrap()).await).await
}

#[tokio::test]
async fn a_namespace_is_made_once_and_asked_for_before_anything_else() {
    let world = World::start().await;
    let problem = world.request("a", "GET", "/functions", None).await.problem(404, "namespace_not_found");
    assert!(problem["detail"].as_str().unwrap().contains("/ensure"));
    let first = world.request("a", "POST", "/ensure", None).await.expect(200);
    assert_eq!(first["name"], namespace("a").to_string());
    assert_eq!(world.request("a", "POST", "/ensure", None).await.expect(200), first);
    assert_eq!(world.request("a", "GET", "/functions", None).await.expect(200), json!({"items": []}));
}

#[tokio::test]
async fn a_function_is_made_read_changed_and_deleted() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    let make = json!({"name": "f", "spec": {"runtime": "wasm", "env": {"A": "1"}}});
    let made = world.request("a", "POST", "/functions", Some(make.clone())).await;
    let function = made.expect(201);
    assert_eq!(made.headers["location"], format!("/v1/namespaces/{}/functions/f", namespace("a")));
    assert_eq!(
        (&function["name"], &function["spec"]["memoryMb"], &function["status"]["phase"]),
        (&json!("f"), &json!(128), &json!("Pending"))
    );
    assert_eq!(made.etag(), format!("\"{}\"", function["resourceVersion"].as_str().unwrap()));
    world.request("a", "POST", "/functions", Some(make)).await.problem(409, "already_exists");

    let read = world.request("a", "GET", "/functions/f", None).await;
    assert_eq!(read.expect(200)["uid"], function["uid"]);
    assert_eq!(read.etag(), made.etag());

    let update = json!({"spec": {"runtime": "wasm", "memoryMb": 64}}).to_string();
    let put = |tag: String| {
        authorized("PUT", "/functions/f").header("content-type", "application/json").header("if-match", tag)
    };
    let changed = send(&world, put(made.etag()), update.clone()).await;
    assert_eq!(changed.expect(200)["spec"]["memoryMb"], 64);
    assert_ne!(changed.etag(), made.etag());
    // The old state is gone: whoever saw it must look again.
    send(&world, put(made.etag()), update.clone()).await.problem(412, "precondition_failed");
    send(&world, put(format!("W/{}", changed.etag())), update.clone()).await.problem(412, "precondition_failed");
    send(&world, put("unquoted".into()), update.clone()).await.problem(400, "bad_request");
    send(&world, put("*".into()), update.clone()).await.expect(200);

    let delete = |tag: &str| authorized("DELETE", "/functions/f").header("if-match", tag);
    send(&world, delete(&made.etag()), Body::empty()).await.problem(412, "precondition_failed");
    assert_eq!(send(&world, delete("*"), Body::empty()).await.expect(204), Value::Null);
    world.request("a", "GET", "/functions/f", None).await.problem(404, "not_found");
    world.request("a", "DELETE", "/functions/f", None).await.problem(404, "not_found");
    send(&world, delete("*"), Body::empty()).await.problem(412, "precondition_failed");
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_pointed_at() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    for (body, pointer) in [
        (json!({"name": "f", "spec": {"runtime": "wasm", "memoryMB": 1}}), "/spec/memoryMB"),
        (json!({"name": "f", "spec": {"runtime": "wasm", "memoryMb": "1"}}), "/spec/memoryMb"),
        (json!({"name": "f", "spec": {"runtime": "wasm", "memoryMb": 5000}}), "/spec/memoryMb"),
        (json!({"name": "f", "spec": {"runtime": "wasm", "limits": {"cpuMs": 0}}}), "/spec/limits/cpuMs"),
        (
            json!({"name": "f", "spec": {"runtime": "wasm", "egress": {"allow": ["a", "http://x"]}}}),
            "/spec/egress/allow/1",
        ),
        (json!({"name": "f", "spec": {"runtime": "cobol"}}), "/spec/runtime"),
        (json!({"name": "f", "spec": {"runtime": "nodejs20"}}), "/spec/runtime"),
        (json!({"name": "f", "spec": {"runtime": "wasm"}, "status": {}}), "/status"),
    ] {
        let problem = world.request("a", "POST", "/functions", Some(body)).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        assert!(problem["errors"][0]["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    }
    let two = json!({"name": "f", "spec": {"runtime": "wasm", "memoryMb": 0, "timeoutSeconds": 0}});
    let problem = world.request("a", "POST", "/functions", Some(two)).await.problem(422, "invalid");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2);

    let post = || authorized("POST", "/functions").header("content-type", "application/json; charset=utf-8");
    let problem = send(&world, post(), "{\"name\": \"f\",\n \"spec\": }").await.problem(400, "bad_request");
    assert!(problem["detail"].as_str().unwrap().contains("line 2 column"), "{problem}");
    send(&world, post(), Body::empty()).await.problem(400, "bad_request");
    send(&world, post(), vec![b' '; 600 << 10]).await.problem(413, "payload_too_large");
    let problem = send(&world, authorized("POST", "/functions"), "{}").await.problem(415, "unsupported_media_type");
    assert!(problem["detail"].as_str().unwrap().contains("application/json"), "{problem}");
    send(&world, authorized("POST", "/functions").header("content-type", "text/plain"), "{}")
        .await
        .problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn routes_and_methods_that_are_not_there_are_said_to_be() {
    let world = World::start().await;
    let bearer = format!("Bearer {}", token("a"));
    for path in ["/", "/v2", "/v1", "/fn", "/v1/", "/v1/nothing", "/v1/namespaces"] {
        let request = Request::get(path).header("authorization", &bearer).body(Body::empty()).unwrap();
        let answer = Answer::of(world.send(request).await).await;
        assert_eq!(answer.problem(404, "not_found")["instance"], path);
    }
    world.request("a", "GET", "/nothing", None).await.problem(404, "not_found");
    let answer = world.request("a", "PATCH", "/functions/f", None).await;
    answer.problem(405, "method_not_allowed");
    let mut allowed: Vec<_> = answer.headers["allow"].to_str().unwrap().split(',').map(str::trim).collect();
    allowed.sort();
    assert_eq!(allowed, ["DELETE", "GET", "HEAD", "PUT"]);
    // A client's own id comes back and is in the problem.
    let request = Request::get("/v2").header("x-request-id", "mine").body(Body::empty()).unwrap();
    let answer = Answer::of(world.send(request).await).await;
    assert_eq!(answer.problem(404, "not_found")["requestId"], "mine");
}

#[tokio::test]
async fn lists_come_in_pages() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    for name in ["a", "b", "c", "d", "e"] {
        world
            .request("a", "POST", "/functions", Some(json!({"name": name, "spec": {"runtime": "wasm"}})))
            .await
            .expect(201);
        world
            .request("a", "POST", "/triggers", Some(json!({"name": name, "spec": {"function": name, "http": {}}})))
            .await
            .expect(201);
        world.request("a", "PUT", &format!("/secrets/{name}"), Some(json!({"value": "v"}))).await.expect(200);
    }
    for kind in ["functions", "triggers", "secrets"] {
        let (mut names, mut next, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = world.request("a", "GET", &format!("/{kind}?limit=2{next}"), None).await.expect(200);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            names.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
            pages += 1;
            let Some(cursor) = page["next"].as_str() else { break };
            next = format!("&cursor={cursor}");
        }
        assert_eq!((names.join(""), pages), ("abcde".to_owned(), 3), "{kind}");
        for bad in ["limit=0", "limit=501", "limit=-1", "limit=x", "limt=5"] {
            let problem = world.request("a", "GET", &format!("/{kind}?{bad}"), None).await.problem(422, "invalid");
            let name = bad.split('=').next().unwrap();
            assert!(problem["detail"].as_str().unwrap().contains(name), "{problem}");
        }
        world.request("a", "GET", &format!("/{kind}?limit=500"), None).await.expect(200);
    }
    world.request("a", "GET", "/secrets?cursor=A%20b", None).await.problem(400, "bad_request");
}

#[tokio::test]
async fn code_goes_in_comes_back_and_can_be_gone_back_to() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let again = world.upload("a", "f", b"\0asm one").await.expect(202);
    assert_eq!((&again["changed"], &again["version"]["number"]), (&json!(false), &json!(1)));
    let second = world.upload("a", "f", b"\0asm two").await;
    let answer = second.expect(202);
    assert_eq!(
        (&answer["changed"], &answer["version"]["number"], &answer["notes"][0]),
        (&json!(true), &json!(2), &json!("looks well"))
    );
    assert_eq!(second.etag(), format!("\"{}\"", answer["function"]["resourceVersion"].as_str().unwrap()));
    world.ready("a", "f", 2).await;

    let source = world.request("a", "GET", "/functions/f/source", None).await;
    assert_eq!((source.status.as_u16(), &source.body[..]), (200, &b"\0asm two"[..]));
    assert_eq!(source.headers["content-type"], "application/wasm");
    assert_eq!(source.headers["content-disposition"], "attachment; filename=\"f.wasm\"");
    assert!(source.headers["repr-digest"].to_str().unwrap().starts_with("sha-256=:"));

    let versions = world.request("a", "GET", "/functions/f/versions", None).await.expect(200);
    assert_eq!(
        versions["items"].as_array().unwrap().iter().map(|v| v["number"].as_u64().unwrap()).collect::<Vec<_>>(),
        [2, 1]
    );
    let log = world.request("a", "GET", "/functions/f/build-log?version=1", None).await;
    assert_eq!(
        (&log.body[..], log.headers["content-type"].to_str().unwrap()),
        (&b"compiled 1 component\n"[..], "text/plain; charset=utf-8")
    );
    world.request("a", "GET", "/functions/f/build-log?version=9", None).await.problem(404, "not_found");

    let back = world.request("a", "POST", "/functions/f/rollback", Some(json!({"version": 1}))).await.expect(200);
    assert_eq!(
        (&back["version"]["number"], &back["version"]["cause"]),
        (&json!(3), &json!({"kind": "rollback", "to": 1}))
    );
    world.ready("a", "f", 3).await;
    assert_eq!(world.request("a", "GET", "/functions/f/source", None).await.body, &b"\0asm one"[..]);
    world.request("a", "POST", "/functions/f/rollback", Some(json!({"version": 99}))).await.problem(404, "not_found");
    let problem = world
        .request("a", "POST", "/functions/f/rollback", Some(json!({"version": "1"})))
        .await
        .problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/version");
    let url = world.request("a", "GET", "/functions/f", None).await.expect(200)["status"]["url"].clone();
    assert!(url.as_str().unwrap().ends_with(&f), "{url}");
}

#[tokio::test]
async fn uploads_that_can_not_be_code_are_refused_in_words() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    world.request("a", "POST", "/functions", Some(json!({"name": "f", "spec": {"runtime": "wasm"}}))).await.expect(201);
    let upload = |media: &'static str| authorized("POST", "/functions/f/upload").header("content-type", media);
    for media in ["application/zip", "application/octet-stream"] {
        let problem = send(&world, upload(media), "PK\x03\x04").await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], "/spec/runtime", "{problem}");
    }
    for media in ["text/plain", ""] {
        let problem = send(&world, upload(media), "x").await.problem(415, "unsupported_media_type");
        assert!(problem["detail"].as_str().unwrap().contains("application/wasm"), "{problem}");
    }
    send(&world, upload("application/wasm"), "not wasm").await.problem(422, "invalid_component");
    send(&world, upload("application/octet-stream"), "").await.problem(422, "invalid_component");
    send(&world, upload("application/wasm").header("if-match", "\"older\""), "\0asm")
        .await
        .problem(412, "precondition_failed");
    let broken = futures::stream::iter([Ok("\0asm"), Err(std::io::Error::other("gone"))]);
    send(&world, upload("application/wasm"), Body::from_stream(broken)).await.problem(400, "bad_request");
    let large = futures::stream::iter((0..65).map(|_| Ok::<_, std::io::Error>(vec![0u8; 1 << 20])));
    send(&world, upload("application/wasm"), Body::from_stream(large)).await.problem(413, "payload_too_large");
    assert_eq!(world.request("a", "GET", "/functions/f", None).await.expect(200)["spec"].get("s3Key"), None);
}

#[tokio::test]
async fn source_comes_as_a_zip_and_goes_back_as_one() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    world
        .request("a", "POST", "/functions", Some(json!({"name": "f", "spec": {"runtime": "wasm-js"}})))
        .await
        .expect(201);
    let upload = |media: &'static str| authorized("POST", "/functions/f/upload").header("content-type", media);
    send(&world, upload("application/zip"), "no zip").await.problem(422, "invalid_source");
    send(&world, upload("application/zip"), "").await.problem(422, "invalid_source");
    send(&world, upload("application/wasm"), "\0asm").await.problem(422, "invalid");
    let first = send(&world, upload("application/zip"), "PK\x03\x04 source").await.expect(202);
    assert_eq!((&first["changed"], &first["notes"][0]), (&json!(true), &json!("a folder was stripped")));
    let key = first["function"]["spec"]["s3Key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("contexts/sless-") && key.ends_with(".tar.gz"), "{key}");
    // The same source again, known by its first bytes alone: no version, and what was stored for it is gone.
    let again = send(&world, upload("application/octet-stream"), "PK\x03\x04 source").await.expect(202);
    assert_eq!((&again["changed"], &again["version"]["number"]), (&json!(false), &json!(1)));
    assert_eq!(again["function"]["spec"]["s3Key"], key.as_str());
    let back = send(&world, authorized("GET", "/functions/f/source"), Body::empty()).await;
    assert_eq!(back.headers["content-type"], "application/zip");
    assert_eq!(&back.body[..], b"PK\x03\x04 source");
    // A runtime that takes other code: it waits for an upload.
    let moved = world.request("a", "PUT", "/functions/f", Some(json!({"spec": {"runtime": "wasm"}}))).await.expect(200);
    assert_eq!((moved["spec"].get("s3Key"), &moved["spec"]["runtime"]), (None, &json!("wasm")));
}

#[tokio::test]
async fn secrets_are_written_and_never_given_back() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    let written = world.request("a", "PUT", "/secrets/token", Some(json!({"value": "hush-hush"}))).await;
    assert_eq!(written.expect(200)["name"], "token");
    let listed = world.request("a", "GET", "/secrets", None).await;
    for answer in [&written, &listed] {
        assert!(!String::from_utf8_lossy(&answer.body).contains("hush"), "{answer:?}");
    }
    let problem =
        world.request("a", "PUT", "/secrets/token", Some(json!({"value": "a\u{0}b"}))).await.problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/value");
    let wrong = world
        .request("a", "PUT", "/secrets/token", Some(json!({"value": ["hush-hush"]})))
        .await
        .problem(422, "invalid");
    assert!(!wrong.to_string().contains("hush"), "a refusal does not repeat a value: {wrong}");
    world
        .request("a", "PUT", "/secrets/token", Some(json!({"value": "x".repeat(65 << 10)})))
        .await
        .problem(413, "payload_too_large");
    // The largest value, every byte of it escaped, still fits into a body.
    world.request("a", "PUT", "/secrets/token", Some(json!({"value": "\u{1}".repeat(64 << 10)}))).await.expect(200);
    world.request("a", "DELETE", "/secrets/token", None).await.expect(204);
    world.request("a", "DELETE", "/secrets/token", None).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_trigger_exposes_its_function() {
    let world = World::start().await;
    let f = world.deploy_unexposed("a", "f", json!({})).await;
    let call = async || world.http1(Request::get(&f).body(Body::empty()).unwrap()).await.status().as_u16();
    assert_eq!(call().await, 404);
    let made = world
        .request("a", "POST", "/triggers", Some(json!({"name": "t", "spec": {"function": "f", "http": {}}})))
        .await;
    assert!(made.expect(201)["status"]["url"].as_str().unwrap().ends_with(&f));
    assert_eq!(call().await, 200);
    let problem =
        world.request("a", "PUT", "/triggers/t", Some(json!({"spec": {"function": "f", "http": {"auth": "x"}}}))).await;
    assert_eq!(problem.problem(422, "invalid")["errors"][0]["pointer"], "/spec/http/auth");
    world
        .request("a", "PUT", "/triggers/t", Some(json!({"spec": {"function": "other", "http": {}}})))
        .await
        .expect(200);
    assert_eq!(call().await, 404);
    world.request("a", "PUT", "/triggers/t", Some(json!({"spec": {"function": "f", "http": {}}}))).await.expect(200);
    assert_eq!(call().await, 200);
    world.request("a", "DELETE", "/triggers/t", None).await.expect(204);
    assert_eq!(call().await, 404);
}

#[tokio::test]
async fn calls_are_listed_newest_first_and_filtered() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let g = world.deploy("a", "g", json!({})).await;
    let mut ids = Vec::new();
    for path in [format!("{f}/1"), format!("{f}/fail/function_trapped"), format!("{g}/2")] {
        let response = world.http1(Request::get(path).body(Body::empty()).unwrap()).await;
        ids.push(call_id(&response));
        drop(response);
        world.row(ids[ids.len() - 1]).await;
    }
    let list = async |path: &str| {
        let page = world.request("a", "GET", path, None).await.expect(200);
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["trigger"] == "http")
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let [one, trapped, two] = [ids[0].to_string(), ids[1].to_string(), ids[2].to_string()];
    assert_eq!(list("/functions/f/invocations").await, [trapped.clone(), one.clone()]);
    assert_eq!(list("/invocations").await, [two.clone(), trapped.clone(), one.clone()]);
    assert_eq!(list("/invocations?function=g").await, [two]);
    assert_eq!(list("/functions/f/invocations?outcome=function_trapped").await, [trapped]);
    assert!(list("/functions/f/invocations?from=2999-01-01T00:00:00Z").await.is_empty());
    assert!(list("/functions/f/invocations?to=2001-01-01T00:00:00%2B01:00").await.is_empty());
    let row = world.request("a", "GET", &format!("/invocations/{one}"), None).await.expect(200);
    assert_eq!(
        (&row["outcome"], &row["cold"], &row["status"], &row["cpuUs"]),
        (&json!("ok"), &json!("instance"), &json!(200), &json!(7))
    );
    for (bad, word) in
        [("outcome=nice", "outcome"), ("from=yesterday", "from"), ("function=A_b", "function"), ("x=1", "x")]
    {
        let problem = world.request("a", "GET", &format!("/invocations?{bad}"), None).await.problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    world.request("a", "GET", "/invocations/not-an-id", None).await.problem(422, "invalid");
}

#[tokio::test]
async fn logs_are_read_and_followed() {
    let world = World::start().await;
    world.deploy("a", "f", json!({})).await;
    for text in ["one", "two\nlines", "three"] {
        world.log("a", "f", text);
    }
    let lines = |body: &[u8]| -> Vec<String> {
        let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap()["line"].as_str().unwrap().to_owned();
        String::from_utf8(body.to_vec()).unwrap().lines().map(parse).collect()
    };
    let read = world.request("a", "GET", "/functions/f/logs", None).await;
    assert_eq!(read.headers["content-type"], "application/x-ndjson");
    assert_eq!(lines(&read.body), ["one", "two\nlines", "three"]);
    assert_eq!(lines(&world.request("a", "GET", "/functions/f/logs?tail=1", None).await.body), ["three"]);
    let events = send(
        &world,
        authorized("GET", "/functions/f/logs").header("accept", "text/html, text/event-stream;q=0.9"),
        Body::empty(),
    )
    .await;
    assert_eq!(events.headers["content-type"], "text/event-stream");
    let text = String::from_utf8(events.body.to_vec()).unwrap();
    assert_eq!((text.matches("data: {").count(), text.matches("}\n\n").count()), (3, 3), "{text}");

    let request = authorized("GET", "/functions/f/logs?follow&tail=0").body(Body::empty()).unwrap();
    let response = world.http1(request).await;
    let mut body = response.into_body();
    world.log("a", "f", "four");
    let piece = tokio::time::timeout(DEADLINE, body.frame()).await.unwrap().unwrap().unwrap().into_data().unwrap();
    assert_eq!(lines(&piece), ["four"]);
    // It does not hold a shutdown up.
    world.shutdown.cancel();
    assert!(tokio::time::timeout(DEADLINE, body.frame()).await.unwrap().is_none());

    for (bad, word) in [("tail=x", "tail"), ("tail=10001", "tail"), ("since=now", "since"), ("follow=maybe", "follow")]
    {
        let problem =
            world.request("a", "GET", &format!("/functions/f/logs?{bad}"), None).await.problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    world.request("a", "GET", "/functions/none/logs", None).await.problem(404, "not_found");
}
