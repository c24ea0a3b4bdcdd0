//! Reads a ledger: is it whole, and what does it say?

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use data_encoding::HEXLOWER;
use serde::Serialize;

use super::LedgerError;
use super::entry::{self, LedgerEntry, MAX_LINE, UsedKey};
use super::queried_steps::QueryBudget;
use crate::message::committed::Digest;
use crate::party::{PartyId, Round};

/// What a whole ledger says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// Lines.
    pub messages: u64,
    /// Content of all messages.
    pub bytes: u64,
    /// First and last round that anything was sent in.
    pub rounds: Option<(Round, Round)>,
    /// By receiver and kind.
    pub tallies: BTreeMap<(PartyId, String), Tally>,
    /// Products of what it holds, by step.
    #[serde(skip)]
    pub queries: QueryBudget,
    /// Keys for sealed products: its own, and those of others that it has encrypted with.
    pub keys: BTreeSet<UsedKey>,
    /// What has been committed to, by whom it was told: by a guest to its host, or of a guest by the host. The last
    /// digest is that of all; it is to be the same at both.
    pub committed: BTreeMap<PartyId, Digest>,
    /// Hash of the last line.
    pub head: String,
    /// Bytes of a last line that was torn apart: never released, and cut off when the party starts.
    pub torn: u64,
    /// The round of the last message that belongs to one.
    #[serde(skip)]
    pub last_round: Option<Round>,
    #[serde(skip)]
    pub(super) end: u64,
    #[serde(skip)]
    pub(super) head_bytes: [u8; 32],
}

/// Messages of one kind to one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// How many.
    pub messages: u64,
    /// Their content.
    pub bytes: u64,
    /// How many numbers of embeddings or gradients they contain.
    pub numbers: u64,
}

/// Verifies and sums up the ledger of a party.
pub fn audit_file(path: &Path, party: &PartyId) -> Result<Audit, LedgerError> {
    let file =
        File::open(path).map_err(|source| LedgerError::Io { path: path.to_owned(), source })?;
    audit(BufReader::new(file), path, party)
}

/// The same from any reader; `path` is for messages.
pub fn audit(reader: impl BufRead, path: &Path, party: &PartyId) -> Result<Audit, LedgerError> {
    audit_lines(reader, path, party, |_, _| ())
}

/// The same, telling the number and hash of each line.
pub(super) fn audit_lines(
    mut reader: impl BufRead,
    path: &Path,
    party: &PartyId,
    mut on_line: impl FnMut(u64, &[u8; 32]),
) -> Result<Audit, LedgerError> {
    let head = entry::beginning(party, entry::FORMAT);
    let mut audit = Audit {
        messages: 0,
        bytes: 0,
        rounds: None,
        tallies: BTreeMap::new(),
        queries: QueryBudget::default(),
        keys: BTreeSet::new(),
        committed: BTreeMap::new(),
        head: String::new(),
        torn: 0,
        last_round: None,
        end: 0,
        head_bytes: head,
    };
    let mut text = Vec::new();
    loop {
        text.clear();
        let found = read_line(&mut reader, &mut text)
            .map_err(|source| LedgerError::Io { path: path.to_owned(), source })?;
        if found == 0 {
            break;
        }
        if text.last() != Some(&b'\n') {
            // Half a line, or the zeros that a file system leaves where power failed before the line was
            // on the disk.
            let zeros = zeros_to_the_end(&text, &mut reader)
                .map_err(|source| LedgerError::Io { path: path.to_owned(), source })?;
            if found <= MAX_LINE || zeros.is_some() {
                audit.torn = found as u64 + zeros.unwrap_or(0);
                break;
            }
        }
        let broken = |problem: String| LedgerError::Broken {
            path: path.to_owned(),
            line: audit.messages + 1,
            problem,
        };
        if found > MAX_LINE {
            return Err(broken(format!("found more than {MAX_LINE} bytes, expected fewer")));
        }
        text.pop();
        if audit.messages == 0
            && let Some(format) = (1..entry::FORMAT).find(|format| begins(&text, party, *format))
        {
            let expected = entry::FORMAT;
            return Err(broken(format!(
                "format: found {format}, expected {expected}; this ledger was written by an earlier version"
            )));
        }
        let line: LedgerEntry =
            serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
        // The hash covers the text, the sums use its meaning: they must not differ.
        if line.to_text().trim_end().as_bytes() != text {
            return Err(broken("found another spelling than the one ledgers use".to_owned()));
        }
        if line.sequence != audit.messages + 1 {
            return Err(broken(format!(
                "sequence: found {}, expected {}",
                line.sequence,
                audit.messages + 1
            )));
        }
        if line.steps.as_ref().is_some_and(|about| !about.is_valid()) {
            return Err(broken("steps: found none, expected ranges of steps".to_owned()));
        }
        let expected = HEXLOWER.encode(&audit.head_bytes);
        if line.previous != expected {
            let problem = format!(
                "hash of the line before: found {}, expected {expected}; a line was changed, removed or put in, or this is the ledger of another party than `{party}`",
                line.previous
            );
            return Err(broken(problem));
        }
        audit.head_bytes = entry::hash(&text);
        on_line(line.sequence, &audit.head_bytes);
        audit.end += found as u64;
        audit.add(&line);
    }
    audit.head = HEXLOWER.encode(&audit.head_bytes);
    Ok(audit)
}

impl Audit {
    /// How many numbers were sent by kind of message, over all recipients.
    pub(super) fn numbers(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for ((_, kind), tally) in &self.tallies {
            let sum: &mut u64 = sums.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(tally.numbers);
        }
        sums
    }

    fn add(&mut self, line: &LedgerEntry) {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(line.bytes);
        self.queries.count(line);
        self.keys.extend(line.key.clone());
        self.committed.extend(line.committed.map(|digest| (line.to.clone(), digest)));
        if let Some(round) = line.round {
            let (first, last) = self.rounds.unwrap_or((round, round));
            self.rounds = Some((first.min(round), last.max(round)));
            self.last_round = Some(round);
        }
        let tally = self.tallies.entry((line.to.clone(), line.kind.clone())).or_default();
        tally.messages += 1;
        tally.bytes = tally.bytes.saturating_add(line.bytes);
        tally.numbers = tally.numbers.saturating_add(line.numbers());
    }
}

/// Whether this is the first line of a ledger in some format.
fn begins(line: &[u8], party: &PartyId, format: u32) -> bool {
    let beginning = HEXLOWER.encode(&entry::beginning(party, format));
    let line: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    line.is_some_and(|line| line["previous"] == beginning.as_str())
}

/// One line with its end, or a bit more than the longest that is allowed.
fn read_line(reader: &mut impl BufRead, to: &mut Vec<u8>) -> io::Result<usize> {
    reader.take(MAX_LINE as u64 + 1).read_until(b'\n', to)
}

/// If what has been read ends with zeros, and nothing but zeros follows: how many more.
fn zeros_to_the_end(text: &[u8], reader: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut more = 0;
    if text.last() != Some(&0) {
        return Ok(None);
    }
    loop {
        let next = reader.fill_buf()?;
        if next.is_empty() {
            return Ok(Some(more));
        }
        if next.iter().any(|byte| *byte != 0) {
            return Ok(None);
        }
        let length = next.len();
        reader.consume(length);
        more += length as u64;
    }
}
