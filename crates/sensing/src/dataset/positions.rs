//! A dataset's trajectories as a stream.

use std::ops::Range;

use traffic::{LinkId, Network, PositionSource, Seconds, VehicleId, VehiclePosition};

use super::moments::BadRow;
use super::moments_ahead::MomentsAhead;
use super::{Dataset, DatasetError, TRAJECTORY_COLUMNS};
use crate::journey::{Position, check_position};
use crate::table::Column;

/// Reads `trajectories.parquet` moment by moment, in constant memory.
pub struct DatasetReader<'d> {
    network: &'d Network,
    moments: MomentsAhead<VehiclePosition>,
}

impl<'d> DatasetReader<'d> {
    pub(super) fn open(dataset: &'d Dataset) -> Result<Self, DatasetError> {
        let moments = MomentsAhead::open(dataset, &TRAJECTORY_COLUMNS, gather_samples)?;
        Ok(Self { network: &dataset.network, moments })
    }
}

impl PositionSource for DatasetReader<'_> {
    type Error = DatasetError;

    fn next_moment(
        &mut self,
        out: &mut Vec<VehiclePosition>,
    ) -> Result<Option<Seconds>, DatasetError> {
        out.clear();
        let before = self.moments.rows_read();
        let Some((time, samples)) = self.moments.next()? else { return Ok(None) };
        let bad = samples
            .iter()
            .enumerate()
            .find_map(|(at, sample)| Some((at, check_position(self.network, sample).err()?)));
        if let Some((at, error)) = bad {
            return Err(self.moments.bad_row(before + at as u64, error.to_string()));
        }
        out.extend_from_slice(samples);
        Ok(Some(time))
    }
}

fn gather_samples(
    columns: &[Column],
    rows: Range<usize>,
    out: &mut Vec<VehiclePosition>,
) -> Result<(), BadRow> {
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
        out.push(VehiclePosition {
            time: times[at],
            vehicle: VehicleId(vehicles[at] as u32),
            link: LinkId(links[at] as u32),
            position: positions[at],
            lane: u8::try_from(lane)
                .map_err(|_| (at, format!("lane: found {lane}, expected 0 to 255")))?,
            speed: speeds[at],
        });
    }
    Ok(())
}

/// Reads times, vehicles and places only, which are checked by whoever uses them.
pub(super) fn open_positions(dataset: &Dataset) -> Result<MomentsAhead<Position>, DatasetError> {
    MomentsAhead::open(dataset, &TRAJECTORY_COLUMNS[..4], gather_positions)
}

fn gather_positions(
    columns: &[Column],
    rows: Range<usize>,
    out: &mut Vec<Position>,
) -> Result<(), BadRow> {
    let [_, Column::I32(vehicles), Column::I32(links), Column::F32(metres)] = columns else {
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
}
