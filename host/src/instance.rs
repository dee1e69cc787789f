//! An instance: the data of its store, what it may use, and what the host gives it.

mod limits;
mod link;

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderName;
use sless_core::ports::logs::Stream;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::Proxy;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use crate::call::CallState;
use crate::egress;
use crate::logs::{CurrentCall, LogStream};
use crate::settings::{BODY_CHUNK_BYTES, BODY_CHUNKS, HOSTCALL_BYTES, MAX_RANDOM_BYTES, MAX_RESOURCES};

pub(crate) use limits::Limits;
pub use link::INTERFACES;
pub(crate) use link::linker;

/// An instance that can serve a call.
pub(crate) struct Instance {
    pub(crate) store: Store<State>,
    pub(crate) proxy: Proxy,
}

/// The data of an instance's store.
pub(crate) struct State {
    pub(crate) table: ResourceTable,
    http: WasiHttpCtx,
    pub(crate) hooks: Hooks,
    limits: Limits,
    /// Made when the guest first asks for clocks, random bytes, files or sockets: most calls of small guests don't.
    wasi: Option<Box<WasiCtx>>,
    /// Made when the guest first asks for its output streams, which outlive a call where instances are reused.
    output: Option<Arc<CurrentCall>>,
}

impl State {
    /// A store for a fresh instance that is to serve `call`.
    pub(crate) fn store(engine: &Engine, call: Arc<CallState>) -> Store<Self> {
        let limits = Limits::new(call.record.revision.spec.memory_mb, call.clone());
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        let hooks = Hooks { call: Some(call), host_header: false };
        let mut store =
            Store::new(engine, Self { table, http: WasiHttpCtx::new(), hooks, limits, wasi: None, output: None });
        store.limiter(|state| &mut state.limits);
        store.set_hostcall_fuel(HOSTCALL_BYTES);
        // One tick, set before instantiation: start functions are charged too. Zero would yield at once, at each call.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|context| {
            let call = context.data().hooks.call.as_ref();
            Ok(if call.is_some_and(|call| call.may_compute()) {
                // Tokio's own yield goes to the back of the queue; a plain wake would go to its front.
                UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))
            } else {
                UpdateDeadline::Interrupt
            })
        });
        store
    }

    /// Lets a used instance serve another call, or none for now (what it then holds of the old call is let go).
    pub(crate) fn serve(&mut self, call: Option<Arc<CallState>>) {
        self.limits.serve(call.clone());
        if let Some(output) = &self.output {
            output.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&call);
        }
        self.hooks.call = call;
    }

    fn output(&mut self, stream: Stream) -> LogStream {
        let call = self.output.get_or_insert_with(|| Arc::new(Mutex::new(self.hooks.call.clone()))).clone();
        LogStream { call, stream }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        // No files, no sockets, no arguments: the builder's defaults refuse them.
        let ctx = self.wasi.get_or_insert_with(|| {
            let mut builder = WasiCtx::builder();
            Box::new(builder.max_random_size(MAX_RANDOM_BYTES).build())
        });
        WasiCtxView { ctx, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

/// Where `wasi:http` asks the host.
pub(crate) struct Hooks {
    /// None while the instance waits for its next call: it must not keep its function, or the last call's record, alive.
    pub(crate) call: Option<Arc<CallState>>,
    /// Whether `host` may pass: it does into the guest, which shall see its client's, and not out of it.
    pub(crate) host_header: bool,
}

impl WasiHttpHooks for Hooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        if *name == http::header::HOST { !self.host_header } else { DEFAULT_FORBIDDEN_HEADERS.contains(name) }
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), wasmtime_wasi_http::Error>> + Send>,
    ) -> Box<dyn Future<Output = egress::Sent> + Send> {
        let call = self.call.clone();
        Box::new(async move {
            let call = call.ok_or(wasmtime_wasi_http::Error::HttpRequestDenied)?;
            egress::send(&call, request, options).await
        })
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        BODY_CHUNKS
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_BYTES
    }
}
