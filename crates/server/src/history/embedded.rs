//! Estimates in a file beside the host: redb, one process at a time.
//!
//! An estimate is a head and blocks of [`BLOCK`] links, so that one link over a day is read without all others. Both are
//! little-endian bytes:
//!
//! ```text
//! head of a step            1 byte version · 8 made_s · 8 latency_s · 4 length + participants as JSON
//!                           4 links · 1 whether there are intervals
//! block of a block, a step  of each link 2 or 6 numbers of 8 bytes
//! ```
//!
//! In version 1 the numbers of all links follow their head; such estimates are still read. Every number keeps its bits, so that
//! stored estimates read as they were published.

use std::path::Path;

use redb::{
    AccessGuard, Database, DatabaseError, ReadOnlyTable, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition, TableError, WriteTransaction,
};
use traffic::{LinkState, MAX_LINKS, Step, VehPerKmLane, VehPerMinLane};

use super::{History, HistoryError, LinkStep, StepRange, StoredInfo, join_steps};
use crate::estimate::{Estimate, LinkEstimate, LinkInterval, SeriesInfo};

const ESTIMATES: TableDefinition<'_, i64, &[u8]> = TableDefinition::new("estimates");
/// By block and step.
const BLOCKS: TableDefinition<'_, (u32, i64), &[u8]> = TableDefinition::new("blocks");
const INFO: TableDefinition<'_, &str, &str> = TableDefinition::new("about");
const INFO_KEY: &str = "about";
const FILE: &str = "history.redb";
/// Pages that are kept in memory; the store's own default is a gigabyte.
const CACHE_BYTES: usize = 32 << 20;

/// Numbers of all links behind their head.
const IN_ONE: u8 = 1;
/// Numbers in blocks.
const VERSION: u8 = 2;
/// Links of a block: with intervals they fill a page of 4 kB.
const BLOCK: usize = 80;
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
            write.open_table(BLOCKS)?;
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

/// The tables of one moment.
struct Snapshot {
    estimates: ReadOnlyTable<i64, &'static [u8]>,
    /// None in a store that a former version has written.
    blocks: Option<ReadOnlyTable<(u32, i64), &'static [u8]>>,
}

impl Snapshot {
    fn of(database: &Database) -> Result<Self, HistoryError> {
        let read = database.begin_read()?;
        let blocks = match read.open_table(BLOCKS) {
            Ok(blocks) => Some(blocks),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Snapshot { estimates: read.open_table(ESTIMATES)?, blocks })
    }

    /// The numbers of a block's links.
    fn block(
        &self,
        block: usize,
        step: Step,
    ) -> Result<AccessGuard<'_, &'static [u8]>, HistoryError> {
        let missing = || HistoryError::Record("found no block of an estimate, expected one".into());
        let blocks = self.blocks.as_ref().ok_or_else(missing)?;
        blocks.get((block as u32, step.0))?.ok_or_else(missing)
    }

    fn estimate(&self, step: Step, head: &[u8]) -> Result<Estimate, HistoryError> {
        let (header, rows) = RecordHeader::read(head)?;
        if header.version == IN_ONE {
            return header.estimate(step, rows);
        }
        let mut rows = Vec::with_capacity(8 * header.numbers * header.links);
        for block in 0..header.links.div_ceil(BLOCK) {
            rows.extend_from_slice(self.block(block, step)?.value());
        }
        header.estimate(step, &rows)
    }

    /// One link of an estimate, without reading the others.
    fn link(
        &self,
        step: Step,
        header: &RecordHeader<'_>,
        rows: &[u8],
        link: usize,
    ) -> Result<LinkEstimate, HistoryError> {
        if link >= header.links {
            let text = format!("found {} links, expected more than {link}", header.links);
            return Err(HistoryError::Record(text));
        }
        if header.version == IN_ONE {
            return header.link(rows, link);
        }
        header.link(self.block(link / BLOCK, step)?.value(), link % BLOCK)
    }
}

/// Writes an estimate in the place of those from one step to another, if there are such.
fn write(
    database: &Database,
    replaced: Option<(Step, Step)>,
    estimate: &Estimate,
) -> Result<(), HistoryError> {
    let (head, blocks) = encode(estimate)?;
    // Durable when it is committed, by the store's default.
    let write = database.begin_write()?;
    if let Some((from, to)) = replaced {
        delete(&write, from.0, to.0)?;
    }
    write.open_table(ESTIMATES)?.insert(estimate.step.0, head.as_slice())?;
    let mut table = write.open_table(BLOCKS)?;
    for (number, block) in blocks.iter().enumerate() {
        table.insert((number as u32, estimate.step.0), block.as_slice())?;
    }
    drop(table);
    write.commit()?;
    Ok(())
}

/// Deletes from one step to another, both included; how many there were.
fn delete(write: &WriteTransaction, from: i64, to: i64) -> Result<u64, HistoryError> {
    let (mut deleted, mut blocks) = (0, 0);
    write.open_table(ESTIMATES)?.retain_in(from..=to, |_, head| {
        deleted += 1;
        let links = RecordHeader::read(head).map_or(0, |(header, _)| header.links);
        blocks = blocks.max(links.div_ceil(BLOCK));
        false
    })?;
    let mut table = write.open_table(BLOCKS)?;
    for block in 0..blocks as u32 {
        table.retain_in((block, from)..=(block, to), |_, _| false)?;
    }
    Ok(deleted)
}

impl History for EmbeddedHistory {
    fn store(&self, estimate: &Estimate) -> Result<(), HistoryError> {
        write(&self.database, None, estimate)
    }

    fn replace(&self, from: Step, to: Step, by: &Estimate) -> Result<(), HistoryError> {
        write(&self.database, Some((from, to)), by)
    }

    fn ranges(&self) -> Result<Vec<StepRange>, HistoryError> {
        let Snapshot { estimates: table, .. } = Snapshot::of(&self.database)?;
        let (Some((first, _)), Some((last, _))) = (table.first()?, table.last()?) else {
            return Ok(Vec::new());
        };
        let (first, last) = (Step(first.value()), Step(last.value()));
        // Mostly nothing is missing, and then none of the steps need be looked at.
        if table.len()? == last.0.abs_diff(first.0) + 1 {
            return Ok(vec![StepRange { first, last, every: 1 }]);
        }
        let steps: Vec<Step> = table
            .iter()?
            .map(|row| Ok(Step(row?.0.value())))
            .collect::<Result<_, HistoryError>>()?;
        Ok(join_steps(steps.into_iter()))
    }

    fn get(&self, step: Step) -> Result<Option<Estimate>, HistoryError> {
        let snapshot = Snapshot::of(&self.database)?;
        let found = snapshot.estimates.get(step.0)?;
        found.map(|head| snapshot.estimate(step, head.value())).transpose()
    }

    fn for_each(
        &self,
        from: Step,
        to: Step,
        visit: &mut dyn FnMut(Estimate) -> bool,
    ) -> Result<(), HistoryError> {
        let snapshot = Snapshot::of(&self.database)?;
        for row in snapshot.estimates.range(from.0..=to.0)? {
            let (step, head) = row?;
            if !visit(snapshot.estimate(Step(step.value()), head.value())?) {
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
        let snapshot = Snapshot::of(&self.database)?;
        let mut all = Vec::new();
        for row in snapshot.estimates.range(from.0..=to.0)? {
            let (step, head) = row?;
            let step = Step(step.value());
            let (header, rows) = RecordHeader::read(head.value())?;
            let participants = serde_json::from_slice(header.participants)?;
            let link = snapshot.link(step, &header, rows, link)?;
            all.push(LinkStep { step, link, participants });
        }
        Ok(all)
    }

    fn route_series(
        &self,
        links: &[usize],
        from: Step,
        to: Step,
    ) -> Result<Vec<(Step, Vec<LinkEstimate>)>, HistoryError> {
        let snapshot = Snapshot::of(&self.database)?;
        let mut all = Vec::new();
        for row in snapshot.estimates.range(from.0..=to.0)? {
            let (step, head) = row?;
            let step = Step(step.value());
            let (header, rows) = RecordHeader::read(head.value())?;
            let of_step = links.iter().map(|&link| snapshot.link(step, &header, rows, link));
            all.push((step, of_step.collect::<Result<_, _>>()?));
        }
        Ok(all)
    }

    fn delete_before(&self, step: Step) -> Result<u64, HistoryError> {
        let Some(last) = step.0.checked_sub(1) else { return Ok(0) };
        let write = self.database.begin_write()?;
        let deleted = delete(&write, i64::MIN, last)?;
        write.commit()?;
        Ok(deleted)
    }
}

/// The head of an estimate, and its blocks.
pub(super) fn encode(estimate: &Estimate) -> Result<(Vec<u8>, Vec<Vec<u8>>), HistoryError> {
    let participants = serde_json::to_vec(&estimate.participants)?;
    let mut head = vec![VERSION];
    head.extend(estimate.made_s.to_le_bytes());
    head.extend(estimate.latency_s.to_le_bytes());
    head.extend(length(participants.len())?.to_le_bytes());
    head.extend(participants);
    head.extend(length(estimate.states.len())?.to_le_bytes());
    head.push(u8::from(estimate.intervals.is_some()));
    let mut blocks: Vec<Vec<u8>> = vec![Vec::new(); estimate.states.len().div_ceil(BLOCK)];
    for (at, link) in estimate.links().enumerate() {
        let mut numbers = vec![link.state.density.get(), link.state.flow.get()];
        if estimate.intervals.is_some() {
            let interval = link.interval.ok_or_else(|| {
                HistoryError::Record(
                    "found a link without an interval, expected one of each".into(),
                )
            })?;
            numbers.extend(interval.density.into_iter().chain(interval.flow));
        }
        if let Some(block) = blocks.get_mut(at / BLOCK) {
            numbers.iter().for_each(|number| block.extend(number.to_le_bytes()));
        }
    }
    Ok((head, blocks))
}

fn length(found: usize) -> Result<u32, HistoryError> {
    let expected = u32::MAX;
    let wrong =
        |_| HistoryError::Record(format!("found a length of {found}, expected at most {expected}"));
    u32::try_from(found).map_err(wrong)
}

pub(super) struct RecordHeader<'a> {
    version: u8,
    made_s: f64,
    latency_s: f64,
    participants: &'a [u8],
    links: usize,
    numbers: usize,
}

impl<'a> RecordHeader<'a> {
    /// The head, and the numbers that follow it in version 1.
    pub(super) fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), HistoryError> {
        let mut reader = Reader(bytes);
        let [version] = reader.take()?;
        if ![IN_ONE, VERSION].contains(&version) {
            let text = format!("found version {version}, expected {IN_ONE} or {VERSION}");
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
        let header = RecordHeader { version, made_s, latency_s, participants, links, numbers };
        if links > MAX_LINKS {
            let text = format!("found {links} links, expected at most {MAX_LINKS}");
            return Err(HistoryError::Record(text));
        }
        header.check(reader.0, if version == IN_ONE { links } else { 0 })?;
        Ok((header, reader.0))
    }

    /// Checks the length of the numbers of some links.
    fn check(&self, rows: &[u8], links: usize) -> Result<(), HistoryError> {
        let (found, expected) = (rows.len(), links.checked_mul(8 * self.numbers));
        if Some(found) != expected {
            let text = format!("found {found} bytes of {links} links, expected {expected:?}");
            return Err(HistoryError::Record(text));
        }
        Ok(())
    }

    /// The estimate with the numbers of all links.
    pub(super) fn estimate(&self, step: Step, rows: &[u8]) -> Result<Estimate, HistoryError> {
        self.check(rows, self.links)?;
        let all: Vec<LinkEstimate> =
            (0..self.links).map(|at| self.link(rows, at)).collect::<Result<_, _>>()?;
        Ok(Estimate {
            step,
            made_s: self.made_s,
            latency_s: self.latency_s,
            participants: serde_json::from_slice(self.participants)?,
            states: all.iter().map(|link| link.state).collect(),
            intervals: all.iter().map(|link| link.interval).collect(),
        })
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
