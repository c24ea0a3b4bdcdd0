//! Your own trajectories and loop counts, from CSV or Parquet.
//!
//! A trajectory file has one row per vehicle and moment. Columns are found by name; their order is
//! free and columns not named here are ignored.
//!
//! | column | unit | meaning |
//! |---|---|---|
//! | `vehicle` | – | any text or whole number |
//! | `time` | s | since the epoch of your choice; one vehicle's times increase |
//! | `link` | – | name of a link of the network … |
//! | `position` | m | … and distance from its start (the upstream stop line) |
//! | `lat`, `lon` | ° | or, instead of `link` and `position`: a place to be map-matched |
//! | `lane` | – | optional, 0 the right-most |
//! | `speed` | m/s | optional; from the positions where it is not given |
//! | `class` | – | optional: car, taxi, motorcycle, bus, medium, heavy |
//!
//! Rows may be ordered by time or by vehicle, or mixed, as long as each vehicle's rows are in the
//! order of time: they are sorted on the way, on disk if they are many. A loop file has the columns
//! `loop` (name), `begin` (s), `end` (s) and `count`, each loop's rows in the order of time.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use thiserror::Error;
use traffic::{
    LatLon, LinkId, LoopCount, Network, Seconds, VehicleClass, VehicleId, VehiclePosition,
};

use crate::dataset::{DatasetError, DatasetWriter};
use crate::journey::{LastSeen, PositionError, check_position, is_time};
use crate::matching::{
    MatchParameters, MatchReport, MatchScratch, Matcher, MatcherError, Track, TrackPoint,
};
use crate::sort::{PlacedPoint, Sorter};
use crate::table::TableError;
use crate::vehicles::VehicleTable;

mod csv_rows;
mod parquet_rows;

/// Why an import stopped.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// Sorting on disk failed.
    #[error("sorting in the temporary folder: {0}")]
    Sorting(std::io::Error),
    /// A file without rows.
    #[error("{}: found no rows, expected a header and at least one row", .0.display())]
    Empty(PathBuf),
    /// Columns that do not make the schema.
    #[error("{}: columns: found {found}; expected {expected}", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// A row that cannot be true.
    #[error("{}: {}: {problem}", path.display(), place(path, *line))]
    TrajectoryRow {
        /// The file.
        path: PathBuf,
        /// The line of a CSV file (the header is line 1), or the row of a Parquet file (from 1).
        line: u64,
        /// The field, what was found and what was expected.
        problem: String,
    },
    /// A Parquet file that cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The dataset could not be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Places cannot be matched onto this network.
    #[error(transparent)]
    Matching(#[from] MatcherError),
}

/// Parquet files have rows, text files have lines.
fn place(path: &Path, line: u64) -> String {
    let parquet = path.extension().is_some_and(|ending| ending == "parquet");
    format!("{} {line}", if parquet { "row" } else { "line" })
}

/// One row of a trajectory file.
pub(crate) struct TrajectoryRow<'r> {
    pub vehicle: &'r str,
    pub time: f64,
    pub place: RowPosition<'r>,
    pub lane: u8,
    pub speed: Option<f64>,
    pub class: Option<&'r str>,
}

/// Where a row says that the vehicle is.
pub(crate) enum RowPosition<'r> {
    OnLink { link: &'r str, position: f64 },
    OnEarth(LatLon),
}

/// Takes a row of a loop file: loop, begin, end, count.
type OnLoopRow<'f> = dyn FnMut(&str, f64, f64, f64) -> Result<(), String> + 'f;

const EXPECTED_COLUMNS: &str = "`vehicle`, `time` and either `link`, `position` or `lat`, `lon` (optional: `lane`, `speed`, `class`)";
const EXPECTED_LOOP_COLUMNS: &str = "`loop`, `begin`, `end` and `count`";

/// A file's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Comma-separated text with a header, `.gz` or not.
    Csv,
    /// Parquet.
    Parquet,
}

/// Gathers trajectories from files and puts them into a dataset.
pub struct TrajectoryImport<'n> {
    network: &'n Network,
    vehicles: VehicleTable,
    last_seen: LastSeen,
    on_links: Sorter<VehiclePosition>,
    on_earth: Sorter<PlacedPoint>,
    any_on_earth: bool,
}

impl<'n> TrajectoryImport<'n> {
    /// An import onto a network.
    pub fn new(network: &'n Network) -> Self {
        Self {
            network,
            vehicles: VehicleTable::default(),
            last_seen: LastSeen::default(),
            on_links: Sorter::default(),
            on_earth: Sorter::default(),
            any_on_earth: false,
        }
    }

    /// Reads a file. `progress` is told the rows read so far, now and then.
    pub fn read(
        &mut self,
        path: &Path,
        kind: FileKind,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, ImportError> {
        let mut rows = 0;
        let on_row = &mut |row: TrajectoryRow<'_>| {
            rows += 1;
            if rows % 65_536 == 0 {
                progress(rows);
            }
            self.take(&row)
        };
        match kind {
            FileKind::Csv => csv_rows::trajectories(path, on_row)?,
            FileKind::Parquet => parquet_rows::trajectories(path, on_row)?,
        }
        if rows == 0 {
            return Err(ImportError::Empty(path.to_owned()));
        }
        Ok(rows)
    }

    fn take(&mut self, row: &TrajectoryRow<'_>) -> Result<(), String> {
        if row.vehicle.is_empty() {
            return Err("vehicle: found nothing, expected a name".into());
        }
        let class = match row.class {
            None => VehicleClass::Car,
            Some(name) => VehicleClass::named(name).ok_or_else(|| {
                format!(
                    "class: found \"{name}\", expected car, taxi, motorcycle, bus, medium or heavy"
                )
            })?,
        };
        if !is_time(row.time) {
            return Err(PositionError::Time(row.time).to_string());
        }
        if let Some(speed) = row.speed {
            if !(speed >= 0.0 && speed.is_finite()) {
                return Err(format!("speed: found {speed}, expected 0 m/s or more"));
            }
            if speed > f64::from(f32::MAX) {
                let most = f32::MAX;
                return Err(format!("speed: found {speed:e}, expected at most {most:e} m/s"));
            }
        }
        let vehicle = self.vehicles.number(row.vehicle, class);
        self.last_seen
            .note(vehicle, row.time)
            .map_err(|error| format!("vehicle \"{}\": {error}", row.vehicle))?;
        match row.place {
            RowPosition::OnLink { link, position } => {
                let link = self.network.link_named(link).ok_or_else(|| {
                    format!(
                        "link: found \"{link}\", expected a link of network \"{}\"",
                        self.network.name()
                    )
                })?;
                self.take_on_link(row, vehicle, link, position)
            }
            RowPosition::OnEarth(place) => {
                let sound = place.lat.abs() <= 90.0 && place.lon.abs() <= 180.0;
                if !sound {
                    return Err(format!(
                        "lat, lon: found {}, {}, expected degrees within ±90 and ±180",
                        place.lat, place.lon
                    ));
                }
                self.any_on_earth = true;
                let speed = row.speed.map(|speed| speed as f32);
                let point = TrackPoint { time: row.time, place, speed };
                let point = PlacedPoint { vehicle, point };
                self.on_earth.push(point).map_err(|error| format!("sorting: {error}"))
            }
        }
    }

    fn take_on_link(
        &mut self,
        row: &TrajectoryRow<'_>,
        vehicle: VehicleId,
        link: LinkId,
        position: f64,
    ) -> Result<(), String> {
        let sample = VehiclePosition {
            time: row.time,
            vehicle,
            link,
            position: position as f32,
            lane: row.lane,
            speed: row.speed.unwrap_or(0.0) as f32,
        };
        check_position(self.network, &sample).map_err(|error| error.to_string())?;
        let lanes = self.network.link(link).lanes;
        if row.lane >= lanes {
            return Err(format!("lane: found {}, expected less than {lanes}", row.lane));
        }
        let speed = if row.speed.is_some() { sample.speed } else { f32::NAN };
        let sample = VehiclePosition { speed, ..sample };
        self.on_links.push(sample).map_err(|error| format!("sorting: {error}"))
    }

    /// Matches what must be matched, and writes everything in the order of time.
    pub fn write(
        mut self,
        writer: &mut DatasetWriter,
        parameters: MatchParameters,
    ) -> Result<(VehicleTable, Option<MatchReport>), ImportError> {
        let report = if self.any_on_earth { Some(self.match_tracks(parameters)?) } else { None };
        write_sorted(self.on_links, writer)?;
        Ok((self.vehicles, report))
    }

    fn match_tracks(&mut self, parameters: MatchParameters) -> Result<MatchReport, ImportError> {
        let matcher = Matcher::new(self.network, parameters)?;
        let (mut scratch, mut report) = (MatchScratch::default(), MatchReport::default());
        let mut points =
            std::mem::take(&mut self.on_earth).sorted().map_err(ImportError::Sorting)?.peekable();
        while let Some(first) = points.next() {
            let first = first.map_err(ImportError::Sorting)?;
            let mut track =
                Track { name: "".into(), class: VehicleClass::Car, points: vec![first.point] };
            while let Some(point) =
                points.next_if(|next| next.as_ref().is_ok_and(|p| p.vehicle == first.vehicle))
            {
                track.points.push(point.map_err(ImportError::Sorting)?.point);
            }
            let matched = matcher.match_track(&track, first.vehicle, &mut scratch);
            report.add(&matched.report);
            for &sample in matched.parts.iter().flatten() {
                self.on_links.push(sample).map_err(ImportError::Sorting)?;
            }
        }
        Ok(report)
    }
}

/// Writes sorted samples moment by moment; a speed that is missing (NaN) is taken from the
/// vehicle's progress since it was last seen.
pub fn write_sorted(
    samples: Sorter<VehiclePosition>,
    writer: &mut DatasetWriter,
) -> Result<(), ImportError> {
    let mut last: FxHashMap<VehicleId, VehiclePosition> = FxHashMap::default();
    let mut moment: Vec<VehiclePosition> = Vec::new();
    for sample in samples.sorted().map_err(ImportError::Sorting)? {
        let mut sample = sample.map_err(ImportError::Sorting)?;
        if sample.speed.is_nan() {
            sample.speed = match last.get(&sample.vehicle) {
                Some(before) if before.link == sample.link => {
                    let metres = f64::from(sample.position - before.position).max(0.0);
                    let speed = (metres / (sample.time - before.time)) as f32;
                    // Times too close to each other tell no speed.
                    if speed.is_finite() { speed } else { before.speed }
                }
                Some(before) => before.speed,
                None => 0.0,
            };
        }
        last.insert(sample.vehicle, sample);
        if let Some(first) = moment.first()
            && first.time != sample.time
        {
            writer.moment(Seconds::new(first.time), &moment)?;
            moment.clear();
        }
        moment.push(sample);
    }
    if let Some(first) = moment.first() {
        writer.moment(Seconds::new(first.time), &moment)?;
    }
    Ok(())
}

/// Reads a file of loop counts.
pub fn read_loop_counts(
    path: &Path,
    kind: FileKind,
    network: &Network,
) -> Result<Vec<LoopCount>, ImportError> {
    let mut counts = Vec::new();
    let mut covered: FxHashMap<usize, f64> = FxHashMap::default();
    let on_row = &mut |name: &str, begin: f64, end: f64, count: f64| {
        let Some(detector) = network.loops().iter().position(|detector| detector.name == name)
        else {
            return Err(format!("loop: found \"{name}\", expected a loop of the network"));
        };
        if !(begin.is_finite() && end.is_finite() && begin < end) {
            return Err(format!("begin, end: found {begin}, {end}, expected begin before end"));
        }
        if !(count >= 0.0 && count <= f64::from(i32::MAX) && count.fract() == 0.0) {
            return Err(format!(
                "count: found {count}, expected a whole number of 0 to {}",
                i32::MAX
            ));
        }
        if !(is_time(begin) && is_time(end)) {
            return Err(format!("begin, end: found {begin}, {end}, expected 0 s to 1e11 s"));
        }
        let until = covered.entry(detector).or_insert(f64::NEG_INFINITY);
        if begin < *until {
            return Err(format!(
                "begin: found {begin}, expected {until} or later: this loop's count up to then is given already"
            ));
        }
        *until = end;
        let (begin, end) = (Seconds::new(begin), Seconds::new(end));
        counts.push(LoopCount { detector, begin, end, count: count as u32 });
        Ok(())
    };
    match kind {
        FileKind::Csv => csv_rows::loops(path, on_row)?,
        FileKind::Parquet => parquet_rows::loops(path, on_row)?,
    }
    if counts.is_empty() {
        return Err(ImportError::Empty(path.to_owned()));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests;
