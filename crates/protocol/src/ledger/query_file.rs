//! Products of all runs on the same data: a file beside these, which a new run does not begin anew.
//!
//! One [`QueriedSteps`] per line, as JSON, on the disk before its message can be sent.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::entry::MAX_LINE;
use super::file::open_alone;
use super::{Ledger, LedgerError, QueriedSteps, QueryBudget};

/// See the [module](self).
pub(super) struct QueryFile {
    path: PathBuf,
    file: File,
    /// Of all whole lines.
    length: u64,
}

impl Ledger {
    /// Counts products over all runs that name this file, and by them the budget.
    ///
    /// # Errors
    /// If it has another content, is in use, or is gone though this ledger has products.
    pub fn counting_in(mut self, path: &Path) -> Result<Self, LedgerError> {
        let (file, spent) = QueryFile::open(path)?;
        if spent.is_empty() && !self.queries.is_empty() {
            let problem = format!(
                "found no products, expected at least those of {}: restore the file",
                self.path.display()
            );
            return Err(LedgerError::Broken { path: path.to_owned(), line: 1, problem });
        }
        (self.queries, self.all_runs) = (spent, Some(file));
        Ok(self)
    }
}

impl QueryFile {
    /// Reads all lines; one that a crash tore apart is cut off, since its message never left.
    fn open(path: &Path) -> Result<(Self, QueryBudget), LedgerError> {
        let io = |source| LedgerError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let file = open_alone(path)?;
        let (mut spent, mut length, mut line) = (QueryBudget::default(), 0, 0);
        let (mut lines, mut text) = (BufReader::new(&file), Vec::new());
        loop {
            text.clear();
            let mut lines = (&mut lines).take(MAX_LINE as u64 + 1);
            let found = lines.read_until(b'\n', &mut text).map_err(io)?;
            line += 1;
            let broken = |problem| LedgerError::Broken { path: path.to_owned(), line, problem };
            if found > MAX_LINE {
                let problem = format!("found more than {MAX_LINE} bytes, expected fewer");
                return Err(broken(problem));
            }
            if text.pop() != Some(b'\n') {
                break;
            }
            let steps: QueriedSteps =
                serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
            if !steps.is_valid() {
                return Err(broken("steps: found none, expected ranges of steps".to_owned()));
            }
            spent.add(&steps);
            length += found as u64;
        }
        file.set_len(length).and_then(|()| file.sync_all()).map_err(io)?;
        durable::sync_folder_of(path).map_err(|error| io(error.source))?;
        Ok((Self { path: path.to_owned(), file, length }, spent))
    }

    pub(super) fn add(&mut self, steps: &QueriedSteps) -> Result<(), LedgerError> {
        // No map with keys that are not text, no number that JSON lacks: this cannot fail.
        let mut line = serde_json::to_vec(steps).unwrap_or_default();
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // Lines go on after a whole one; if that fails too, the next start cuts it off.
            let _ = self.file.set_len(self.length);
            return Err(LedgerError::Io { path: self.path.clone(), source });
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use traffic::{FleetView, Step, Window};

    use super::*;
    use crate::message::ToHost;
    use crate::message::sealed::Sealed;
    use crate::party::{Attempt, Now, PartyId, Round, RunId};

    fn products(ledger: &mut Ledger) -> Result<(), LedgerError> {
        let host = PartyId::new("city").unwrap();
        let exchange =
            crate::message::Exchange { run: RunId(1), attempt: Attempt(1), round: Round(1) };
        let answer = Sealed::new(vec![1; 8]).unwrap();
        let message = ToHost::Products { exchange, size: [3, 10], answer };
        let samples = [Window { last: Step(5), view: FleetView(0) }];
        let steps = QueriedSteps::of(&samples, 10, 30);
        ledger.release_products(Now::default(), &host, message, steps).map(drop)
    }

    #[test]
    fn a_new_run_on_the_same_data_goes_on_with_the_budget_of_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let (guest, counts) = (PartyId::new("fleet-a").unwrap(), folder.path().join("q/a.jsonl"));
        let run = |name: &str| Ledger::open(&folder.path().join(name), &guest).unwrap();
        let spent = |ledger: &Ledger| ledger.queries().most().map_or(0.0, |(_, each)| each);
        let mut first = run("first").counting_in(&counts).unwrap();
        products(&mut first).unwrap();
        assert_eq!(spent(&first), 3.0);
        let error = run("second").counting_in(&counts).err().unwrap().to_string();
        assert!(error.contains("in use"), "{error}");
        drop(first);
        // A crash leaves half a line, of a message that never left.
        let text = std::fs::read(&counts).unwrap();
        std::fs::write(&counts, [&text[..], &text[..9]].concat()).unwrap();
        let mut second = run("second").counting_in(&counts).unwrap();
        assert_eq!(spent(&second), 3.0);
        products(&mut second).unwrap();
        assert_eq!((spent(&second), std::fs::read(&counts).unwrap()), (6.0, text.repeat(2)));
        drop(second);
        // A run that is resumed counts nothing twice; and a file that was deleted is no new budget.
        assert_eq!(spent(&run("first").counting_in(&counts).unwrap()), 6.0);
        std::fs::write(&counts, "").unwrap();
        let error = run("first").counting_in(&counts).err().unwrap().to_string();
        assert!(error.contains("restore the file"), "{error}");
        std::fs::write(&counts, "{\"entries\":1}\n").unwrap();
        let error = run("first").counting_in(&counts).err().unwrap().to_string();
        assert!(error.contains("line 1: missing field"), "{error}");
    }
}
