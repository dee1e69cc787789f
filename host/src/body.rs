//! Bodies on their way through the host: the request's, counted against its limit, and the response's, with the guest
//! that is writing it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use sless_core::body::BodyError;
use sless_core::outcome::{Failure, Outcome};
use wasmtime_wasi_http::Error as WasiError;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::call::CallState;
use crate::invoke::Running;

/// A request's body as the guest reads it. The body itself is the call's, so that it ends with the call even where a
/// reused instance forgot to let it go.
pub(crate) struct RequestBody {
    pub(crate) call: Weak<CallState>,
    pub(crate) left: u64,
}

/// The failure of a request whose body is over its limit.
pub(crate) fn payload_too_large(limit: u64) -> Failure {
    Failure::new(
        Outcome::PayloadTooLarge,
        format!("the request's body is larger than limits.requestBytes = {limit} allows"),
    )
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        let Some(call) = self.call.upgrade() else { return Poll::Ready(Some(Err(WasiError::ConnectionTerminated))) };
        match call.poll_request(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                match self.left.checked_sub(bytes) {
                    Some(left) => {
                        self.left = left;
                        Poll::Ready(Some(Ok(frame)))
                    }
                    None => {
                        // Ends the call too, whatever the guest makes of the error.
                        let limit = call.record.revision.spec.limits.request_bytes;
                        call.fail(payload_too_large(limit));
                        Poll::Ready(Some(Err(WasiError::HttpRequestBodySize(Some(limit)))))
                    }
                }
            }
            Poll::Ready(Some(Err(BodyError::Failed(failure)))) => {
                call.fail(failure);
                Poll::Ready(Some(Err(WasiError::ConnectionTerminated)))
            }
            Poll::Ready(Some(Err(BodyError::Closed(_)))) => Poll::Ready(Some(Err(WasiError::ConnectionTerminated))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Checks the pieces of a response against what its head said and its function may send.
pub(crate) struct Check {
    /// From `content-length`.
    pub(crate) expected: Option<u64>,
    pub(crate) seen: u64,
    pub(crate) limit: u64,
    /// The answer to HEAD: its length is that of another body.
    pub(crate) head_only: bool,
}

impl Check {
    /// Counts a piece.
    pub(crate) fn piece(&mut self, bytes: usize) -> Result<(), Failure> {
        self.seen = self.seen.saturating_add(bytes as u64);
        match self.expected {
            Some(expected) if self.seen > expected && !self.head_only => Err(Failure::new(
                Outcome::BadResponse,
                format!("the function declared content-length {expected} and wrote more ({} bytes so far)", self.seen),
            )),
            _ if self.seen > self.limit => Err(Failure::new(
                Outcome::BadResponse,
                format!("the function's response is larger than limits.responseBytes = {} allows", self.limit),
            )),
            _ => Ok(()),
        }
    }

    /// The guest ended the body.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        match self.expected {
            Some(expected) if self.seen < expected && !self.head_only => Err(Failure::new(
                Outcome::BadResponse,
                format!("the function declared content-length {expected} and wrote only {} bytes", self.seen),
            )),
            _ => Ok(()),
        }
    }

    /// The guest broke the body off, or finished it with another length than it declared.
    pub(crate) fn aborted(&self) -> Result<(), Failure> {
        if self.head_only {
            return Ok(());
        }
        self.end()?;
        Err(Failure::new(Outcome::BadResponse, "the function dropped its response's body before it finished it"))
    }
}

/// What could be read of a body without waiting.
pub(crate) struct Drained {
    pub(crate) frames: VecDeque<Frame<Bytes>>,
    /// No more will come.
    pub(crate) ended: bool,
}

/// Reads what is there of a guest's body. At most as much as the guest may be ahead of its client.
pub(crate) fn drain(
    inner: &mut HyperOutgoingBody,
    check: &mut Check,
    cx: &mut Context<'_>,
) -> Result<Drained, Failure> {
    let mut frames = VecDeque::new();
    loop {
        // Without tokio's budget for a task: what is there has to be seen, or a whole response would pass for a part.
        let next = tokio::task::unconstrained(std::future::poll_fn(|cx| Pin::new(&mut *inner).poll_frame(cx)));
        match std::pin::pin!(next).poll(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    check.piece(data.len())?;
                }
                if !check.head_only {
                    frames.push_back(frame);
                }
            }
            Poll::Ready(Some(Err(_))) => {
                check.aborted()?;
                return Ok(Drained { frames, ended: true });
            }
            Poll::Ready(None) => return Ok(Drained { frames, ended: true }),
            Poll::Pending => return Ok(Drained { frames, ended: false }),
        }
    }
}

/// A response's body that is whole already.
pub(crate) struct Whole {
    pub(crate) frames: VecDeque<Frame<Bytes>>,
    pub(crate) left: u64,
}

impl Whole {
    /// A body of these pieces.
    pub(crate) fn new(frames: VecDeque<Frame<Bytes>>) -> Self {
        let left = frames.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        Self { frames, left }
    }
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = self.frames.pop_front();
        if let Some(data) = frame.as_ref().and_then(Frame::data_ref) {
            self.left -= data.len() as u64;
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A response's body, and the guest that is still writing it.
pub(crate) struct Streaming {
    pub(crate) ready: VecDeque<Frame<Bytes>>,
    pub(crate) inner: HyperOutgoingBody,
    pub(crate) check: Check,
    /// None once the body has ended.
    pub(crate) running: Option<Running>,
}

impl Streaming {
    /// Ends the body with a failure, and the guest with it.
    fn fail(&mut self, failure: Failure) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let failure = match self.running.take() {
            Some(mut running) => running.stop(failure),
            None => failure,
        };
        Poll::Ready(Some(Err(BodyError::Failed(failure))))
    }

    /// The body has ended by itself.
    fn finish(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(running) = &self.running else { return Poll::Ready(None) };
        // When the guest is over, its store was dropped and the body with it: whole only if it returned.
        if let Some(failure) = running.failure().cloned() {
            return self.fail(failure);
        }
        if let Err(failure) = self.check.end() {
            return self.fail(failure);
        }
        if let Some(mut running) = self.running.take()
            && running.poll(cx).is_pending()
        {
            // The client has all it gets; what the guest does afterwards is bounded by its limits like everything else.
            running.detach();
        }
        Poll::Ready(None)
    }
}

impl HttpBody for Streaming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(frame) = this.ready.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if this.running.is_none() {
            return Poll::Ready(None);
        }
        let mut polled = false;
        loop {
            // What is written goes out before the guest writes more.
            match Pin::new(&mut this.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    return match this.check.piece(bytes) {
                        Ok(()) => Poll::Ready(Some(Ok(frame))),
                        Err(failure) => this.fail(failure),
                    };
                }
                Poll::Ready(Some(Err(_))) => {
                    return match this.check.aborted() {
                        Ok(()) => this.finish(cx),
                        Err(failure) => this.fail(failure),
                    };
                }
                Poll::Ready(None) => return this.finish(cx),
                Poll::Pending if polled => return Poll::Pending,
                Poll::Pending => {
                    polled = true;
                    match &mut this.running {
                        // Over: what it wrote, or the body's end, is there now, unless its writer lives on elsewhere.
                        Some(running) if !running.is_over() => {
                            let _ = running.poll(cx);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}
