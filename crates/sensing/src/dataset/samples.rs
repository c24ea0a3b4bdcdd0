//! A dataset's trajectories as a stream.

use std::path::PathBuf;

use traffic::{LinkId, Network, Samples, Seconds, VehicleId, VehicleSample};

use super::{Dataset, DatasetError, TRAJECTORY_COLUMNS, open_table};
use crate::journey::check_sample;
use crate::table::{Column, ReadAhead};

/// Rows decoded at a time: enough to be fast, little enough to stay in the cache's neighbourhood.
const BATCH_ROWS: usize = 1 << 16;

/// Reads `trajectories.parquet` moment by moment, in constant memory.
pub struct DatasetSamples<'d> {
    path: PathBuf,
    network: &'d Network,
    vehicles: usize,
    table: ReadAhead,
    columns: Vec<Column>,
    /// The next row of the batch, and how many rows it has.
    at: usize,
    rows: usize,
    batch_start: u64,
    now: f64,
}

impl<'d> DatasetSamples<'d> {
    pub(super) fn open(dataset: &'d Dataset) -> Result<Self, DatasetError> {
        let path = dataset.folder.join("trajectories.parquet");
        Ok(Self {
            table: ReadAhead::new(open_table(&path, &TRAJECTORY_COLUMNS)?, BATCH_ROWS)?,
            path,
            network: &dataset.network,
            vehicles: dataset.vehicles.all().len(),
            columns: Vec::new(),
            at: 0,
            rows: 0,
            batch_start: 0,
            now: f64::NEG_INFINITY,
        })
    }

    /// Rows handed out so far, for a progress display.
    pub fn rows_read(&self) -> u64 {
        self.batch_start + self.at as u64
    }

    /// Number of rows in all.
    pub fn rows(&self) -> u64 {
        self.table.rows()
    }

    fn fail(&self, at: usize, problem: String) -> DatasetError {
        let row = self.batch_start + at as u64 + 1;
        DatasetError::Row { path: self.path.clone(), row, problem }
    }

    /// Moves the rows of one time from the batch to `out`; false when a later time is next.
    fn take_moment(&mut self, out: &mut Vec<VehicleSample>) -> Result<bool, DatasetError> {
        let [
            Column::F64(times),
            Column::I32(vehicles),
            Column::I32(links),
            Column::F32(positions),
            Column::I32(lanes),
            Column::F32(speeds),
        ] = &self.columns[..]
        else {
            return Ok(false);
        };
        let time = times[self.at];
        match out.last() {
            Some(last) if last.time != time => return Ok(false),
            None if time <= self.now => {
                let problem = format!("time: found {time}, expected later than {}", self.now);
                return Err(self.fail(self.at, problem));
            }
            _ => {}
        }
        let mut least = out.last().map_or(0, |last| i64::from(last.vehicle.0) + 1);
        // A time that is no number differs from itself; its row is looked at all the same.
        let same = times[self.at + 1..self.rows].iter().take_while(|&&next| next == time).count();
        let end = self.at + 1 + same;
        for at in self.at..end {
            let (vehicle, lane) = (vehicles[at], lanes[at]);
            if usize::try_from(vehicle).map_or(true, |vehicle| vehicle >= self.vehicles) {
                let most = self.vehicles.saturating_sub(1);
                let problem = format!("vehicle: found number {vehicle}, expected 0 to {most}");
                return Err(self.fail(at, problem));
            }
            if i64::from(vehicle) < least {
                let problem = format!(
                    "vehicle: found number {vehicle} after {} at the same time, expected a larger one",
                    least - 1
                );
                return Err(self.fail(at, problem));
            }
            least = i64::from(vehicle) + 1;
            let sample = VehicleSample {
                time,
                vehicle: VehicleId(vehicle as u32),
                link: LinkId(links[at] as u32),
                position: positions[at],
                lane: u8::try_from(lane)
                    .map_err(|_| self.fail(at, format!("lane: found {lane}, expected 0 to 255")))?,
                speed: speeds[at],
            };
            check_sample(self.network, &sample)
                .map_err(|error| self.fail(at, error.to_string()))?;
            out.push(sample);
        }
        self.at = end;
        Ok(true)
    }
}

impl Samples for DatasetSamples<'_> {
    type Error = DatasetError;

    fn next_moment(
        &mut self,
        out: &mut Vec<VehicleSample>,
    ) -> Result<Option<Seconds>, DatasetError> {
        out.clear();
        loop {
            if self.at == self.rows {
                self.batch_start += self.rows as u64;
                self.at = 0;
                self.rows = self.table.next_batch(&mut self.columns)?;
                if self.rows == 0 {
                    break;
                }
            }
            if !self.take_moment(out)? || self.at < self.rows {
                break;
            }
        }
        let time = out.first().map(|sample| sample.time);
        self.now = time.unwrap_or(self.now);
        Ok(time.map(Seconds::new))
    }
}
