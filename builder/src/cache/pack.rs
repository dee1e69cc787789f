//! A pack: compiled functions in one file that is never changed.
//!
//! `magic, engine digest | value, value, … | index: (key, offset, length, check) × n | index offset, n, index check, magic`,
//! all numbers little-endian. One file instead of one a function: a build of CPython has 15,000 of them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;

use sless_core::Digest;

const MAGIC: &[u8; 8] = b"slessfp1";
const HEADER_BYTES: u64 = 8 + 32;
const ENTRY_BYTES: usize = 32 + 8 + 4 + 16;
const FOOTER_BYTES: usize = 8 + 4 + 16 + 8;
/// The most functions of a pack: as many as a component may have, with room for trampolines.
const MAX_ENTRIES: u32 = 400_000;

/// What a function is known by: Cranelift's hash of its code and of all settings.
pub(super) type Key = [u8; 32];

/// Why a file can't be used as a pack. The functions in it are compiled again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It can't be read or written.
    #[error("read or write a pack")]
    Io(#[from] io::Error),
    /// It is not a pack, or a damaged one.
    #[error("not a whole pack")]
    Damaged,
    /// Its functions are for another engine.
    #[error("the pack is of another engine")]
    OtherEngine,
}

#[derive(Clone, Copy)]
struct Place {
    offset: u64,
    length: u32,
    check: [u8; 16],
}

/// Half of a SHA-256: enough to see damage, which would run as code.
fn check(bytes: &[u8]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&Digest::of(bytes).as_bytes()[..16]);
    half
}

fn read(file: &File, place: Place) -> Option<Vec<u8>> {
    let mut value = vec![0; place.length as usize];
    file.read_exact_at(&mut value, place.offset).ok()?;
    (check(&value) == place.check).then_some(value)
}

/// A pack to read from.
pub struct Pack {
    file: File,
    index: HashMap<Key, Place>,
}

impl Pack {
    /// Reads the index of a pack.
    ///
    /// # Errors
    /// When it is not a whole pack of this engine.
    pub fn open(file: File, engine: &Digest) -> Result<Self, Error> {
        // Not `File::metadata`: the sandbox has no call that takes a path.
        let size =
            u64::try_from(rustix::fs::fstat(&file).map_err(io::Error::from)?.st_size).map_err(|_| Error::Damaged)?;
        let mut header = [0; HEADER_BYTES as usize];
        let mut footer = [0; FOOTER_BYTES];
        let footer_at = size.checked_sub(FOOTER_BYTES as u64).filter(|at| *at >= HEADER_BYTES).ok_or(Error::Damaged)?;
        file.read_exact_at(&mut header, 0)?;
        file.read_exact_at(&mut footer, footer_at)?;
        if &header[..8] != MAGIC || &footer[FOOTER_BYTES - 8..] != MAGIC {
            return Err(Error::Damaged);
        }
        if header[8..] != engine.as_bytes()[..] {
            return Err(Error::OtherEngine);
        }
        let index_at = u64::from_le_bytes(take(&footer, 0));
        let count = u32::from_le_bytes(take(&footer, 8));
        let index_bytes = count as usize * ENTRY_BYTES;
        if count > MAX_ENTRIES || index_at < HEADER_BYTES || index_at.checked_add(index_bytes as u64) != Some(footer_at)
        {
            return Err(Error::Damaged);
        }
        let mut entries = vec![0; index_bytes];
        file.read_exact_at(&mut entries, index_at)?;
        if check(&entries) != footer[12..28] {
            return Err(Error::Damaged);
        }
        let mut index = HashMap::with_capacity(count as usize);
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let place = Place {
                offset: u64::from_le_bytes(take(entry, 32)),
                length: u32::from_le_bytes(take(entry, 40)),
                check: take(entry, 44),
            };
            // A length that lies would make `get` allocate it.
            if place.offset.checked_add(place.length.into()).is_none_or(|end| end > index_at) {
                return Err(Error::Damaged);
            }
            index.insert(take(entry, 0), place);
        }
        Ok(Self { file, index })
    }

    /// How many functions it has.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        read(&self.file, *self.index.get(key)?)
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// A pack to be written. What was put in can be read at once: equal functions of one component are compiled once.
pub struct PackWriter {
    file: File,
    limit: u64,
    state: Mutex<Written>,
}

struct Written {
    end: u64,
    index: HashMap<Key, Place>,
    /// In order of writing, so that the same build gives the same pack when it has one thread.
    order: Vec<Key>,
}

impl PackWriter {
    /// Starts a pack in an empty file that can be read and written; it will not grow beyond `limit` bytes.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn new(file: File, engine: &Digest, limit: u64) -> Result<Self, Error> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(engine.as_bytes());
        file.write_all_at(&header, 0)?;
        let state = Mutex::new(Written { end: HEADER_BYTES, index: HashMap::new(), order: Vec::new() });
        Ok(Self { file, limit, state })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Written> {
        // A panic in a compiling thread can't leave an entry half-made: they are made after the bytes are written.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let place = *self.state().index.get(key)?;
        read(&self.file, place)
    }

    /// Adds a function; false where it does not fit any more.
    pub(super) fn put(&self, key: Key, value: &[u8]) -> bool {
        let Ok(length) = u32::try_from(value.len()) else { return false };
        let check = check(value);
        let mut state = self.state();
        if state.index.contains_key(&key) {
            return true;
        }
        let index_bytes = (state.order.len() + 1) as u64 * ENTRY_BYTES as u64 + FOOTER_BYTES as u64;
        let end = state.end + u64::from(length);
        if end + index_bytes > self.limit || state.order.len() as u32 >= MAX_ENTRIES {
            return false;
        }
        if self.file.write_all_at(value, state.end).is_err() {
            return false;
        }
        let place = Place { offset: state.end, length, check };
        state.index.insert(key, place);
        state.order.push(key);
        state.end = end;
        true
    }

    /// Writes the index. Answers how many functions are in the pack; it is one only after this. With none the file is empty.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn finish(&self) -> Result<usize, Error> {
        let state = self.state();
        if state.order.is_empty() {
            self.file.set_len(0)?;
            return Ok(0);
        }
        let mut tail = Vec::with_capacity(state.order.len() * ENTRY_BYTES + FOOTER_BYTES);
        for key in &state.order {
            let place = state.index[key];
            tail.extend_from_slice(key);
            tail.extend_from_slice(&place.offset.to_le_bytes());
            tail.extend_from_slice(&place.length.to_le_bytes());
            tail.extend_from_slice(&place.check);
        }
        let check = check(&tail);
        tail.extend_from_slice(&state.end.to_le_bytes());
        tail.extend_from_slice(&(state.order.len() as u32).to_le_bytes());
        tail.extend_from_slice(&check);
        tail.extend_from_slice(MAGIC);
        self.file.write_all_at(&tail, state.end)?;
        Ok(state.order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(values: &[(Key, &[u8])], limit: u64) -> (File, usize) {
        let file = tempfile::tempfile().unwrap();
        let writer = PackWriter::new(file.try_clone().unwrap(), &Digest::of(b"e"), limit).unwrap();
        for (key, value) in values {
            writer.put(*key, value);
        }
        let count = writer.finish().unwrap();
        (file, count)
    }

    #[test]
    fn what_is_written_is_read_back_and_only_by_the_same_engine() {
        let (file, count) = pack(&[([1; 32], b"one"), ([2; 32], b""), ([1; 32], b"again")], 1 << 20);
        assert_eq!(count, 2);
        let read = Pack::open(file.try_clone().unwrap(), &Digest::of(b"e")).unwrap();
        assert_eq!(read.get(&[1; 32]).as_deref(), Some(&b"one"[..]));
        assert_eq!(read.get(&[2; 32]).as_deref(), Some(&b""[..]));
        assert_eq!(read.get(&[3; 32]), None);
        assert!(matches!(Pack::open(file, &Digest::of(b"other")), Err(Error::OtherEngine)));
    }

    #[test]
    fn a_pack_stays_below_its_limit() {
        let (file, count) = pack(&[([1; 32], &[7; 500]), ([2; 32], &[7; 500])], 700);
        assert_eq!(count, 1);
        assert!(file.metadata().unwrap().len() <= 700);
    }

    #[test]
    fn damage_anywhere_is_seen() {
        let (file, _) = pack(&[([1; 32], b"one"), ([2; 32], b"two")], 1 << 20);
        let size = file.metadata().unwrap().len();
        for at in 0..size {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            if let Ok(read) = Pack::open(file.try_clone().unwrap(), &Digest::of(b"e")) {
                let got = (read.get(&[1; 32]), read.get(&[2; 32]));
                assert!(got.0.is_none() || got.1.is_none(), "{at}");
                assert!(got.0.is_none_or(|v| v == b"one") && got.1.is_none_or(|v| v == b"two"), "{at}");
            }
            file.write_all_at(&byte, at).unwrap();
        }
        for cut in (0..size).rev() {
            file.set_len(cut).unwrap();
            assert!(Pack::open(file.try_clone().unwrap(), &Digest::of(b"e")).is_err(), "{cut}");
        }
    }
}
