//! Keys as paths, taken one step at a time from an open folder.
//!
//! The folder of a segment is named `segment+`, which no segment is: so `a` and `a/b` can both be blobs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use sless_core::ports::BlobKey;

/// Marks the folder of a segment.
pub(super) const FOLDER_MARK: char = '+';

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The folder of all; the one path that is resolved by the system.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A folder in a folder.
pub(super) fn open_folder(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(fs::openat(parent, name, FOLDER, Mode::empty())?)
}

/// A folder in a folder, made where it is not there; its name is durable then.
pub(super) fn open_or_make(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // Where it was there already, whoever made it may not have synced it yet.
    fs::fsync(parent)?;
    open_folder(parent, name)
}

fn split(key: &BlobKey) -> (impl DoubleEndedIterator<Item = String>, &str) {
    let (folders, name) = key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()));
    (folders.split('/').filter(|s| !s.is_empty()).map(|segment| format!("{segment}{FOLDER_MARK}")), name)
}

/// The folder that a key's blob is in, made where it is not there, and the blob's name there.
pub(super) fn make_parent<'a>(data: &OwnedFd, key: &'a BlobKey) -> io::Result<(OwnedFd, &'a str)> {
    let (mut folders, name) = split(key);
    let parent = folders.try_fold(data.try_clone()?, |parent, folder| open_or_make(&parent, &folder))?;
    Ok((parent, name))
}

/// The folders down to a key's blob; none where one is missing.
fn descend(data: &OwnedFd, key: &BlobKey) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut path = vec![data.try_clone()?];
    for folder in split(key).0 {
        let parent = path.last().ok_or(io::ErrorKind::NotFound)?;
        match open_folder(parent, &folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            next => path.push(next?),
        }
    }
    Ok(Some(path))
}

/// Opens a key's blob; none where it is not there.
pub(super) fn open_blob(data: &OwnedFd, key: &BlobKey) -> io::Result<Option<File>> {
    let Some(path) = descend(data, key)? else { return Ok(None) };
    let parent = path.last().ok_or(io::ErrorKind::NotFound)?;
    // Non-blocking, so that a pipe somebody put there does not hold the thread.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match fs::openat(parent, split(key).1, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    match FileType::from_raw_mode(fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(Some(file.into())),
        _ => Err(io::Error::other("something that is not a file is in the blob's place")),
    }
}

/// Removes a key's blob, and the folders that are empty then.
pub(super) fn remove(data: &OwnedFd, key: &BlobKey) -> io::Result<()> {
    let Some(path) = descend(data, key)? else { return Ok(()) };
    let (folders, name) = split(key);
    let folders: Vec<_> = folders.collect();
    for (depth, parent) in path.iter().enumerate().rev() {
        let done = match folders.get(depth) {
            None => fs::unlinkat(parent, name, AtFlags::empty()),
            Some(folder) => fs::unlinkat(parent, folder.as_str(), AtFlags::REMOVEDIR),
        };
        match done {
            Ok(()) => fs::fsync(parent)?,
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
