//! `Blobs`: code, contexts, artifacts, build logs. A folder or S3.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;

use super::{Error, Result};
use crate::Timestamp;
use crate::digest::Digest;
use crate::names::FunctionKey;

/// Bytes in pieces.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// The most bytes of a segment of a key: a file's name has room for 255, and a store may add to it.
pub const MAX_SEGMENT_BYTES: usize = 200;

/// Where a blob is: segments of `[A-Za-z0-9._-]` joined by `/`, none of them `.` or `..`, at most
/// [`MAX_SEGMENT_BYTES`] each and 512 bytes in all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobKey(String);

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a blob key")]
pub struct InvalidKey;

impl BlobKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `functions/{ns}/{name}/{ts}.{extension}`: code as uploaded. The timestamp has a fixed width, so keys sort by time.
    pub fn source(function: &FunctionKey, at: Timestamp, extension: &str) -> Self {
        let ts = at.strftime("%Y%m%dT%H%M%S.%9fZ");
        Self(format!("functions/{}/{}/{ts}.{extension}", function.namespace, function.name))
    }

    /// `contexts/{ns}/{name}/{ts}.tar.gz`: what a function is built from, beside the user's own files in
    /// [`BlobKey::source`] of the same instant.
    pub fn context(function: &FunctionKey, at: Timestamp) -> Self {
        let ts = at.strftime("%Y%m%dT%H%M%S.%9fZ");
        Self(format!("contexts/{}/{}/{ts}.tar.gz", function.namespace, function.name))
    }

    /// Of a build context's key: that of the user's files.
    pub fn source_of_context(&self) -> Option<Self> {
        let rest = self.0.strip_prefix("contexts/")?.strip_suffix(".tar.gz")?;
        Some(Self(format!("functions/{rest}.zip")))
    }

    /// `artifacts/{digest}`: compiled bytes.
    pub fn artifact(digest: &Digest) -> Self {
        Self(format!("artifacts/{digest}"))
    }

    /// `build-logs/{ns}/{name}/{uid}-{version}.log`: what a build printed.
    pub fn build_log(function: &FunctionKey, uid: uuid::Uuid, version: crate::VersionNumber) -> Self {
        Self(format!("build-logs/{}/{}/{uid}-{version}.log", function.namespace, function.name))
    }
}

impl FromStr for BlobKey {
    type Err = InvalidKey;
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let segment = |s: &str| {
            !matches!(s, "" | "." | "..")
                && s.len() <= MAX_SEGMENT_BYTES
                && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        };
        if text.len() <= 512 && text.split('/').all(segment) { Ok(Self(text.to_owned())) } else { Err(InvalidKey) }
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is known of a stored blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobMeta {
    /// SHA-256 of its bytes.
    pub digest: Digest,
    /// Its size.
    pub size_bytes: u64,
}

/// The object store. What `put` acknowledged is durable and whole; a reader never sees a part.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Stores the stream under `key`, replacing what was there. [`Error::TooLarge`] past `limit` bytes, and the stream's
    /// own error if it breaks; nothing is stored then.
    async fn put(&self, key: &BlobKey, bytes: ByteStream, limit: u64) -> Result<BlobMeta>;
    /// Its bytes; [`Error::NotFound`].
    async fn get(&self, key: &BlobKey) -> Result<ByteStream>;
    /// Whether it is there.
    async fn exists(&self, key: &BlobKey) -> Result<bool>;
    /// Removes it. Removing what is not there is not an error.
    async fn delete(&self, key: &BlobKey) -> Result<()>;
    /// All keys that begin with `prefix`, in order, as a stream: for collecting what nothing needs.
    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<BlobKey>>>;
}

/// A stream of bytes that are there already.
pub fn once(bytes: impl Into<Bytes>) -> ByteStream {
    let bytes = bytes.into();
    Box::pin(futures::stream::once(async move { Ok(bytes) }))
}

/// The whole blob; [`Error::TooLarge`] past `limit` bytes.
pub async fn read(blobs: &dyn Blobs, key: &BlobKey, limit: u64) -> Result<Vec<u8>> {
    let mut stream = blobs.get(key).await?;
    let mut all = Vec::new();
    while let Some(piece) = stream.try_next().await? {
        if all.len() as u64 + piece.len() as u64 > limit {
            return Err(Error::TooLarge { limit });
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_can_not_leave_the_store() {
        for good in ["a", "functions/sless-x/y/20060102T150405.000000000Z.wasm", "..a/b"] {
            assert!(good.parse::<BlobKey>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "/a",
            "a/",
            "a//b",
            "../a",
            "a/../b",
            "a/./b",
            "a\\b",
            "a\0",
            "a b",
            &"a".repeat(201),
            &["a"; 257].join("/"),
        ] {
            assert_eq!(bad.parse::<BlobKey>(), Err(InvalidKey), "{bad}");
        }
    }

    #[test]
    fn source_keys_read_back_and_sort_by_time() {
        let function = FunctionKey::new(crate::Tenant::from_subject("a").namespace(), "f".parse().unwrap());
        let at = |ns: i128| Timestamp::from_nanosecond(1_136_214_245_000_000_000 + ns).unwrap();
        let (a, b) = (BlobKey::source(&function, at(0), "zip"), BlobKey::source(&function, at(1_000_000), "zip"));
        assert!(a.as_str().ends_with("/f/20060102T150405.000000000Z.zip"), "{a}");
        assert!(a < b);
        assert_eq!(a.as_str().parse(), Ok(a.clone()));
        assert_eq!(BlobKey::context(&function, at(0)).source_of_context(), Some(a.clone()));
        assert_eq!(a.source_of_context(), None);
    }
}
