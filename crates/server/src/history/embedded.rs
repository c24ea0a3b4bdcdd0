//! The past in a file beside the host: redb, one process at a time.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition,
};
use traffic::Step;

use super::codec::{decode, decode_link, encode};
use super::{AboutFile, History, LinkMoment, Stretch, stretches};
use crate::serve::record::{About, Record};

const ESTIMATES: TableDefinition<'_, i64, &[u8]> = TableDefinition::new("estimates");
const ABOUT: TableDefinition<'_, &str, &str> = TableDefinition::new("about");
const FILE: &str = "history.redb";
/// Pages that are kept in memory; the store's own default is a gigabyte.
const CACHE_BYTES: usize = 32 << 20;

/// See the module's text.
pub struct Embedded {
    database: Database,
}

impl Embedded {
    /// Opens a folder, and makes it where there is none.
    pub fn open(folder: &Path, about: &About) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let store = Self { database: database(folder, true)? };
        let write = store.database.begin_write()?;
        {
            write.open_table(ESTIMATES)?;
            let mut table = write.open_table(ABOUT)?;
            let found = table.get("about")?.map(|found| found.value().to_owned());
            if let Some(found) = found {
                AboutFile::parse(&found)
                    .and_then(|found| found.check(about))
                    .with_context(|| folder.display().to_string())?;
            }
            let text = serde_json::to_string(&AboutFile::of(about))?;
            table.insert("about", text.as_str())?;
        }
        write.commit()?;
        Ok(store)
    }

    /// Opens a folder that a host has filled.
    pub fn open_alone(folder: &Path) -> Result<(Self, About)> {
        let store = Self { database: database(folder, false)? };
        let text = {
            let read = store.database.begin_read()?;
            let table = read.open_table(ABOUT)?;
            let found = table.get("about")?.context("about: expected what the past is of")?;
            found.value().to_owned()
        };
        let about = AboutFile::parse(&text)?.about()?;
        Ok((store, about))
    }
}

fn database(folder: &Path, create: bool) -> Result<Database> {
    let path = folder.join(FILE);
    let shown = path.display();
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let opened = if create { builder.create(&path) } else { builder.open(&path) };
    match opened {
        Err(DatabaseError::DatabaseAlreadyOpen) => bail!(
            "{shown}: is open in another process (a live host?); ask that one, or keep the past in PostgreSQL"
        ),
        opened => opened.map_err(|error| anyhow!("{shown}: {error}")),
    }
}

impl History for Embedded {
    fn keep(&self, record: &Record) -> Result<()> {
        let bytes = encode(record)?;
        // Durable when it is committed, by the store's default.
        let write = self.database.begin_write()?;
        write.open_table(ESTIMATES)?.insert(record.step.0, bytes.as_slice())?;
        write.commit()?;
        Ok(())
    }

    fn stretches(&self) -> Result<Vec<Stretch>> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ESTIMATES)?;
        let (Some((first, _)), Some((last, _))) = (table.first()?, table.last()?) else {
            return Ok(Vec::new());
        };
        let (first, last) = (Step(first.value()), Step(last.value()));
        // Mostly nothing is missing, and then none of the steps need be looked at.
        if table.len()? == last.0.abs_diff(first.0) + 1 {
            return Ok(vec![Stretch { first, last }]);
        }
        let steps: Vec<Step> =
            table.iter()?.map(|row| Ok(Step(row?.0.value()))).collect::<Result<_>>()?;
        Ok(stretches(steps.into_iter()))
    }

    fn at(&self, step: Step) -> Result<Option<Record>> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ESTIMATES)?;
        let found = table.get(step.0)?;
        found.map(|found| decode(step, found.value())).transpose()
    }

    fn each(&self, from: Step, to: Step, visit: &mut dyn FnMut(Record) -> bool) -> Result<()> {
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

    fn link(&self, link: usize, from: Step, to: Step) -> Result<Vec<LinkMoment>> {
        let read = self.database.begin_read()?;
        let table = read.open_table(ESTIMATES)?;
        let row = |row: Result<(redb::AccessGuard<'_, i64>, redb::AccessGuard<'_, &[u8]>), _>| {
            let (step, bytes) = row?;
            decode_link(Step(step.value()), bytes.value(), link)
        };
        table.range(from.0..=to.0)?.map(row).collect()
    }

    fn forget(&self, before: Step) -> Result<u64> {
        let write = self.database.begin_write()?;
        let mut forgotten = 0;
        {
            let mut table = write.open_table(ESTIMATES)?;
            table.retain_in(..before.0, |_, _| {
                forgotten += 1;
                false
            })?;
        }
        write.commit()?;
        Ok(forgotten)
    }
}
