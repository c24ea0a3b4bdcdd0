//! Over which guests the totals of a step were summed: a file beside the data, which all runs share.
//!
//! ```text
//! {"first":8640,"last":9359,"participants":["fleet-a","fleet-b","fleet-c"]}
//! ```
//!
//! Two sums of the same step over different guests tell their difference. So each step has one set of participants for good, on the
//! disk before a guest signs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::LedgerError;
use super::entry::MAX_LINE;
use super::file::open_alone;
use crate::message::sums::Block;
use crate::party::PartyId;

/// The participants of each step that was summed, as they stand in a file beside the data.
#[derive(Default)]
pub struct SumRecords {
    /// None in memory.
    file: Option<SumFile>,
    /// By the first step of spans that do not overlap: the last step, and who.
    spans: BTreeMap<i64, (i64, BTreeSet<PartyId>)>,
}

struct SumFile {
    path: PathBuf,
    file: File,
    /// Of all whole lines.
    length: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    first: i64,
    last: i64,
    participants: BTreeSet<PartyId>,
}

impl SumRecords {
    /// Reads a file, which is made if need be; a line that a crash tore apart is cut off, since nothing was signed.
    ///
    /// # Errors
    /// If it has another content, or is in use.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let io = |source| LedgerError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let file = open_alone(path)?;
        let mut records = Self::default();
        let (mut length, mut number) = (0, 0);
        let (mut lines, mut text) = (BufReader::new(&file), Vec::new());
        loop {
            text.clear();
            let found = (&mut lines).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut text);
            let found = found.map_err(io)?;
            number += 1;
            let broken =
                |problem| LedgerError::Broken { path: path.to_owned(), line: number, problem };
            if found > MAX_LINE {
                let problem = format!("found more than {MAX_LINE} bytes, expected fewer");
                return Err(broken(problem));
            }
            if text.pop() != Some(b'\n') {
                break;
            }
            let Line { first, last, participants } =
                serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
            if first > last || participants.is_empty() {
                return Err(broken(format!("found steps {first} to {last}, expected some")));
            }
            for (first, last) in records.new_spans(first, last, &participants)? {
                records.insert(first, last, participants.clone());
            }
            length += found as u64;
        }
        file.set_len(length).and_then(|()| file.sync_all()).map_err(io)?;
        durable::sync_folder_of(path).map_err(|error| io(error.source))?;
        records.file = Some(SumFile { path: path.to_owned(), file, length });
        Ok(records)
    }

    /// Records that the totals of some steps go into a sum over these guests, on the disk before it returns.
    ///
    /// # Errors
    /// If a step went into a sum over others, or the file cannot be written.
    pub fn agree(&mut self, block: Block, guests: &BTreeSet<PartyId>) -> Result<(), LedgerError> {
        for (first, last) in self.new_spans(block.first().0, block.last().0, guests)? {
            if let Some(file) = &mut self.file {
                file.add(&Line { first, last, participants: guests.clone() })?;
            }
            self.insert(first, last, guests.clone());
        }
        Ok(())
    }

    /// All steps that were summed, by runs of them with the same participants: the first, the last, and who.
    pub fn spans(&self) -> impl Iterator<Item = (i64, i64, &BTreeSet<PartyId>)> {
        self.spans.iter().map(|(first, (last, guests))| (*first, *last, guests))
    }

    /// The parts of some steps that have no participants yet; refuses others than those that a step has.
    fn new_spans(
        &self,
        first: i64,
        last: i64,
        guests: &BTreeSet<PartyId>,
    ) -> Result<Vec<(i64, i64)>, LedgerError> {
        let (mut new, mut from) = (Vec::new(), first);
        let before = self.spans.range(..first).next_back();
        for (&begin, (end, participants)) in
            before.into_iter().chain(self.spans.range(first..=last))
        {
            if *end < first {
                continue;
            }
            if participants != guests {
                let (first, last) = (first.max(begin), last.min(*end));
                let (found, expected) = (names(guests), names(participants));
                return Err(LedgerError::OtherParticipants { first, last, found, expected });
            }
            if from < begin {
                new.push((from, begin - 1));
            }
            from = end + 1;
        }
        if from <= last {
            new.push((from, last));
        }
        Ok(new)
    }

    /// Joins what follows without a gap: a live guest adds a step at a time.
    fn insert(&mut self, first: i64, last: i64, guests: BTreeSet<PartyId>) {
        if let Some((_, (end, before))) = self.spans.range_mut(..first).next_back()
            && *end + 1 == first
            && *before == guests
        {
            *end = last;
            return;
        }
        self.spans.insert(first, (last, guests));
    }
}

impl SumFile {
    fn add(&mut self, line: &Line) -> Result<(), LedgerError> {
        // No map with keys that are not text, no number that JSON lacks: this cannot fail.
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        if let Err(source) = self.file.write_all(&text).and_then(|()| self.file.sync_data()) {
            // Lines go on after a whole one; if that fails too, the next start cuts it off.
            let _ = self.file.set_len(self.length);
            return Err(LedgerError::Io { path: self.path.clone(), source });
        }
        self.length += text.len() as u64;
        Ok(())
    }
}

fn names(guests: &BTreeSet<PartyId>) -> String {
    let names: Vec<&str> = guests.iter().map(PartyId::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use traffic::Step;

    use super::*;

    fn guests(names: &[&str]) -> BTreeSet<PartyId> {
        names.iter().map(|name| PartyId::new(name).unwrap()).collect()
    }

    fn block(first: i64, last: i64) -> Block {
        Block::new(Step(first), Step(last)).unwrap()
    }

    #[test]
    fn a_step_has_one_set_of_participants_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sums/fleet-a.jsonl");
        let (all, two) = (guests(&["a", "b", "c"]), guests(&["a", "b"]));
        let mut records = SumRecords::open(&path).unwrap();
        records.agree(block(10, 19), &all).unwrap();
        records.agree(block(30, 39), &two).unwrap();
        // The same again, in other blocks, says nothing new.
        for (first, last) in [(10, 19), (12, 13), (5, 25)] {
            records.agree(block(first, last), &all).unwrap();
        }
        let error = records.agree(block(25, 25), &two).unwrap_err().to_string();
        assert_eq!(
            error,
            "steps 25 to 25: found a sum over a, b, expected a, b, c as before: the difference between two sums is what single guests drive"
        );
        for (first, last) in [(0, 5), (19, 19), (0, 100), (25, 30)] {
            assert!(records.agree(block(first, last), &two).is_err(), "{first} to {last}");
        }
        // What was refused is not kept: the steps beside it are still free.
        records.agree(block(26, 29), &two).unwrap();
        assert!(SumRecords::open(&path).err().unwrap().to_string().contains("in use"));
        drop(records);
        // A crash leaves half a line, of participants that nobody has signed.
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&text[..], &text[..9]].concat()).unwrap();
        let mut again = SumRecords::open(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), text);
        again.agree(block(5, 25), &all).unwrap();
        assert!(again.agree(block(5, 5), &two).is_err());
        assert!(again.agree(block(39, 39), &all).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), text);
        drop(again);
        std::fs::write(&path, "{\"first\":3,\"last\":2,\"participants\":[\"a\"]}\n").unwrap();
        let error = SumRecords::open(&path).err().unwrap().to_string();
        assert!(error.contains("line 1: found steps 3 to 2"), "{error}");
    }

    #[test]
    fn a_live_guest_that_adds_a_step_at_a_time_keeps_one_span() {
        let mut records = SumRecords::default();
        for step in 0..1000 {
            records.agree(block(step, step), &guests(&["a", "b"])).unwrap();
        }
        assert_eq!(records.spans.len(), 1);
    }
}
