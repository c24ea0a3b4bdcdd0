//! Traffic to learn from.

use std::path::Path;

use sensing::{
    Dataset, DatasetWriter, FeaturePlan, Fleets, Provenance, VehicleTable, make_features,
};
use traffic::{PositionSource, Seconds, corridor};
use worlds::{Simulation, SimulationPlan, corridor_demand};

/// Some time of the corridor in the built-in world, with fleets of 20 % and of everyone.
pub(crate) fn simulated(folder: &Path, minutes: f64) -> Result<(), Box<dyn std::error::Error>> {
    let network = corridor()?;
    let demand = corridor_demand(&network)?;
    let until = Seconds::new(minutes * 60.0);
    let mut vehicles = VehicleTable::default();
    for departure in demand.departures(&network, 1, until) {
        vehicles.number(&departure.vehicle.0.to_string(), departure.class);
    }
    let plan = SimulationPlan { until, ..SimulationPlan::default() };
    let mut world = Simulation::new(&network, plan, demand.departures(&network, 1, until))?;
    let gap = Seconds::new(60.0);
    let mut writer = DatasetWriter::create(folder, &network, Provenance::default(), gap)?;
    let mut samples = Vec::new();
    while let Some(time) = world.next_moment(&mut samples)? {
        writer.moment(time, &samples)?;
    }
    writer.finish(&vehicles, &[])?;
    let plan = FeaturePlan {
        cells: 1,
        sub_steps: 1,
        ..FeaturePlan::paper(Fleets::nested(&[0.2, 1.0], 1)?)
    };
    make_features(&Dataset::open(folder)?, plan, Seconds::new(600.0), |_, _| {})?;
    Ok(())
}
