//! Blobs in a folder. A blob is written under another name, synced, renamed, and the folders that name it are synced: so
//! what was acknowledged is there after a loss of power, and a reader sees a whole blob or none.
//!
//! Every step down the tree refuses symbolic links, so nothing that is put into the folder leads out of it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use sless_core::Digest;
use sless_core::ports::{BlobKey, BlobMeta, Blobs, ByteStream, Error, Result};
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;

mod list;
mod tree;

/// Where the blobs are, and where they are while they are written.
const DATA: &str = "data";
const TEMPORARY: &str = "tmp";
/// Bytes of one piece when reading: an artifact of 30 MB comes in some hundred pieces.
const PIECE_BYTES: usize = 256 << 10;
/// Times that a put tries again where a delete removed the folder under its feet. Each needs a delete of its own.
const PUT_ATTEMPTS: usize = 16;

/// Blobs in a folder.
#[derive(Debug, Clone)]
pub struct FolderBlobs {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    data: OwnedFd,
    temporary: OwnedFd,
    next: AtomicU64,
}

impl FolderBlobs {
    /// Opens or makes the folder, and removes what an earlier process left half-written. One process at a time may.
    pub fn open(root: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(root)?;
        let root = tree::open_root(root)?;
        let data = tree::open_or_make(&root, DATA)?;
        let temporary = tree::open_or_make(&root, TEMPORARY)?;
        for entry in fs::Dir::read_from(&temporary)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                fs::unlinkat(&temporary, entry.file_name(), AtFlags::empty())?;
            }
        }
        fs::fsync(&root)?;
        Ok(Self { folder: Arc::new(Folder { data, temporary, next: AtomicU64::new(0) }) })
    }

    /// Runs file-system calls where they may block.
    async fn blocking<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = Arc::clone(&self.folder);
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        done.map_err(Error::unavailable(doing))?.map_err(Error::unavailable(doing))
    }
}

/// A file that is removed unless it was renamed.
struct Temporary {
    folder: Arc<Folder>,
    name: String,
    kept: bool,
}

impl Temporary {
    fn create(folder: Arc<Folder>) -> io::Result<(Self, File)> {
        let name = folder.next.fetch_add(1, Ordering::Relaxed).to_string();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(&folder.temporary, &name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok((Self { folder, name, kept: false }, file.into()))
    }

    /// Gives it its place, durably.
    fn keep(mut self, key: &BlobKey) -> io::Result<()> {
        for _ in 0..PUT_ATTEMPTS {
            let renamed = tree::make_parent(&self.folder.data, key).and_then(|(parent, name)| {
                fs::renameat(&self.folder.temporary, &self.name, &parent, name)?;
                Ok(parent)
            });
            match renamed {
                // A delete of the last blob beside it removed the folder meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
                Ok(parent) => {
                    self.kept = true;
                    return Ok(fs::fsync(&parent)?);
                }
            }
        }
        Err(io::Error::other("the folder was removed again and again"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            // What stays is removed at the next start.
            let _ = fs::unlinkat(&self.folder.temporary, &self.name, AtFlags::empty());
        }
    }
}

#[async_trait]
impl Blobs for FolderBlobs {
    async fn put(&self, key: &BlobKey, mut bytes: ByteStream, limit: u64) -> Result<BlobMeta> {
        const DOING: &str = "write a blob";
        let folder = Arc::clone(&self.folder);
        let (temporary, file) = self.blocking(DOING, move |_| Temporary::create(folder)).await?;
        let mut file = tokio::fs::File::from_std(file);
        let (mut digest, mut size_bytes) = (Digest::builder(), 0u64);
        while let Some(piece) = bytes.try_next().await? {
            size_bytes += piece.len() as u64;
            if size_bytes > limit {
                return Err(Error::TooLarge { limit });
            }
            digest.update(&piece);
            file.write_all(&piece).await.map_err(Error::unavailable(DOING))?;
        }
        file.flush().await.map_err(Error::unavailable(DOING))?;
        file.sync_all().await.map_err(Error::unavailable(DOING))?;
        let key = key.clone();
        self.blocking(DOING, move |_| temporary.keep(&key)).await?;
        Ok(BlobMeta { digest: digest.finish(), size_bytes })
    }

    async fn get(&self, key: &BlobKey) -> Result<ByteStream> {
        let wanted = key.clone();
        let file = self.blocking("read a blob", move |folder| tree::open_blob(&folder.data, &wanted)).await?;
        let file = file.ok_or_else(|| Error::NotFound { kind: "blob", name: key.to_string() })?;
        let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), PIECE_BYTES);
        Ok(pieces.map(|piece: io::Result<Bytes>| piece.map_err(Error::unavailable("read a blob"))).boxed())
    }

    async fn exists(&self, key: &BlobKey) -> Result<bool> {
        let key = key.clone();
        self.blocking("look for a blob", move |folder| tree::open_blob(&folder.data, &key).map(|file| file.is_some()))
            .await
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        let key = key.clone();
        self.blocking("remove a blob", move |folder| tree::remove(&folder.data, &key)).await
    }

    async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<BlobKey>>> {
        let data = self.folder.data.try_clone().map_err(Error::unavailable("list blobs"))?;
        Ok(list::list(data, prefix.to_owned()))
    }
}

#[cfg(test)]
mod tests;
