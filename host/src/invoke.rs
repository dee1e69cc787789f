//! The way of a call: admission, code, guest, head; then the body streams.

mod failure;
mod head;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Method, Request, Response, request};
use http_body_util::BodyExt as _;
use sless_core::ColdGrade;
use sless_core::body::{Body, BodyError};
use sless_core::call::{Call, CallRecord};
use sless_core::outcome::{Failure, Outcome};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;

use crate::body::{Check, RequestBody, Streaming, Whole, drain, payload_too_large};
use crate::call::CallState;
use crate::code::Code;
use crate::function::Function;
use crate::host::{Inner, RETRY_AFTER};
use crate::instance::{Instance, State};

/// How many ticks a head may wait for the body that it declares, while the guest computes.
const HELD_TICKS: u32 = 3;

/// Serves a call up to its head.
pub(crate) async fn call(function: &Arc<Function>, call: Call) -> Result<Response<Body>, Failure> {
    let record = call.record.clone();
    function.host.calls.fetch_add(1, Ordering::Relaxed);
    let admitted = match check(function, &call.request) {
        Ok(()) => admit(function, &record).await,
        Err(failure) => Err(failure),
    };
    match admitted {
        Ok(admitted) => serve(function, call, admitted).await,
        Err(failure) => {
            record.used(sless_core::call::Usage { failure: Some(failure.clone()), ..Default::default() });
            Err(failure)
        }
    }
}

/// What a call needs before its guest can start.
struct Admitted {
    code: Arc<Code>,
    cold: ColdGrade,
    permits: Permits,
}

/// A call's place in its function and in the host.
struct Permits {
    _function: OwnedSemaphorePermit,
    _host: OwnedSemaphorePermit,
    host: Arc<Inner>,
}

impl Permits {
    fn new(host: &Arc<Inner>, of_function: OwnedSemaphorePermit, of_host: OwnedSemaphorePermit) -> Self {
        host.in_use.fetch_add(1, Ordering::Relaxed);
        Self { _function: of_function, _host: of_host, host: host.clone() }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        self.host.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What can be refused before anything is waited for.
fn check(function: &Function, request: &Request<Body>) -> Result<(), Failure> {
    if function.host.is_draining() {
        return Err(function.host.shutting_down());
    }
    head::check_request(request.headers())?;
    let limit = function.revision.spec.limits.request_bytes;
    let declared = http_body::Body::size_hint(request.body()).lower().max(head::content_length(request.headers()));
    if declared > limit {
        return Err(payload_too_large(limit));
    }
    Ok(())
}

async fn admit(function: &Arc<Function>, record: &CallRecord) -> Result<Admitted, Failure> {
    let host = &function.host;
    let spec = &function.revision.spec;
    let until = record.started + host.settings.queue_wait.min(Duration::from_secs(spec.timeout_seconds.into()));
    let of_function = place(host, &function.used().permits, until).await.ok_or_else(|| {
        let n = spec.concurrency;
        Failure::new(Outcome::ConcurrencyExceeded, format!("the function already serves concurrency = {n} calls"))
            .retry_after(RETRY_AFTER)
    })?;
    let of_host = place(host, &host.permits, until).await.ok_or_else(|| {
        Failure::new(Outcome::PoolExhausted, "the host has no free instance").retry_after(RETRY_AFTER)
    })?;
    if host.is_draining() {
        return Err(host.shutting_down());
    }
    let permits = Permits::new(host, of_function, of_host);
    let (code, cold) = function.code().await?;
    Ok(Admitted { code, cold, permits })
}

/// A permit now, or within the bounded wait of a bounded number of calls.
async fn place(host: &Inner, permits: &Arc<Semaphore>, until: Instant) -> Option<OwnedSemaphorePermit> {
    match permits.clone().try_acquire_owned() {
        Ok(permit) => return Some(permit),
        Err(TryAcquireError::Closed) => return None,
        Err(TryAcquireError::NoPermits) => {}
    }
    let _waiting = Waiting::begin(&host.waiting, host.settings.queue_calls)?;
    tokio::time::timeout_at(until.into(), permits.clone().acquire_owned()).await.ok()?.ok()
}

/// Counts a waiting call for as long as it waits.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicU32, limit: u32) -> Option<Self> {
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1)).ok()?;
        Some(Self(count))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve(function: &Arc<Function>, call: Call, admitted: Admitted) -> Result<Response<Body>, Failure> {
    let Call { request, record } = call;
    let head_only = request.method() == Method::HEAD;
    let (head, body) = request.into_parts();
    let state = Arc::new(CallState::new(record, function.clone(), body));
    let warm = function.reuse();
    let cold = if warm.is_some() { ColdGrade::Warm } else { admitted.cold };
    let guest = Box::pin(run(admitted.code, state.clone(), warm, head));
    let mut running =
        Some(Running { guest: Some(guest), permits: Some(admitted.permits), state, cold, failure: None, timers: None });
    let mut held = 0;
    let response = std::future::poll_fn(move |cx| {
        let guest = running.as_mut().expect("not polled again after it was ready");
        if guest.poll(cx).is_pending() {
            if !guest.state.has_head() {
                return Poll::Pending;
            }
            if held < HELD_TICKS && guest.state.is_between_head_and_body() {
                held += 1;
                return Poll::Pending;
            }
        }
        let guest = running.take().expect("it was there a line above");
        Poll::Ready(respond(guest, head_only, cx))
    })
    .await?;
    if head_only { without_body(response).await } else { Ok(response) }
}

/// The answer to HEAD has no body that could carry the guest on, so it waits for the guest; what that writes is dropped.
async fn without_body(response: Response<Body>) -> Result<Response<Body>, Failure> {
    let (parts, mut body) = response.into_parts();
    while let Some(frame) = body.frame().await {
        if let Err(BodyError::Failed(failure)) = frame {
            return Err(failure);
        }
    }
    Ok(Response::from_parts(parts, sless_core::body::empty()))
}

/// Makes a response of a guest that set its head or is over.
fn respond(mut running: Running, head_only: bool, cx: &mut Context<'_>) -> Result<Response<Body>, Failure> {
    match running.state.take_head() {
        Some(Ok(response)) => {
            let (parts, mut inner) = response.into_parts();
            let limit = running.state.record.revision.spec.limits.response_bytes;
            let checked = head::check_response(parts).and_then(|(parts, expected)| {
                let mut check = Check { expected, seen: 0, limit, head_only };
                let drained = drain(&mut inner, &mut check, cx)?;
                Ok((parts, check, drained))
            });
            let (parts, check, drained) = match checked {
                Ok(checked) => checked,
                // It explains what the guest may have trapped on since.
                Err(failure) => return Err(running.stop(failure)),
            };
            if let Some(failure) = running.failure().cloned() {
                return Err(failure);
            }
            if !running.is_over() || !drained.ended {
                let body = Streaming { ready: drained.frames, inner, check, running: Some(running) };
                return Ok(Response::from_parts(parts, body.boxed_unsync()));
            }
            if let Err(failure) = check.end() {
                return Err(running.stop(failure));
            }
            Ok(Response::from_parts(parts, Whole::new(drained.frames).boxed_unsync()))
        }
        Some(Err(code)) => Err(running.stop(failure::error_instead_of_response(&code))),
        None => {
            let failure = running.failure().cloned().unwrap_or_else(failure::no_response);
            Err(running.stop(failure))
        }
    }
}

/// Instantiates, or takes the used instance, and lets it handle the request.
async fn run(
    code: Arc<Code>,
    call: Arc<CallState>,
    warm: Option<Instance>,
    head: request::Parts,
) -> wasmtime::Result<Instance> {
    let Instance { mut store, proxy } = match warm {
        Some(mut instance) => {
            instance.store.data_mut().serve(Some(call.clone()));
            instance.store.set_epoch_deadline(1);
            instance
        }
        None => {
            let mut store = State::store(code.pre.engine(), call.clone());
            let proxy = code.pre.instantiate_async(&mut store).await?;
            Instance { store, proxy }
        }
    };
    let (request, scheme) = incoming(head, &call);
    let state = store.data_mut();
    state.hooks.host_header = true;
    let request = state.http().new_incoming_request(scheme, request);
    state.hooks.host_header = false;
    let out = state.http().new_response_outparam_from_callback(move |head| call.set_head(head))?;
    proxy.wasi_http_incoming_handler().call_handle(&mut store, request?, out).await?;
    Ok(Instance { store, proxy })
}

fn incoming(mut head: request::Parts, call: &Arc<CallState>) -> (Request<RequestBody>, Scheme) {
    let scheme = head::scheme(&head);
    head::set_authority(&mut head, &call.record.revision.function);
    let left = call.record.revision.spec.limits.request_bytes;
    (Request::from_parts(head, RequestBody { call: Arc::downgrade(call), left }), scheme)
}

type Guest = Pin<Box<dyn Future<Output = wasmtime::Result<Instance>> + Send>>;

/// A guest under way, with its clock. Dropping it stops the guest and reports the call.
pub(crate) struct Running {
    guest: Option<Guest>,
    permits: Option<Permits>,
    state: Arc<CallState>,
    cold: ColdGrade,
    failure: Option<Failure>,
    /// Set when the guest first has to wait: most calls are over before.
    timers: Option<Timers>,
}

struct Timers {
    deadline: Pin<Box<Sleep>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Running {
    /// Lets the guest run until it waits or is over. Ready when it is over; [`Self::failure`] says how.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(guest) = &mut self.guest else { return Poll::Ready(()) };
        self.state.poll_begins(Instant::now());
        // A panic in a host function comes up here. It fails this call; the host is then to be replaced.
        let polled = catch_unwind(AssertUnwindSafe(|| guest.as_mut().poll(cx)));
        let now = Instant::now();
        self.state.poll_ends(now);
        match polled {
            Ok(Poll::Ready(Ok(instance))) => {
                self.guest = None;
                if self.state.failure().is_none() {
                    self.state.function.keep(instance);
                }
                self.over(None)
            }
            Ok(Poll::Ready(Err(error))) => {
                let failure = failure::of_error(&self.state, &error);
                self.over(failure)
            }
            Ok(Poll::Pending) => self.wait(now, cx),
            Err(_) => {
                self.state.function.host.panicked();
                tracing::error!(function = %self.state.record.revision.function, "the host panicked in a call");
                self.over(Some(Failure::new(Outcome::Internal, "the platform failed; the call may be tried again")))
            }
        }
    }

    fn wait(&mut self, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(failure) = self.state.failure().cloned() {
            return self.over(Some(failure));
        }
        if now >= self.state.deadline {
            return self.over(Some(self.state.too_late()));
        }
        self.state.flush_log();
        let state = &self.state;
        let timers = self.timers.get_or_insert_with(|| Timers {
            deadline: Box::pin(tokio::time::sleep_until(state.deadline.into())),
            cut: Box::pin(state.function.host.cut.clone().cancelled_owned()),
        });
        if timers.deadline.as_mut().poll(cx).is_ready() {
            return self.over(Some(self.state.too_late()));
        }
        if timers.cut.as_mut().poll(cx).is_ready() {
            return self.over(Some(self.state.function.host.shutting_down()));
        }
        Poll::Pending
    }

    fn over(&mut self, failure: Option<Failure>) -> Poll<()> {
        self.free();
        if self.failure.is_none() {
            // What the host decided (a limit) explains how the guest then ended.
            self.failure = self.state.failure().cloned().or(failure);
        }
        Poll::Ready(())
    }

    /// Frees everything that the call held but its record.
    fn free(&mut self) {
        self.guest = None;
        self.timers = None;
        self.permits = None;
        self.state.guest_is_gone();
    }

    /// Ends the call for a reason that was found outside the guest, which is then the call's.
    pub(crate) fn stop(&mut self, failure: Failure) -> Failure {
        self.free();
        // What the host decided (a limit) explains what was found since.
        let failure = self.state.failure().cloned().unwrap_or(failure);
        self.failure = Some(failure.clone());
        failure
    }

    pub(crate) fn is_over(&self) -> bool {
        self.guest.is_none()
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Lets the guest go on by itself after its response is out.
    pub(crate) fn detach(mut self) {
        tokio::spawn(async move { std::future::poll_fn(|cx| self.poll(cx)).await });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.free();
        self.state.report(Some(self.cold), self.failure.take());
    }
}
