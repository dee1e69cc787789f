//! Cursors: where a list goes on. They name the last item that was given out, so inserts and deletes don't move them.

use sless_core::ports::{Error, Result};

/// The longest that any list gives out: a tag and a name.
const MAX_CURSOR_BYTES: usize = 256;

/// A cursor of the list `tag` that goes on after `position`.
pub(crate) fn encode(tag: u8, position: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(1 + position.len());
    bytes.push(tag);
    bytes.extend_from_slice(position);
    hex::encode(bytes)
}

/// The position of a cursor that the list `tag` gave out.
pub(crate) fn decode(tag: u8, cursor: &str) -> Result<Vec<u8>> {
    if cursor.len() > MAX_CURSOR_BYTES {
        return Err(Error::InvalidCursor);
    }
    let bytes = hex::decode(cursor).map_err(|_| Error::InvalidCursor)?;
    match bytes.split_first() {
        Some((first, position)) if *first == tag => Ok(position.to_vec()),
        _ => Err(Error::InvalidCursor),
    }
}
