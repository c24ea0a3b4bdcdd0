//! The ledger: what has left a party.
//!
//! One JSON object per line, one line per message, written *before* the message can be sent:
//!
//! ```text
//! {"sequence":1,"time_ms":1700000000250,"to":"host","kind":"embedding","round":7,"shape":[128,68],
//!  "bytes":34845,"digest":"<SHA-256 of the bytes on the wire>","previous":"<SHA-256 of the line before>"}
//! ```
//!
//! Each line holds the hash of the one before, so none can be changed, removed or put in later
//! without breaking the chain; the first holds the hash of the party's name. Lines cut off the end
//! leave a whole chain, and so does a ledger that is rewritten as a whole: compare [`Audit::head`] with one noted earlier, or the ledger with
//! the heads that peers have countersigned at checkpoints ([`HeadFile`]).
//!
//! A line that a crash tore apart is removed when the ledger is opened again: its message was never
//! released. Lines reach the operating system at once and the disk at each checkpoint.

mod audit;
mod entry;
mod file;
mod heads;
mod queried_steps;
mod query_file;
mod released;
mod sum_file;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use prost::bytes::Bytes;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::message::committed::Digest;
use crate::message::heads::LedgerHead;
use crate::party::{Now, PartyId, Round};

pub use audit::{Audit, Tally, audit, audit_file};
pub use entry::{LedgerEntry, UsedKey};
pub use file::{MemorySink, Sink};
pub use heads::{HeadCheck, HeadFile, OtherHead, SignedHead, check_heads, head_statement};
pub use queried_steps::{QueriedSteps, QueryBudget};
use query_file::QueryFile;
pub use released::Released;
pub use sum_file::SumRecords;

/// What the ledger writes down of a message.
pub trait Recorded {
    /// What kind of message it is.
    fn kind(&self) -> &'static str;
    /// The round it belongs to, if any.
    fn round(&self) -> Option<Round>;
    /// The shape of its numbers, `[sample, width]`; empty if it has none.
    fn shape(&self) -> Vec<usize>;
    /// All of it, as the bytes that go on the wire.
    fn encode(&self) -> Vec<u8>;
    /// The key that it is, or that it was encrypted with, where fleets should compare what they know of it.
    fn key(&self) -> Option<UsedKey> {
        None
    }
    /// What a guest has committed to, at the end of this message.
    fn committed(&self) -> Option<Digest> {
        None
    }
}

/// Why a ledger cannot be used.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// Reading or writing.
    #[error("ledger {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process writes to it.
    #[error("ledger {}: in use by another process", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Totals of steps that went into a sum over other guests: the difference would be a guest's own.
    #[error(
        "steps {first} to {last}: found a sum over {found}, expected {expected} as before: the difference between two sums is what single guests drive"
    )]
    OtherParticipants {
        /// The first step.
        first: i64,
        /// The last step.
        last: i64,
        /// The guests of this sum.
        found: String,
        /// Those of the sum before.
        expected: String,
    },
    /// A line that does not belong there.
    #[error("ledger {}, line {line}: {problem}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What was found and expected.
        problem: String,
    },
}

/// A party's ledger, see the [module](self).
///
/// ```
/// use protocol::ledger::{Ledger, MemorySink, audit};
/// use protocol::{Now, PartyId, ToHost};
///
/// let (guest, host) = (PartyId::new("fleet-a")?, PartyId::new("city")?);
/// let sink = MemorySink::default();
/// let mut ledger = Ledger::in_memory(&sink, &guest)?;
/// // Only what was recorded can be given to a transport.
/// let released = ledger.release(Now::default(), &host, ToHost::Heartbeat)?;
/// assert_eq!((released.recipient(), released.message()), (&host, &ToHost::Heartbeat));
/// let found = audit(&sink.bytes()[..], "ledger".as_ref(), &guest)?;
/// assert_eq!(found.messages, 1);
/// // What was changed has another head; before the last line it would be an error.
/// let forged = String::from_utf8(sink.bytes())?.replace("city", "town");
/// assert!(audit(forged.as_bytes(), "ledger".as_ref(), &guest).is_ok_and(|one| one.head != found.head));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ledger {
    path: PathBuf,
    sink: Box<dyn Sink>,
    sequence: u64,
    /// Lines that have reached the disk for certain.
    synced: u64,
    head: [u8; 32],
    /// Content of the messages released since it was opened.
    released: u64,
    /// How many numbers were released by kind of message, over the life of the ledger.
    numbers: BTreeMap<String, u64>,
    queries: QueryBudget,
    /// The round of the last message that belongs to one.
    last_round: Option<Round>,
    /// Where products of all runs on the same data are counted.
    all_runs: Option<QueryFile>,
}

impl Ledger {
    /// Records a message, and so makes it sendable.
    pub fn release<M: Recorded>(
        &mut self,
        now: Now,
        to: &PartyId,
        message: M,
    ) -> Result<Released<M>, LedgerError> {
        self.record(now, to, message, (false, None))
    }

    /// Records a message with products of the numbers of some steps.
    pub fn release_products<M: Recorded>(
        &mut self,
        now: Now,
        to: &PartyId,
        message: M,
        steps: Option<QueriedSteps>,
    ) -> Result<Released<M>, LedgerError> {
        self.record(now, to, message, (false, steps))
    }

    /// Records that a message leaves once more, word for word: its numbers do not count again.
    pub fn release_again<M: Recorded>(
        &mut self,
        now: Now,
        to: &PartyId,
        message: M,
    ) -> Result<Released<M>, LedgerError> {
        self.record(now, to, message, (true, None))
    }

    fn record<M: Recorded>(
        &mut self,
        now: Now,
        to: &PartyId,
        message: M,
        (again, steps): (bool, Option<QueriedSteps>),
    ) -> Result<Released<M>, LedgerError> {
        let content = Bytes::from(message.encode());
        let line = LedgerEntry {
            sequence: self.sequence + 1,
            time_ms: u64::try_from(now.unix.as_millis()).unwrap_or(u64::MAX),
            to: to.clone(),
            kind: message.kind().to_owned(),
            round: message.round(),
            shape: message.shape(),
            again,
            steps,
            key: message.key(),
            committed: message.committed(),
            bytes: content.len() as u64,
            digest: HEXLOWER.encode(&Sha256::digest(&content)),
            previous: HEXLOWER.encode(&self.head),
        };
        let text = line.to_text();
        // Before they leave: what a crash cuts off was counted, and not the other way round.
        if let (Some(file), Some(steps)) = (&mut self.all_runs, &line.steps) {
            file.add(steps)?;
        }
        self.sink.append(text.as_bytes()).map_err(|source| self.io(source))?;
        self.sequence += 1;
        self.released += line.bytes;
        let numbers = self.numbers.entry(line.kind.clone()).or_default();
        *numbers = numbers.saturating_add(line.numbers());
        self.queries.count(&line);
        self.last_round = line.round.or(self.last_round);
        self.head = entry::hash(text.trim_end().as_bytes());
        Ok(Released::new(line.to, content, message))
    }

    /// Makes sure that all lines have reached the disk.
    pub fn sync(&mut self) -> Result<(), LedgerError> {
        self.sink.sync().map_err(|source| self.io(source))?;
        self.synced = self.sequence;
        Ok(())
    }

    /// How long it is, and the hash of its last line.
    pub fn head(&self) -> LedgerHead {
        LedgerHead { sequence: self.sequence, head: self.head }
    }

    /// Lines since the last time.
    pub fn unsynced(&self) -> u64 {
        self.sequence - self.synced
    }

    /// Lines so far.
    pub fn len(&self) -> u64 {
        self.sequence
    }

    /// Bytes of the content released since it was opened.
    pub fn released_bytes(&self) -> u64 {
        self.released
    }

    /// How many numbers were released in messages of a kind over the life of the ledger, without retransmissions:
    /// the product of the sides of their shapes, as `fedtse audit ledger` sums them up.
    pub fn numbers(&self, kind: &str) -> u64 {
        self.numbers.get(kind).copied().unwrap_or(0)
    }

    /// Products that have left, by step, over all its life, or that of the data ([`Ledger::counting_in`]).
    pub fn queries(&self) -> &QueryBudget {
        &self.queries
    }

    /// The round of the last message that belongs to one: how far the party came before it was opened.
    pub fn last_round(&self) -> Option<Round> {
        self.last_round
    }

    /// Whether nothing has left yet.
    pub fn is_empty(&self) -> bool {
        self.sequence == 0
    }

    fn io(&self, source: io::Error) -> LedgerError {
        LedgerError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests;
