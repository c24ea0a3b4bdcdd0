//! A dataset's trajectories as a stream.

use std::path::PathBuf;

use traffic::{LinkId, Network, Samples, Seconds, VehicleId, VehicleSample};

use super::{Dataset, DatasetError, TRAJECTORY_COLUMNS, open_table};
use crate::journey::check_sample;
use crate::table::{Column, TableReader};

/// Rows decoded at a time: enough to be fast, little enough to stay in the cache's neighbourhood.
const BATCH_ROWS: usize = 1 << 16;

/// Reads `trajectories.parquet` moment by moment, in constant memory.
pub struct DatasetSamples<'d> {
    path: PathBuf,
    network: &'d Network,
    vehicles: usize,
    table: TableReader,
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
            table: open_table(&path, &TRAJECTORY_COLUMNS)?,
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

    fn fail(&self, problem: String) -> DatasetError {
        DatasetError::Row { path: self.path.clone(), row: self.rows_read() + 1, problem }
    }

    fn row(&self) -> Result<Option<VehicleSample>, DatasetError> {
        let [
            Column::F64(times),
            Column::I32(vehicles),
            Column::I32(links),
            Column::F32(positions),
            Column::I32(lanes),
            Column::F32(speeds),
        ] = &self.columns[..]
        else {
            return Ok(None);
        };
        let at = self.at;
        let (vehicle, lane) = (vehicles[at], lanes[at]);
        if usize::try_from(vehicle).map_or(true, |vehicle| vehicle >= self.vehicles) {
            return Err(self.fail(format!(
                "vehicle: found number {vehicle}, expected 0 to {}",
                self.vehicles.saturating_sub(1)
            )));
        }
        let sample = VehicleSample {
            time: times[at],
            vehicle: VehicleId(vehicle as u32),
            link: LinkId(links[at] as u32),
            position: positions[at],
            lane: u8::try_from(lane)
                .map_err(|_| self.fail(format!("lane: found {lane}, expected 0 to 255")))?,
            speed: speeds[at],
        };
        check_sample(self.network, &sample).map_err(|error| self.fail(error.to_string()))?;
        Ok(Some(sample))
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
                self.rows = self.table.next_batch(BATCH_ROWS, &mut self.columns)?;
                if self.rows == 0 {
                    break;
                }
            }
            let Some(sample) = self.row()? else { break };
            match out.last() {
                Some(last) if last.time == sample.time => {
                    if last.vehicle >= sample.vehicle {
                        return Err(self.fail(format!(
                            "vehicle: found number {} after {} at the same time, expected a larger one",
                            sample.vehicle.0, last.vehicle.0
                        )));
                    }
                }
                Some(_) => break,
                None if sample.time <= self.now => {
                    return Err(self.fail(format!(
                        "time: found {}, expected later than {}",
                        sample.time, self.now
                    )));
                }
                None => {}
            }
            out.push(sample);
            self.at += 1;
        }
        let time = out.first().map(|sample| sample.time);
        self.now = time.unwrap_or(self.now);
        Ok(time.map(Seconds::new))
    }
}
