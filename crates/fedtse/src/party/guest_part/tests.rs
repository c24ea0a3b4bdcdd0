use sensing::{
    Dataset, DatasetWriter, FeaturePlan, Features, Fleets, Provenance, VehicleTable, make_features,
    part_name, read_passages,
};
use traffic::{Samples, Seconds, corridor};
use worlds::{Simulation, SimulationPlan, corridor_demand};

use super::*;

/// Half an hour of the built-in world; a fleet of 40 %, divided among two guests and into four folds.
fn simulate(folder: &Path) -> Result<()> {
    let network = corridor()?;
    let until = Seconds::new(1800.0);
    let departures: Vec<_> = corridor_demand(&network)?.departures(&network, 1, until).collect();
    let mut vehicles = VehicleTable::default();
    for departure in &departures {
        vehicles.number(&format!("v{}", departure.vehicle.0), departure.class);
    }
    let plan = SimulationPlan { until, ..SimulationPlan::default() };
    let mut world = Simulation::new(&network, plan, departures)?;
    let provenance = Provenance { epoch: "simulation start".into(), ..Provenance::default() };
    let mut writer = DatasetWriter::create(folder, &network, provenance, Seconds::new(60.0))?;
    let mut moment = Vec::new();
    while let Some(time) = world.next_moment(&mut moment)? {
        writer.moment(time, &moment)?;
    }
    writer.finish(&vehicles, &[])?;
    let fleets = Fleets::nested(&[0.4], 1)?.divided(&[2, 4])?;
    let plan = FeaturePlan::paper(fleets);
    make_features(&Dataset::open(folder)?, plan, Seconds::new(300.0), |_, _| ())?;
    Ok(())
}

fn passages(folder: &Path, fleets: &[&str]) -> Result<usize> {
    let dataset = Dataset::open(folder)?;
    let features = Features::open(folder, dataset.network())?;
    let passages = read_passages(&dataset, features.manifest(), fleets)?;
    Ok(passages.iter().map(Vec::len).sum())
}

/// Numbers of what a guest with these folds measures by queues, in every step.
fn queues(folder: &Path, folds: &[&str]) -> Result<Vec<f32>> {
    let folds = folds.iter().map(|fold| FleetData::open(folder, fold));
    let folds = folds.collect::<Result<Vec<_>, _>>()?;
    let windows = folds[0].timeline().windows().to_vec();
    let (_, measured) =
        measuring(folder, folds, &windows, &train_span(&windows), &[Kind::Queues].into())?;
    let table = measured[&Kind::Queues].table(None)?;
    let entries = table.entries().len();
    let mut all = Vec::new();
    for &step in &windows {
        let (mut values, mut weights) = (vec![0.0; entries], vec![0.0; entries]);
        table.write(Sample::whole(step), &mut values, &mut weights);
        all.extend(values.into_iter().chain(weights));
    }
    Ok(all)
}

/// Two guests with two folds each of one fleet: each tells of the vehicles of its own folds, those that it
/// would have if they were one fleet, and of none of the other's.
#[test]
fn a_guest_in_folds_sees_the_queues_of_its_own_vehicles() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    simulate(folder)?;
    let fold = |number| part_name("fleet-40", number, 4);
    let whole = passages(folder, &["fleet-40"])?;
    let mut all = 0;
    for guest in [1, 2] {
        let folds = [fold(2 * guest - 1), fold(2 * guest)];
        let folds: Vec<&str> = folds.iter().map(String::as_str).collect();
        let as_one = part_name("fleet-40", guest, 2);
        let own = passages(folder, &folds)?;
        assert_eq!(own, passages(folder, &[&as_one])?);
        assert!(own > 100 && own < whole, "{own} of {whole}");
        all += own;
        let (dealt, one) = (queues(folder, &folds)?, queues(folder, &[&as_one])?);
        // Totals of folds add up in another order: rounding of 32 bits.
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
        assert!(dealt.len() == one.len() && dealt.iter().zip(&one).all(close));
    }
    assert_eq!(all, whole);
    Ok(())
}
