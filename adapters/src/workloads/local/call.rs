//! A call of a container function: to its process over HTTP, both ways streamed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{HeaderName, RETRY_AFTER};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use sless_core::call::{CallRecord, Usage};
use sless_core::outcome::OUTCOME_HEADER;
use sless_core::problem::Document;
use sless_core::{Body, BodyError, Call, ColdGrade, Failure, Outcome, Target};
use tokio::time::Instant;

use super::instance::Lease;
use super::server::Server;

/// The server says itself that the time is up; one that can't say it any more is not waited for longer than this.
const LATE: Duration = Duration::from_millis(500);
/// How long lines of a call's log may come after its answer: they are on their way through a pipe.
const LOG_LAG: Duration = Duration::from_millis(50);
/// The most bytes of a server's problem.
const MAX_PROBLEM_BYTES: usize = 64 << 10;
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A version, callable.
pub(super) struct LocalTarget(pub(super) Arc<Server>);

impl LocalTarget {
    pub(super) fn new(server: Arc<Server>) -> Self {
        server.handles.fetch_add(1, Ordering::AcqRel);
        Self(server)
    }
}

impl Drop for LocalTarget {
    fn drop(&mut self) {
        self.0.handles.fetch_sub(1, Ordering::AcqRel);
    }
}

#[async_trait]
impl Target for LocalTarget {
    /// Starts a process where one is to be kept, or where the function's other versions have one: a function that is warm
    /// stays warm over a deploy. Else the first call starts it.
    async fn prepare(&self) -> Result<(), Failure> {
        let revision = &self.0.revision;
        if !revision.image.as_deref().is_some_and(|image| self.0.shared.images.exists(image)) {
            return Err(Failure::new(Outcome::Internal, "the function's image is not there"));
        }
        if revision.spec.min_replicas > 0 || self.0.shared.is_warm(revision.uid) {
            self.0.acquire().await?;
        }
        Ok(())
    }

    async fn call(&self, call: Call) -> Result<Response<Body>, Failure> {
        let Call { request, record } = call;
        let timeout = Duration::from_secs(self.0.revision.spec.timeout_seconds.into());
        let (lease, cold) = self.0.acquire().await?;
        // From here on the function has its time: starting is the platform's.
        let deadline = Instant::now() + timeout + LATE;
        let request_id =
            request.headers().get(&X_REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
        lease.output.begin(&request_id, record.id);
        let cold = if cold { ColdGrade::Container } else { ColdGrade::Warm };
        let running = Running { lease, record, request_id, cold, timeout, deadline, failure: None, ended: false };

        let over = Arc::new(AtomicBool::new(false));
        let request = addressed(request, running.lease.port).map(|body| {
            let limit = self.0.revision.spec.limits.request_bytes;
            counted(body, limit, over.clone())
        });
        let answer = tokio::time::timeout_at(deadline, running.lease.client.request(request)).await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(_)) if over.load(Ordering::Acquire) => {
                let limit = self.0.revision.spec.limits.request_bytes;
                let detail = format!("the body is larger than the {limit} bytes of limits.requestBytes");
                return Err(running.fail(Failure::new(Outcome::PayloadTooLarge, detail)));
            }
            Ok(Err(error)) => {
                let failure = running.why_broken(&error).await;
                return Err(running.fail(failure));
            }
            Err(_) => {
                let failure = running.too_late();
                return Err(running.fail(failure));
            }
        };
        if let Some(outcome) = outcome(&response) {
            let failure = said(response, outcome).await;
            return Err(running.fail(failure));
        }
        Ok(response.map(|body| streamed(body, running)))
    }
}

/// The request for the process's address, path and query as they are.
fn addressed(request: Request<Body>, port: u16) -> Request<Body> {
    let (mut parts, body) = request.into_parts();
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Authority::try_from(format!("127.0.0.1:{port}")).ok();
    if let Ok(uri) = Uri::from_parts(uri) {
        parts.uri = uri;
    }
    parts.version = http::Version::HTTP_11;
    parts.extensions.clear();
    Request::from_parts(parts, body)
}

/// A body that breaks, and says so in `over`, once it has more than `limit` bytes. One that says its size was looked at by
/// the gateway.
fn counted(body: Body, limit: u64, over: Arc<AtomicBool>) -> Body {
    if body.is_end_stream() || body.size_hint().exact().is_some_and(|exact| exact <= limit) {
        return body;
    }
    let next = move |(mut body, sent): (Body, u64)| {
        let over = over.clone();
        async move {
            let frame = body.frame().await?;
            let sent = sent + frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
            if sent > limit {
                over.store(true, Ordering::Release);
                return Some((Err(BodyError::Closed("it is over its limit".to_owned())), (body, sent)));
            }
            Some((frame, (body, sent)))
        }
    };
    StreamBody::new(futures::stream::unfold((body, 0), next)).boxed_unsync()
}

/// The platform's own word that a server answers with, if it is one.
fn outcome<B>(response: &Response<B>) -> Option<Outcome> {
    let word = response.headers().get(OUTCOME_HEADER)?;
    word.to_str().ok().and_then(Outcome::from_name).filter(|outcome| *outcome != Outcome::Ok)
}

/// What a server says went wrong.
async fn said(response: Response<Incoming>, outcome: Outcome) -> Failure {
    let retry =
        response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    let document = Limited::new(response.into_body(), MAX_PROBLEM_BYTES).collect().await.ok();
    let document = document.and_then(|body| serde_json::from_slice::<Document>(&body.to_bytes()).ok());
    let detail = document.map_or_else(|| outcome.title().to_owned(), |document| document.detail);
    Failure { outcome, detail, retry_after: retry }
}

/// A call under way. When it is dropped, the call has ended, and its record is filled in.
struct Running {
    lease: Lease,
    record: Arc<CallRecord>,
    request_id: String,
    cold: ColdGrade,
    timeout: Duration,
    deadline: Instant,
    failure: Option<Failure>,
    ended: bool,
}

impl Running {
    fn fail(mut self, failure: Failure) -> Failure {
        self.failure = Some(failure.clone());
        failure
    }

    fn too_late(&self) -> Failure {
        let detail = format!("the function took longer than {} s (timeoutSeconds)", self.timeout.as_secs());
        Failure::new(Outcome::DeadlineExceeded, detail)
    }

    async fn why_broken(&self, error: &(dyn std::error::Error + Send + Sync)) -> Failure {
        if let Some(failure) = self.lease.why_broken().await {
            return failure;
        }
        if Instant::now() + LATE >= self.deadline {
            return self.too_late();
        }
        tracing::debug!(%error, "a function's process broke off an answer");
        Failure::new(Outcome::BadResponse, "the function's answer broke off before its end; its log says why")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let usage = Usage {
            cold: Some(self.cold),
            // Calls share the process: what each of them takes of it is not known.
            cpu: Duration::ZERO,
            peak_memory_bytes: self.lease.peak_memory_bytes(),
            log_tail: String::new(),
            failure: self.failure.take(),
        };
        let (output, record, request_id) =
            (self.lease.output.clone(), self.record.clone(), std::mem::take(&mut self.request_id));
        let finish = async move {
            tokio::time::sleep(LOG_LAG).await;
            record.used(Usage { log_tail: output.end(&request_id, record.id), ..usage });
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(finish);
        }
    }
}

/// The answer's body, which holds the call until its end.
fn streamed(body: Incoming, running: Running) -> Body {
    let next = |(mut body, mut running): (Incoming, Running)| async move {
        if running.ended {
            return None;
        }
        let frame = match tokio::time::timeout_at(running.deadline, body.frame()).await {
            Ok(None) => return None,
            Ok(Some(Ok(frame))) => return Some((Ok::<Frame<Bytes>, BodyError>(frame), (body, running))),
            Ok(Some(Err(error))) => running.why_broken(&error).await,
            Err(_) => running.too_late(),
        };
        running.ended = true;
        running.failure = Some(frame.clone());
        Some((Err(BodyError::Failed(frame)), (body, running)))
    };
    StreamBody::new(futures::stream::unfold((body, running), next)).boxed_unsync()
}
