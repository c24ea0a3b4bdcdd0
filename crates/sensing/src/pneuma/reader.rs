//! Reads pNEUMA files, one track at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use rustc_hash::FxHashSet;
use thiserror::Error;
use traffic::{LatLon, Seconds, VehicleClass};

use super::FRAME;
use super::fields::{After, Fields, MAX_FIELD};
use super::variant::{GROUP, TYPES, Variant};
use crate::matching::{Track, TrackPoint};

/// The most groups of one track: over eleven hours of film; more is taken for a damaged file.
const MAX_GROUPS: u64 = 1_000_000;
/// The longest step between the first two groups of a track that is taken for thinned data.
const MAX_STEP: f64 = 10.0;

/// What to make of the file while reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadOptions {
    /// Keep only the frames at multiples of this interval, counted from the start of the film, so
    /// that all vehicles are kept at the same moments. `None` keeps every frame.
    pub interval: Option<Seconds>,
    /// When the film starts, since the epoch: added to every time.
    pub start: Seconds,
}

/// Why a file was refused.
#[derive(Debug, Error)]
pub enum PneumaError {
    /// It cannot be read.
    #[error("{file}: line {line}: {error}")]
    Io {
        /// The file.
        file: String,
        /// The line reached.
        line: u64,
        /// What the system said.
        error: io::Error,
    },
    /// Nothing is in it, or nothing but a header.
    #[error("{file}: found no {missing}, expected a header and one row for each vehicle")]
    Empty {
        /// The file.
        file: String,
        /// What is not there.
        missing: &'static str,
    },
    /// Its first line is of neither variant.
    #[error("{file}: line 1: header: found `{found}`, expected `{}` or `{}`",
        Variant::Seconds.columns().join("; "), Variant::Milliseconds.columns().join("; "))]
    Header {
        /// The file.
        file: String,
        /// The header found.
        found: String,
    },
    /// A field is not what it should be.
    #[error("{file}: line {line}, column {column} ({field}): found {found}, expected {expected}")]
    Field {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// The field's name, and its group's number if it has one.
        field: String,
        /// What is there.
        found: String,
        /// What should be there.
        expected: String,
    },
}

/// Reads tracks from a file of either variant; an iterator that ends after the first error.
pub struct PneumaReader<R> {
    file: String,
    fields: Fields<R>,
    pub(super) variant: Variant,
    options: ReadOptions,
    seen: FxHashSet<Box<str>>,
    done: bool,
}

/// Opens a file, plain or compressed with gzip.
pub fn open_pneuma(
    path: impl AsRef<Path>,
    options: ReadOptions,
) -> Result<PneumaReader<Box<dyn BufRead + Send>>, PneumaError> {
    const BUFFER: usize = 1 << 18;
    let file = path.as_ref().display().to_string();
    let fail = |error| PneumaError::Io { file: file.clone(), line: 1, error };
    let mut plain = BufReader::with_capacity(BUFFER, File::open(path.as_ref()).map_err(fail)?);
    // Told by content, not by name: gzip starts with these two bytes, and no header of ours does.
    let compressed = plain.fill_buf().map_err(fail)?.starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn BufRead + Send> = if compressed {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain)))
    } else {
        Box::new(plain)
    };
    PneumaReader::new(reader, file, options)
}

impl<R: BufRead> PneumaReader<R> {
    /// Reads the header of a file; `file` is its name for messages.
    pub fn new(
        reader: R,
        file: impl Into<String>,
        options: ReadOptions,
    ) -> Result<Self, PneumaError> {
        let file = file.into();
        let mut fields = Fields::new(reader);
        let mut names = Vec::new();
        loop {
            let after = fields.advance().map_err(|error| PneumaError::Io {
                file: file.clone(),
                line: 1,
                error,
            })?;
            let name = fields.shown();
            names.push(name.trim_start_matches('\u{feff}').to_lowercase());
            match after {
                None => return Err(PneumaError::Empty { file, missing: "header" }),
                // Any text of many fields is no header of ours: no need to read it all.
                Some(After::Field) if names.len() <= 2 * GROUP => {}
                Some(_) => break,
            }
        }
        if names.last().is_some_and(String::is_empty) {
            names.pop();
        }
        match Variant::of_header(&names) {
            Some(variant) => {
                Ok(Self { file, fields, variant, options, seen: FxHashSet::default(), done: false })
            }
            None if names.is_empty() => Err(PneumaError::Empty { file, missing: "header" }),
            None => Err(PneumaError::Header { file, found: names.join("; ") }),
        }
    }

    fn read_track(&mut self) -> Result<Option<Track>, PneumaError> {
        let mut after = loop {
            match self.advance()? {
                None if self.seen.is_empty() => {
                    return Err(PneumaError::Empty { file: self.file.clone(), missing: "tracks" });
                }
                None => return Ok(None),
                Some(After::RowEnd) if self.fields.is_blank() => {}
                Some(after) => break after,
            }
        };
        let name = self.track_name()?;
        let mut column = 1;
        let mut class = VehicleClass::Car;
        while column < 4 {
            if after == After::RowEnd {
                return Err(self.row_ends_early(column, None));
            }
            after = self.advance()?.unwrap_or(After::RowEnd);
            match column {
                1 => class = self.class()?,
                _ => drop(self.number(column, None, 0.0, f64::INFINITY, "0 or more")?),
            }
            column += 1;
        }
        if after == After::RowEnd {
            return Err(self.row_ends_early(column, None));
        }
        let points = self.groups()?;
        Ok(Some(Track { name, class, points }))
    }

    /// All groups of a row: at least one.
    fn groups(&mut self) -> Result<Vec<TrackPoint>, PneumaError> {
        let mut points = Vec::new();
        let mut thinning = Thinning::new(self.options.interval);
        let mut before: Option<f64> = None;
        for group in 1.. {
            let after = self.advance()?.unwrap_or(After::RowEnd);
            if after == After::RowEnd && self.fields.is_blank() {
                if group == 1 {
                    return Err(self.row_ends_early(4, Some(1)));
                }
                break;
            }
            if group > MAX_GROUPS {
                return Err(self.wrong(4, Some(group), format!("at most {MAX_GROUPS} groups")));
            }
            let (time, place, speed, after) = self.group(group, after)?;
            match before {
                Some(before) if time <= before => {
                    let expected = format!("more than the time {before} s of the group before");
                    return Err(self.wrong(9, Some(group), expected));
                }
                Some(before) if group == 2 => self.check_step(time - before)?,
                _ => {}
            }
            before = Some(time);
            if thinning.keeps(time) {
                let time = self.options.start.get() + time;
                points.push(TrackPoint { time, place, speed: Some(speed) });
            }
            if after == After::RowEnd {
                break;
            }
        }
        Ok(points)
    }

    /// The six fields of a group, the first of which is current.
    fn group(
        &mut self,
        group: u64,
        mut after: After,
    ) -> Result<(f64, LatLon, f32, After), PneumaError> {
        let mut values = [0.0; GROUP];
        for (index, value) in values.iter_mut().enumerate() {
            let column = 4 + index;
            if index > 0 {
                if after == After::RowEnd {
                    return Err(self.row_ends_early(column, Some(group)));
                }
                after = self.advance()?.unwrap_or(After::RowEnd);
                if after == After::RowEnd && self.fields.is_blank() {
                    return Err(self.row_ends_early(column, Some(group)));
                }
            }
            let (least, most, expected) = match index {
                0 => (-90.0, 90.0, "degrees from -90 to 90"),
                1 => (-180.0, 180.0, "degrees from -180 to 180"),
                // Faster than sound is no road vehicle but a shifted column.
                2 => (0.0, 1000.0, "km/h, 0 to 1000"),
                5 => (0.0, f64::MAX, "0 or more"),
                _ => (f64::MIN, f64::MAX, "a number"),
            };
            *value = self.number(column, Some(group), least, most, expected)?;
        }
        let [lat, lon, kmh, _, _, time] = values;
        let time = time / self.variant.units_per_second();
        Ok((time, LatLon { lat, lon }, (kmh / 3.6) as f32, after))
    }

    fn track_name(&mut self) -> Result<Box<str>, PneumaError> {
        let name: Box<str> = self.fields.text().into();
        if name.is_empty() {
            return Err(self.wrong(0, None, format!("a number or name of 1 to {MAX_FIELD} bytes")));
        }
        if !self.seen.insert(name.clone()) {
            return Err(self.wrong(0, None, "each track once".into()));
        }
        Ok(name)
    }

    fn class(&self) -> Result<VehicleClass, PneumaError> {
        let found = self.fields.text();
        TYPES.iter().find(|(name, _)| *name == found).map(|&(_, class)| class).ok_or_else(|| {
            let names: Vec<&str> = TYPES.iter().map(|&(name, _)| name).collect();
            self.wrong(1, None, format!("one of {}", names.join(", ")))
        })
    }

    fn number(
        &self,
        column: usize,
        group: Option<u64>,
        least: f64,
        most: f64,
        expected: &str,
    ) -> Result<f64, PneumaError> {
        match self.fields.text().parse::<f64>() {
            // `contains` is false for NaN.
            Ok(value) if value.is_finite() && (least..=most).contains(&value) => Ok(value),
            _ => Err(self.wrong(column, group, expected.into())),
        }
    }

    /// The header tells the unit of time; frames 0.04 s apart confirm it.
    fn check_step(&self, step: f64) -> Result<(), PneumaError> {
        let frames = (step / FRAME).round();
        if frames >= 1.0 && step <= MAX_STEP && (step - frames * FRAME).abs() < 0.1 * FRAME {
            return Ok(());
        }
        let unit = self.variant.time_unit();
        let frame = FRAME * self.variant.units_per_second();
        Err(self.wrong(
            9,
            Some(2),
            format!(
                "{frame} {unit}, or a small multiple of it, after the group before: by its header this file counts time in {unit}"
            ),
        ))
    }

    fn row_ends_early(&self, column: usize, group: Option<u64>) -> PneumaError {
        let expected = match group {
            None => "four fields and then groups of six".into(),
            Some(_) => format!("groups of six fields, {}", self.variant.columns()[4..].join("; ")),
        };
        self.error(column, group, "the end of the row".into(), expected)
    }

    fn wrong(&self, column: usize, group: Option<u64>, expected: String) -> PneumaError {
        self.error(column, group, format!("`{}`", self.fields.shown()), expected)
    }

    fn error(
        &self,
        column: usize,
        group: Option<u64>,
        found: String,
        expected: String,
    ) -> PneumaError {
        let name = self.variant.columns()[column];
        PneumaError::Field {
            file: self.file.clone(),
            line: self.fields.line,
            column: self.fields.column,
            field: group.map_or(name.into(), |group| format!("{name}, group {group}")),
            found,
            expected,
        }
    }

    fn advance(&mut self) -> Result<Option<After>, PneumaError> {
        self.fields.advance().map_err(|error| PneumaError::Io {
            file: self.file.clone(),
            line: self.fields.line,
            error,
        })
    }
}

impl<R: BufRead> Iterator for PneumaReader<R> {
    type Item = Result<Track, PneumaError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let track = self.read_track().transpose();
        self.done = !matches!(track, Some(Ok(_)));
        track
    }
}

/// Keeps the first frame at or after each multiple of an interval.
struct Thinning {
    interval: Option<f64>,
    kept: Option<f64>,
}

impl Thinning {
    fn new(interval: Option<Seconds>) -> Self {
        // `max` also turns a NaN into one frame, which keeps every frame.
        Self { interval: interval.map(|interval| interval.get().max(FRAME)), kept: None }
    }

    fn keeps(&mut self, time: f64) -> bool {
        let Some(interval) = self.interval else { return true };
        // Half a frame of tolerance: times are rounded to the digits that the file has.
        let cell = ((time + FRAME / 2.0) / interval).floor();
        let keep = match self.kept {
            Some(kept) => cell > kept,
            // A track that begins between two multiples waits for the next one.
            None => (time - cell * interval).abs() <= FRAME / 2.0,
        };
        if keep || self.kept.is_none() {
            self.kept = Some(cell);
        }
        keep
    }
}

#[cfg(test)]
mod tests;
