//! A dataset's trajectories as a stream.

use traffic::{LinkId, Network, Samples, Seconds, VehicleId, VehicleSample};

use super::moments::Moments;
use super::{Dataset, DatasetError, TRAJECTORY_COLUMNS};
use crate::journey::{Position, check_sample};
use crate::table::Column;

/// Reads `trajectories.parquet` moment by moment, in constant memory.
pub struct DatasetSamples<'d> {
    network: &'d Network,
    moments: Moments,
}

impl<'d> DatasetSamples<'d> {
    pub(super) fn open(dataset: &'d Dataset) -> Result<Self, DatasetError> {
        let moments = Moments::open(dataset, &TRAJECTORY_COLUMNS)?;
        Ok(Self { network: &dataset.network, moments })
    }
}

impl Samples for DatasetSamples<'_> {
    type Error = DatasetError;

    fn next_moment(
        &mut self,
        out: &mut Vec<VehicleSample>,
    ) -> Result<Option<Seconds>, DatasetError> {
        out.clear();
        let time = self.moments.next(|columns, rows| {
            let [
                Column::F64(times),
                Column::I32(vehicles),
                Column::I32(links),
                Column::F32(positions),
                Column::I32(lanes),
                Column::F32(speeds),
            ] = columns
            else {
                return Ok(());
            };
            for at in rows {
                let lane = lanes[at];
                let sample = VehicleSample {
                    time: times[at],
                    vehicle: VehicleId(vehicles[at] as u32),
                    link: LinkId(links[at] as u32),
                    position: positions[at],
                    lane: u8::try_from(lane)
                        .map_err(|_| (at, format!("lane: found {lane}, expected 0 to 255")))?,
                    speed: speeds[at],
                };
                check_sample(self.network, &sample).map_err(|error| (at, error.to_string()))?;
                out.push(sample);
            }
            Ok(())
        })?;
        Ok(time.map(Seconds::new))
    }
}

/// Reads times, vehicles and places only, which are checked by whoever uses them.
pub(crate) struct DatasetPositions {
    moments: Moments,
}

impl DatasetPositions {
    pub(super) fn open(dataset: &Dataset) -> Result<Self, DatasetError> {
        Ok(Self { moments: Moments::open(dataset, &TRAJECTORY_COLUMNS[..4])? })
    }

    /// Rows handed out so far, for a progress display.
    pub fn rows_read(&self) -> u64 {
        self.moments.rows_read()
    }

    /// Number of rows in all.
    pub fn rows(&self) -> u64 {
        self.moments.rows()
    }

    /// The error of a row, counted from 0.
    pub fn bad_row(&self, row: u64, problem: String) -> DatasetError {
        self.moments.bad_row(row, problem)
    }

    /// Replaces `out` by all positions of the next moment; returns its time, `None` at the end.
    pub fn next_moment(
        &mut self,
        out: &mut Vec<Position>,
    ) -> Result<Option<Seconds>, DatasetError> {
        out.clear();
        let time = self.moments.next(|columns, rows| {
            let [_, Column::I32(vehicles), Column::I32(links), Column::F32(metres)] = columns
            else {
                return Ok(());
            };
            let vehicles = vehicles[rows.clone()].iter();
            let places = links[rows.clone()].iter().zip(&metres[rows]);
            out.extend(vehicles.zip(places).map(|(&vehicle, (&link, &metres))| Position {
                vehicle: VehicleId(vehicle as u32),
                link: LinkId(link as u32),
                metres,
            }));
            Ok(())
        })?;
        Ok(time.map(Seconds::new))
    }
}
