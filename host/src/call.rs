//! One call's state, shared by its guest, its limits, its log and whoever waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http_body::{Body as _, Frame};
use sless_core::body::{Body, BodyError};
use sless_core::call::{CallRecord, Usage};
use sless_core::invocation::ColdGrade;
use sless_core::outcome::{Failure, Outcome};
use sless_core::ports::logs::Stream;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::function::Function;
use crate::logs::{CallLog, Origin};

/// The head of a response as the guest set it, or the error that it set instead.
pub(crate) type Head = Result<http::Response<HyperOutgoingBody>, ErrorCode>;

/// One call.
pub(crate) struct CallState {
    pub(crate) record: Arc<CallRecord>,
    pub(crate) function: Arc<Function>,
    /// When the call has to be over.
    pub(crate) deadline: Instant,
    cpu_budget: Duration,
    /// Processor time of the polls that have ended, and the start of the one under way, in ns since the record's start.
    cpu_ns: AtomicU64,
    poll_started_ns: AtomicU64,
    /// Whether the guest was interrupted in this poll: then it does not wait, it was only made to let others go first.
    interrupted: AtomicBool,
    peak_memory_bytes: AtomicU64,
    memory_refused: AtomicBool,
    failed: OnceLock<Failure>,
    request: Mutex<Option<Body>>,
    head: Mutex<Option<Head>>,
    log: Mutex<CallLog>,
    logged: AtomicBool,
}

impl CallState {
    pub(crate) fn new(record: Arc<CallRecord>, function: Arc<Function>, request: Body) -> Self {
        let spec = &record.revision.spec;
        let deadline = record.started + Duration::from_secs(spec.timeout_seconds.into());
        let cpu_budget = Duration::from_millis(spec.limits.cpu_ms.into());
        Self {
            record,
            function,
            deadline,
            cpu_budget,
            cpu_ns: AtomicU64::new(0),
            poll_started_ns: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            peak_memory_bytes: AtomicU64::new(0),
            memory_refused: AtomicBool::new(false),
            failed: OnceLock::new(),
            request: Mutex::new(Some(request)),
            head: Mutex::new(None),
            log: Mutex::new(CallLog::default()),
            logged: AtomicBool::new(false),
        }
    }

    fn since_start_ns(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.record.started).as_nanos()).unwrap_or(u64::MAX)
    }

    /// A poll of the guest begins.
    pub(crate) fn poll_begins(&self, now: Instant) {
        self.interrupted.store(false, Ordering::Relaxed);
        self.poll_started_ns.store(self.since_start_ns(now), Ordering::Relaxed);
    }

    /// It has ended; its time is charged.
    pub(crate) fn poll_ends(&self, now: Instant) {
        let took = self.since_start_ns(now).saturating_sub(self.poll_started_ns.load(Ordering::Relaxed));
        self.cpu_ns.fetch_add(took, Ordering::Relaxed);
    }

    /// Whether a guest that computes may go on; asked at every tick, in the middle of a poll.
    pub(crate) fn may_compute(&self) -> bool {
        self.interrupted.store(true, Ordering::Relaxed);
        let now = Instant::now();
        let this_poll = self.since_start_ns(now).saturating_sub(self.poll_started_ns.load(Ordering::Relaxed));
        let used = Duration::from_nanos(self.cpu_ns.load(Ordering::Relaxed).saturating_add(this_poll));
        if used > self.cpu_budget {
            let ms = self.cpu_budget.as_millis();
            self.fail(Failure::new(
                Outcome::DeadlineExceeded,
                format!("the function used more processor time than limits.cpuMs = {ms} allows"),
            ));
        } else if now >= self.deadline {
            self.fail(self.too_late());
        } else if self.function.host.cut.is_cancelled() {
            self.fail(self.function.host.shutting_down());
        }
        self.failed.get().is_none()
    }

    /// The failure of a call that takes too long.
    pub(crate) fn too_late(&self) -> Failure {
        let seconds = self.record.revision.spec.timeout_seconds;
        Failure::new(
            Outcome::DeadlineExceeded,
            format!("the function did not finish within timeoutSeconds = {seconds}"),
        )
    }

    /// Ends the call from inside the guest; the first reason counts.
    pub(crate) fn fail(&self, failure: Failure) {
        let _ = self.failed.set(failure);
    }

    /// Why the call has to end, if it has to.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failed.get()
    }

    pub(crate) fn memory_is(&self, bytes: u64) {
        self.peak_memory_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    pub(crate) fn memory_refused(&self) {
        self.memory_refused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn was_memory_refused(&self) -> bool {
        self.memory_refused.load(Ordering::Relaxed)
    }

    /// Reads the request's body.
    pub(crate) fn poll_request(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *lock(&self.request) {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    /// Lets go of what the call held for its guest, and hands on what that logged.
    pub(crate) fn guest_is_gone(&self) {
        *lock(&self.request) = None;
        self.contain(|| self.flush_log());
    }

    /// Runs what calls out to ports where a panic would tear down a connection, or the process.
    fn contain(&self, work: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.function.host.panicked();
        }
    }

    pub(crate) fn set_head(&self, head: Head) {
        *lock(&self.head) = Some(head);
    }

    pub(crate) fn has_head(&self) -> bool {
        lock(&self.head).is_some()
    }

    /// Whether a head that declares its body's length was set just before the guest was interrupted: most likely it was
    /// about to write that body, and if that has another length the head is better not out yet.
    pub(crate) fn is_between_head_and_body(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
            && matches!(&*lock(&self.head), Some(Ok(head)) if head.headers().contains_key(CONTENT_LENGTH))
    }

    pub(crate) fn take_head(&self) -> Option<Head> {
        lock(&self.head).take()
    }

    fn origin(&self) -> Origin<'_> {
        let revision = &self.record.revision;
        Origin { revision, invocation: self.record.id, limit_bytes: revision.spec.limits.log_bytes.into() }
    }

    /// Takes what the guest printed.
    pub(crate) fn print(&self, stream: Stream, bytes: &[u8]) {
        self.logged.store(true, Ordering::Relaxed);
        let origin = self.origin();
        let mut log = lock(&self.log);
        log.print(&origin, stream, bytes, || self.function.host.clock.now());
        log.flush(&origin, &*self.function.host.logs, false);
    }

    /// Adds a line of the platform's to the function's log.
    pub(crate) fn say(&self, line: String) {
        self.logged.store(true, Ordering::Relaxed);
        lock(&self.log).say(&self.origin(), line, self.function.host.clock.now());
    }

    /// Hands on what was logged, so that it can be followed while the guest waits.
    pub(crate) fn flush_log(&self) {
        if self.logged.load(Ordering::Relaxed) {
            lock(&self.log).flush(&self.origin(), &*self.function.host.logs, true);
        }
    }

    /// Reports to the call's record. The guest is gone by now.
    pub(crate) fn report(&self, cold: Option<ColdGrade>, failure: Option<Failure>) {
        let mut log_tail = String::new();
        if self.logged.load(Ordering::Relaxed) {
            let mut log = lock(&self.log);
            self.contain(|| log.end(&self.origin(), &*self.function.host.logs, || self.function.host.clock.now()));
            log_tail = log.take_tail();
        }
        self.record.used(Usage {
            cold,
            cpu: Duration::from_nanos(self.cpu_ns.load(Ordering::Relaxed)),
            peak_memory_bytes: self.peak_memory_bytes.load(Ordering::Relaxed),
            log_tail,
            failure,
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held leaves a log or a head that is whole enough to be reported.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
