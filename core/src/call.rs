//! A call on its way: what the gateway hands to whatever serves the function, and the record both sides fill in.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::Timestamp;
use crate::body::Body;
use crate::invocation::{ColdGrade, Invocation, InvocationId, TriggerKind};
use crate::outcome::{Failure, Outcome};
use crate::version::Revision;

/// A call of a function. The request's URI is what the function shall see (path after the name, and query); hop-by-hop
/// and platform headers are removed, forwarding headers added.
pub struct Call {
    /// The request as the function shall see it.
    pub request: http::Request<Body>,
    /// Where the serving side reports to.
    pub record: Arc<CallRecord>,
}

/// One version of one function, ready to be called: a wasm function in a host pool, a container, a pod's address.
#[async_trait]
pub trait Target: Send + Sync {
    /// Makes it able to answer without delay (fetches, maps, links). Called before a version goes live; a version that
    /// can't be prepared is not made live. Idempotent.
    async fn prepare(&self) -> Result<(), Failure>;

    /// Calls the function. Returns at the response's head; its body streams. A failure after the head comes as
    /// [`crate::BodyError::Failed`] out of the body. Dropping the future or the body stops the function.
    ///
    /// The serving side keeps `call.record` until the function has ended, and sets its [`Usage`] before it lets go.
    async fn call(&self, call: Call) -> Result<http::Response<Body>, Failure>;
}

/// What the serving side reports of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// How cold the start was.
    pub cold: Option<ColdGrade>,
    /// Processor time of the function.
    pub cpu: Duration,
    /// The most memory at once.
    pub peak_memory_bytes: u64,
    /// The end of its log.
    pub log_tail: String,
    /// Set where the function or the platform ended the call, after the head too.
    pub failure: Option<Failure>,
}

/// What the calling side reports of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status that the client got.
    pub status: u16,
    /// How it ended as far as the calling side knows; [`Outcome::Ok`] leaves the word to the serving side.
    pub outcome: Outcome,
    /// Why, if not well.
    pub error: Option<String>,
    /// Body bytes from the client.
    pub bytes_in: u64,
    /// Body bytes to the client.
    pub bytes_out: u64,
    /// Until the response's end.
    pub duration: Duration,
}

/// The record of one call, shared by both sides. When the last of them lets go, it becomes an [`Invocation`] row.
pub struct CallRecord {
    /// The call's id.
    pub id: InvocationId,
    /// What serves it.
    pub revision: Arc<Revision>,
    /// What made it run.
    pub trigger: TriggerKind,
    /// The client's `X-Request-Id`.
    pub request_id: Option<String>,
    /// When it came.
    pub started_at: Timestamp,
    /// The same for measuring.
    pub started: Instant,
    usage: OnceLock<Usage>,
    answer: OnceLock<Answer>,
    slot: Option<mpsc::OwnedPermit<Invocation>>,
}

impl CallRecord {
    /// A record of a call that begins now. `slot` is its place in the queue of rows, taken beforehand so that no row is
    /// lost to a full queue; without one the call leaves no row.
    pub fn new(
        id: InvocationId,
        revision: Arc<Revision>,
        trigger: TriggerKind,
        request_id: Option<String>,
        started_at: Timestamp,
        slot: Option<mpsc::OwnedPermit<Invocation>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            revision,
            trigger,
            request_id,
            started_at,
            started: Instant::now(),
            usage: OnceLock::new(),
            answer: OnceLock::new(),
            slot,
        })
    }

    /// The serving side's report; the first counts.
    pub fn used(&self, usage: Usage) {
        let _ = self.usage.set(usage);
    }

    /// The calling side's report; the first counts.
    pub fn answered(&self, answer: Answer) {
        let _ = self.answer.set(answer);
    }

    fn row(&mut self) -> Invocation {
        let usage = self.usage.take().unwrap_or_default();
        let answer = self.answer.take();
        // A client that went away explains what the serving side saw afterwards; else the serving side knows best.
        let (outcome, error) = match (&answer, usage.failure) {
            (None, None) => (Outcome::ClientClosed, None),
            (Some(a), _) if a.outcome == Outcome::ClientClosed => (a.outcome, a.error.clone()),
            (_, Some(failure)) => (failure.outcome, Some(failure.detail)),
            (Some(a), None) => (a.outcome, a.error.clone()),
        };
        Invocation {
            id: self.id,
            namespace: self.revision.function.namespace,
            function: self.revision.function.name.clone(),
            function_uid: self.revision.uid,
            version: self.revision.version,
            trigger: self.trigger,
            request_id: self.request_id.take(),
            started_at: self.started_at,
            duration_us: answer.as_ref().map_or_else(|| self.started.elapsed(), |a| a.duration).as_micros() as u64,
            status: answer.as_ref().map_or(Outcome::ClientClosed.status(), |a| a.status),
            outcome,
            cold: usage.cold,
            cpu_us: usage.cpu.as_micros() as u64,
            peak_memory_bytes: usage.peak_memory_bytes,
            bytes_in: answer.as_ref().map_or(0, |a| a.bytes_in),
            bytes_out: answer.as_ref().map_or(0, |a| a.bytes_out),
            log_tail: usage.log_tail,
            error,
        }
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let row = self.row();
            slot.send(row);
        }
    }
}
