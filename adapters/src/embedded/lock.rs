//! One process a data folder.

use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::Error;

/// The folder's lock. The system takes it back when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Makes the folder where it is not there, and takes its lock.
    pub(super) fn take(dir: &Path) -> Result<Self, Error> {
        // Only the owner: code, logs and keys are in it.
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::open(dir))?;
        let path = dir.join("lock");
        let opened = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = opened.map_err(Error::open(&path))?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(Error::open(&path)(error));
            }
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(Error::InUse { path: dir.to_owned(), pid });
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(Error::open(&path))?;
        Ok(Self(file))
    }

    /// Gives it back while others still hold this.
    pub(super) fn release(&self) {
        let _ = self.0.set_len(0);
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
