//! A user's files as a bounded tree in memory: out of a zip ([`zip`]) or a build context ([`context`]), into both.
//!
//! A tree has regular files only, below relative paths that are the same on every system; it has no modes, no times, no
//! links and no empty folders, so that equal files are an equal tree, however and wherever they were packed. Nothing here
//! touches a file system: a path can't lead anywhere.

pub mod context;
mod name;
pub mod platform;
pub mod prepare;
pub mod zip;

use std::collections::{BTreeMap, HashMap};

use sless_core::Digest;

pub use context::Context;

/// The most files of a tree. Functions have tens; those that bring their packages along have thousands.
pub const MAX_FILES: usize = 20_000;
/// The most entries of an archive, folders among them: each costs memory before its name is known.
pub const MAX_ENTRIES: usize = 2 * MAX_FILES;
/// The most bytes of a tree; as much as the field's functions may unpack to.
pub const MAX_TREE_BYTES: u64 = 256 << 20;
/// How many times larger than its archive a tree may be. Source packs to a third or a tenth, logs to a fiftieth.
pub const MAX_RATIO: u64 = 200;
/// Up to this size a tree may be packed as well as it likes.
pub const RATIO_FREE_BYTES: u64 = 32 << 20;
/// The most bytes of a path, well below what systems take (4,096) with the folder that it will be in.
pub const MAX_PATH_BYTES: usize = 1_024;
/// The most bytes of a path's segment: what file systems take.
pub const MAX_SEGMENT_BYTES: usize = 255;
/// The most folders around a file.
pub const MAX_DEPTH: usize = 64;

/// Why files are not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The archive's own structure.
    #[error("the archive can't be read: {0}; make it anew with `zip -r` or deploy the folder with `sless deploy`")]
    Archive(String),
    /// One of its entries.
    #[error("entry `{entry}` {why}")]
    Entry {
        /// Its name, made printable.
        entry: String,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// There is nothing in it.
    #[error("the archive has no files; put the handler's file into it")]
    Empty,
    /// It is over a limit.
    #[error("{0}")]
    TooLarge(String),
    /// It can't be read, which is not its fault.
    #[error("read the archive")]
    Read(#[from] std::io::Error),
}

impl Error {
    fn entry(name: &str, why: impl Into<String>) -> Self {
        Self::Entry { entry: printable(name), why: why.into() }
    }

    /// Whether a limit of size or number is the reason.
    pub fn is_size(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }
}

/// The files, by path in the order of its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    size_bytes: u64,
}

impl Tree {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file below a path as archives have them (`./a//b` and `a\b` are `a/b`).
    ///
    /// # Errors
    /// When the path leads out, has what a path can't have, or is there already; when a limit is passed.
    pub fn insert(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let path = name::normal(path)?;
        if path.is_empty() {
            return Err(Error::entry(&path, "has no name"));
        }
        if self.files.len() >= MAX_FILES {
            return Err(Error::TooLarge(format!("there are more than {MAX_FILES} files; {LEAVE_OUT}")));
        }
        self.size_bytes += bytes.len() as u64;
        if self.size_bytes > MAX_TREE_BYTES {
            return Err(too_many_bytes());
        }
        match self.files.entry(path) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(bytes);
                Ok(())
            }
            std::collections::btree_map::Entry::Occupied(taken) => {
                Err(Error::entry(taken.key(), "is there twice; keep one of them"))
            }
        }
    }

    /// A file's bytes.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Paths and bytes, by path in the order of its bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The bytes of all files together.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The source hash: SHA-256 of what `sha256sum` prints for all files in the order of their paths' bytes. For each file
    /// the 64 hex digits of its SHA-256, two spaces, its path, a line feed.
    pub fn digest(&self) -> Digest {
        let mut list = Digest::builder();
        for (path, bytes) in &self.files {
            list.update(format!("{}  {path}\n", Digest::of(bytes)).as_bytes());
        }
        list.finish()
    }

    /// Looks at the paths together: a file can't be a folder too.
    ///
    /// # Errors
    /// Names the file that is.
    pub fn check(&self) -> Result<(), Error> {
        for path in self.files.keys() {
            for (end, _) in path.match_indices('/') {
                if self.files.contains_key(&path[..end]) {
                    return Err(Error::entry(
                        &path[..end],
                        format!("is a file, and a folder for `{}`", printable(path)),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Two paths that are one on systems that don't tell cases apart.
    pub fn case_clash(&self) -> Option<(&str, &str)> {
        let mut seen = HashMap::new();
        self.files
            .keys()
            .find_map(|path| seen.insert(path.to_lowercase(), path).map(|other| (other.as_str(), path.as_str())))
    }

    /// The folder that everything is below, if there is one.
    pub fn common_folder(&self) -> Option<&str> {
        let (first, _) = self.files.keys().next()?.split_once('/')?;
        let inside = |path: &String| path.strip_prefix(first).is_some_and(|rest| rest.starts_with('/'));
        // Paths are sorted, but `a-b/` is between `a` and `a/`: all are looked at.
        self.files.keys().all(inside).then_some(first)
    }

    /// Takes away the first folder of every path; for [`Tree::common_folder`].
    fn strip_folder(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.files = files
            .into_iter()
            .map(|(path, bytes)| (path.split_once('/').map(|(_, rest)| rest.to_owned()).unwrap_or(path), bytes))
            .collect();
    }

    /// Removes files whose path fulfils a condition; answers how many went.
    fn remove(&mut self, gone: impl Fn(&str) -> bool) -> usize {
        let before = self.files.len();
        self.files.retain(|path, bytes| {
            let keep = !gone(path);
            self.size_bytes -= if keep { 0 } else { bytes.len() as u64 };
            keep
        });
        before - self.files.len()
    }
}

const LEAVE_OUT: &str = "leave out what the function does not need, for example packages that its build installs";

fn too_many_bytes() -> Error {
    Error::TooLarge(format!("unpacked, the files have more than {MAX_TREE_BYTES} bytes; {LEAVE_OUT}"))
}

/// A stranger's name for messages: no control characters, no more than a line.
fn printable(name: &str) -> String {
    const MAX_CHARS: usize = 200;
    let mut text: String = name.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if name.chars().nth(MAX_CHARS).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new();
        for (path, text) in files {
            tree.insert(path, text.as_bytes().to_vec()).unwrap();
        }
        tree
    }

    /// The value is what a shell makes of the same files:
    /// `printf x > a; mkdir b; printf yy > b/c; sha256sum a b/c | sha256sum`.
    #[test]
    fn the_source_hash_is_what_sha256sum_says() {
        let hash = tree(&[("b/c", "yy"), ("a", "x")]).digest().to_string();
        assert_eq!(hash, "2a652a8b3e9449b3f79bb594fda2860e1a2976b11480a9311cbf4e127d784c27");
    }

    #[test]
    fn a_file_is_no_folder_and_is_there_once() {
        let both = tree(&[("a", ""), ("a/b", "")]);
        assert!(both.check().unwrap_err().to_string().contains("`a/b`"));
        let again = tree(&[("a", "")]).insert("./a", Vec::new()).unwrap_err();
        assert!(again.to_string().contains("`a` is there twice"), "{again}");
        assert_eq!(tree(&[("A.py", ""), ("a.py", "")]).case_clash(), Some(("A.py", "a.py")));
    }

    #[test]
    fn a_common_folder_is_one_that_has_everything() {
        assert_eq!(tree(&[("f/a", ""), ("f/g/b", "")]).common_folder(), Some("f"));
        for none in [&[("f/a", ""), ("f-g/b", "")][..], &[("f/a", ""), ("b", "")], &[("f", "")], &[]] {
            assert_eq!(tree(none).common_folder(), None);
        }
    }

    #[test]
    fn sizes_follow_what_is_taken_out() {
        let mut files = tree(&[("a", "1"), ("b", "22"), ("c", "333")]);
        assert_eq!(files.remove(|path| path == "b"), 1);
        assert_eq!((files.len(), files.size_bytes()), (2, 4));
    }
}
