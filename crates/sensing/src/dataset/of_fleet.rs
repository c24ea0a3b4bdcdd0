//! A dataset of one fleet's vehicles: what its provider has.

use std::path::Path;

use traffic::{PositionSource, Seconds, VehicleId};

use super::{Dataset, DatasetError, DatasetManifest, DatasetWriter, Provenance};
use crate::fleet::{Fleet, draw};
use crate::vehicles::VehicleTable;

/// Writes the positions of a fleet's vehicles into a new folder, by the seed that deals vehicles to fleets. It has the
/// same recordings: moments without any of its vehicles are moments all the same.
pub fn write_fleet_dataset(
    dataset: &Dataset,
    (fleet, seed): (&Fleet, u64),
    folder: &Path,
) -> Result<DatasetManifest, DatasetError> {
    let DatasetManifest { epoch, source, recordings, .. } = dataset.manifest();
    let provenance = Provenance { epoch: epoch.clone(), source: source.clone() };
    let apart = recordings.windows(2).map(|pair| (pair[1].begin - pair[0].end).get());
    let gap = Seconds::new(apart.fold(f64::MAX, f64::min) / 2.0);
    let mut writer = DatasetWriter::create(folder, dataset.network(), provenance, gap)?;
    let mut vehicles = VehicleTable::default();
    let own: Vec<Option<VehicleId>> = dataset
        .vehicles()
        .all()
        .iter()
        .map(|vehicle| {
            let drawn = draw(seed, &vehicle.name);
            let is_own = fleet.from <= drawn && drawn < fleet.to;
            is_own.then(|| vehicles.number(&vehicle.name, vehicle.class))
        })
        .collect();
    let (mut positions, mut moment) = (dataset.samples()?, Vec::new());
    while let Some(time) = positions.next_moment(&mut moment)? {
        moment.retain_mut(|position| match own.get(position.vehicle.index()) {
            Some(Some(vehicle)) => {
                position.vehicle = *vehicle;
                true
            }
            _ => false,
        });
        writer.moment(time, &moment)?;
    }
    writer.finish(&vehicles, &[])
}
