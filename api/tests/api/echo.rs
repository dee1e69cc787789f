//! A target in memory: what a function would be. Its path says what it does; else it echoes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use http::{HeaderValue, Response};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use sless_core::call::{Call, CallRecord, Usage};
use sless_core::ports::Invoker;
use sless_core::version::Revision;
use sless_core::*;

type Piece = Result<Frame<Bytes>, BodyError>;

/// All calls of a world.
#[derive(Default)]
pub(crate) struct Echo {
    /// Heads as the function saw them.
    pub(crate) seen: Mutex<Vec<http::request::Parts>>,
    /// Calls that have not ended.
    pub(crate) live: AtomicUsize,
    pieces: Mutex<Option<mpsc::Receiver<Piece>>>,
}

impl Echo {
    pub(crate) fn last(&self) -> http::request::Parts {
        self.seen.lock().unwrap().last().cloned().expect("a call")
    }

    /// What the next call of `/pieces` answers, piece by piece.
    pub(crate) fn pieces(&self) -> mpsc::Sender<Piece> {
        let (sender, receiver) = mpsc::channel(0);
        *self.pieces.lock().unwrap() = Some(receiver);
        sender
    }
}

pub(crate) struct Caller(pub(crate) Arc<Echo>);

impl Invoker for Caller {
    fn target(&self, revision: Arc<Revision>) -> Arc<dyn Target> {
        Arc::new(Function { echo: self.0.clone(), revision })
    }
}

struct Function {
    echo: Arc<Echo>,
    revision: Arc<Revision>,
}

/// Holds the record until the function has ended, as a host does.
struct Running {
    echo: Arc<Echo>,
    record: Arc<CallRecord>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let cpu = Duration::from_micros(7);
        self.record.used(Usage {
            cold: Some(ColdGrade::Instance),
            cpu,
            peak_memory_bytes: 1 << 20,
            ..Usage::default()
        });
        self.echo.live.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Target for Function {
    async fn prepare(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn call(&self, call: Call) -> Result<Response<Body>, Failure> {
        self.echo.live.fetch_add(1, Ordering::SeqCst);
        let running = Running { echo: self.echo.clone(), record: call.record };
        let (parts, body) = call.request.into_parts();
        self.echo.seen.lock().unwrap().push(parts.clone());
        let path = parts.uri.path().to_owned();
        let mut response = Response::new(body::empty());
        response.headers_mut().insert("x-version", HeaderValue::from(self.revision.version.0));
        if let Some(outcome) = path.strip_prefix("/fail/") {
            let outcome = Outcome::from_name(outcome).expect("an outcome");
            return Err(Failure::new(outcome, "as asked").retry_after(Duration::from_secs(3)));
        }
        if let Some(status) = path.strip_prefix("/status/") {
            *response.status_mut() = status.parse().expect("a status");
            *response.body_mut() = holding(body::full("a body"), running);
            return Ok(response);
        }
        let body = match path.as_str() {
            "/hang" => std::future::pending().await,
            "/read" => {
                let all =
                    body.collect().await.map_err(|error| Failure::new(Outcome::BadResponse, error.to_string()))?;
                body::full(all.to_bytes().len().to_string())
            }
            "/promised" => {
                response.headers_mut().insert("content-length", 4.into());
                let pieces = self.echo.pieces.lock().unwrap().take().expect("pieces");
                StreamBody::new(pieces).boxed_unsync()
            }
            "/pieces" => {
                let pieces = self.echo.pieces.lock().unwrap().take().expect("pieces");
                StreamBody::new(pieces).boxed_unsync()
            }
            "/long" => {
                response.headers_mut().insert("content-length", 4.into());
                StreamBody::new(futures::stream::iter([Ok(Frame::data(Bytes::from_static(b"12345678")))]))
                    .boxed_unsync()
            }
            "/forge" => {
                let headers = response.headers_mut();
                headers.insert("x-sless-outcome", HeaderValue::from_static("rate_limited"));
                headers.insert("x-request-id", HeaderValue::from_static("forged"));
                headers.insert("connection", HeaderValue::from_static("x-hop"));
                headers.insert("x-hop", HeaderValue::from_static("1"));
                headers.append("set-cookie", HeaderValue::from_static("a=1"));
                headers.append("set-cookie", HeaderValue::from_static("b=2"));
                headers.insert("x-large", HeaderValue::from_bytes(&[b'a'; 7 << 10]).unwrap());
                headers.insert("x-latin", HeaderValue::from_bytes(&[0x80, 0xff]).unwrap());
                for index in 0..100 {
                    let name = http::HeaderName::from_bytes(format!("x-many-{index}").as_bytes()).unwrap();
                    headers.insert(name, HeaderValue::from(index));
                }
                body::empty()
            }
            "/described" => {
                response.headers_mut().insert("content-length", 9.into());
                body::full("described")
            }
            _ => body,
        };
        *response.body_mut() = holding(body, running);
        Ok(response)
    }
}

/// The body, with the function running until it ends or is dropped.
fn holding(body: Body, running: Running) -> Body {
    let exact = body.size_hint().exact();
    let stream = body.into_data_stream().map(move |piece| {
        let _running = &running;
        piece.map(Frame::data)
    });
    let body = StreamBody::new(stream);
    match exact {
        Some(_) => Sized { body, exact }.boxed_unsync(),
        None => body.boxed_unsync(),
    }
}

/// A stream whose length is known.
struct Sized<B> {
    body: B,
    exact: Option<u64>,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Sized<B> {
    type Data = Bytes;
    type Error = B::Error;
    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }
    fn size_hint(&self) -> http_body::SizeHint {
        self.exact.map_or_else(Default::default, http_body::SizeHint::with_exact)
    }
}
