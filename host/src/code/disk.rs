//! Artifacts on local disk: private copies, verified before they are given out, kept over restarts, bounded by bytes.
//!
//! A copy is written under a temporary name, made read-only, renamed and then verified by reading it back. After a
//! restart it is verified again when it is first used. Within a process a verified file is known by its inode, size and
//! change time, so that mapping it again costs no hash.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use sless_core::Digest;
use sless_core::ports::blobs::ByteStream;

/// The largest artifact: Python with its standard library has 35 MB.
const MAX_ARTIFACT_BYTES: u64 = 512 << 20;
/// What is read at once for hashing.
const READ_BYTES: usize = 256 << 10;
/// Names of files that are not whole yet.
const TEMPORARY: &str = "incoming-";

/// Why an artifact is not given out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system.
    #[error("{doing} {path}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The stream from the store broke off.
    #[error("read the artifact from the store")]
    Fetch {
        /// Why.
        source: sless_core::ports::Error,
    },
    /// Other bytes than were signed.
    #[error("the artifact is corrupt: its digest is {found}")]
    Corrupt {
        /// The digest of what came.
        found: Digest,
    },
    /// Another size than was signed, or more than any artifact has.
    #[error("the artifact is corrupt: it has not the {expected} bytes it was signed with")]
    Size {
        /// How many it should have.
        expected: u64,
    },
    /// The task that does the file work was cancelled with its runtime.
    #[error("the host is stopping")]
    Stopping,
}

fn io(doing: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { doing, path: path.to_owned(), source }
}

/// An open file whose bytes have the digest that it is named after.
pub(crate) struct Verified {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Changes whenever someone writes, renames or touches a file's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Identity {
    fn of(file: &File) -> std::io::Result<Self> {
        let meta = file.metadata()?;
        let changed = (meta.ctime(), meta.ctime_nsec());
        Ok(Self { device: meta.dev(), inode: meta.ino(), bytes: meta.len(), changed })
    }
}

struct Entry {
    bytes: u64,
    verified: Option<Identity>,
    /// Larger is later.
    used: u64,
}

/// The folder.
pub(crate) struct Disk {
    directory: PathBuf,
    limit_bytes: u64,
    entries: Mutex<HashMap<Digest, Entry>>,
    clock: AtomicU64,
}

impl Disk {
    /// Opens or makes the folder; takes over what an earlier process left there.
    pub(crate) fn open(directory: &Path, limit_bytes: u64) -> Result<Self, Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(io("make the folder", directory))?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(io("make private", directory))?;
        let mut entries = HashMap::new();
        for file in fs::read_dir(directory).map_err(io("read the folder", directory))? {
            let file = file.map_err(io("read the folder", directory))?;
            let name = file.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(TEMPORARY) {
                let _ = fs::remove_file(file.path());
            } else if let (Ok(digest), Ok(meta)) = (name.parse::<Digest>(), file.metadata()) {
                let used = u64::try_from(meta.mtime()).unwrap_or(0);
                entries.insert(digest, Entry { bytes: meta.len(), verified: None, used });
            }
        }
        let latest = entries.values().map(|entry| entry.used).max().unwrap_or(0);
        let disk = Self {
            directory: directory.to_owned(),
            limit_bytes,
            entries: Mutex::new(entries),
            clock: AtomicU64::new(latest + 1),
        };
        disk.shrink();
        Ok(disk)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Digest, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(digest.to_string())
    }

    pub(crate) fn totals(&self) -> (u64, u64) {
        let entries = self.entries();
        (entries.len() as u64, entries.values().map(|entry| entry.bytes).sum())
    }

    /// The artifact, if it is here and whole. A corrupt copy is removed, so that it is fetched again.
    pub(crate) async fn get(self: &Arc<Self>, digest: Digest) -> Result<Option<Verified>, Error> {
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        let known = match self.entries().get_mut(&digest) {
            None => return Ok(None),
            Some(entry) => {
                entry.used = used;
                entry.verified
            }
        };
        if let Some(identity) = known
            && let Some(verified) = self.open_known(digest, identity)
        {
            return Ok(Some(verified));
        }
        let disk = self.clone();
        match tokio::task::spawn_blocking(move || disk.verify(digest)).await.map_err(|_| Error::Stopping)? {
            Ok(verified) => Ok(Some(verified)),
            Err(error) => {
                tracing::warn!(%digest, error = %error, "an artifact on disk was not whole; it will be fetched again");
                self.remove(digest);
                Ok(None)
            }
        }
    }

    /// Opens a file that was verified before, if it is still that very file.
    fn open_known(&self, digest: Digest, identity: Identity) -> Option<Verified> {
        let path = self.path(digest);
        let file = File::open(&path).ok()?;
        (Identity::of(&file).ok()? == identity).then_some(Verified { file, path, bytes: identity.bytes })
    }

    /// Opens and hashes.
    fn verify(&self, digest: Digest) -> Result<Verified, Error> {
        let path = self.path(digest);
        let mut file = File::open(&path).map_err(io("open", &path))?;
        let before = Identity::of(&file).map_err(io("examine", &path))?;
        let mut hash = Digest::builder();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let n = file.read(&mut buffer).map_err(io("read", &path))?;
            if n == 0 {
                break;
            }
            hash.update(&buffer[..n]);
        }
        let found = hash.finish();
        let after = Identity::of(&file).map_err(io("examine", &path))?;
        if found != digest || before != after {
            return Err(Error::Corrupt { found });
        }
        if let Some(entry) = self.entries().get_mut(&digest) {
            entry.verified = Some(after);
        }
        Ok(Verified { file, path, bytes: after.bytes })
    }

    /// Stores what the stream gives, verifies the copy and opens it.
    pub(crate) async fn put(
        self: &Arc<Self>,
        digest: Digest,
        expected: u64,
        mut bytes: ByteStream,
    ) -> Result<Verified, Error> {
        if expected > MAX_ARTIFACT_BYTES {
            return Err(Error::Size { expected });
        }
        let number = self.clock.fetch_add(1, Ordering::Relaxed);
        let temporary = Temporary(self.directory.join(format!("{TEMPORARY}{number}-{digest}")));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary.0)
            .map_err(io("make", &temporary.0))?;
        let mut written = 0;
        while let Some(piece) = bytes.next().await {
            let piece = piece.map_err(|source| Error::Fetch { source })?;
            written += piece.len() as u64;
            if written > expected {
                return Err(Error::Size { expected });
            }
            // Into the page cache; a piece of the stream is small.
            file.write_all(&piece).map_err(io("write", &temporary.0))?;
        }
        if written != expected {
            return Err(Error::Size { expected });
        }
        file.set_permissions(fs::Permissions::from_mode(0o400)).map_err(io("make read-only", &temporary.0))?;
        drop(file);
        let disk = self.clone();
        tokio::task::spawn_blocking(move || disk.take_over(digest, expected, temporary))
            .await
            .map_err(|_| Error::Stopping)?
    }

    fn take_over(&self, digest: Digest, bytes: u64, temporary: Temporary) -> Result<Verified, Error> {
        let path = self.path(digest);
        fs::rename(&temporary.0, &path).map_err(io("rename to", &path))?;
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        self.entries().insert(digest, Entry { bytes, verified: None, used });
        let verified = self.verify(digest);
        if verified.is_err() {
            self.remove(digest);
        }
        self.shrink();
        verified
    }

    fn remove(&self, digest: Digest) {
        self.entries().remove(&digest);
        let _ = fs::remove_file(self.path(digest));
    }

    /// Removes the longest unused until the rest fits. Files that are mapped live on until they are unmapped.
    fn shrink(&self) {
        let mut entries = self.entries();
        let mut total: u64 = entries.values().map(|entry| entry.bytes).sum();
        while total > self.limit_bytes {
            let Some((&digest, entry)) = entries.iter().min_by_key(|(_, entry)| entry.used) else { return };
            total -= entry.bytes;
            entries.remove(&digest);
            let _ = fs::remove_file(self.path(digest));
        }
    }
}

/// A file that goes away unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sless_core::ports::blobs::once;

    fn stream(bytes: &[u8]) -> ByteStream {
        once(bytes.to_vec())
    }

    #[tokio::test]
    async fn what_was_put_is_found_after_a_restart_and_verified_again() {
        let folder = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"code");
        let disk = Arc::new(Disk::open(folder.path(), 1 << 20).unwrap());
        assert!(disk.get(digest).await.unwrap().is_none());
        assert_eq!(disk.put(digest, 4, stream(b"code")).await.unwrap().bytes, 4);
        let mode = fs::metadata(disk.path(digest)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o400);
        assert!(disk.get(digest).await.unwrap().is_some());

        let path = disk.path(digest);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"evil").unwrap();
        assert!(disk.get(digest).await.unwrap().is_none(), "a copy that changed while the process runs");
        assert!(!path.exists());

        disk.put(digest, 4, stream(b"code")).await.unwrap();
        fs::write(folder.path().join("incoming-7-x"), b"half").unwrap();
        let restarted = Arc::new(Disk::open(folder.path(), 1 << 20).unwrap());
        assert_eq!(restarted.totals(), (1, 4));
        assert!(restarted.get(digest).await.unwrap().is_some());
        assert!(!folder.path().join("incoming-7-x").exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"evil").unwrap();
        let restarted = Arc::new(Disk::open(folder.path(), 1 << 20).unwrap());
        assert!(restarted.get(digest).await.unwrap().is_none(), "a copy that changed while no process ran");
    }

    #[tokio::test]
    async fn other_bytes_and_other_sizes_are_refused_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"code");
        let disk = Arc::new(Disk::open(folder.path(), 1 << 20).unwrap());
        assert!(matches!(disk.put(digest, 4, stream(b"evil")).await, Err(Error::Corrupt { .. })));
        assert!(matches!(disk.put(digest, 4, stream(b"codes")).await, Err(Error::Size { expected: 4 })));
        assert!(matches!(disk.put(digest, 4, stream(b"cod")).await, Err(Error::Size { expected: 4 })));
        assert!(matches!(disk.put(digest, u64::MAX, stream(b"code")).await, Err(Error::Size { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(disk.totals(), (0, 0));
    }

    #[tokio::test]
    async fn the_longest_unused_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(Disk::open(folder.path(), 10).unwrap());
        let [a, b, c] = [b"aaaa", b"bbbb", b"cccc"].map(|bytes| Digest::of(bytes));
        disk.put(a, 4, stream(b"aaaa")).await.unwrap();
        disk.put(b, 4, stream(b"bbbb")).await.unwrap();
        disk.get(a).await.unwrap().unwrap();
        disk.put(c, 4, stream(b"cccc")).await.unwrap();
        assert_eq!(disk.totals(), (2, 8));
        assert!(disk.get(b).await.unwrap().is_none());
        assert!(disk.get(a).await.unwrap().is_some() && disk.get(c).await.unwrap().is_some());
    }
}
