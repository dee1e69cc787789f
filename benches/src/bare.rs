//! The in-process peer: wasmtime as its documentation shows it, with the host's engine and pool and nothing around it. No
//! limits, no deadline, no egress policy, no log, no record.

use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use sless_host::Settings;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;
use wasmtime_wasi_http::{RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

/// An engine and a linker.
pub(crate) struct Bare {
    engine: Engine,
    linker: Linker<State>,
}

/// The data of a bare store.
pub(crate) struct State {
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: NoEgress,
}

struct NoEgress;

type Sent = std::result::Result<
    (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), wasmtime_wasi_http::Error>> + Send>),
    wasmtime_wasi_http::Error,
>;
type Result<T, E = anyhow::Error> = std::result::Result<T, E>;

impl WasiHttpHooks for NoEgress {
    fn send_request(
        &mut self,
        _request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), wasmtime_wasi_http::Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        Box::new(async { Err(wasmtime_wasi_http::Error::HttpRequestDenied) })
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

impl Bare {
    /// With a pool of the host's size.
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let slots = settings.instances;
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(slots)
            .total_core_instances(slots * settings.core_instances_each)
            .total_memories(slots)
            .total_tables(slots * settings.tables_each)
            .total_stacks(slots)
            .max_tables_per_module(4)
            .table_elements(100_000)
            .max_core_instance_size(4 << 20)
            .max_component_instance_size(4 << 20)
            .max_memory_size(usize::try_from(settings.memory_bytes)?)
            .max_unused_warm_slots(settings.warm_slots)
            .linear_memory_keep_resident(usize::try_from(settings.keep_resident_bytes)?)
            .table_keep_resident(1 << 20)
            .async_stack_keep_resident(64 << 10)
            .pagemap_scan(Enabled::Auto);
        let mut config = sless_engine::runtime_config()?;
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
        Ok(Self { engine, linker })
    }

    /// Maps an artifact and links it.
    pub(crate) fn load(&self, artifact: &Path) -> Result<ProxyPre<State>> {
        #[expect(unsafe_code, reason = "this program compiled the file a moment ago and nobody else writes to it")]
        let component = unsafe { Component::deserialize_file(&self.engine, artifact) }?;
        Ok(ProxyPre::new(self.linker.instantiate_pre(&component)?)?)
    }

    /// One request in a fresh instance, to the end of its body.
    pub(crate) async fn call(&self, pre: &ProxyPre<State>) -> Result<Bytes> {
        let state = State {
            table: ResourceTable::new(),
            wasi: WasiCtx::builder().build(),
            http: WasiHttpCtx::new(),
            hooks: NoEgress,
        };
        let mut store = Store::new(&self.engine, state);
        // The code counts epochs; nobody advances them here.
        store.set_epoch_deadline(1);
        let proxy = pre.instantiate_async(&mut store).await?;
        let request = http::Request::get("http://localhost/").header("host", "localhost").body(Empty::<Bytes>::new())?;
        let (sender, head) = tokio::sync::oneshot::channel();
        let request = store.data_mut().http().new_incoming_request(Scheme::Http, request)?;
        let out = store.data_mut().http().new_response_outparam(sender)?;
        let answer = async {
            let response =
                head.await.context("the guest set no response")?.map_err(|code| anyhow::anyhow!("{code:?}"))?;
            let body = response.into_body().collect().await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
            Ok(body.to_bytes())
        };
        let (handled, answered) =
            tokio::join!(proxy.wasi_http_incoming_handler().call_handle(&mut store, request, out), answer);
        handled?;
        answered
    }
}
