//! What code prints: lines of the builder's report before the snapshot, standard output and error after it.
//!
//! Straight to `wasi:cli`, not by way of `std`: the adapter below `std` would open streams at the first line and keep
//! their handles in the snapshot, where they mean nothing.

use std::cell::{OnceCell, RefCell};

use wasip2::cli::{stderr::get_stderr, stdout::get_stdout};
use wasip2::io::streams::OutputStream;

/// What code may print at build.
const MAX_PRINTED_LINES: usize = 100;

thread_local! {
    static PRINTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static STDOUT: OnceCell<OutputStream> = const { OnceCell::new() };
    static STDERR: OnceCell<OutputStream> = const { OnceCell::new() };
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// Prints as is; a line ends with its `\n`.
pub(crate) fn print(stream: Stream, text: &[u8]) {
    if !crate::phase::serving() {
        PRINTED.with_borrow_mut(|lines| {
            for line in String::from_utf8_lossy(text).lines() {
                if lines.len() < MAX_PRINTED_LINES {
                    lines.push(line.to_owned());
                }
            }
        });
        return;
    }
    let write = |stream: &OutputStream| {
        for chunk in text.chunks(4096) {
            // A log that can't be written must not end the function.
            if stream.blocking_write_and_flush(chunk).is_err() {
                return;
            }
        }
    };
    match stream {
        Stream::Out => STDOUT.with(|cell| write(cell.get_or_init(get_stdout))),
        Stream::Err => STDERR.with(|cell| write(cell.get_or_init(get_stderr))),
    }
}

/// A line of the runtime's own.
pub(crate) fn complain(text: &str) {
    print(Stream::Err, format!("{text}\n").as_bytes());
}

pub(crate) fn take_printed() -> Vec<String> {
    PRINTED.take()
}
