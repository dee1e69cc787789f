//! The store that a compiler looks into: packs to read, one to write, and counters.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sless_core::Digest;
use sless_core::build_protocol::{CacheUse, PACK_EXTENSION};

use super::pack::{Key, Pack, PackWriter};

/// The most packs that are opened of one folder. The parent keeps fewer.
const MAX_PACKS: usize = 128;

/// How a cache did in one compile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Functions taken from it.
    pub hits: u64,
    /// Functions compiled.
    pub misses: u64,
}

/// All packs that a build may look into.
#[derive(Clone, Default)]
pub struct Packs(Arc<Inner>);

#[derive(Default)]
struct Inner {
    read: Vec<Named>,
    write: Option<PackWriter>,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct Named {
    /// Its file name, if it is of the first folder.
    name: Option<String>,
    pack: Pack,
    used: AtomicBool,
}

impl fmt::Debug for Packs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packs").field("read", &self.0.read.len()).field("stats", &self.stats()).finish()
    }
}

impl Packs {
    /// Reads the packs; files that are none, or of another engine, are left out. New functions go into `write`.
    pub fn new(files: Vec<PackFile>, write: Option<PackWriter>, engine: &Digest) -> Self {
        let open = |PackFile { name, file }| {
            Some(Named { name, pack: Pack::open(file, engine).ok()?, used: AtomicBool::new(false) })
        };
        Self(Arc::new(Inner { read: files.into_iter().filter_map(open).collect(), write, ..Inner::default() }))
    }

    /// How it did so far.
    pub fn stats(&self) -> Stats {
        Stats { hits: self.0.hits.load(Ordering::Relaxed), misses: self.0.misses.load(Ordering::Relaxed) }
    }

    /// The same with the names of the packs that were of use.
    pub fn usage(&self) -> CacheUse {
        let used = self.0.read.iter().filter(|p| p.used.load(Ordering::Relaxed));
        let Stats { hits, misses } = self.stats();
        CacheUse { hits, misses, packs: used.filter_map(|p| p.name.clone()).collect() }
    }

    /// Ends the new pack; how many functions are in it.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn finish(&self) -> Result<usize, super::Error> {
        self.0.write.as_ref().map_or(Ok(0), PackWriter::finish)
    }
}

/// A file that may be a pack, open but not read: it was written by an earlier builder, so it is read in the sandbox only.
pub struct PackFile {
    /// Its file name, if it is of the first folder.
    name: Option<String>,
    file: File,
}

impl PackFile {
    /// All files of these folders that are named like packs, the first folder's first. A folder that is not there is empty.
    pub fn find(folders: &[PathBuf]) -> Vec<Self> {
        folders.iter().enumerate().flat_map(|(n, folder)| Self::find_in(folder, n == 0)).collect()
    }

    fn find_in(folder: &Path, first: bool) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| Path::new(name).extension().is_some_and(|e| e == PACK_EXTENSION))
            .collect();
        // Which of two equal functions is taken must not hang on the order of the folder.
        names.sort_unstable();
        names.truncate(MAX_PACKS);
        let open = |name: String| {
            let file = File::open(folder.join(&name)).ok()?;
            Some(Self { name: first.then_some(name), file })
        };
        names.into_iter().filter_map(open).collect()
    }
}

impl wasmtime::CacheStore for Packs {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let found = Key::try_from(key).ok().and_then(|key| {
            let inner = &*self.0;
            inner.write.as_ref().and_then(|pack| pack.get(&key)).or_else(|| {
                inner.read.iter().find_map(|named| {
                    let value = named.pack.get(&key)?;
                    named.used.store(true, Ordering::Relaxed);
                    Some(value)
                })
            })
        });
        let counter = if found.is_some() { &self.0.hits } else { &self.0.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found.map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let Ok(key) = Key::try_from(key) else { return false };
        self.0.write.as_ref().is_some_and(|pack| pack.put(key, &value))
    }
}
