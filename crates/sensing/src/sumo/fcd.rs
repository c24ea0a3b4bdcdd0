//! Streaming vehicle positions from SUMO's FCD output.
//!
//! XML and CSV (`;`), plain or gzipped, told apart by their content. One moment is in memory at a
//! time. SUMO's positions labelled *t* are those after the step that begins at *t*; give
//! [`FcdReader::shifted`] the step length to have them at the time when they hold.

mod csv;
mod rows;
mod xml;

use std::io::Read;
use std::path::Path;

use traffic::{PositionSource, Seconds, VehiclePosition};

use self::csv::CsvRows;
use self::rows::Placing;
use self::xml::XmlRows;
use super::SumoFileError;
use super::edges::EdgeMap;
use super::source::Source;
use crate::vehicles::VehicleTable;

/// Vehicle positions of an FCD file, on our links.
pub struct FcdReader {
    format: Format,
    placing: Placing,
}

enum Format {
    Xml(XmlRows),
    Csv(CsvRows),
}

/// Rows that are on no link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SkippedRows {
    /// Of vehicles on lanes that the net has but the network does not.
    pub outside: u64,
    /// Of persons and containers.
    pub not_vehicles: u64,
}

impl FcdReader {
    /// Opens a file.
    pub fn open(path: &Path, edges: EdgeMap) -> Result<Self, SumoFileError> {
        Self::new(Source::open(path)?, edges)
    }

    /// Reads from anything; the name is for messages.
    pub fn from_reader(
        name: &Path,
        bytes: Box<dyn Read + Send>,
        edges: EdgeMap,
    ) -> Result<Self, SumoFileError> {
        Self::new(Source::new(name, bytes)?, edges)
    }

    fn new(mut source: Source, edges: EdgeMap) -> Result<Self, SumoFileError> {
        let format = match source.peek_content()? {
            None => {
                let file = source.file().into();
                return Err(SumoFileError::Empty { file, expected: "FCD output as XML or CSV" });
            }
            Some(b'<') => Format::Xml(XmlRows::new(source)?),
            Some(_) => Format::Csv(CsvRows::new(source)?),
        };
        Ok(Self { format, placing: Placing::new(edges) })
    }

    /// With vehicles that are known already, so that they keep their numbers and classes.
    pub fn with_vehicles(mut self, vehicles: VehicleTable) -> Self {
        self.placing.set_vehicles(vehicles);
        self
    }

    /// With a span added to all times.
    pub fn shifted(mut self, by: Seconds) -> Self {
        self.placing.shift = by.get();
        self
    }

    /// The vehicles seen so far.
    pub fn vehicles(&self) -> &VehicleTable {
        &self.placing.vehicles
    }

    /// The vehicles, at the end.
    pub fn into_vehicles(self) -> VehicleTable {
        self.placing.vehicles
    }

    /// Rows on no link so far.
    pub fn skipped(&self) -> SkippedRows {
        self.placing.skipped
    }
}

impl PositionSource for FcdReader {
    type Error = SumoFileError;

    fn next_moment(
        &mut self,
        out: &mut Vec<VehiclePosition>,
    ) -> Result<Option<Seconds>, SumoFileError> {
        out.clear();
        let time = match &mut self.format {
            Format::Xml(rows) => rows.next_moment(&mut self.placing, out)?,
            Format::Csv(rows) => rows.next_moment(&mut self.placing, out)?,
        };
        out.sort_unstable_by_key(|sample| sample.vehicle);
        Ok(time.map(Seconds::new))
    }
}

#[cfg(test)]
mod tests;
