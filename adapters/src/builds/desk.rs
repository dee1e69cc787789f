//! The folder of one job, and the folder of all these.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use futures::TryStreamExt as _;
use sless_core::Digest;
use sless_core::ports::{self, ByteStream};
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use super::Error;

const PREFIX: &str = "job-";
const INPUT: &str = "component.wasm";
const OUTPUT: &str = "out";
const SOURCE: &str = "source";
/// Pieces that an artifact is read and stored in.
const PIECE_BYTES: usize = 256 << 10;

/// Where the folders of jobs are made. Locked: two processes would remove each other's.
pub(super) struct Desks {
    root: PathBuf,
    _lock: File,
}

impl Desks {
    /// Takes the folder, and removes what is left in it.
    pub(super) fn open(root: &Path) -> Result<Self, Error> {
        let error = |source| Error::WorkDir { path: root.to_owned(), source };
        let root = std::path::absolute(root).map_err(error)?;
        // Only the platform's own user may look into it: there is code of tenants inside.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&root).map_err(error)?;
        let lock = File::options().create(true).truncate(false).write(true).open(root.join(".lock")).map_err(error)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { path: root }),
            Err(TryLockError::Error(source)) => return Err(error(source)),
        }
        for entry in fs::read_dir(&root).map_err(error)? {
            let entry = entry.map_err(error)?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                fs::remove_dir_all(entry.path()).map_err(error)?;
            }
        }
        Ok(Self { root, _lock: lock })
    }

    /// A folder for one job.
    pub(super) fn desk(&self) -> io::Result<Desk> {
        let desk = Desk(self.root.join(format!("{PREFIX}{}", Uuid::now_v7().simple())));
        fs::create_dir(&desk.0)?;
        fs::create_dir(desk.output())?;
        Ok(desk)
    }
}

/// The folder of one job; removed with all that is in it when it is dropped.
pub(super) struct Desk(PathBuf);

impl Desk {
    pub(super) fn input(&self) -> PathBuf {
        self.0.join(INPUT)
    }

    pub(super) fn output(&self) -> PathBuf {
        self.0.join(OUTPUT)
    }

    /// Where the user's files are unpacked, where they have to be.
    pub(super) fn source(&self) -> PathBuf {
        self.0.join(SOURCE)
    }

    /// Where packages are installed, where the source asks for them.
    pub(super) fn packages(&self) -> PathBuf {
        self.0.join("packages")
    }

    /// Empties the output for another step.
    pub(super) fn renew_output(&self) -> io::Result<()> {
        fs::remove_dir_all(self.output())?;
        fs::create_dir(self.output())
    }

    /// Writes the source; answers its digest.
    pub(super) async fn save(&self, mut source: ByteStream, limit: u64) -> ports::Result<Digest> {
        let unavailable = ports::Error::unavailable::<io::Error>("write the source into the work folder");
        let mut file = tokio::fs::File::create_new(self.input()).await.map_err(&unavailable)?;
        let (mut digest, mut size) = (Digest::builder(), 0u64);
        while let Some(piece) = source.try_next().await? {
            size += piece.len() as u64;
            if size > limit {
                return Err(ports::Error::TooLarge { limit });
            }
            digest.update(&piece);
            file.write_all(&piece).await.map_err(&unavailable)?;
        }
        file.flush().await.map_err(&unavailable)?;
        Ok(digest.finish())
    }

    /// An output file's digest and its bytes. The builder has ended, so nothing changes the file between the two.
    pub(super) async fn made(&self, file: &str, limit: u64) -> io::Result<(Digest, ByteStream)> {
        let path = self.output().join(file);
        let (digest, file) = tokio::task::spawn_blocking(move || {
            // Not through a link: the builder could have made one to a file that only this process may read.
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            let mut file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
            let meta = file.metadata()?;
            if !meta.is_file() || meta.len() > limit {
                return Err(io::Error::other(format!("it is no file of at most {limit} bytes")));
            }
            let (mut digest, mut piece) = (Digest::builder(), vec![0; PIECE_BYTES]);
            loop {
                match file.read(&mut piece)? {
                    0 => break,
                    n => digest.update(&piece[..n]),
                }
            }
            io::Seek::rewind(&mut file)?;
            Ok((digest.finish(), file))
        })
        .await
        .map_err(io::Error::other)??;
        let stream = ReaderStream::with_capacity(tokio::fs::File::from_std(file), PIECE_BYTES);
        Ok((digest, Box::pin(stream.map_err(ports::Error::unavailable("read what was built")))))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // What can't be removed now is removed at the next start.
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "a work folder could not be removed");
        }
    }
}
