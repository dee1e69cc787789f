//! Segments: files named by a number that only goes up, over all functions.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How much of a file is looked at when searching for the end of a line.
const BLOCK_BYTES: u64 = 64 << 10;

/// A segment's path.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:020}.ndjson"))
}

/// The segments of a function's folder with their sizes, oldest first. None where there is no folder.
pub(super) fn list(folder: &Path) -> io::Result<Vec<(u64, u64)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut segments = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".ndjson")).and_then(|name| name.parse().ok());
        if let Some(number) = number {
            match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                metadata => segments.push((number, metadata?.len())),
            }
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Opens a segment to add lines to it. A half-written line at its end is cut off first. Answers its size.
pub(super) fn open_to_append(path: &Path) -> io::Result<(File, u64)> {
    let mut file = File::options().create(true).read(true).append(true).open(path)?;
    let size = file.metadata()?.len();
    let whole = line_start(&mut file, size, 1)?.unwrap_or(0);
    if whole < size {
        file.set_len(whole)?;
    }
    Ok((file, whole))
}

/// Adds lines. Where that fails, what was written of them is taken back.
pub(super) fn append(file: &mut File, size: u64, lines: &[u8]) -> io::Result<()> {
    file.write_all(lines).inspect_err(|_| {
        // Where this fails too, the next one to open the file does it.
        let _ = file.set_len(size);
    })
}

/// Where the last `lines - 1` whole lines of the first `end` bytes begin: after the `lines`th line end from behind. None
/// where there are fewer line ends.
pub(super) fn line_start(file: &mut File, end: u64, lines: usize) -> io::Result<Option<u64>> {
    let (mut end, mut left) = (end, lines);
    let mut block = Vec::new();
    while end > 0 && left > 0 {
        let start = end.saturating_sub(BLOCK_BYTES);
        block.resize((end - start) as usize, 0);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            left -= 1;
            if left == 0 {
                return Ok(Some(start + index as u64 + 1));
            }
        }
        end = start;
    }
    Ok(None)
}

/// How many whole lines the first `end` bytes have.
pub(super) fn count_lines(file: &mut File, end: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(0))?;
    let mut block = vec![0; BLOCK_BYTES as usize];
    let (mut left, mut lines) = (end, 0);
    while left > 0 {
        let read = file.read(&mut block[..left.min(BLOCK_BYTES) as usize])?;
        if read == 0 {
            break;
        }
        lines += block[..read].iter().filter(|byte| **byte == b'\n').count();
        left -= read as u64;
    }
    Ok(lines)
}
