//! The JavaScript engine of runtime `wasm-js`: QuickJS as a component.
//!
//! A builder instantiates it, calls `prepare` and `init`, and takes a snapshot; what a call then starts from is the
//! handler already loaded, in memory that is mapped copy-on-write. So nothing that differs between two instances may be
//! fixed before the snapshot: no open handle, no clock, no random state, no environment ([`phase`]).
//!
//! - [`init`]: `prepare` and `init`, and the state that they leave.
//! - [`serve`]: a request → event → handler → response, by the contract of `runtimes/README.md`.
//! - [`event`], [`answer`]: the two ends of that contract.
//! - [`pump`]: promise jobs, timers, and what waits for the host.
//! - [`fetch`]: `wasi:http/outgoing-handler` under the `fetch` of `js/`.
//! - [`thrown`]: errors as text.
//! - [`native`]: what the JavaScript in `js/` can't do itself.
//!
//! There is one thread and one instance of everything, so state is in thread-locals, each borrowed for a moment only:
//! any call into JavaScript may come back.

mod answer;
mod bytes;
mod event;
mod fetch;
mod init;
mod native;
mod output;
mod phase;
mod problem;
mod pump;
mod serve;
mod thrown;
mod url;

#[allow(unsafe_code, clippy::all, unreachable_pub, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "engine", generate_all });
}

struct Component;

bindings::export!(Component with_types_in bindings);
wasip2::http::proxy::export!(Component);

impl bindings::Guest for Component {
    fn prepare() -> Result<(), String> {
        init::prepare()
    }

    fn init(source: bindings::Source) -> Result<bindings::Report, bindings::Failure> {
        init::init(source)
    }
}

impl wasip2::exports::http::incoming_handler::Guest for Component {
    fn handle(request: wasip2::http::types::IncomingRequest, response: wasip2::http::types::ResponseOutparam) {
        serve::handle(request, response);
    }
}
