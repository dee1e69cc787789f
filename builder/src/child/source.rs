//! Jobs on source: an upload becomes a build context, a context a component.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::time::Instant;

use sless_core::Runtime;
use sless_core::build_protocol::Reply;

use super::{cut, failed, log};
use crate::language::{self, Bundle, Input, Refused};
use crate::source::{self, Context, prepare::Prepared};

/// The reply to files that are refused.
pub(crate) fn refused(error: &source::Error) -> Reply {
    match error {
        error if error.is_size() => Reply::TooLarge { reason: error.to_string() },
        source::Error::Read(error) => failed(format!("read the archive: {error}")),
        error => Reply::Rejected { reason: error.to_string() },
    }
}

/// An upload becomes a build context, and the user's files as they go back to their owner.
pub(super) fn prepare_context(
    archive: &[u8],
    runtime: Runtime,
    entrypoint: Option<&str>,
    to: File,
    back: File,
) -> Result<Reply, Reply> {
    let prepared = source::prepare::prepare(archive, runtime, entrypoint);
    let Prepared { context, notes } = prepared.map_err(|error| refused(&error))?;
    context
        .write(BufWriter::new(to))
        .and_then(|()| source::zip::write(&context.function, BufWriter::new(back)))
        .map_err(|error| failed(format!("write the context: {error}")))?;
    Ok(Reply::Context {
        source: context.function.digest(),
        files: context.function.len() as u64,
        size_bytes: context.function.size_bytes(),
        notes,
    })
}

/// The component of a build context's source.
pub(super) fn component(
    input: File,
    language: &language::Opened,
    entrypoint: &str,
    bundle: Option<&Bundle>,
) -> Result<Vec<u8>, Reply> {
    let started = Instant::now();
    let context = Context::read(BufReader::new(input)).map_err(|error| refused(&error))?;
    let input = Input { files: &context.function, entrypoint, bundle };
    let made = language.language.make(&input).map_err(|refused| match refused {
        Refused::NeedsBundle { packages } => Reply::NeedsBundle { packages },
        Refused::Source(reason) => Reply::Rejected { reason: cut(&reason) },
        Refused::Platform(reason) => failed(cut(&reason)),
    })?;
    log(&format!("{} files made a component in {} ms", context.function.len(), started.elapsed().as_millis()));
    for note in &made.notes {
        log(note);
    }
    Ok(made.component)
}
