//! Uploads of code: streamed from the file, with progress.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tokio_util::io::ReaderStream;

use crate::calls::Accepted;
use crate::send::read;
use crate::{Client, Error};

/// Bytes read at once: large enough that the system call does not matter, small enough for a smooth bar.
const PIECE_BYTES: usize = 64 << 10;

/// Told how many bytes are sent. Begins again at 0 where the upload does.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

impl Client {
    /// Uploads code from a file, a zip of source (`.zip`) or a component; the build begins behind it. Repeating it is safe: the same code makes no version.
    pub async fn upload(&self, name: &str, file: &Path, progress: Progress) -> Result<Accepted, Error> {
        let url = self.url(&["functions", name, "upload"]);
        let media = match file.extension() {
            Some(extension) if extension == "zip" => "application/zip",
            _ => "application/wasm",
        };
        let failed = |source| Error::File { path: file.to_owned(), source };
        let response = self
            .send(|| {
                let opened = std::fs::File::open(file).map_err(failed)?;
                let length = opened.metadata().map_err(failed)?.len();
                let (mut sent, progress) = (0, progress.clone());
                progress(0);
                let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(opened), PIECE_BYTES);
                let counted = pieces.inspect(move |piece| {
                    sent += piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
                    progress(sent);
                });
                Ok(self
                    .request(Method::POST, url.clone())
                    .header(CONTENT_TYPE, media)
                    .header(CONTENT_LENGTH, length)
                    .body(reqwest::Body::wrap_stream(counted)))
            })
            .await?;
        read("upload", response).await
    }
}
