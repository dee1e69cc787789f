//! Build contexts: the user's files below `function/`, the platform's beside them, as a tar.gz that is byte-identical for
//! identical files.
//!
//! The user's files are in a folder of their own, so whatever they are called, they replace nothing of the platform's.

use std::io::{self, Read, Write};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};

use super::{Error, MAX_FILES, MAX_TREE_BYTES, Tree};

/// The folder of the user's files.
pub const FUNCTION_FOLDER: &str = "function/";

/// More than headers and padding of all files take (a block each, and two more for a long name).
const MAX_TAR_BYTES: u64 = MAX_TREE_BYTES + (MAX_FILES as u64 + 1_000) * 4 * 512;

/// What a build gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// The user's files.
    pub function: Tree,
    /// The platform's: a runtime's server below `runtime/`, and its `Dockerfile`.
    pub platform: Tree,
}

impl Context {
    /// Reads one that [`Context::write`] wrote.
    ///
    /// # Errors
    /// When it is none, or over a limit.
    pub fn read(from: impl Read) -> Result<Self, Error> {
        let broken = |e: io::Error| Error::Archive(format!("the build context is damaged: {e}"));
        let mut context = Self::default();
        let mut tar = tar::Archive::new(GzDecoder::new(from).take(MAX_TAR_BYTES));
        for entry in tar.entries().map_err(broken)? {
            let mut entry = entry.map_err(broken)?;
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            if !entry.header().entry_type().is_file() {
                return Err(Error::entry(&path, "of the build context is no regular file"));
            }
            let mut bytes = Vec::with_capacity(entry.size().min(1 << 20) as usize);
            entry.read_to_end(&mut bytes).map_err(broken)?;
            match path.strip_prefix(FUNCTION_FOLDER) {
                Some(path) => context.function.insert(path, bytes)?,
                None => context.platform.insert(&path, bytes)?,
            }
        }
        Ok(context)
    }

    /// Writes it: the platform's files, then the user's, each in the order of paths, mode 0644, owned by root, of 1970.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        // No name and no time in the gzip header either.
        let mut tar = tar::Builder::new(GzBuilder::new().mtime(0).write(to, Compression::default()));
        let user = self.function.iter().map(|(path, bytes)| (format!("{FUNCTION_FOLDER}{path}"), bytes));
        let platform = self.platform.iter().map(|(path, bytes)| (path.to_owned(), bytes));
        for (path, bytes) in platform.chain(user) {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, bytes)?;
        }
        tar.into_inner()?.finish()?.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(context: &Context) -> Vec<u8> {
        let mut bytes = Vec::new();
        context.write(&mut bytes).unwrap();
        bytes
    }

    fn context() -> Context {
        let mut context = Context::default();
        // What the user calls like the platform's, and names that are long for tar.
        let long = ["folder".repeat(20).as_str(); 8].join("/");
        for path in ["Dockerfile", "runtime/server.py", "function/x", "naïve.py", &long] {
            context.function.insert(path, path.as_bytes().to_vec()).unwrap();
        }
        context.platform.insert("Dockerfile", b"FROM scratch".to_vec()).unwrap();
        context.platform.insert("runtime/server.py", b"serve()".to_vec()).unwrap();
        context
    }

    #[test]
    fn a_context_reads_back_and_the_users_files_replace_nothing() {
        let bytes = written(&context());
        assert_eq!(Context::read(&bytes[..]).unwrap(), context());
        let mut again = context();
        again.function = Tree::new();
        for (path, bytes) in context().function.iter().collect::<Vec<_>>().into_iter().rev() {
            again.function.insert(path, bytes.to_vec()).unwrap();
        }
        assert_eq!(written(&again), bytes, "the same bytes for the same files");
    }

    #[test]
    fn what_is_no_context_is_refused() {
        let bytes = written(&context());
        for bad in [&b""[..], b"hello", &bytes[..bytes.len() / 2]] {
            assert!(Context::read(bad).is_err());
        }
        let mut tar = tar::Builder::new(GzBuilder::new().write(Vec::new(), Compression::default()));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, "function/link", "/etc").unwrap();
        let link = tar.into_inner().unwrap().finish().unwrap();
        assert!(Context::read(&link[..]).unwrap_err().to_string().contains("no regular file"));
    }
}
