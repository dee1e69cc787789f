//! Reads a function's segments in order, from any line on.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use sless_core::ports::LogLine;

use super::segments;

/// Bytes read at once; more where one line is longer.
const CHUNK_BYTES: usize = 256 << 10;

/// A place in a function's log. Segments that are removed while it is at them are read to their end all the same.
pub(super) struct Reader {
    folder: PathBuf,
    current: Option<(u64, File)>,
    /// The segment before the current one.
    passed: u64,
    /// In the current segment: where the next line begins.
    offset: u64,
    /// Where to stop: a segment and a size.
    end: Option<(u64, u64)>,
}

/// What a step came to.
pub(super) enum Step {
    /// Lines, perhaps none of those read.
    Lines(Vec<LogLine>),
    /// Nothing new.
    Idle,
    /// The end that was set.
    End,
}

impl Reader {
    /// At the oldest line, or at the last `tail` of those there. `stop` ends it at what is there now.
    pub(super) fn open(folder: PathBuf, tail: Option<usize>, stop: bool) -> io::Result<Self> {
        let there = segments::list(&folder)?;
        let newest = there.last().copied();
        let mut reader =
            Self { folder, current: None, passed: 0, offset: 0, end: stop.then_some(newest.unwrap_or((0, 0))) };
        let Some(mut wanted) = tail else { return Ok(reader) };
        for (number, size) in there.into_iter().rev() {
            let path = segments::path(&reader.folder, number);
            let mut file = match File::open(path) {
                // Removed meanwhile, and all before it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                file => file?,
            };
            // The line end before the wanted lines.
            let start = segments::line_start(&mut file, size, wanted.saturating_add(1))?;
            if start.is_none() {
                wanted -= segments::count_lines(&mut file, size)?;
            }
            reader.passed = number.saturating_sub(1);
            reader.offset = start.unwrap_or(0);
            reader.current = Some((number, file));
            if start.is_some() || wanted == 0 {
                break;
            }
        }
        Ok(reader)
    }

    /// Reads on. Blocks on the disk only.
    pub(super) fn step(&mut self) -> io::Result<Step> {
        loop {
            if let Some((number, size)) = self.end {
                let at = self.current.as_ref().map_or(self.passed + 1, |current| current.0);
                if at > number || (at == number && self.current.is_some() && self.offset >= size) {
                    return Ok(Step::End);
                }
            }
            if self.current.is_none() && !self.advance()? {
                return Ok(if self.end.is_some() { Step::End } else { Step::Idle });
            }
            if let Some(lines) = self.read()? {
                return Ok(Step::Lines(lines));
            }
            // The end of the segment. Nothing is added to one after a newer one was begun, so what is read after the
            // newer one was seen is all there is.
            let Some(next) = self.next()? else {
                return Ok(if self.end.is_some() { Step::End } else { Step::Idle });
            };
            if let Some(lines) = self.read()? {
                return Ok(Step::Lines(lines));
            }
            self.passed = next - 1;
            self.current = None;
        }
    }

    fn next(&self) -> io::Result<Option<u64>> {
        let after = self.current.as_ref().map_or(self.passed, |current| current.0);
        Ok(segments::list(&self.folder)?.into_iter().map(|(number, _)| number).find(|number| *number > after))
    }

    /// Opens the next segment; false where there is none.
    fn advance(&mut self) -> io::Result<bool> {
        while let Some(number) = self.next()? {
            match File::open(segments::path(&self.folder, number)) {
                // Removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.passed = number,
                file => {
                    self.current = Some((number, file?));
                    self.offset = 0;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The whole lines that come next; none at the end.
    fn read(&mut self) -> io::Result<Option<Vec<LogLine>>> {
        let Some((number, file)) = &mut self.current else { return Ok(None) };
        let stop = self.end.filter(|end| end.0 == *number).map(|end| end.1);
        let mut chunk = CHUNK_BYTES as u64;
        loop {
            let wanted = stop.map_or(chunk, |stop| chunk.min(stop.saturating_sub(self.offset)));
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(self.offset))?;
            file.by_ref().take(wanted).read_to_end(&mut bytes)?;
            let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else {
                if (bytes.len() as u64) < chunk {
                    return Ok(None);
                }
                chunk *= 2;
                continue;
            };
            self.offset += last as u64 + 1;
            // A line that is not one was cut in half by the end of a process.
            let lines = bytes[..last].split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
            return Ok(Some(lines.collect()));
        }
    }
}
