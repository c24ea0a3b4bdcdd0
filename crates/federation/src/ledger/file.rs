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
        let file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LedgerError::InUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let audit = audit(BufReader::new(&file), path, party)?;
        file.set_len(audit.end).map_err(io)?;
        let sink = FileSink { file, length: audit.end };
        Ok(Self {
            path: path.to_owned(),
            sink: Box::new(sink),
            sequence: audit.messages,
            head: audit.head_bytes,
            released: 0,
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
            head: found.head_bytes,
            released: 0,
        })
    }
}

struct FileSink {
    file: File,
    length: u64,
}

impl Sink for FileSink {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(line) {
            // A full disk leaves half a line: the chain must go on after a whole one.
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
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
