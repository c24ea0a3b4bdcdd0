//! What has left the parties of a run, as their own ledgers tell it.

use std::path::{Path, PathBuf};

use protocol::PartyId;
use protocol::ledger::{Audit, MemorySink, audit, audit_file};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Where a party's ledger was written.
pub(crate) enum Written {
    File(PathBuf),
    Memory(MemorySink),
}

/// All that one party has sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Releases {
    /// Its name.
    pub party: String,
    /// Messages in all.
    pub messages: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// Hash of the ledger's last line.
    pub head: String,
    /// By receiver and kind.
    pub sent: Vec<Sent>,
}

/// Messages of one kind to one receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// The receiver.
    pub to: String,
    /// The kind.
    pub kind: String,
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Numbers of embeddings, gradients or measurements among it.
    pub numbers: u64,
}

impl Releases {
    /// Verifies a ledger and sums it up.
    pub(crate) fn read(party: &PartyId, written: &Written) -> Result<Self> {
        let audit = match written {
            Written::File(path) => audit_file(path, party)?,
            Written::Memory(sink) => audit(&sink.bytes()[..], Path::new("(memory)"), party)?,
        };
        Ok(Self::of(party, audit))
    }

    fn of(party: &PartyId, audit: Audit) -> Self {
        let sent = audit.tallies.into_iter().map(|((to, kind), tally)| Sent {
            to: to.to_string(),
            kind,
            messages: tally.messages,
            bytes: tally.bytes,
            numbers: tally.numbers,
        });
        Self {
            party: party.to_string(),
            messages: audit.messages,
            bytes: audit.bytes,
            head: audit.head,
            sent: sent.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_ledger_says_that_nothing_left() {
        let party = PartyId::new("fleet-a").unwrap();
        let releases = Releases::read(&party, &Written::Memory(MemorySink::default())).unwrap();
        assert_eq!((releases.party.as_str(), releases.messages, releases.bytes), ("fleet-a", 0, 0));
        assert!(releases.sent.is_empty());
        assert!(Releases::read(&party, &Written::File("/nowhere/ledger.jsonl".into())).is_err());
    }
}
