//! A build context out of the object store into a folder.
//!
//! The builder that wrote it has read a stranger's archive, so nothing of it is believed: regular files only, below the
//! folder only, bounded; and the user's files have to be those of the source hash.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use sless_core::Digest;

/// The most bytes of all files.
const MAX_BYTES: u64 = 320 << 20;
/// The most files.
const MAX_FILES: usize = 25_000;
/// Where the user's files are.
const FUNCTION: &str = "function/";
/// Bytes read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Unpacks a tar.gz into a folder that is there and empty; answers the hash of the user's files.
///
/// # Errors
/// When it is no context, or over a limit, or can't be written.
pub(super) fn unpack(from: impl Read, folder: &Path) -> io::Result<Digest> {
    // Headers and padding take less than as much again.
    let mut tar = tar::Archive::new(GzDecoder::new(from).take(2 * MAX_BYTES));
    let (mut left, mut files) = (MAX_BYTES, 0);
    let mut list = Digest::builder();
    let mut piece = vec![0; PIECE_BYTES];
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = String::from_utf8(entry.path_bytes().into_owned()).map_err(io::Error::other)?;
        files += 1;
        if files > MAX_FILES || !entry.header().entry_type().is_file() {
            return Err(io::Error::other(format!("the build context can't have {name}")));
        }
        let path = below(folder, &name)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = File::create_new(&path)?;
        let mut digest = Digest::builder();
        loop {
            let n = entry.read(&mut piece)?;
            if n == 0 {
                break;
            }
            left = left.checked_sub(n as u64).ok_or_else(|| io::Error::other("the build context is too large"))?;
            digest.update(&piece[..n]);
            file.write_all(&piece[..n])?;
        }
        if let Some(path) = name.strip_prefix(FUNCTION) {
            list.update(format!("{}  {path}\n", digest.finish()).as_bytes());
        }
    }
    Ok(list.finish())
}

fn below(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let plain = |component| matches!(component, Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(plain) {
        return Err(io::Error::other(format!("the build context can't have {name}")));
    }
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (name, kind, bytes) in entries {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_entry_type(*kind);
            // Past the crate's own check of paths.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn files_are_written_and_the_users_are_hashed() {
        use tar::EntryType::Regular;
        let dir = tempfile::tempdir().unwrap();
        let context = pack(&[
            ("Dockerfile", Regular, b"FROM x"),
            ("runtime/server.py", Regular, b"serve()"),
            ("function/a", Regular, b"x"),
            ("function/b/c", Regular, b"yy"),
        ]);
        let digest = unpack(&context[..], dir.path()).unwrap();
        let line = |bytes: &[u8], path: &str| format!("{}  {path}\n", Digest::of(bytes));
        assert_eq!(digest, Digest::of(format!("{}{}", line(b"x", "a"), line(b"yy", "b/c")).as_bytes()));
        assert_eq!(fs::read(dir.path().join("function/b/c")).unwrap(), b"yy");
    }

    #[test]
    fn nothing_leads_out() {
        use tar::EntryType::{Regular, Symlink};
        for (name, kind) in
            [("../evil", Regular), ("/tmp/evil", Regular), ("function/../../evil", Regular), ("link", Symlink)]
        {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("folder");
            fs::create_dir(&folder).unwrap();
            let error = unpack(&pack(&[(name, kind, b"")])[..], &folder).unwrap_err();
            assert!(error.to_string().contains("can't have"), "{name}: {error}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{name}");
        }
    }
}
