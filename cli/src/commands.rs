//! The commands that are a call or two of the API and a table. `deploy` and `bench` have modules of their own.

pub(crate) mod dev;
pub(crate) mod functions;
pub(crate) mod invocations;
pub(crate) mod invoke;
pub(crate) mod logs;
pub(crate) mod new;
pub(crate) mod secrets;
pub(crate) mod token;
pub(crate) mod triggers;
pub(crate) mod versions;

use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::failure::{Exit, Failure};

/// Text given as itself, as `@FILE`, or as `-` for standard input; at most `limit` bytes.
pub(crate) async fn given(text: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    match text.strip_prefix('@') {
        Some(path) => {
            let path = Path::new(path);
            let file = tokio::fs::File::open(path).await.map_err(|e| Failure::file(path, &e))?;
            read(file, &path.display().to_string(), limit).await
        }
        None if text == "-" => read(tokio::io::stdin(), "standard input", limit).await,
        None => Ok(text.as_bytes().to_vec()),
    }
}

async fn read(from: impl AsyncRead + Unpin, name: &str, limit: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a source that is too long from one that just fits.
    from.take(limit + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(|e| Failure::new(Exit::Invalid, format!("read {name}: {e}")))?;
    if bytes.len() as u64 > limit {
        return Err(Failure::new(Exit::Invalid, format!("{name} has more than {limit} bytes")));
    }
    Ok(bytes)
}
