use federation::{LocalUpdates, Numbers};
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
    numbers(&measured[&Kind::Queues], &[Kind::Queues], &windows)
}

/// Values and weights of queues under a plan that asks for some kinds, step by step.
fn numbers(queues: &Source, asked: &[Kind], windows: &[Step]) -> Result<Vec<f32>> {
    let plan = Plan { measured: asked.iter().copied().collect(), ..plan() };
    let table = queues.table(Kind::Queues, &plan)?;
    let entries = table.entries().len();
    let mut all = Vec::new();
    for &step in windows {
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

fn plan() -> Plan {
    Plan {
        seed: 1,
        batch: 1,
        epochs: 1,
        exchanges: 1,
        recipe: Numbers { rate: 0.1, one_cycle: false, decay: 0.0, clip: None, average: None },
        local: LocalUpdates::default(),
        keep_every: 1,
        segment: 1,
        measured: BTreeSet::new(),
        shares: None,
        sealing: None,
    }
}

/// What a guest can measure besides does not weigh its queues less, only what the host asks for does; and it
/// tells where its vehicles went only where that is of use.
#[test]
fn the_plan_says_how_much_queues_count() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    simulate(folder)?;
    let announced = |kinds: &[Kind]| {
        let folds = [1, 2].map(|part| FleetData::open(folder, &part_name("fleet-40", part, 4)));
        let folds = folds.into_iter().collect::<Result<Vec<_>, _>>()?;
        let windows = folds[0].timeline().windows().to_vec();
        let span = train_span(&windows);
        let found = measuring(folder, folds, &windows, &span, &kinds.iter().copied().collect())?;
        anyhow::Ok((found, windows))
    };
    let ((measures, measured), windows) = announced(&[Kind::HeldOut, Kind::Queues])?;
    assert!(!measures.movements.turned.is_empty());
    let alone = numbers(&measured[&Kind::Queues], &[Kind::Queues], &windows)?;
    let beside = numbers(&measured[&Kind::Queues], &[Kind::HeldOut, Kind::Queues], &windows)?;
    let ((_, only), _) = announced(&[Kind::Queues])?;
    assert!(alone == numbers(&only[&Kind::Queues], &[Kind::Queues], &windows)?);
    let entries = measures.layout.of(&[Kind::Queues].into()).len();
    for (alone, beside) in alone.chunks(2 * entries).zip(beside.chunks(2 * entries)) {
        assert_eq!(alone[..entries], beside[..entries]);
        for (alone, beside) in alone[entries..].iter().zip(&beside[entries..]) {
            assert_eq!((f64::from(*alone) * SYSTEMATIC) as f32, *beside);
        }
    }
    let ((measures, _), _) = announced(&[Kind::HeldOut])?;
    assert_eq!(measures.movements, Movements::default());
    Ok(())
}
