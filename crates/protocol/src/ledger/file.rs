//! Where a ledger's lines go.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Ledger, LedgerError, audit};
use crate::party::PartyId;

/// Takes lines, whole or not at all.
pub trait Sink: Send {
    /// Adds a line.
    fn append(&mut self, line: &[u8]) -> io::Result<()>;
    /// Makes sure that all lines are on disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Ledger {
    /// Opens a party's ledger or begins one: verifies it, cuts off a torn last line, and keeps
    /// other processes out.
    pub fn open(path: &Path, party: &PartyId) -> Result<Self, LedgerError> {
        let io = |source| LedgerError::Io { path: path.to_owned(), source };
        let file = open_alone(path)?;
        let audit = audit(BufReader::new(&file), path, party)?;
        file.set_len(audit.end).and_then(|()| file.sync_all()).map_err(io)?;
        // That there is a file must reach the disk too.
        durable::sync_folder_of(path).map_err(|error| io(error.source))?;
        let spare = Spare::keep(path.with_extension("spare")).map_err(io)?;
        let sink = FileSink { file, length: audit.end, whole: true, spare: Some(spare) };
        Ok(Self {
            path: path.to_owned(),
            sink: Box::new(sink),
            sequence: audit.messages,
            synced: audit.messages,
            head: audit.head_bytes,
            released: 0,
            numbers: audit.numbers(),
            queries: audit.queries,
            last_round: audit.last_round,
            all_runs: None,
        })
    }

    /// A ledger in memory, continued after what the sink holds already.
    pub fn in_memory(sink: &MemorySink, party: &PartyId) -> Result<Self, LedgerError> {
        let path = PathBuf::from("(memory)");
        let found = audit(sink.bytes().as_slice(), &path, party)?;
        sink.truncate(found.end as usize);
        Ok(Self {
            path,
            sink: Box::new(sink.clone()),
            sequence: found.messages,
            synced: found.messages,
            head: found.head_bytes,
            released: 0,
            numbers: found.numbers(),
            queries: found.queries,
            last_round: found.last_round,
            all_runs: None,
        })
    }
}

/// Opens a file that lines are added to, makes it if need be, and keeps other processes out.
pub(super) fn open_alone(path: &Path) -> Result<File, LedgerError> {
    let io = |source| LedgerError::Io { path: path.to_owned(), source };
    let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LedgerError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// What a ledger needs of a file.
trait Lines: Write + Send {
    fn cut(&mut self, length: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

impl Lines for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

struct FileSink<F> {
    file: F,
    /// Of all whole lines.
    length: u64,
    /// Whether nothing follows them.
    whole: bool,
    spare: Option<Spare>,
}

impl<F: Lines> Sink for FileSink<F> {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        // The chain must go on after a whole line.
        if !self.whole {
            self.file.cut(self.length)?;
            self.whole = true;
        }
        if let Err(error) = self.file.write_all(line) {
            // A full disk leaves half a line.
            self.whole = self.file.cut(self.length).is_ok();
            if error.kind() == io::ErrorKind::StorageFull {
                self.spare = None;
            }
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Some room on the disk, given up when it is full: the party must stop, but its goodbye can still be
/// recorded, and so sent, and the others need not wait for a silence to end.
struct Spare(PathBuf);

impl Spare {
    /// Goodbyes to a thousand parties.
    const BYTES: usize = 1 << 19;

    fn keep(path: PathBuf) -> io::Result<Self> {
        std::fs::write(&path, vec![0; Self::BYTES])?;
        Ok(Self(path))
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // If it cannot be removed there is nothing more to be done.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Lines in memory; clones share them.
#[derive(Clone, Default)]
pub struct MemorySink(Arc<Mutex<Vec<u8>>>);

impl MemorySink {
    /// All lines.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loses everything after so many bytes, as a disk may that loses power.
    pub fn truncate(&self, length: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).truncate(length);
    }
}

impl Sink for MemorySink {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(line);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
