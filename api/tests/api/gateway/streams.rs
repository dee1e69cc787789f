//! Streams, connections, and how both end.

use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use futures::channel::mpsc;
use http::{HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use sless_api::ApiSettings;
use sless_core::{BodyError, Failure, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{get, text};
use crate::world::{DEADLINE, World, bytes, call_id, until};

#[tokio::test]
async fn pieces_arrive_as_they_are_written_both_ways() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let mut pieces = world.echo.pieces();
    let mut body = world.http1(get(format!("{f}/pieces"))).await.into_body();
    for index in 0..19 {
        // The next piece is written only after the last one has arrived.
        let piece = Bytes::from(format!("piece {index}"));
        pieces.send(Ok(Frame::data(piece.clone()))).await.unwrap();
        let frame = tokio::time::timeout(DEADLINE, body.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), piece);
    }
    drop(pieces);
    assert!(body.frame().await.is_none());

    let (mut up, receiver) = mpsc::channel::<Result<Frame<Bytes>, BodyError>>(0);
    let mut down = world.http1(Request::post(&f).body(StreamBody::new(receiver)).unwrap()).await.into_body();
    for index in 0..3 {
        let piece = Bytes::from(format!("piece {index}"));
        up.send(Ok(Frame::data(piece.clone()))).await.unwrap();
        let frame = tokio::time::timeout(DEADLINE, down.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), piece);
    }
}

#[tokio::test]
async fn clients_that_go_away_leave_a_row_and_nothing_else() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    for _ in 0..100 {
        let mut stream = world.connect().await;
        stream.write_all(format!("GET {f}/hang HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        until("the call is there", async || {
            (world.echo.live.load(std::sync::atomic::Ordering::SeqCst) > 0).then_some(())
        })
        .await;
        drop(stream);
        world.no_call_lives().await;
    }
    for _ in 0..100 {
        // In the middle of the answer; the function is silent by then.
        let mut pieces = world.echo.pieces();
        let mut stream = world.connect().await;
        stream.write_all(format!("GET {f}/pieces HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        pieces.send(Ok(Frame::data(Bytes::from_static(b"12345")))).await.unwrap();
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        drop(stream);
        world.no_call_lives().await;
    }
    let rows = world.rows_where(200, |row| row.outcome == Outcome::ClientClosed).await;
    assert_eq!(rows.len(), 200);
    assert_eq!(rows.iter().filter(|row| row.status == 499 && row.bytes_out == 0).count(), 100);
    assert_eq!(rows.iter().filter(|row| row.status == 200 && row.bytes_out == 5).count(), 100);
    // What the serving side knows is in it too.
    assert!(rows.iter().all(|row| row.cpu_us == 7 && row.cold.is_some()));
    assert_eq!(world.http1(get(&f)).await.status(), 200);
    until("nothing is in flight", async || {
        world.api.metrics().contains("sless_invocations_in_flight 0\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_failure_after_the_head_is_not_taken_for_an_end() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let failure = || Err(BodyError::Failed(Failure::new(Outcome::DeadlineExceeded, "longer than timeoutSeconds")));

    let mut pieces = world.echo.pieces();
    let reading = world.raw(format!("GET {f}/pieces HTTP/1.1\r\nhost: x\r\n\r\n"));
    let (answer, ()) = tokio::join!(reading, async {
        pieces.send(Ok(Frame::data(Bytes::from_static(b"part")))).await.unwrap();
        pieces.send(failure()).await.unwrap();
    });
    let answer = text(&answer);
    assert!(answer.contains("\r\n4\r\npart\r\n") && !answer.ends_with("0\r\n\r\n"), "{answer}");
    let row = &world.rows_where(1, |row| row.outcome == Outcome::DeadlineExceeded).await[0];
    assert_eq!(
        (row.status, row.bytes_out, row.error.as_deref()),
        (200, 4, Some("deadline_exceeded: longer than timeoutSeconds"))
    );

    let mut pieces = world.echo.pieces();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(world.connect().await)).await.unwrap();
    tokio::spawn(connection);
    let mut body = sender.send_request(get(format!("http://a.example{f}/pieces"))).await.unwrap().into_body();
    pieces.send(Ok(Frame::data(Bytes::from_static(b"part")))).await.unwrap();
    pieces.send(failure()).await.unwrap();
    assert!(body.frame().await.unwrap().is_ok());
    assert!(body.frame().await.unwrap().is_err(), "the stream is reset");

    // More bytes than it promised.
    let answer = text(&world.raw(format!("GET {f}/long HTTP/1.1\r\nhost: x\r\n\r\n")).await);
    assert!(!answer.contains("5678"), "{answer}");
    let row = &world.rows_where(1, |row| row.outcome == Outcome::BadResponse).await[0];
    assert!(row.error.as_deref().unwrap().contains("content-length"), "{row:?}");
}

#[tokio::test]
async fn http2_is_served_on_the_same_port() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(world.connect().await)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://a.example{f}/a%2Fb?x=1&x=2"))
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(Full::new(Bytes::from_static(b"two")));
    let response = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    assert_eq!(bytes(response).await, "two");
    let seen = world.echo.last();
    assert_eq!(seen.uri.to_string(), "/a%2Fb?x=1&x=2");
    assert_eq!(
        (&seen.headers["host"], &seen.headers["cookie"]),
        (&HeaderValue::from_static("a.example"), &HeaderValue::from_static("a=1; b=2"))
    );
    let request = Request::head(format!("http://a.example{f}/described")).body(Full::default());
    let response = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-length"], "9");
    assert_eq!(bytes(response).await, "");
}

#[tokio::test]
async fn shutdown_lets_calls_end_and_takes_no_new_ones() {
    let mut world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let mut pieces = world.echo.pieces();
    let mut body = world.http1(get(format!("{f}/pieces"))).await.into_body();
    // A connection that idles does not hold it up.
    let _idle = world.connect().await;
    world.shutdown.cancel();
    until("no connection is accepted", async || tokio::net::TcpStream::connect(world.address).await.err()).await;
    pieces.send(Ok(Frame::data(Bytes::from_static(b"late")))).await.unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "late");
    drop(pieces);
    assert!(body.frame().await.is_none());
    let drained = tokio::time::timeout(DEADLINE, world.server.take().unwrap()).await.unwrap().unwrap();
    assert_eq!(drained.cut, 0);
}

#[tokio::test]
async fn what_does_not_end_within_the_grace_is_cut() {
    let settings = ApiSettings { drain_grace: Duration::from_millis(50), ..ApiSettings::default() };
    let mut world = World::with(settings).await;
    let f = world.deploy("a", "f", json!({})).await;
    let mut stream = world.connect().await;
    stream.write_all(format!("GET {f}/hang HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    until("the call is there", async || (world.echo.live.load(std::sync::atomic::Ordering::SeqCst) > 0).then_some(()))
        .await;
    world.shutdown.cancel();
    let drained = tokio::time::timeout(DEADLINE, world.server.take().unwrap()).await.unwrap().unwrap();
    assert_eq!(drained.cut, 1);
    world.no_call_lives().await;
}

#[tokio::test]
async fn connections_beyond_the_bound_wait() {
    let settings = ApiSettings { max_connections: 1, ..ApiSettings::default() };
    let world = World::with(settings).await;
    let f = world.deploy("a", "f", json!({})).await;
    let mut first = world.connect().await;
    first.write_all(format!("GET {f} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    first.read_exact(&mut [0; 1]).await.unwrap();
    let mut second = world.connect().await;
    second
        .write_all(format!("GET {f}/second HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let early = tokio::time::timeout(Duration::from_millis(100), second.read_exact(&mut [0; 1])).await;
    assert!(early.is_err(), "it was served beside the first");
    drop(first);
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, second.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_are_closed() {
    let world = World::start().await;
    for said in [&b""[..], b"PRI * HTTP/2", b"GET / HTTP/1.1\r\nhost:", b"GET /v2 HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let started = tokio::time::Instant::now();
        let mut stream = world.connect().await;
        stream.write_all(said).await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        assert!((30..=61).contains(&started.elapsed().as_secs()), "{} after {:?}", text(said), started.elapsed());
    }
}

#[tokio::test]
async fn a_function_may_go_on_after_the_last_byte_that_it_promised() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let mut pieces = world.echo.pieces();
    let response = world.http1(get(format!("{f}/promised"))).await;
    let id = call_id(&response);
    pieces.send(Ok(Frame::data(Bytes::from_static(b"1234")))).await.unwrap();
    assert_eq!(bytes(response).await, "1234");
    // It is not stopped: there is still somebody who takes what it does.
    assert!(!pieces.is_closed());
    assert_eq!(world.echo.live.load(std::sync::atomic::Ordering::SeqCst), 1);
    drop(pieces);
    world.no_call_lives().await;
    let row = world.row(id).await;
    assert_eq!((row.outcome, row.bytes_out, row.cpu_us), (Outcome::Ok, 4, 7));
}

#[tokio::test]
async fn garbage_is_never_a_server_error() {
    let world = World::start().await;
    let f = world.deploy("a", "f", json!({})).await;
    let cases: &[&[u8]] = &[
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /fn/ HTTP/9.9\r\n\r\n",
        b"GET /fn/\xff\xfe/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"CONNECT a.example:443 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"POST /fn/x/y HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /fn/x/y HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /v1/%ff%00 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ];
    for case in cases {
        let answer = text(&world.raw(case).await);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4"),
            "{:?} → {answer}",
            text(case)
        );
    }
    assert_eq!(world.http1(get(&f)).await.status(), 200);
}
