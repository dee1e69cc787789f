//! The thread that writes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sless_core::FunctionKey;
use sless_core::ports::{Clock, LogLine, Stream};
use tokio::sync::mpsc;

use super::{Bounds, Command, MAX_LINE_BYTES, Shared, queued_bytes, segments};

/// Calls whose lines are written together: their number is bounded so that an acknowledgement does not wait long.
const ROUND_CALLS: usize = 512;
/// Files that are kept open. A function that logs without being among them costs an `open` a round.
const MAX_OPEN: usize = 64;

pub(super) struct Writer {
    shared: Arc<Shared>,
    bounds: Bounds,
    clock: Arc<dyn Clock>,
    /// Each function's segments, oldest first, with their sizes.
    functions: HashMap<FunctionKey, VecDeque<(u64, u64)>>,
    /// All segments, oldest first.
    order: BTreeMap<u64, FunctionKey>,
    total: u64,
    newest: u64,
    open: HashMap<FunctionKey, Open>,
    round: u64,
    failing: bool,
}

struct Open {
    file: File,
    number: u64,
    used: u64,
}

impl Writer {
    /// Looks at what is there.
    pub(super) fn open(shared: Arc<Shared>, bounds: Bounds, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let mut writer = Self {
            shared,
            bounds,
            clock,
            functions: HashMap::new(),
            order: BTreeMap::new(),
            total: 0,
            newest: 0,
            open: HashMap::new(),
            round: 0,
            failing: false,
        };
        for namespace in fs::read_dir(&writer.shared.root)? {
            let namespace = namespace?;
            let Some(Ok(name)) = namespace.file_name().to_str().map(str::parse) else { continue };
            for function in fs::read_dir(namespace.path())? {
                let function = function?;
                let Some(Ok(function_name)) = function.file_name().to_str().map(str::parse) else { continue };
                writer.adopt(FunctionKey::new(name, function_name), segments::list(&function.path())?);
            }
        }
        Ok(writer)
    }

    fn adopt(&mut self, function: FunctionKey, segments: Vec<(u64, u64)>) {
        for (number, size) in &segments {
            self.order.insert(*number, function.clone());
            self.total += size;
            self.newest = self.newest.max(*number);
        }
        self.functions.insert(function, segments.into());
    }

    /// Writes until told to stop, or until nobody can add lines any more.
    pub(super) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Some(first) = commands.blocking_recv() {
            self.round += 1;
            let mut lines = HashMap::new();
            let mut next = Some(first);
            let mut calls = 0;
            while let Some(command) = next.take() {
                match command {
                    Command::Append(function, more) => {
                        self.shared.queued_bytes.fetch_sub(queued_bytes(&more), Ordering::Relaxed);
                        lines.entry(function).or_insert_with(Vec::new).extend(more);
                        calls += 1;
                    }
                    Command::Wake => {}
                    Command::Flush(done) => {
                        self.write_all(&mut lines);
                        let _ = done.send(());
                    }
                    Command::Delete(function, done) => {
                        self.write_all(&mut lines);
                        let _ = done.send(self.delete(&function));
                    }
                    Command::Stop(done) => {
                        self.write_all(&mut lines);
                        let _ = done.send(());
                        return;
                    }
                }
                if calls < ROUND_CALLS {
                    next = commands.try_recv().ok();
                }
            }
            self.write_all(&mut lines);
        }
    }

    /// Writes collected lines, then a line for each function that lost some.
    fn write_all(&mut self, lines: &mut HashMap<FunctionKey, Vec<LogLine>>) {
        for (function, lines) in lines.drain() {
            if let Err(written) = self.write(&function, &lines) {
                self.shared.count_dropped(&function, &lines[written..]);
            }
        }
        let dropped = std::mem::take(&mut *self.shared.dropped());
        for (function, dropped) in dropped {
            let said = LogLine {
                at: self.clock.now(),
                stream: Stream::Platform,
                line: format!("{} lines were dropped: they came faster than they could be written", dropped.lines),
                ..dropped.last.clone()
            };
            if self.write(&function, &[said]).is_err() {
                // Said when there is room again.
                self.shared.dropped().entry(function).and_modify(|more| more.lines += dropped.lines).or_insert(dropped);
            }
        }
    }

    /// Writes lines and tells followers; how many are written where it fails.
    fn write(&mut self, function: &FunctionKey, lines: &[LogLine]) -> Result<(), usize> {
        let done = self.try_write(function, lines).map_err(|(written, error)| {
            // Once, not for each line, while a disk is full.
            if !self.failing {
                tracing::warn!(%function, error = &error as &dyn std::error::Error, "log lines can't be written; they are dropped and counted");
            }
            self.open.remove(function);
            written
        });
        self.failing = done.is_err();
        if let Some(followers) = self.shared.followers().get(function) {
            followers.send_replace(());
        }
        done
    }

    /// Writes lines; how many are written where it fails.
    fn try_write(&mut self, function: &FunctionKey, lines: &[LogLine]) -> Result<(), (usize, io::Error)> {
        let mut buffer = Vec::new();
        let mut written = 0;
        // Segments are filled to within a line, so that what is kept does not depend on how lines come.
        let newest = self.functions.get(function).and_then(|segments| segments.back());
        let mut room = self.bounds.segment_bytes.saturating_sub(newest.map_or(0, |segment| segment.1));
        for (index, line) in lines.iter().enumerate() {
            let before = buffer.len();
            encode(&mut buffer, line).map_err(|error| (written, error))?;
            if buffer.len() as u64 <= room {
                continue;
            }
            if before > 0 {
                let rest = buffer.split_off(before);
                self.append(function, &buffer).map_err(|error| (written, error))?;
                written = index;
                buffer = rest;
            }
            // This line begins a segment.
            room = self.bounds.segment_bytes;
        }
        self.append(function, &buffer).map_err(|error| (written, error))
    }

    /// Adds a buffer of whole lines to the newest segment, or to a new one where it has no room.
    fn append(&mut self, function: &FunctionKey, buffer: &[u8]) -> io::Result<()> {
        let newest = self.functions.get(function).and_then(|segments| segments.back().copied());
        let number = match newest {
            Some((number, size)) if size == 0 || size + buffer.len() as u64 <= self.bounds.segment_bytes => number,
            _ => self.begin(function)?,
        };
        let mut file = match self.open.remove(function) {
            Some(open) if open.number == number => open.file,
            _ => self.reopen(function, number)?,
        };
        let size = self.size_mut(function, number).map_or(0, |size| *size);
        segments::append(&mut file, size, buffer)?;
        self.total += buffer.len() as u64;
        if let Some(size) = self.size_mut(function, number) {
            *size += buffer.len() as u64;
        }
        self.keep_open(function, file, number);
        self.trim(function, number)
    }

    fn size_mut(&mut self, function: &FunctionKey, number: u64) -> Option<&mut u64> {
        self.functions.get_mut(function)?.back_mut().filter(|segment| segment.0 == number).map(|segment| &mut segment.1)
    }

    /// A new segment. Its number is the time in microseconds where the clock went on.
    fn begin(&mut self, function: &FunctionKey) -> io::Result<u64> {
        fs::create_dir_all(self.shared.folder(function))?;
        self.newest = (self.newest + 1).max(self.clock.now().as_microsecond().try_into().unwrap_or(0));
        self.functions.entry(function.clone()).or_default().push_back((self.newest, 0));
        self.order.insert(self.newest, function.clone());
        Ok(self.newest)
    }

    fn reopen(&mut self, function: &FunctionKey, number: u64) -> io::Result<File> {
        let folder = self.shared.folder(function);
        fs::create_dir_all(&folder)?;
        let (file, size) = segments::open_to_append(&segments::path(&folder, number))?;
        if let Some(known) = self.size_mut(function, number) {
            let before = std::mem::replace(known, size);
            self.total = self.total - before + size;
        }
        Ok(file)
    }

    fn keep_open(&mut self, function: &FunctionKey, file: File, number: u64) {
        if self.open.len() >= MAX_OPEN {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(function, _)| function.clone());
            oldest.and_then(|function| self.open.remove(&function));
        }
        self.open.insert(function.clone(), Open { file, number, used: self.round });
    }

    /// Removes the function's oldest segments and the oldest of all, but not the one that was just written.
    fn trim(&mut self, function: &FunctionKey, current: u64) -> io::Result<()> {
        while let Some(segments) = self.functions.get(function)
            && segments.len() > self.bounds.segments.max(1)
            && let Some((number, _)) = segments.front().copied()
        {
            self.remove(&function.clone(), number)?;
        }
        while self.total > self.bounds.total_bytes
            && let Some((number, function)) = self.order.iter().find(|(number, _)| **number != current)
        {
            let (number, function) = (*number, function.clone());
            self.remove(&function, number)?;
        }
        Ok(())
    }

    fn remove(&mut self, function: &FunctionKey, number: u64) -> io::Result<()> {
        let folder = self.shared.folder(function);
        gone(fs::remove_file(segments::path(&folder, number)))?;
        self.order.remove(&number);
        if let Some(segments) = self.functions.get_mut(function) {
            let size: u64 = segments.iter().filter(|segment| segment.0 == number).map(|segment| segment.1).sum();
            self.total -= size;
            segments.retain(|segment| segment.0 != number);
            if segments.is_empty() {
                self.functions.remove(function);
                let _ = fs::remove_dir(&folder);
            }
        }
        if self.open.get(function).is_some_and(|open| open.number == number) {
            self.open.remove(function);
        }
        Ok(())
    }

    fn delete(&mut self, function: &FunctionKey) -> io::Result<()> {
        self.open.remove(function);
        self.shared.dropped().remove(function);
        for (number, size) in self.functions.remove(function).unwrap_or_default() {
            self.order.remove(&number);
            self.total -= size;
        }
        let folder = self.shared.folder(function);
        gone(fs::remove_dir_all(&folder))?;
        // Of the namespace, where it was its last function.
        let _ = folder.parent().map(fs::remove_dir);
        Ok(())
    }
}

/// That something is not there any more is what was wanted.
fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn encode(buffer: &mut Vec<u8>, line: &LogLine) -> io::Result<()> {
    if line.line.len() > MAX_LINE_BYTES {
        let end = (0..=MAX_LINE_BYTES).rev().find(|index| line.line.is_char_boundary(*index)).unwrap_or(0);
        let cut = LogLine { line: format!("{}…", &line.line[..end]), ..line.clone() };
        serde_json::to_writer(&mut *buffer, &cut)?;
    } else {
        serde_json::to_writer(&mut *buffer, line)?;
    }
    buffer.push(b'\n');
    Ok(())
}
