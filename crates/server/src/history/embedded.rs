//! Estimates in a file beside the host: redb, one process at a time.
//!
//! A value is little-endian bytes:
//!
//! ```text
//! 1 byte version · 8 made_s · 8 latency_s · 4 length + participants as JSON
//! 4 links · 1 whether intervals follow · of each link 2 or 6 numbers of 8 bytes
//! ```
//!
//! Every number keeps its bits, so that stored estimates read as they were published.

use std::path::Path;

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition,
};
use traffic::{LinkState, Step, VehPerKmLane, VehPerMinLane};

use super::{History, HistoryError, LinkStep, StepRange, StoredInfo, join_steps};
use crate::estimate::{Estimate, LinkEstimate, LinkInterval, SeriesInfo};

const ESTIMATES: TableDefinition<'_, i64, &[u8]> = TableDefinition::new("estimates");
const INFO: TableDefinition<'_, &str, &str> = TableDefinition::new("about");
const INFO_KEY: &str = "about";
const FILE: &str = "history.redb";
/// Pages that are kept in memory; the store's own default is a gigabyte.
const CACHE_BYTES: usize = 32 << 20;

const VERSION: u8 = 1;
/// Numbers of a link.
const PLAIN: usize = 2;
const WITH_INTERVALS: usize = 6;

/// See the module's text.
pub struct EmbeddedHistory {
    database: Database,
}

macro_rules! from_redb {
    ($($error:ident),*) => {$(
        impl From<redb::$error> for HistoryError {
            fn from(error: redb::$error) -> Self {
                HistoryError::Embedded(Box::new(error.into()))
            }
        }
    )*};
}

from_redb!(TransactionError, TableError, StorageError, CommitError);

impl EmbeddedHistory {
    /// Opens a folder, and creates it where there is none.
    pub fn open(folder: &Path, info: &SeriesInfo) -> Result<Self, HistoryError> {
        let shown = folder.display().to_string();
        std::fs::create_dir_all(folder)
            .map_err(|error| HistoryError::Folder { folder: shown.clone(), error })?;
        let store = Self { database: database(folder, true)? };
        let write = store.database.begin_write()?;
        {
            write.open_table(ESTIMATES)?;
            let mut table = write.open_table(INFO)?;
            let found = table.get(INFO_KEY)?.map(|found| found.value().to_owned());
            if let Some(found) = found {
                StoredInfo::parse(&found)?.check(&shown, info)?;
            }
            let text = serde_json::to_string(&StoredInfo::new(info))?;
            table.insert(INFO_KEY, text.as_str())?;
        }
        write.commit()?;
        Ok(store)
    }

    /// Opens a folder that a host has filled.
    pub(crate) fn open_existing(folder: &Path) -> Result<(Self, SeriesInfo), HistoryError> {
        let store = Self { database: database(folder, false)? };
        let text = {
            let read = store.database.begin_read()?;
            let table = read.open_table(INFO)?;
            let missing = || HistoryError::Record("about: not found, expected one".into());
            table.get(INFO_KEY)?.ok_or_else(missing)?.value().to_owned()
        };
        let info = StoredInfo::parse(&text)?.info()?;
        Ok((store, info))
    }
}

fn database(folder: &Path, create: bool) -> Result<Database, HistoryError> {
    let file = folder.join(FILE);
    let path = file.display().to_string();
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let opened = if create { builder.create(&file) } else { builder.open(&file) };
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => HistoryError::InUse { path },
        error => HistoryError::Open { path, error: Box::new(error) },
    })
}

impl History for EmbeddedHistory {
    fn store(&self, estimate: &Estimate) -> Result<(), HistoryError> {
        let bytes = encode(estimate)?;
        // Durable when it is committed, by the store's default.
        let write = self.database.begin_write()?;
        write.open_table(ESTIMATES)?.insert(estimate.step.0, bytes.as_slice())?;
        write.commit()?;
        Ok(())
    }

    fn ranges(&self) -> Result<Vec<StepRange>, HistoryError> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ESTIMATES)?;
        let (Some((first, _)), Some((last, _))) = (table.first()?, table.last()?) else {
            return Ok(Vec::new());
        };
        let (first, last) = (Step(first.value()), Step(last.value()));
        // Mostly nothing is missing, and then none of the steps need be looked at.
        if table.len()? == last.0.abs_diff(first.0) + 1 {
            return Ok(vec![StepRange { first, last }]);
        }
        let steps: Vec<Step> = table
            .iter()?
            .map(|row| Ok(Step(row?.0.value())))
            .collect::<Result<_, HistoryError>>()?;
        Ok(join_steps(steps.into_iter()))
    }

    fn get(&self, step: Step) -> Result<Option<Estimate>, HistoryError> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ESTIMATES)?;
        let found = table.get(step.0)?;
        found.map(|found| decode(step, found.value())).transpose()
    }

    fn for_each(
        &self,
        from: Step,
        to: Step,
        visit: &mut dyn FnMut(Estimate) -> bool,
    ) -> Result<(), HistoryError> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ESTIMATES)?;
        for row in table.range(from.0..=to.0)? {
            let (step, bytes) = row?;
            if !visit(decode(Step(step.value()), bytes.value())?) {
                break;
            }
        }
        Ok(())
    }

    fn link_series(
        &self,
        link: usize,
        from: Step,
        to: Step,
    ) -> Result<Vec<LinkStep>, HistoryError> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ESTIMATES)?;
        let row = |row: Result<
            (redb::AccessGuard<'_, i64>, redb::AccessGuard<'_, &[u8]>),
            redb::StorageError,
        >| {
            let (step, bytes) = row?;
            decode_link(Step(step.value()), bytes.value(), link)
        };
        table.range(from.0..=to.0)?.map(row).collect()
    }

    fn delete_before(&self, step: Step) -> Result<u64, HistoryError> {
        let write = self.database.begin_write()?;
        let mut deleted = 0;
        {
            let mut table = write.open_table(ESTIMATES)?;
            table.retain_in(..step.0, |_, _| {
                deleted += 1;
                false
            })?;
        }
        write.commit()?;
        Ok(deleted)
    }
}

pub(super) fn encode(estimate: &Estimate) -> Result<Vec<u8>, HistoryError> {
    let participants = serde_json::to_vec(&estimate.participants)?;
    let mut bytes = vec![VERSION];
    bytes.extend(estimate.made_s.to_le_bytes());
    bytes.extend(estimate.latency_s.to_le_bytes());
    bytes.extend(length(participants.len())?.to_le_bytes());
    bytes.extend(participants);
    bytes.extend(length(estimate.states.len())?.to_le_bytes());
    bytes.push(u8::from(estimate.intervals.is_some()));
    for link in estimate.links() {
        let mut numbers = vec![link.state.density.get(), link.state.flow.get()];
        if estimate.intervals.is_some() {
            let interval = link.interval.ok_or_else(|| {
                HistoryError::Record(
                    "found a link without an interval, expected one of each".into(),
                )
            })?;
            numbers.extend(interval.density.into_iter().chain(interval.flow));
        }
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    Ok(bytes)
}

fn length(found: usize) -> Result<u32, HistoryError> {
    let expected = u32::MAX;
    let wrong =
        |_| HistoryError::Record(format!("found a length of {found}, expected at most {expected}"));
    u32::try_from(found).map_err(wrong)
}

pub(super) fn decode(step: Step, bytes: &[u8]) -> Result<Estimate, HistoryError> {
    let (head, rows) = RecordHeader::read(bytes)?;
    let all: Vec<LinkEstimate> =
        (0..head.links).map(|at| head.link(rows, at)).collect::<Result<_, _>>()?;
    Ok(Estimate {
        step,
        made_s: head.made_s,
        latency_s: head.latency_s,
        participants: serde_json::from_slice(head.participants)?,
        states: all.iter().map(|link| link.state).collect(),
        intervals: all.iter().map(|link| link.interval).collect(),
    })
}

/// One link of an estimate, without reading the others.
fn decode_link(step: Step, bytes: &[u8], link: usize) -> Result<LinkStep, HistoryError> {
    let (head, rows) = RecordHeader::read(bytes)?;
    if link >= head.links {
        let text = format!("found {} links, expected more than {link}", head.links);
        return Err(HistoryError::Record(text));
    }
    let participants = serde_json::from_slice(head.participants)?;
    Ok(LinkStep { step, link: head.link(rows, link)?, participants })
}

struct RecordHeader<'a> {
    made_s: f64,
    latency_s: f64,
    participants: &'a [u8],
    links: usize,
    numbers: usize,
}

impl<'a> RecordHeader<'a> {
    fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), HistoryError> {
        let mut reader = Reader(bytes);
        let [version] = reader.take()?;
        if version != VERSION {
            let text = format!("found version {version}, expected {VERSION}");
            return Err(HistoryError::Record(text));
        }
        let (made_s, latency_s) = (reader.number()?, reader.number()?);
        let length = reader.length()?;
        let participants = reader.slice(length)?;
        let links = reader.length()?;
        let [intervals] = reader.take()?;
        if intervals > 1 {
            let text = format!("intervals: found {intervals}, expected 0 or 1");
            return Err(HistoryError::Record(text));
        }
        let numbers = if intervals == 1 { WITH_INTERVALS } else { PLAIN };
        let (found, expected) = (reader.0.len(), links.checked_mul(8 * numbers));
        if Some(found) != expected {
            let text = format!("found {found} bytes of {links} links, expected {expected:?}");
            return Err(HistoryError::Record(text));
        }
        Ok((RecordHeader { made_s, latency_s, participants, links, numbers }, reader.0))
    }

    fn link(&self, rows: &[u8], at: usize) -> Result<LinkEstimate, HistoryError> {
        let mut reader = Reader(rows.get(8 * self.numbers * at..).unwrap_or_default());
        let state = LinkState {
            density: VehPerKmLane::new(reader.number()?),
            flow: VehPerMinLane::new(reader.number()?),
        };
        let interval = if self.numbers == WITH_INTERVALS {
            let density = [reader.number()?, reader.number()?];
            Some(LinkInterval { density, flow: [reader.number()?, reader.number()?] })
        } else {
            None
        };
        Ok(LinkEstimate { state, interval })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn slice(&mut self, length: usize) -> Result<&'a [u8], HistoryError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], HistoryError> {
        self.slice(N)?.try_into().map_err(|_| truncated())
    }

    fn number(&mut self) -> Result<f64, HistoryError> {
        let number = f64::from_le_bytes(self.take()?);
        if !number.is_finite() {
            let text = format!("found {number}, expected a finite number");
            return Err(HistoryError::Record(text));
        }
        Ok(number)
    }

    fn length(&mut self) -> Result<usize, HistoryError> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }
}

fn truncated() -> HistoryError {
    HistoryError::Record("found a truncated estimate, expected a whole one".into())
}
