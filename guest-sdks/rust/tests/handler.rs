//! What a handler's answers and errors become.

use serde::Deserialize;
use serde_json::{Value, json};
use sless::prelude::*;
use sless::testing::{call, get, post};

#[derive(Deserialize)]
struct Order {
    count: u32,
}

sless::serve!(handler);

async fn handler(mut request: Request) -> Result<Response> {
    match (request.method(), request.path()) {
        (&Method::POST, "/orders") => {
            let order: Order = request.json().await?;
            if order.count == 0 {
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "`count` is 0; order at least one")
                    .code("nothing_ordered")
                    .into());
            }
            let made = Response::from_json(&json!({ "ordered": order.count }))?.with_status(StatusCode::CREATED);
            made.with_header("set-cookie", "a=1")?.with_header("set-cookie", "b=2")
        }
        (_, "/size") => Ok(Response::from_text(request.bytes_within(5).await?.len().to_string())),
        (_, "/gone") => Ok(Response::empty(StatusCode::NO_CONTENT)),
        (_, "/hop") => Response::from_text("x").with_header("connection", "close")?.with_header("x-kept", "yes"),
        (_, "/number") => {
            let number: u32 = request.query("n").unwrap_or_default().parse().context("`n` is no number")?;
            Ok(Response::from_text(number.to_string()))
        }
        _ => Err(Problem::new(StatusCode::NOT_FOUND, "there is nothing here").into()),
    }
}

#[test]
fn json_in_and_out_with_headers_apart() {
    let answer = call(handler, post("/orders", &json!({ "count": 3 })));
    assert_eq!(answer.status, 201);
    assert_eq!(answer.json::<Value>(), json!({ "ordered": 3 }));
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["content-length"], "13");
    assert_eq!(answer.headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
}

#[test]
fn what_the_caller_did_wrong_is_a_problem_with_its_status() {
    let not_json = sless::http::Request::post("/orders").body("{").unwrap();
    for (request, status, code, says) in [
        (not_json.map(Into::into), 400, "bad_request", "line 1"),
        (post("/orders", &json!({})), 400, "bad_request", "missing field `count`"),
        (post("/orders", &json!({ "count": 0 })), 422, "nothing_ordered", "at least one"),
        (get("/"), 404, "not_found", "nothing here"),
    ] {
        let answer = call(handler, request);
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        let problem: Value = answer.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)));
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
}

#[test]
fn a_body_is_read_within_its_bound() {
    let sized = |bytes: &str| sless::http::Request::post("/size").body(bytes.to_owned()).unwrap();
    assert_eq!(call(handler, sized("12345")).text(), "5");
    let answer = call(handler, sized("123456"));
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("more than 5 bytes"), "{}", answer.text());
    // A stream says no length before.
    let pieces = futures_lite::stream::iter(["123", "456"]);
    let stream = sless::http::Request::post("/size").body(sless::Body::from_stream(pieces)).unwrap();
    assert_eq!(call(handler, stream).status, 413);
}

#[test]
fn an_unforeseen_error_is_a_500_that_names_the_request() {
    let request = sless::http::Request::get("/number?n=x").header("x-request-id", "r7").body(()).unwrap();
    let answer = call(handler, request);
    assert_eq!(answer.status, 500);
    let problem: Value = answer.json();
    let expected = json!({
        "type": "urn:sless:problem:function_error", "title": "The function raised an error", "status": 500,
        "detail": "`n` is no number", "instance": "/number", "code": "function_error", "requestId": "r7"
    });
    assert_eq!(problem, expected, "the cause is in the log only");
    assert_eq!(call(handler, get("/number?n=7")).text(), "7");
}

#[test]
fn headers_of_the_connection_stay_out_and_204_has_no_length() {
    let answer = call(handler, get("/hop"));
    assert!(!answer.headers.contains_key("connection"));
    assert_eq!(answer.headers["x-kept"], "yes");
    let answer = call(handler, get("/gone"));
    assert_eq!(answer.status, 204);
    assert!(!answer.headers.contains_key("content-length") && answer.body.is_empty());
}
