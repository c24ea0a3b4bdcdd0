//! Sorting more records than fit in memory: sorted runs on disk, merged while reading.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};

use traffic::{LatLon, LinkId, VehicleId, VehiclePosition};

use crate::matching::TrackPoint;

/// Records held in memory before a run goes to disk.
const RUN_RECORDS: usize = 1 << 21;

/// A record of a few numbers with an order.
pub trait Sortable: Copy {
    /// All that it holds, as numbers; so it is kept on disk.
    type Numbers: AsRef<[f64]> + AsMut<[f64]> + Default;
    /// What it is sorted by.
    type Key: Ord;
    /// As numbers, none of which loses a digit.
    fn to_numbers(&self) -> Self::Numbers;
    /// From these numbers.
    fn from_numbers(numbers: &Self::Numbers) -> Self;
    /// What it is sorted by.
    fn key(&self) -> Self::Key;
}

/// Takes records in any order.
pub struct Sorter<T: Sortable> {
    records: Vec<T>,
    runs: Vec<File>,
    run_records: usize,
}

impl<T: Sortable> Default for Sorter<T> {
    fn default() -> Self {
        Self::with_runs_of(RUN_RECORDS)
    }
}

impl<T: Sortable> Sorter<T> {
    fn with_runs_of(run_records: usize) -> Self {
        Self { records: Vec::new(), runs: Vec::new(), run_records }
    }

    /// Takes a record.
    pub fn push(&mut self, record: T) -> io::Result<()> {
        self.records.push(record);
        if self.records.len() < self.run_records {
            return Ok(());
        }
        self.records.sort_unstable_by_key(T::key);
        let mut writer = BufWriter::new(tempfile::tempfile()?);
        for record in &self.records {
            for number in record.to_numbers().as_ref() {
                writer.write_all(&number.to_le_bytes())?;
            }
        }
        let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        self.runs.push(file);
        self.records.clear();
        Ok(())
    }

    /// Gives all records in order.
    pub(crate) fn sorted(mut self) -> io::Result<Sorted<T>> {
        self.records.sort_unstable_by_key(T::key);
        let mut sorted = Sorted {
            memory: self.records.into_iter(),
            next: vec![None; self.runs.len() + 1],
            runs: self.runs.into_iter().map(BufReader::new).collect(),
            order: BinaryHeap::new(),
        };
        for source in 0..=sorted.runs.len() {
            sorted.refill(source)?;
        }
        Ok(sorted)
    }
}

/// Records in order. Sources are the runs and, after them, the part still in memory.
pub(crate) struct Sorted<T: Sortable> {
    memory: std::vec::IntoIter<T>,
    runs: Vec<BufReader<File>>,
    /// The next record of each source.
    next: Vec<Option<T>>,
    /// The sources that have one, that with the least first.
    order: BinaryHeap<Reverse<(T::Key, usize)>>,
}

impl<T: Sortable> Sorted<T> {
    fn refill(&mut self, source: usize) -> io::Result<()> {
        self.next[source] = match self.runs.get_mut(source) {
            Some(run) => read_record(run)?,
            None => self.memory.next(),
        };
        self.order.extend(self.next[source].map(|record| Reverse((record.key(), source))));
        Ok(())
    }
}

impl<T: Sortable> Iterator for Sorted<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<io::Result<T>> {
        let Reverse((_, source)) = self.order.pop()?;
        let record = self.next[source].take()?;
        Some(self.refill(source).map(|()| record))
    }
}

fn read_record<T: Sortable>(run: &mut BufReader<File>) -> io::Result<Option<T>> {
    let mut numbers = T::Numbers::default();
    for number in numbers.as_mut() {
        let mut bytes = [0; 8];
        match run.read_exact(&mut bytes) {
            Ok(()) => *number = f64::from_le_bytes(bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(T::from_numbers(&numbers)))
}

/// An integer that is in the order of [`f64::total_cmp`].
fn time_key(time: f64) -> i64 {
    let bits = time.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// By time, then by vehicle: the order of a dataset.
impl Sortable for VehiclePosition {
    type Numbers = [f64; 6];
    type Key = (i64, VehicleId);

    fn to_numbers(&self) -> [f64; 6] {
        let Self { time, vehicle, link, position, speed, lane } = *self;
        [time, vehicle.0.into(), link.0.into(), position.into(), speed.into(), lane.into()]
    }

    fn from_numbers(&[time, vehicle, link, position, speed, lane]: &[f64; 6]) -> Self {
        Self {
            time,
            vehicle: VehicleId(vehicle as u32),
            link: LinkId(link as u32),
            position: position as f32,
            speed: speed as f32,
            lane: lane as u8,
        }
    }

    fn key(&self) -> Self::Key {
        (time_key(self.time), self.vehicle)
    }
}

/// A place that a vehicle reported, by vehicle, then by time: the order of tracks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlacedPoint {
    pub vehicle: VehicleId,
    pub point: TrackPoint,
}

impl Sortable for PlacedPoint {
    type Numbers = [f64; 5];
    type Key = (VehicleId, i64);

    fn to_numbers(&self) -> [f64; 5] {
        let TrackPoint { time, place, speed } = self.point;
        [self.vehicle.0.into(), time, place.lat, place.lon, speed.unwrap_or(f32::NAN).into()]
    }

    fn from_numbers(&[vehicle, time, lat, lon, speed]: &[f64; 5]) -> Self {
        let speed = (!speed.is_nan()).then_some(speed as f32);
        let point = TrackPoint { time, place: LatLon { lat, lon }, speed };
        Self { vehicle: VehicleId(vehicle as u32), point }
    }

    fn key(&self) -> Self::Key {
        (self.vehicle, time_key(self.point.time))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_come_back_in_order_whatever_the_run_length(
            rows in prop::collection::vec((0.0..100.0f64, 0u32..50), 0..200),
            run in 1usize..64,
        ) {
            let mut expected: Vec<VehiclePosition> = rows.iter().map(|&(time, vehicle)| VehiclePosition {
                time,
                vehicle: VehicleId(vehicle),
                link: LinkId(vehicle / 7),
                position: time as f32 / 3.0,
                lane: (vehicle % 5) as u8,
                speed: 0.5,
            }).collect();
            let mut sorter = Sorter::with_runs_of(run);
            for &sample in &expected {
                sorter.push(sample).unwrap();
            }
            let sorted: Vec<VehiclePosition> = sorter.sorted().unwrap().map(Result::unwrap).collect();
            expected.sort_by(|a, b| a.time.total_cmp(&b.time).then(a.vehicle.cmp(&b.vehicle)));
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn a_record_survives_the_disk_to_the_last_bit() {
        for speed in [Some(1.1), None] {
            let place = LatLon { lat: 37.98, lon: 23.73 };
            let point = TrackPoint { time: 0.04, place, speed };
            let point = PlacedPoint { vehicle: VehicleId(u32::MAX), point };
            assert_eq!(PlacedPoint::from_numbers(&point.to_numbers()), point);
        }
        let sample = VehiclePosition {
            time: 1e11 + 0.1,
            vehicle: VehicleId(u32::MAX),
            link: LinkId(u32::MAX - 1),
            position: 0.1,
            lane: 255,
            speed: f32::MAX,
        };
        assert_eq!(VehiclePosition::from_numbers(&sample.to_numbers()), sample);
        // A missing speed stays one.
        let missing = VehiclePosition { speed: f32::NAN, ..sample };
        assert!(VehiclePosition::from_numbers(&missing.to_numbers()).speed.is_nan());
    }

    #[test]
    fn keys_of_times_are_in_the_order_of_the_times() {
        let times =
            [f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 0.04, 1e11, f64::INFINITY];
        assert!(times.is_sorted_by(|&a, &b| time_key(a) < time_key(b)));
    }
}
