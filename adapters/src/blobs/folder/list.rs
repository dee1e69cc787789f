//! Lists keys in order, one folder at a time.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use rustix::fs::{Dir, FileType};
use sless_core::ports::{BlobKey, Error, Result};

use super::tree::{FOLDER_MARK, open_folder};

/// Keys that one call on a blocking thread looks up.
const BATCH: usize = 1024;

/// All keys below an open folder that begin with `prefix`.
pub(super) fn list(data: OwnedFd, prefix: String) -> BoxStream<'static, Result<BlobKey>> {
    let walk = Walk { prefix, levels: Vec::new(), root: Some(data) };
    stream::try_unfold(walk, |mut walk| async move {
        let done = tokio::task::spawn_blocking(move || walk.batch().map(|batch| (batch, walk))).await;
        let (batch, walk) =
            done.map_err(Error::unavailable("list blobs"))?.map_err(Error::unavailable("list blobs"))?;
        Ok((!batch.is_empty()).then_some((batch, walk)))
    })
    .flat_map(|batch| match batch {
        Ok(keys) => stream::iter(keys.into_iter().map(Ok)).boxed(),
        Err(error) => stream::iter([Err(error)]).boxed(),
    })
    .boxed()
}

struct Walk {
    prefix: String,
    root: Option<OwnedFd>,
    levels: Vec<Level>,
}

/// A folder and what of it is still to come: keys and, ending in `/`, folders.
struct Level {
    folder: OwnedFd,
    entries: VecDeque<String>,
}

impl Walk {
    fn batch(&mut self) -> io::Result<Vec<BlobKey>> {
        if let Some(root) = self.root.take() {
            self.enter(root, "")?;
        }
        let mut keys = Vec::new();
        while keys.len() < BATCH
            && let Some(level) = self.levels.last_mut()
        {
            let Some(entry) = level.entries.pop_front() else {
                self.levels.pop();
                continue;
            };
            let Some(path) = entry.strip_suffix('/') else {
                // Names that are no keys are not ours.
                keys.extend(entry.parse());
                continue;
            };
            let segment = path.rsplit('/').next().unwrap_or(path);
            match open_folder(&level.folder, &format!("{segment}{FOLDER_MARK}")) {
                Ok(folder) => self.enter(folder, &entry)?,
                // Removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(keys)
    }

    /// Takes up a folder whose keys begin with `path`. Sorting the entries sorts the keys: a `/` ends the folders'.
    fn enter(&mut self, folder: OwnedFd, path: &str) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let key = match (name.strip_suffix(FOLDER_MARK), entry.file_type()) {
                (Some(segment), FileType::Directory | FileType::Unknown) => format!("{path}{segment}/"),
                (None, FileType::RegularFile | FileType::Unknown) if name != "." && name != ".." => {
                    format!("{path}{name}")
                }
                _ => continue,
            };
            // A folder matters where it leads to the prefix or is below it.
            if key.starts_with(&self.prefix) || (key.ends_with('/') && self.prefix.starts_with(&key)) {
                entries.push(key);
            }
        }
        entries.sort_unstable();
        self.levels.push(Level { folder, entries: entries.into() });
        Ok(())
    }
}
