//! Against a small server that answers what each test says and notes what it was asked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use sless_core::function::{FunctionSpec, Runtime};
use sless_core::resource::ResourceVersion;

use super::*;

const SUBJECT: &str = "0199e325-1cdf-7cda-9319-e5302a85e291";

struct Seen {
    head: String,
    headers: HeaderMap,
    body: Bytes,
}

struct Server {
    endpoint: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answer = http::Response<Full<Bytes>>;

async fn serve(answers: Vec<Answer>) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let noted = seen.clone();
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (answers, noted) = (answers.clone(), noted.clone());
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let (answers, noted) = (answers.clone(), noted.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let line = format!("{} {}", head.method, head.uri);
                    noted.lock().unwrap().push(Seen { head: line, headers: head.headers, body });
                    let answer = answers.lock().unwrap().next();
                    Ok::<_, Infallible>(answer.unwrap_or_else(|| json(500, r#"{"not":"expected"}"#)))
                }
            });
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Server { endpoint, seen, task }
}

fn json(status: u16, body: &str) -> Answer {
    http::Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Full::from(body.to_owned()))
        .unwrap()
}

fn problem(status: u16, code: &str, retry_after: Option<&str>) -> Answer {
    let mut answer = json(status, &format!(r#"{{"title":"T","status":{status},"detail":"D","code":"{code}"}}"#));
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/problem+json"));
    answer.headers_mut().insert("x-request-id", HeaderValue::from_static("r-1"));
    if let Some(after) = retry_after {
        answer.headers_mut().insert("retry-after", HeaderValue::from_str(after).unwrap());
    }
    answer
}

fn token() -> String {
    let now = sless_core::Timestamp::from_second(1_750_000_000).unwrap();
    sless_core::auth::sign(&"s".repeat(32), SUBJECT, Duration::from_secs(60), now).unwrap()
}

impl Server {
    fn client(&self) -> Client {
        Client::new(Config { endpoint: self.endpoint.clone(), token: token(), namespace: None }).unwrap()
    }

    fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|seen| seen.head.clone()).collect()
    }
}

const NAMESPACE: &str = r#"{"name":"sless-cdd874dfa31ba6ca","uid":"0199e325-1cdf-7cda-9319-e5302a85e291","createdAt":"2026-01-01T00:00:00Z"}"#;

#[tokio::test]
async fn the_namespace_is_the_one_of_the_tokens_subject() {
    let server = serve(vec![json(200, NAMESPACE)]).await;
    let info = server.client().ensure().await.unwrap();
    assert_eq!(info.name.to_string(), "sless-cdd874dfa31ba6ca");
    let seen = server.seen.lock().unwrap();
    assert_eq!(seen[0].head, "POST /v1/namespaces/sless-cdd874dfa31ba6ca/ensure");
    assert_eq!(seen[0].headers["authorization"], format!("Bearer {}", token()));
}

#[tokio::test]
async fn busy_answers_are_waited_for_where_repeating_is_safe() {
    let busy = || problem(503, "unavailable", Some("0"));
    let server = serve(vec![busy(), problem(429, "rate_limited", None), json(200, r#"{"items":[]}"#)]).await;
    assert!(server.client().functions().await.unwrap().is_empty());
    assert_eq!(server.heads().len(), 3);

    let server = serve(vec![busy(), json(201, "{}")]).await;
    let error = server.client().create_function("f", &FunctionSpec::new(Runtime::Wasm)).await.unwrap_err();
    assert_eq!(error.status(), Some(503));
    assert_eq!(server.heads().len(), 1, "creating is not idempotent");

    let server = serve((0..9).map(|_| busy()).collect()).await;
    assert_eq!(server.client().function("f").await.unwrap_err().status(), Some(503));
    assert_eq!(server.heads().len(), 5);

    let server = serve(vec![problem(503, "unavailable", Some("3600"))]).await;
    assert_eq!(server.client().function("f").await.unwrap_err().status(), Some(503), "an hour is not waited for");
}

#[tokio::test]
async fn a_problem_keeps_its_code_and_request_id() {
    let server = serve(vec![problem(404, "not_found", None)]).await;
    let Error::Problem(problem) = server.client().function("nope").await.unwrap_err() else { panic!("no problem") };
    assert_eq!((problem.status, problem.code.as_str(), problem.detail.as_str()), (404, "not_found", "D"));
    assert_eq!(problem.request_id.as_deref(), Some("r-1"));
}

#[tokio::test]
async fn an_answer_of_something_else_is_not_taken_for_the_platforms() {
    let mut html = json(502, "<html>Bad gateway</html>");
    html.headers_mut().insert("content-type", HeaderValue::from_static("text/html"));
    let server = serve(vec![html]).await;
    let error = server.client().function("f").await.unwrap_err().to_string();
    assert!(error.contains("may not be the sless API") && error.contains("<html>Bad gateway"), "{error}");
}

#[tokio::test]
async fn redirects_do_not_carry_the_token_away() {
    let mut away = json(307, "");
    away.headers_mut().insert("location", HeaderValue::from_static("http://127.0.0.1:1/"));
    let server = serve(vec![away]).await;
    assert_eq!(server.client().function("f").await.unwrap_err().status(), Some(307));
}

#[tokio::test]
async fn lists_are_read_over_all_pages() {
    let item = |n| NAMESPACE.replace("cdd874dfa31ba6ca", n).replace("sless-", "s");
    let page = |n, next: &str| {
        json(
            200,
            &format!(
                r#"{{"items":[{}]{next}}}"#,
                item(n).replace("\"uid\"", "\"updatedAt\":\"2026-01-01T00:00:00Z\",\"uid\"")
            ),
        )
    };
    let server = serve(vec![page("a", r#","next":"c/1+2""#), page("b", "")]).await;
    let names: Vec<_> = server.client().secrets().await.unwrap().into_iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["sa", "sb"]);
    assert!(server.heads()[1].ends_with("/secrets?limit=500&cursor=c%2F1%2B2"), "{:?}", server.heads());
}

#[tokio::test]
async fn updates_name_the_state_they_are_for() {
    let server = serve(vec![problem(412, "precondition_failed", None)]).await;
    let spec = FunctionSpec::new(Runtime::Wasm);
    let error = server.client().update_function("f", &spec, Some(&ResourceVersion("7".into()))).await.unwrap_err();
    assert_eq!(error.status(), Some(412));
    assert_eq!(server.seen.lock().unwrap()[0].headers["if-match"], "\"7\"");
}

#[tokio::test]
async fn an_upload_streams_the_file_and_counts_it() {
    let server = serve(vec![problem(503, "unavailable", Some("0")), problem(422, "invalid_component", None)]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.wasm");
    let bytes: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let counts = Arc::new(Mutex::new(Vec::new()));
    let noted = counts.clone();
    let progress: Progress = Arc::new(move |sent| noted.lock().unwrap().push(sent));
    let error = server.client().upload("f", &file, progress).await.unwrap_err();
    assert_eq!(error.status(), Some(422));
    let missing = server.client().upload("f", &folder.path().join("no"), Arc::new(|_| ())).await;
    assert!(missing.unwrap_err().to_string().contains("No such file"));
    let seen = server.seen.lock().unwrap();
    assert_eq!(seen.len(), 2, "the whole upload is sent again");
    assert!(seen.iter().all(|s| s.body == bytes && s.headers["content-length"] == "300000"));
    assert_eq!(seen[0].headers["content-type"], "application/wasm");
    let counts = counts.lock().unwrap();
    assert_eq!(counts.iter().filter(|c| **c == 0).count(), 2);
    assert_eq!(counts.last(), Some(&300_000));
}

#[tokio::test]
async fn log_lines_are_whole_however_they_are_cut() {
    let line = |n: u32| {
        format!(
            r#"{{"at":"2026-01-01T00:00:00Z","version":1,"invocation":"{SUBJECT}","stream":"stdout","line":"l{n}"}}"#
        )
    };
    let text = format!("{}\n\n{}\r\n{}", line(1), line(2), line(3));
    for size in [1, 7, 10_000] {
        let pieces: Vec<_> = text.as_bytes().chunks(size).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let mut lines = LogLines::new(futures::stream::iter(pieces).boxed());
        let mut texts = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            texts.push(line.line);
        }
        assert_eq!(texts, ["l1", "l2", "l3"], "in pieces of {size}");
    }
}

#[tokio::test]
async fn a_call_reaches_the_function_as_it_was_written() {
    let server = serve(vec![json(418, "x")]).await;
    let call = InvokeRequest {
        method: Method::PATCH,
        path: "/a%2Fb/?x=1&x=2".into(),
        headers: HeaderMap::from_iter([("x-own".parse().unwrap(), HeaderValue::from_static("1"))]),
        body: Bytes::from_static(b"\x00\xff"),
    };
    let mut answer = server.client().invoke("f", call).await.unwrap();
    assert_eq!(answer.status, 418);
    assert_eq!(answer.piece().await.unwrap().as_deref(), Some(b"x".as_slice()));
    let seen = server.seen.lock().unwrap();
    assert!(
        seen[0].head.ends_with("/functions/f/invoke?method=PATCH&path=%2Fa%252Fb%2F%3Fx%3D1%26x%3D2"),
        "{}",
        seen[0].head
    );
    assert_eq!((seen[0].headers["x-own"].to_str().unwrap(), &*seen[0].body), ("1", b"\x00\xff".as_slice()));
}

#[tokio::test]
async fn what_is_not_reachable_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(Config { endpoint: endpoint.clone(), token: token(), namespace: None }).unwrap();
    let error = client.ensure().await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{endpoint} is not reachable")) && error.contains("refused"), "{error}");
}

#[test]
fn unusable_settings_are_named() {
    let with = |endpoint: &str, token: String| {
        let config = Config { endpoint: endpoint.into(), token, namespace: None };
        Client::new(config).map(|_| ()).unwrap_err().to_string()
    };
    for endpoint in ["", "127.0.0.1:9090", "ftp://x", "http://u:p@x", "http://x/?q"] {
        let error = with(endpoint, token());
        assert!(error.starts_with(&format!("the endpoint `{endpoint}` can't be used")), "{error}");
    }
    assert_eq!(
        with("http://x", "no token".into()),
        "the token can't be used: the token does not have the three parts of a signed JWT"
    );
    let prefixed = Config { endpoint: "https://x/api".into(), token: token(), namespace: None };
    let client = Client::new(prefixed).unwrap();
    assert_eq!(client.url(&["functions"]).path(), "/api/v1/namespaces/sless-cdd874dfa31ba6ca/functions");
    assert_eq!(client.endpoint(), "https://x/api");
}
