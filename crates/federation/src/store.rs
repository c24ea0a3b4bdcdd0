//! A party's own checkpoints.
//!
//! ```text
//! DIR/run.json              which run, attempt and plan they belong to
//! DIR/round-00000120.state  the party after round 120: SHA-256 of the rest, then the rest
//! DIR/round-00000240.state  the two newest are kept
//! ```
//!
//! Files are replaced by [`durable`], so that a crash leaves the old file or the new one; what it leaves of a file that it was
//! writing, the next start removes. A checkpoint whose hash is wrong counts as absent.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::message::parts::PartError;
use protocol::party::Round;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The file beside checkpoints that says which run they belong to.
pub(crate) const RUN_RECORD: &str = "run.json";

/// What stands before and after the round in the name of a checkpoint.
const CHECKPOINT: (&str, &str) = ("round-", ".state");

/// Checkpoints kept. Parties are never more than one round apart, so two always have one in common.
pub const GENERATIONS: usize = 2;

/// A store that does not work.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Reading or writing.
    #[error("checkpoints {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no whole checkpoint of a round.
    #[error("checkpoints {}: found none of round {round}", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
        /// The round.
        round: Round,
    },
    /// A file that says something else than it should.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found and expected.
        problem: String,
    },
}

impl From<PartError> for StoreError {
    fn from(error: PartError) -> Self {
        Self::Content { path: "the party's checkpoint".into(), problem: error.to_string() }
    }
}

/// Keeps a party's checkpoints.
pub trait Store: Send {
    /// Keeps the state after a round, whole or not at all; the two newest stay.
    fn put(&mut self, round: Round, state: &[u8]) -> Result<(), StoreError>;
    /// The state after a round.
    fn get(&self, round: Round) -> Result<Vec<u8>, StoreError>;
    /// The rounds that are kept whole, in order.
    fn rounds(&self) -> Result<Vec<Round>, StoreError>;
    /// Forgets the rounds after this one: the parties have gone back to it.
    fn forget_after(&mut self, round: Round) -> Result<(), StoreError>;
    /// Stores the run record, which says what the checkpoints belong to.
    fn put_run_record(&mut self, record: &[u8]) -> Result<(), StoreError>;
    /// The run record, if there is one.
    fn run_record(&self) -> Result<Option<Vec<u8>>, StoreError>;
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn put(&mut self, round: Round, state: &[u8]) -> Result<(), StoreError> {
        (**self).put(round, state)
    }
    fn get(&self, round: Round) -> Result<Vec<u8>, StoreError> {
        (**self).get(round)
    }
    fn rounds(&self) -> Result<Vec<Round>, StoreError> {
        (**self).rounds()
    }
    fn forget_after(&mut self, round: Round) -> Result<(), StoreError> {
        (**self).forget_after(round)
    }
    fn put_run_record(&mut self, record: &[u8]) -> Result<(), StoreError> {
        (**self).put_run_record(record)
    }
    fn run_record(&self) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).run_record()
    }
}

/// Checkpoints in a folder.
#[derive(Debug)]
pub struct FolderStore {
    folder: PathBuf,
}

impl FolderStore {
    /// Opens a folder, which is made if need be.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(|source| io_error(folder, source))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Removes what a killed process has left of a file that it was writing. For a party that has opened the ledger beside the
    /// checkpoints, and so is alone here.
    pub fn remove_unfinished(&self) -> Result<(), StoreError> {
        let is_ours = |name: &str| {
            name == RUN_RECORD || name.starts_with(CHECKPOINT.0) && name.ends_with(CHECKPOINT.1)
        };
        let removed = durable::remove_unfinished(&self.folder, is_ours);
        removed.map_err(|error| io_error(&error.path, error.source))
    }

    fn file(&self, round: Round) -> PathBuf {
        self.folder.join(format!("{}{:08}{}", CHECKPOINT.0, round.0, CHECKPOINT.1))
    }

    fn write(&self, path: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
        durable::write_private(path, parts.concat()).map_err(|error| io_error(path, error.source))
    }

    /// Rounds by their file names, whole or not.
    fn files(&self) -> Result<Vec<Round>, StoreError> {
        let io = |source| io_error(&self.folder, source);
        let mut rounds = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let number = name.to_str().and_then(|name| {
                name.strip_prefix(CHECKPOINT.0)?.strip_suffix(CHECKPOINT.1)?.parse::<u64>().ok()
            });
            rounds.extend(number.map(Round));
        }
        rounds.sort_unstable();
        Ok(rounds)
    }

    fn remove(&self, round: Round) -> Result<(), StoreError> {
        let path = self.file(round);
        fs::remove_file(&path).map_err(|source| io_error(&path, source))
    }

    fn read_whole(&self, round: Round) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.file(round);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error(&path, source)),
        };
        Ok(match bytes.split_at_checked(32) {
            Some((hash, state)) if Sha256::digest(state).as_slice() == hash => Some(state.to_vec()),
            _ => None,
        })
    }
}

impl Store for FolderStore {
    fn put(&mut self, round: Round, state: &[u8]) -> Result<(), StoreError> {
        self.write(&self.file(round), &[&Sha256::digest(state), state])?;
        let rounds = self.files()?;
        let old = rounds.len().saturating_sub(GENERATIONS);
        rounds[..old].iter().try_for_each(|&round| self.remove(round))
    }

    fn get(&self, round: Round) -> Result<Vec<u8>, StoreError> {
        let missing = || StoreError::Missing { path: self.folder.clone(), round };
        self.read_whole(round)?.ok_or_else(missing)
    }

    fn rounds(&self) -> Result<Vec<Round>, StoreError> {
        let mut rounds = Vec::new();
        for round in self.files()? {
            if self.read_whole(round)?.is_some() {
                rounds.push(round);
            }
        }
        Ok(rounds)
    }

    fn forget_after(&mut self, round: Round) -> Result<(), StoreError> {
        let later = self.files()?.into_iter().filter(|&kept| kept > round);
        later.into_iter().try_for_each(|round| self.remove(round))
    }

    fn put_run_record(&mut self, record: &[u8]) -> Result<(), StoreError> {
        self.write(&self.folder.join(RUN_RECORD), &[record])
    }

    fn run_record(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.folder.join(RUN_RECORD);
        match fs::read(&path) {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error(&path, source)),
        }
    }
}

fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), source }
}

/// Checkpoints in memory; clones share them, so they outlive a party as a disk does.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<Stored>>);

#[derive(Debug, Default)]
struct Stored {
    states: BTreeMap<Round, Vec<u8>>,
    record: Option<Vec<u8>>,
}

impl MemoryStore {
    fn stored(&self) -> std::sync::MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn put(&mut self, round: Round, state: &[u8]) -> Result<(), StoreError> {
        let mut stored = self.stored();
        stored.states.insert(round, state.to_vec());
        while stored.states.len() > GENERATIONS {
            stored.states.pop_first();
        }
        Ok(())
    }
    fn get(&self, round: Round) -> Result<Vec<u8>, StoreError> {
        let missing = || StoreError::Missing { path: PathBuf::from("(memory)"), round };
        self.stored().states.get(&round).cloned().ok_or_else(missing)
    }
    fn rounds(&self) -> Result<Vec<Round>, StoreError> {
        Ok(self.stored().states.keys().copied().collect())
    }
    fn forget_after(&mut self, round: Round) -> Result<(), StoreError> {
        self.stored().states.retain(|&kept, _| kept <= round);
        Ok(())
    }
    fn put_run_record(&mut self, record: &[u8]) -> Result<(), StoreError> {
        self.stored().record = Some(record.to_vec());
        Ok(())
    }
    fn run_record(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.stored().record.clone())
    }
}

#[cfg(test)]
mod tests;
