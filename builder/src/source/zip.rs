//! Zip archives: read from strangers, written for their owners.
//!
//! Sizes are counted as bytes come out, not as the archive says; archives inside of archives are files like others.

use std::io::{self, Cursor, Read as _, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::{Error, LEAVE_OUT, MAX_ENTRIES, MAX_RATIO, MAX_TREE_BYTES, RATIO_FREE_BYTES, Tree, too_many_bytes};

/// The kind bits of a Unix mode, and what they say of a regular file, a folder and a symbolic link.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// The files of an archive, names and sizes checked.
///
/// # Errors
/// Names the entry that is refused, or the limit that is passed.
pub fn read(archive: &[u8]) -> Result<Tree, Error> {
    if let Some(entries) = entries_said(archive).filter(|entries| *entries > MAX_ENTRIES) {
        return Err(Error::TooLarge(format!(
            "the archive has {entries} entries or more, over the limit of {MAX_ENTRIES}; {LEAVE_OUT}"
        )));
    }
    let mut zip = ZipArchive::new(Cursor::new(archive)).map_err(|e| broken(&e))?;
    if zip.has_duplicate_names() {
        return Err(Error::Archive("it has an entry twice".to_owned()));
    }
    if zip.len() > MAX_ENTRIES {
        return Err(Error::TooLarge(format!("the archive has over {MAX_ENTRIES} entries; {LEAVE_OUT}")));
    }
    let mut tree = Tree::new();
    for index in 0..zip.len() {
        if let Some((name, bytes)) = entry(&mut zip, index, archive.len() as u64, tree.size_bytes())? {
            tree.insert(&name, bytes)?;
        }
    }
    tree.check()?;
    Ok(tree)
}

/// One file; none for a folder.
fn entry(
    zip: &mut ZipArchive<Cursor<&[u8]>>,
    index: usize,
    archive_bytes: u64,
    before: u64,
) -> Result<Option<(String, Vec<u8>)>, Error> {
    let raw = zip.by_index_raw(index).map_err(|e| broken(&e))?;
    let name = name(&raw)?;
    if raw.encrypted() {
        return Err(Error::entry(&name, "is encrypted; pack the files without a password"));
    }
    // Tools on Windows end folders in `\`.
    let folder = raw.is_dir() || name.ends_with('\\');
    match raw.unix_mode().map_or(0, |mode| mode & KIND) {
        LINK => return Err(Error::entry(&name, "is a symbolic link; pack the file that it leads to")),
        0 | REGULAR => {}
        FOLDER if folder => {}
        _ => return Err(Error::entry(&name, "is no regular file; leave it out")),
    }
    if folder {
        // Also a folder's name has to be one.
        super::name::normal(&name)?;
        return Ok(None);
    }
    let said = raw.size();
    drop(raw);
    let file = zip.by_index(index).map_err(|e| match e {
        ZipError::UnsupportedArchive(what) => {
            Error::entry(&name, format!("can't be unpacked ({what}); pack the files with deflate, as `zip -r` does"))
        }
        other => Error::entry(&name, format!("can't be unpacked: {other}; make the archive anew")),
    })?;
    // One byte more than allowed, so that more is seen.
    let most = MAX_TREE_BYTES.min(RATIO_FREE_BYTES.max(archive_bytes.saturating_mul(MAX_RATIO))).saturating_sub(before);
    let mut bytes = Vec::with_capacity(said.min(most).min(1 << 20) as usize);
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::entry(&name, format!("can't be unpacked: {e}; make the archive anew")))?;
    if bytes.len() as u64 > most {
        return Err(if before + bytes.len() as u64 > MAX_TREE_BYTES {
            too_many_bytes()
        } else {
            Error::TooLarge(format!(
                "the files are more than {MAX_RATIO} times as large as the archive, which looks like an archive made to fill a disk; {LEAVE_OUT}"
            ))
        });
    }
    Ok(Some((name, bytes)))
}

/// An entry's name. The flag for UTF-8 is often not set by those who write it, so bytes that are UTF-8 are taken as such,
/// and others as CP437, as the format has it.
fn name<R: io::Read>(file: &zip::read::ZipFile<'_, R>) -> Result<String, Error> {
    if let Ok(name) = std::str::from_utf8(file.name_raw()) {
        return Ok(name.to_owned());
    }
    let lossy = String::from_utf8_lossy(file.name_raw()).into_owned();
    match file.name() {
        Ok(name) if !name.contains(char::REPLACEMENT_CHARACTER) => Ok(name.into_owned()),
        _ => Err(Error::entry(&lossy, "has a name that is no text; rename the file")),
    }
}

/// How many entries the archive's end says that there are, 65,535 standing for more: looked at before memory is taken for them.
fn entries_said(archive: &[u8]) -> Option<usize> {
    /// `PK\5\6`, then 18 bytes and a comment of at most 65,535.
    const END: &[u8] = b"PK\x05\x06";
    const END_BYTES: usize = 22;
    let tail = &archive[archive.len().saturating_sub(END_BYTES + usize::from(u16::MAX))..];
    let at = tail.windows(END_BYTES).rposition(|window| window.starts_with(END))?;
    Some(u16::from_le_bytes([tail[at + 10], tail[at + 11]]).into())
}

fn broken(error: &ZipError) -> Error {
    Error::Archive(super::printable(&error.to_string()))
}

/// Writes a tree as a zip, byte-identical for an equal tree: files in order, mode 0644, the first of January 1980.
///
/// # Errors
/// When the writer fails.
pub fn write(tree: &Tree, to: impl Write + io::Seek) -> io::Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let mut zip = ZipWriter::new(to);
    for (path, bytes) in tree.iter() {
        zip.start_file(path, options).map_err(io::Error::other)?;
        zip.write_all(bytes)?;
    }
    zip.finish().map(drop).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
