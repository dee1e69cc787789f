//! Bodies on their way through: counted, never collected.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use sless_core::call::{Answer, CallRecord};
use sless_core::{Body, BodyError, Failure, Outcome, body as bodies};

use crate::metrics::Gauge;

/// A client's body that counts what the function reads of it.
pub(super) struct RequestBody<B> {
    inner: B,
    read: Arc<AtomicU64>,
}

impl<B> RequestBody<B> {
    pub(super) fn new(inner: B, read: Arc<AtomicU64>) -> Self {
        Self { inner, read }
    }
}

impl<B> http_body::Body for RequestBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.read.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        Poll::Ready(frame.map(|result| result.map_err(|error| BodyError::Closed(error.to_string()))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A call under way, from the client's side. What it drops without having ended was dropped by the client.
pub(super) struct InFlight {
    record: Arc<CallRecord>,
    read: Option<Arc<AtomicU64>>,
    written: u64,
    status: u16,
    ended: bool,
    /// Counts this call as long as it lives.
    _gauge: Gauge,
}

impl InFlight {
    pub(super) fn new(record: Arc<CallRecord>, read: Option<Arc<AtomicU64>>, gauge: Gauge) -> Self {
        Self { record, read, written: 0, status: Outcome::ClientClosed.status(), ended: false, _gauge: gauge }
    }

    pub(super) fn id(&self) -> sless_core::InvocationId {
        self.record.id
    }

    /// The function's head goes out.
    pub(super) fn head(&mut self, status: u16) {
        self.status = status;
    }

    /// The platform answers in the function's place.
    pub(super) fn failed(mut self, failure: &Failure) {
        self.status = failure.outcome.status();
        self.end(failure.outcome, Some(failure.detail.clone()));
    }

    fn end(&mut self, outcome: Outcome, error: Option<String>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.record.answered(Answer {
            status: self.status,
            outcome,
            error,
            bytes_in: self.read.as_ref().map_or(0, |read| read.load(Ordering::Relaxed)),
            bytes_out: self.written,
            duration: self.record.started.elapsed(),
        });
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.end(Outcome::ClientClosed, None);
    }
}

/// The body of a gateway's answer.
pub(crate) struct ResponseBody(Source);

enum Source {
    /// Of a function.
    Function(FunctionBody),
    /// The platform's own words.
    Document(Option<Bytes>),
    /// None, though a `Content-Length` may speak of one: HEAD.
    None,
}

/// A function's body that tells the record how it ended.
pub(super) struct FunctionBody {
    // Dropped first: that ends the function, which then may say of itself what the record keeps.
    inner: Body,
    call: InFlight,
    /// What `Content-Length` promised, or will: its length is known.
    declared: Option<u64>,
    /// What it breaks with at the next poll.
    late: Option<BodyError>,
}

impl FunctionBody {
    pub(super) fn new(inner: Body, call: InFlight, declared: Option<u64>) -> Self {
        Self { inner, call, declared, late: None }
    }

    /// Reads to the end and throws away, so that a function whose body nobody wants still ends by itself.
    pub(super) async fn drain(mut self) {
        while let Some(Ok(_)) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await {}
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.late.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let frame = match std::task::ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            None => {
                self.call.end(Outcome::Ok, None);
                return Poll::Ready(None);
            }
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return self.broken(error, cx),
        };
        if let Some(data) = frame.data_ref() {
            let written = self.call.written + data.len() as u64;
            if let Some(declared) = self.declared.filter(|declared| written > *declared) {
                let detail = format!("the function sent more than the {declared} bytes of its content-length");
                return self.broken(BodyError::Failed(Failure::new(Outcome::BadResponse, detail)), cx);
            }
            self.call.written = written;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    /// The head is out, so all that is left is to break the connection off: a client must not take a part for the whole.
    ///
    /// A moment later: hyper writes what it has gathered when a body has nothing for it, but throws it away when the body
    /// breaks, and then the client would not even see the head.
    fn broken(&mut self, error: BodyError, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let outcome = match &error {
            BodyError::Failed(failure) => failure.outcome,
            BodyError::Closed(_) => Outcome::BadResponse,
        };
        let id = self.call.id();
        tracing::debug!(invocation = %id, outcome = outcome.name(), error = %error, "call failed after its head");
        self.call.end(outcome, Some(error.to_string()));
        self.late = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for FunctionBody {
    fn drop(&mut self) {
        if self.inner.is_end_stream() {
            self.call.end(Outcome::Ok, None);
        } else if !self.call.ended && self.declared == Some(self.call.written) {
            // Servers don't ask on after the last byte of a body whose length they know. The client has it all; the
            // function may still have something to do, and is not stopped.
            self.call.end(Outcome::Ok, None);
            let mut rest = std::mem::replace(&mut self.inner, bodies::empty());
            if let Poll::Ready(None) = Pin::new(&mut rest).poll_frame(&mut Context::from_waker(Waker::noop())) {
                return;
            }
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                // Bounded by the function's own limits: it holds its place among its concurrent calls until it ends.
                runtime.spawn(async move { while let Some(Ok(_)) = rest.frame().await {} });
            }
        }
    }
}

impl ResponseBody {
    pub(super) fn function(body: FunctionBody) -> Self {
        Self(Source::Function(body))
    }

    pub(super) fn document(bytes: Bytes) -> Self {
        Self(Source::Document(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(super) fn none() -> Self {
        Self(Source::None)
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Source::Function(body) => Pin::new(body).poll_frame(cx),
            Source::Document(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Function(body) => body.inner.is_end_stream(),
            Source::Document(bytes) => bytes.is_none(),
            Source::None => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Function(body) => body.inner.size_hint(),
            Source::Document(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            // Not zero: the server would say so in `Content-Length`, which for HEAD speaks of what GET would get.
            Source::None => SizeHint::default(),
        }
    }
}
