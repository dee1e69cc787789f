//! Secrets of 32 bytes in files, `keys/{name}`: 64 hex digits that only their owner reads.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::Error;

/// The longest name of a key.
const MAX_NAME_BYTES: usize = 32;

/// The key `name` of a data folder, drawn at random the first time. It is made under another name and linked to its own
/// when it is whole and durable, so of many who ask at once all get the same.
pub fn key_file(dir: &Path, name: &str) -> Result<[u8; 32], Error> {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(known) {
        return Err(Error::KeyName(name.chars().take(2 * MAX_NAME_BYTES).collect()));
    }
    let folder = dir.join("keys");
    let path = folder.join(name);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(&folder, &path).map_err(Error::open(&path))?,
        other => {
            other.map_err(Error::open(&path))?;
        }
    }
    read(&path)
}

/// Removes what a process that ended while it made a key left. One process at a time may.
pub(super) fn clean(dir: &Path) -> Result<(), Error> {
    let folder = dir.join("keys");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::open(&folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(Error::open(&folder))?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            fs::remove_file(entry.path()).map_err(Error::open(&folder))?;
        }
    }
    Ok(())
}

fn make(folder: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut random = [0; 48];
    getrandom::fill(&mut random)?;
    let (key, suffix) = random.split_at(32);
    // A dot is in no key's name.
    let temporary = folder.join(format!(".{}", hex::encode(suffix)));
    let written = File::options().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
        writeln!(file, "{}", hex::encode(key))?;
        file.sync_all()
    });
    let linked = written.and_then(|()| fs::hard_link(&temporary, path));
    fs::remove_file(&temporary)?;
    match linked {
        // Somebody else was faster: theirs is the key.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    File::open(folder)?.sync_all()
}

fn read(path: &Path) -> Result<[u8; 32], Error> {
    let open = Error::open(path);
    let mode = fs::metadata(path).map_err(&open)?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), mode = format!("{:o}", mode & 0o777), "others could read a key; its permissions are narrowed");
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(&open)?;
    }
    let text = fs::read(path).map_err(&open)?;
    let mut key = [0; 32];
    hex::decode_to_slice(text.trim_ascii(), &mut key)
        .map_err(|_| Error::Key { path: path.to_owned(), found: format!("{} bytes", text.len()) })?;
    Ok(key)
}
