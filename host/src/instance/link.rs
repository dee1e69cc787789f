//! What the host gives to guests: `wasi:http/proxy` and the rest of `wasi:cli`, 0.2. Files and sockets are there, since
//! standard libraries import them, but there is nothing to open and nowhere to connect to.

use sless_core::ports::logs::Stream;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime::{Engine, Result};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::DynOutputStream;
use wasmtime_wasi::p2::bindings::{LinkOptions, cli, clocks, filesystem, random, sockets};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};
use wasmtime_wasi_io::bindings::wasi::io;

use super::State;

/// Every interface that a component may import, without its version; each is there at 0.2.
pub const INTERFACES: &[&str] = &[
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:http/outgoing-handler",
    "wasi:http/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// A linker with all of it.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    type S = State;
    io::error::add_to_linker::<S, Table>(l, |s| &mut s.table)?;
    io::poll::add_to_linker::<S, Table>(l, |s| &mut s.table)?;
    io::streams::add_to_linker::<S, Table>(l, |s| &mut s.table)?;
    cli::environment::add_to_linker::<S, Own>(l, |s| Guest(s))?;
    cli::stdout::add_to_linker::<S, Own>(l, |s| Guest(s))?;
    cli::stderr::add_to_linker::<S, Own>(l, |s| Guest(s))?;
    cli::stdin::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::exit::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_input::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_output::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stdin::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stdout::add_to_linker::<S, WasiCli>(l, S::cli)?;
    cli::terminal_stderr::add_to_linker::<S, WasiCli>(l, S::cli)?;
    clocks::wall_clock::add_to_linker::<S, WasiClocks>(l, S::clocks)?;
    clocks::monotonic_clock::add_to_linker::<S, WasiClocks>(l, S::clocks)?;
    filesystem::preopens::add_to_linker::<S, WasiFilesystem>(l, S::filesystem)?;
    filesystem::types::add_to_linker::<S, WasiFilesystem>(l, S::filesystem)?;
    random::random::add_to_linker::<S, WasiRandom>(l, S::random)?;
    random::insecure::add_to_linker::<S, WasiRandom>(l, S::random)?;
    random::insecure_seed::add_to_linker::<S, WasiRandom>(l, S::random)?;
    sockets::instance_network::add_to_linker::<S, WasiSockets>(l, S::sockets)?;
    sockets::network::add_to_linker::<S, WasiSockets>(l, &LinkOptions::default().into(), S::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<S, WasiSockets>(l, S::sockets)?;
    sockets::tcp::add_to_linker::<S, WasiSockets>(l, S::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<S, WasiSockets>(l, S::sockets)?;
    sockets::udp::add_to_linker::<S, WasiSockets>(l, S::sockets)?;
    sockets::udp_create_socket::add_to_linker::<S, WasiSockets>(l, S::sockets)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(l)?;
    Ok(linker)
}

struct Table;

impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}

struct Own;

impl HasData for Own {
    type Data<'a> = Guest<'a>;
}

/// The interfaces that are our own: nothing is prepared for a guest that does not ask.
struct Guest<'a>(&'a mut State);

impl cli::environment::Host for Guest<'_> {
    fn get_environment(&mut self) -> Result<Vec<(String, String)>> {
        let Some(call) = &self.0.hooks.call else { return Ok(Vec::new()) };
        let revision = &call.record.revision;
        // What containers are told as well. Names that begin so are refused in a function's own environment.
        let own = [
            ("SLESS_FUNCTION_NAME", revision.function.name.to_string()),
            ("SLESS_NAMESPACE", revision.function.namespace.to_string()),
            ("SLESS_VERSION", revision.version.to_string()),
            ("SLESS_TIMEOUT_SECONDS", revision.spec.timeout_seconds.to_string()),
        ];
        Ok(revision.env.iter().cloned().chain(own.map(|(name, value)| (name.to_owned(), value))).collect())
    }

    fn get_arguments(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> Result<Option<String>> {
        Ok(None)
    }
}

impl cli::stdout::Host for Guest<'_> {
    fn get_stdout(&mut self) -> Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.0.output(Stream::Stdout));
        Ok(self.0.table.push(stream)?)
    }
}

impl cli::stderr::Host for Guest<'_> {
    fn get_stderr(&mut self) -> Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.0.output(Stream::Stderr));
        Ok(self.0.table.push(stream)?)
    }
}
