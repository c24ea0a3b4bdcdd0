//! Sorting more records than fit in memory: sorted runs on disk, merged while reading.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};

use traffic::{LinkId, VehicleId, VehiclePosition};

/// Records held in memory before a run goes to disk.
const RUN_RECORDS: usize = 1 << 21;

/// A record of fixed size with an order.
pub trait Sortable: Copy {
    /// Bytes on disk.
    type Bytes: AsRef<[u8]> + AsMut<[u8]>;
    /// Memory for one.
    const BLANK: Self::Bytes;
    /// Its form on disk.
    fn to_bytes(&self) -> Self::Bytes;
    /// From its form on disk.
    fn from_bytes(bytes: &Self::Bytes) -> Self;
    /// The order wanted.
    fn order(&self, other: &Self) -> Ordering;
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
        self.records.sort_unstable_by(T::order);
        let mut writer = BufWriter::new(tempfile::tempfile()?);
        for record in &self.records {
            writer.write_all(record.to_bytes().as_ref())?;
        }
        let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        self.runs.push(file);
        self.records.clear();
        Ok(())
    }

    /// Gives all records in order.
    pub(crate) fn sorted(mut self) -> io::Result<Sorted<T>> {
        self.records.sort_unstable_by(T::order);
        let mut sorted = Sorted {
            memory: self.records.into_iter(),
            runs: self.runs.into_iter().map(BufReader::new).collect(),
            heads: BinaryHeap::new(),
        };
        for source in 0..=sorted.runs.len() {
            sorted.refill(source)?;
        }
        Ok(sorted)
    }
}

/// Records in order.
pub struct Sorted<T: Sortable> {
    memory: std::vec::IntoIter<T>,
    runs: Vec<BufReader<File>>,
    heads: BinaryHeap<Reverse<NextRecord<T>>>,
}

/// The next record of a source: a run, or after the runs the part still in memory.
struct NextRecord<T> {
    record: T,
    source: usize,
}

impl<T: Sortable> Sorted<T> {
    fn refill(&mut self, source: usize) -> io::Result<()> {
        let next = match self.runs.get_mut(source) {
            Some(run) => read_record(run)?,
            None => self.memory.next(),
        };
        if let Some(record) = next {
            self.heads.push(Reverse(NextRecord { record, source }));
        }
        Ok(())
    }
}

impl<T: Sortable> Iterator for Sorted<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<io::Result<T>> {
        let Reverse(head) = self.heads.pop()?;
        Some(self.refill(head.source).map(|()| head.record))
    }
}

fn read_record<T: Sortable>(run: &mut BufReader<File>) -> io::Result<Option<T>> {
    let mut bytes = T::BLANK;
    match run.read_exact(bytes.as_mut()) {
        Ok(()) => Ok(Some(T::from_bytes(&bytes))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

impl<T: Sortable> Ord for NextRecord<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.record.order(&other.record).then(self.source.cmp(&other.source))
    }
}

impl<T: Sortable> PartialOrd for NextRecord<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Sortable> PartialEq for NextRecord<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Sortable> Eq for NextRecord<T> {}

/// By time, then by vehicle: the order of a dataset.
impl Sortable for VehiclePosition {
    type Bytes = [u8; 25];
    const BLANK: Self::Bytes = [0; 25];

    fn to_bytes(&self) -> [u8; 25] {
        let mut bytes = Self::BLANK;
        bytes[..8].copy_from_slice(&self.time.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.vehicle.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.link.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.position.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.speed.to_le_bytes());
        bytes[24] = self.lane;
        bytes
    }

    fn from_bytes(bytes: &[u8; 25]) -> Self {
        let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let mut time = [0; 8];
        time.copy_from_slice(&bytes[..8]);
        Self {
            time: f64::from_le_bytes(time),
            vehicle: VehicleId(u32::from_le_bytes(four(8))),
            link: LinkId(u32::from_le_bytes(four(12))),
            position: f32::from_le_bytes(four(16)),
            speed: f32::from_le_bytes(four(20)),
            lane: bytes[24],
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        self.time.total_cmp(&other.time).then(self.vehicle.cmp(&other.vehicle))
    }
}

/// A place that a vehicle reported, by vehicle, then by time: the order of tracks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlacedPoint {
    pub vehicle: u32,
    pub time: f64,
    pub lat: f64,
    pub lon: f64,
    pub speed: f64,
}

impl Sortable for PlacedPoint {
    type Bytes = [u8; 36];
    const BLANK: Self::Bytes = [0; 36];

    fn to_bytes(&self) -> [u8; 36] {
        let mut bytes = Self::BLANK;
        bytes[..4].copy_from_slice(&self.vehicle.to_le_bytes());
        for (at, value) in [self.time, self.lat, self.lon, self.speed].into_iter().enumerate() {
            bytes[4 + 8 * at..12 + 8 * at].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; 36]) -> Self {
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[4 + 8 * at..12 + 8 * at]);
            f64::from_le_bytes(eight)
        };
        Self {
            vehicle: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            time: number(0),
            lat: number(1),
            lon: number(2),
            speed: number(3),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        self.vehicle.cmp(&other.vehicle).then(self.time.total_cmp(&other.time))
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
            expected.sort_by(VehiclePosition::order);
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn a_placed_point_survives_its_bytes() {
        let point = PlacedPoint { vehicle: 7, time: 0.04, lat: 37.98, lon: 23.73, speed: 1.5 };
        assert_eq!(PlacedPoint::from_bytes(&point.to_bytes()), point);
    }
}
