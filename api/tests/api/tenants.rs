//! Tokens, tenants and names: who may see and change what.

use axum::body::Body;
use http::{Method, Request};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{Answer, SERVICE, World, namespace, token};

fn with(authorization: impl AsRef<[u8]>, method: &str, uri: &str) -> Request<Body> {
    let value = http::HeaderValue::from_bytes(authorization.as_ref()).unwrap();
    Request::builder().method(method).uri(uri).header("authorization", value).body(Body::empty()).unwrap()
}

fn encoded(json: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json)
}

#[tokio::test]
async fn every_token_that_is_not_valid_is_401() {
    let world = World::start().await;
    let uri = format!("/v1/namespaces/{}/functions", namespace("a"));
    let good = token("a");
    let parts: Vec<&str> = good.split('.').collect();
    let payload = |json: &str| format!("Bearer {}.{}.{}", parts[0], encoded(json), parts[2]);
    let none = format!("Bearer {}.{}.", encoded(r#"{"alg":"none"}"#), parts[1]);
    let large = format!("Bearer {}", "a".repeat(1 << 20));
    let mut cases = vec![
        String::new(),
        "Bearer".into(),
        "Bearer ".into(),
        format!("Basic {good}"),
        format!("Bearer {}.{}", parts[0], parts[1]),
        format!("Bearer {good}.x"),
        format!("Bearer {good} x"),
        payload(r#"{"exp":99999999999}"#),
        payload(r#"{"sub":7,"exp":99999999999}"#),
        payload(r#"{"sub":"","exp":99999999999}"#),
        payload(r#"{"sub":"a","exp":1}"#),
        payload(r#"{"sub":"a","exp":"99999999999"}"#),
        payload(r#"{"sub":"a","exp":99999999999}"#),
        payload("[]"),
        none.clone(),
        large.clone(),
    ];
    cases.push(format!("Bearer {}\u{e4}", &good[..good.len() - 1]));
    for case in &cases {
        let answer = Answer::of(world.send(with(case, "GET", &uri)).await).await;
        answer.problem(401, "unauthenticated");
        let challenge = answer.headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("Bearer ") && challenge.contains("error=\""), "{challenge}");
    }
    let without = Request::get(&uri).body(Body::empty()).unwrap();
    Answer::of(world.send(without).await).await.problem(401, "unauthenticated");
    let twice = Request::get(&uri)
        .header("authorization", format!("Bearer {good}"))
        .header("authorization", format!("Bearer {good}"));
    Answer::of(world.send(twice.body(Body::empty()).unwrap()).await).await.problem(401, "unauthenticated");
    // A token of a megabyte is told so over the wire too.
    let answer = world
        .raw(format!("GET {uri} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: {large}\r\n\r\n"))
        .await;
    assert!(answer.starts_with(b"HTTP/1.1 401 "), "{}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
}

/// Every route there is, of a namespace, and some that are not.
fn routes(ns: &str) -> Vec<(String, String)> {
    let document = serde_json::to_value(sless_api::openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        if let Some(rest) = path.strip_prefix("/v1/namespaces/{ns}") {
            for name in ["f", "nothing", "A_b"] {
                let rest = rest.replace("{name}", name).replace("{id}", "0199e325-1cdf-7cda-9319-e5302a85e291");
                for method in item.as_object().unwrap().keys() {
                    routes.push((method.to_uppercase(), format!("/v1/namespaces/{ns}{rest}")));
                }
            }
        }
    }
    assert!(routes.len() > 60, "{}", routes.len());
    for unknown in ["", "/", "/unknown", "/functions/f/unknown", "/functions/", "/ensure/x"] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
            routes.push((method.into(), format!("/v1/namespaces/{ns}{unknown}")));
        }
    }
    routes.push(("PATCH".into(), format!("/v1/namespaces/{ns}/functions/f")));
    routes
}

#[tokio::test]
async fn another_tenants_namespace_is_forbidden_on_every_route_and_verb() {
    let world = World::start().await;
    world.deploy("b", "f", json!({})).await;
    let foreign = namespace("b").to_string();
    let spellings = [
        foreign.clone(),
        namespace("nobody").to_string(),
        "x".into(),
        foreign.to_uppercase(),
        foreign.replace('-', "%2D"),
    ];
    for ns in spellings {
        let mut bodies = std::collections::BTreeSet::new();
        for (method, uri) in routes(&ns) {
            let answer = Answer::of(world.send(with(format!("Bearer {}", token("a")), &method, &uri)).await).await;
            assert_eq!(answer.status, 403, "{method} {uri}");
            if method != "HEAD" {
                bodies.insert(answer.problem(403, "forbidden")["detail"].to_string());
            }
        }
        assert_eq!(bodies.len(), 1, "the answer tells nothing of what exists: {bodies:?}");
    }
    world.request("b", "GET", "/functions/f", None).await.expect(200);
}

#[tokio::test]
async fn a_service_reads_everything_and_changes_nothing() {
    let world = World::start().await;
    world.deploy("a", "f", json!({})).await;
    let service = format!("Bearer {}", token(SERVICE));
    for (method, uri) in routes(&namespace("a").to_string()) {
        let answer = Answer::of(world.send(with(&service, &method, &uri)).await).await;
        let reads = method == Method::GET.as_str();
        assert_eq!(answer.status != 403, reads, "{method} {uri}: {}", answer.status);
    }
    let own = namespace(SERVICE).to_string();
    let answer = world.send(with(&service, "POST", &format!("/v1/namespaces/{own}/ensure"))).await;
    assert_eq!(answer.status(), 403);
    world.request("a", "GET", "/functions/f", None).await.expect(200);
}

#[tokio::test]
async fn the_same_name_in_two_tenants_is_two_functions() {
    let world = World::start().await;
    let a = world.deploy("a", "f", json!({"env": {"WHO": "a"}})).await;
    let b = world.deploy("b", "f", json!({"env": {"WHO": "b"}})).await;
    assert_ne!(a, b);
    world.request("a", "PUT", "/secrets/s", Some(json!({"value": "x"}))).await.expect(200);
    assert_eq!(world.request("b", "GET", "/secrets", None).await.expect(200)["items"], json!([]));
    assert_eq!(world.request("b", "GET", "/functions/f", None).await.expect(200)["spec"]["env"]["WHO"], "b");
    world.request("a", "DELETE", "/functions/f", None).await.expect(204);
    let call = |path: String| Request::get(path).body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(world.http1(call(a)).await.status(), 404);
    let response = world.http1(call(b)).await;
    assert_eq!(response.status(), 200);
    // A call's row is its tenant's.
    let id = crate::world::call_id(&response);
    world.row(id).await;
    world.request("b", "GET", &format!("/invocations/{id}"), None).await.expect(200);
    world.request("a", "GET", &format!("/invocations/{id}"), None).await.problem(404, "not_found");
}

#[tokio::test]
async fn names_follow_one_rule() {
    let world = World::start().await;
    world.request("a", "POST", "/ensure", None).await.expect(200);
    let make = |name: &str| json!({"name": name, "spec": {"runtime": "wasm"}});
    world.request("a", "POST", "/functions", Some(make("controller"))).await.expect(201);
    for bad in ["kubernetes", "sless-x", "A_b", &"a".repeat(80), "a b", "a.b", "", "a/b", "é"] {
        let problem = world.request("a", "POST", "/functions", Some(make(bad))).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], "/name", "{problem}");
        assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("at most 48 characters"), "{problem}");
    }
    for bad in ["kubernetes", "A_b", "a%20b", "a.b", "%C3%A9"] {
        let problem = world.request("a", "GET", &format!("/functions/{bad}"), None).await.problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains("at most 48 characters"), "{problem}");
    }
    assert_eq!(world.request("a", "GET", "/functions/%ff", None).await.status, 400);
}

#[test]
fn no_request_is_a_server_error() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = runtime.block_on(async {
        let world = World::start().await;
        world.deploy("a", "f", json!({})).await;
        world
    });
    let good = token("a");
    let ns = namespace("a").to_string();
    let known = &[
        "functions",
        "f",
        "upload",
        "invocations",
        "logs",
        "secrets",
        "triggers",
        "rollback",
        "versions",
        "build-log",
        "source",
    ];
    let path = prop::collection::vec(
        prop_oneof![prop::sample::select(known.as_slice()).prop_map(str::to_owned), "[!-~&&[^#?\"<>\\\\^`{|}]]{0,12}"],
        0..5,
    );
    let query = "([a-z]{0,7}(=[!-~&&[^#\"<>\\\\^`{|}]]{0,12})?&?){0,4}";
    let method = prop::sample::select(vec!["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X"]);
    let media = prop::sample::select(vec!["application/json", "application/wasm", "text/plain", "", "application/zip"]);
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        r#"\{"(name|spec|value|version)":("[a-z]{0,4}"|[0-9]{1,12}|\{"runtime":"wasm","memoryMb":-?[0-9]{1,12}\}|null|\[\])\}"#.prop_map(String::into_bytes),
    ];
    let header = prop::collection::vec(any::<u8>().prop_filter("a header byte", |b| *b >= 32 && *b != 127), 0..40);
    let good_token = any::<bool>();
    proptest!(ProptestConfig::with_cases(400), |(path in path, query in query, method in method, media in media, body in body, header in header, good_token in good_token)| {
        let uri = format!("/v1/namespaces/{ns}/{}?{query}", path.join("/"));
        prop_assume!(uri.parse::<http::Uri>().is_ok() && !query.contains("follow"));
        let header = http::HeaderValue::from_bytes(&header).unwrap();
        let mut request = Request::builder().method(method).uri(uri).header("content-type", media).header("if-match", &header).header("x-request-id", &header);
        request = if good_token { request.header("authorization", format!("Bearer {good}")) } else { request.header("authorization", &header) };
        let response = runtime.block_on(world.send(request.body(Body::from(body)).unwrap()));
        prop_assert!(response.status().as_u16() < 500, "{:?}", response);
        prop_assert!(response.headers().contains_key("x-request-id"));
    });
}
