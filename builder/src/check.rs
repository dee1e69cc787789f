//! Whether a file is a component that a host can serve, decided without compiling or running it.
//!
//! Safe on any bytes and linear in their number: every section is counted against [`Limits`] before it is validated, and
//! validation uses exactly the proposals of the engine. What a refused file must change is in the error's text.

mod given;
mod limits;
mod surface;
mod walk;

use sless_core::Digest;
use wasmparser::{Encoding, Parser, Payload};

pub use given::GIVEN;
pub use limits::Limits;

/// What is known of a component that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Its digest.
    pub wasm: Digest,
    /// Core functions in it.
    pub functions: u64,
    /// What its owner should know.
    pub notes: Vec<String>,
}

/// Why a file is refused, for the one who uploaded it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// More bytes than a component may have.
    #[error(
        "the component has {size} bytes, over the limit of {limit} bytes; leave out debug information \
         (`wasm-tools strip`) and files that are embedded in it"
    )]
    TooLarge {
        /// How many it has.
        size: u64,
        /// How many it may have.
        limit: u64,
    },
    /// Not WebAssembly at all.
    #[error(
        "this is not a WebAssembly component but {looks_like}; upload the `.wasm` file that `cargo build --target wasm32-wasip2` or another component toolchain makes"
    )]
    NotWasm {
        /// What the first bytes look like.
        looks_like: &'static str,
    },
    /// A core module.
    #[error(
        "this is a core WebAssembly module, not a component; build for a component target (Rust: `--target wasm32-wasip2`), \
         or make a component of it: `wasm-tools component new module.wasm --adapt wasi_snapshot_preview1.reactor.wasm -o component.wasm`"
    )]
    CoreModule,
    /// Cut short, damaged, or using a proposal that is off.
    #[error(
        "the component is damaged, cut short or uses what this platform does not run: {message} (at byte {offset} of {size}){hint}"
    )]
    Invalid {
        /// What the validator says.
        message: String,
        /// Where.
        offset: usize,
        /// How long the file is.
        size: usize,
        /// What to do, if it is known; empty or beginning with `; `.
        hint: &'static str,
    },
    /// More of something than the builder compiles.
    #[error("the component has {count} {what}, over the builder's limit of {limit}{remedy}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are, as far as they were counted.
        count: u64,
        /// How many there may be.
        limit: u64,
        /// What to do; empty or beginning with `; `.
        remedy: &'static str,
    },
    /// One function is larger than the builder compiles.
    #[error(
        "function {index} of core module {module} has {size} bytes of code, over the builder's limit of {limit} bytes a function; \
         split it, or compile with less inlining (`opt-level = \"s\"`), and keep large tables in data instead of code"
    )]
    FunctionTooLarge {
        /// Which module, counted from 0.
        module: u64,
        /// Which of its own functions, counted from 0.
        index: u64,
        /// How large it is.
        size: u64,
        /// How large it may be.
        limit: u64,
    },
    /// Nothing that could be called.
    #[error(
        "the component does not export `wasi:http/incoming-handler@0.2`, which is what is called here: it exports {exports}{hint}"
    )]
    NoHandler {
        /// What it exports instead.
        exports: String,
        /// What to do, if it is known; empty or beginning with `; `.
        hint: &'static str,
    },
    /// Needs what the host does not give.
    #[error(
        "the component imports what this platform does not give: {imports}; it gives WASI 0.2 (cli, clocks, filesystem, io, random, sockets) \
         and `wasi:http` (types, outgoing-handler). Compose the component with what provides the rest (`wac plug`), or build it without"
    )]
    NotGiven {
        /// Which.
        imports: String,
    },
}

impl Rejection {
    /// Whether it is the file's size that is refused (413) and not its structure (422).
    pub fn is_size(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}

/// Checks a component.
///
/// # Errors
/// The first reason to refuse it.
///
/// ```
/// let refused = sless_builder::check(b"\0asm\x01\0\0\0", &Default::default()).unwrap_err();
/// assert!(refused.to_string().contains("wasm-tools component new"));
/// ```
pub fn check(bytes: &[u8], limits: &Limits) -> Result<Checked, Rejection> {
    check_over(bytes, limits, &[])
}

/// Checks a component that was made here over a language's engine: these modules of it may be imported as well.
///
/// # Errors
/// The first reason to refuse it.
pub fn check_over(bytes: &[u8], limits: &Limits, modules: &[String]) -> Result<Checked, Rejection> {
    let size = bytes.len() as u64;
    if size > limits.component_bytes {
        return Err(Rejection::TooLarge { size, limit: limits.component_bytes });
    }
    is_component(bytes)?;
    let found = walk::walk(bytes, limits)?;
    surface::exports(&found)?;
    surface::imports(&found, modules)?;
    Ok(Checked { wasm: Digest::of(bytes), functions: found.functions, notes: found.notes(size) })
}

/// The first 8 bytes say what a file is.
fn is_component(bytes: &[u8]) -> Result<(), Rejection> {
    if !bytes.starts_with(b"\0asm") {
        return Err(Rejection::NotWasm { looks_like: looks_like(bytes) });
    }
    match Parser::new(0).parse(bytes, true) {
        Ok(wasmparser::Chunk::Parsed { payload: Payload::Version { encoding: Encoding::Component, .. }, .. }) => Ok(()),
        Ok(wasmparser::Chunk::Parsed { payload: Payload::Version { .. }, .. }) => Err(Rejection::CoreModule),
        Ok(_) => Err(Rejection::NotWasm { looks_like: "a file without a WebAssembly header" }),
        Err(error) => Err(invalid(&error, bytes.len(), "")),
    }
}

fn looks_like(bytes: &[u8]) -> &'static str {
    let text = bytes.trim_ascii_start();
    match bytes {
        [] => "an empty file",
        [b'P', b'K', 3 | 5, ..] => "a zip archive (for source in a zip, choose a runtime that takes source)",
        [0x1f, 0x8b, ..] => "a gzip file",
        [0x7f, b'E', b'L', b'F', ..] => "a native program",
        _ if text.starts_with(b"(component") || text.starts_with(b"(module") => {
            "WebAssembly in its text form (`wasm-tools parse` makes the binary form)"
        }
        _ if text.starts_with(b"<") => "a page of markup",
        _ if std::str::from_utf8(&bytes[..bytes.len().min(64)]).is_ok() => "a text file",
        _ => "a file of another kind",
    }
}

fn invalid(error: &wasmparser::BinaryReaderError, size: usize, hint: &'static str) -> Rejection {
    Rejection::Invalid { message: cut(error.message(), 300), offset: error.offset(), size, hint }
}

/// Text out of a component, for an error: bounded, and without control characters.
fn cut(text: &str, most: usize) -> String {
    let mut out: String = text.chars().take(most).flat_map(char::escape_debug).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
