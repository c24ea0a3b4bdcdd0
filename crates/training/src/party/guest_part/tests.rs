use estimator::GuestFeatures;
use protocol::{LocalUpdates, OptimiserSettings};
use sensing::{
    Dataset, DatasetWriter, FeaturePlan, Features, Fleets, Provenance, VehicleTable, make_features,
    part_name, read_passages,
};
use traffic::{PositionSource, Seconds, corridor};
use worlds::{Simulation, SimulationPlan, corridor_demand};

use super::*;
use crate::party::noise::{NoiseTerms, Unit};
use crate::party::policy::Policy;

type Fallible<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Half an hour of the built-in world; a fleet of 40 %, divided among two guests and into four folds.
fn simulate(folder: &Path) -> Fallible<()> {
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

fn passages(folder: &Path, fleets: &[&str]) -> Fallible<usize> {
    let dataset = Dataset::open(folder)?;
    let features = Features::open(folder, dataset.network())?;
    let passages = read_passages(&dataset, features.manifest(), fleets)?;
    Ok(passages.iter().map(Vec::len).sum())
}

/// What a guest with these folds measures from queues, in every step.
fn queues(folder: &Path, folds: &[&str]) -> Fallible<Vec<f32>> {
    let folds = folds.iter().map(|fold| FleetData::open(folder, fold));
    let folds = folds.collect::<Result<Vec<_>, _>>()?;
    let windows = folds[0].timeline().windows().to_vec();
    let (_, measured) = unprotected(folder, folds, &windows, &[MeasurementKind::Queues].into())?;
    numbers(&measured[&MeasurementKind::Queues], &[MeasurementKind::Queues], &windows)
}

/// What a guest without a policy measures.
fn unprotected(
    folder: &Path,
    folds: Vec<FleetData>,
    windows: &[Step],
    kinds: &BTreeSet<MeasurementKind>,
) -> Fallible<(MeasurementOffer, BTreeMap<MeasurementKind, Source>)> {
    let totals = GuestFeatures::Totals;
    let own = Contribution::of(folder, folds, totals, kinds, &PrivacyContext::default())?;
    Ok(measuring(own.fleets, own.tables, windows, &train_span(windows, estimator::WINDOW), kinds)?)
}

/// Noise is drawn once: a guest that starts again has the same numbers. Its variance is in the weights, which
/// depend on nothing else of the data; where its vehicles went is not told. What the policy leaves out is not there.
#[test]
fn noise_is_in_everything_and_so_is_the_policy() -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    simulate(folder)?;
    let fleet = || FleetData::open(folder, "fleet-40");
    let windows = fleet()?.timeline().windows().to_vec();
    let noise = NoiseTerms { epsilon: 2.0, ..NoiseTerms::default() };
    let noise_folder = folder.join("noise");
    let policy = Policy { noise: Some(noise), ..Policy::default() };
    let privacy = PrivacyContext { policy, noise_folder };
    let kinds: BTreeSet<MeasurementKind> =
        [MeasurementKind::Queues, MeasurementKind::Speeds].into();
    let contributed = |privacy: &PrivacyContext| {
        Contribution::of(folder, vec![fleet()?], GuestFeatures::Totals, &kinds, privacy)
    };
    let (once, again) = (contributed(&privacy)?, contributed(&privacy)?);
    let raw = fleet()?;
    assert!(once.fleets[0].all_totals() == again.fleets[0].all_totals());
    assert!(once.fleets[0].all_totals() != raw.all_totals());
    let tables = |own: &Contribution, kind: MeasurementKind| {
        let source = Source::Table(Arc::new(own.tables[&kind].clone()));
        numbers(&source, &[MeasurementKind::Queues], &windows)
    };
    for kind in [MeasurementKind::Queues, MeasurementKind::Speeds] {
        assert!(tables(&once, kind)? == tables(&again, kind)?, "{kind:?}");
    }
    // (ε, δ) = (2, 10⁻⁶) takes 2.38 times √3 vehicles; 64 is what queue profiles err by themselves.
    let timeline = raw.timeline();
    let links = timeline.network().links();
    let queues = tables(&once, MeasurementKind::Queues)?;
    for (link, weight) in links.iter().zip(&queues[links.len()..2 * links.len()]) {
        let lane_km = link.lane_length().get() / 1000.0;
        let expected = 1.0 / (64.0 + (2.38 * f64::sqrt(3.0) / lane_km).powi(2));
        // Two digits of 2.38, and the grid.
        assert!((f64::from(*weight) / expected - 1.0).abs() < 0.02, "{weight} {expected}");
    }
    let (measures, _) = measuring(
        once.fleets,
        once.tables,
        &windows,
        &train_span(&windows, estimator::WINDOW),
        &kinds,
    )?;
    assert!(measures.movements.turned.iter().all(|count| *count == 0));

    let other = NoiseTerms { epsilon: 4.0, ..noise };
    let policy = Policy { noise: Some(other), ..Policy::default() };
    let error =
        contributed(&PrivacyContext { policy, ..privacy.clone() }).err().map(|e| e.to_string());
    assert!(error.as_ref().is_some_and(|e| e.contains("a second release")), "{error:?}");
    let vehicle = NoiseTerms { unit: Unit::VehicleStep, ..noise };
    let policy = Policy { noise: Some(vehicle), ..Policy::default() };
    let error =
        contributed(&PrivacyContext { policy, ..privacy.clone() }).err().map(|e| e.to_string());
    assert!(error.as_ref().is_some_and(|e| e.contains("expected cell")), "{error:?}");

    let only = links[0].name.clone();
    let policy = Policy { links: Some([only].into()), ..Policy::default() };
    let own = contributed(&PrivacyContext { policy, ..privacy })?;
    let left_out = |place: usize| !place.is_multiple_of(links.len());
    let mut totals = own.fleets[0].all_totals().iter().enumerate();
    assert!(totals.all(|(at, own)| !left_out(at) || own.time.get() == 0.0));
    let queues = tables(&own, MeasurementKind::Queues)?;
    assert!(queues.iter().enumerate().all(|(at, number)| !left_out(at) || *number == 0.0));
    assert!(queues.iter().any(|number| *number != 0.0));
    Ok(())
}

/// Values and weights of queues under a plan that asks for some kinds, step by step.
fn numbers(queues: &Source, asked: &[MeasurementKind], windows: &[Step]) -> Fallible<Vec<f32>> {
    let plan = Plan { measured: asked.iter().copied().collect(), ..plan() };
    let table = queues.table(MeasurementKind::Queues, &plan)?;
    let entries = table.entries().len();
    let mut all = Vec::new();
    for &step in windows {
        let (mut values, mut weights) = (vec![0.0; entries], vec![0.0; entries]);
        table.write(Window::whole(step), &mut values, &mut weights);
        all.extend(values.into_iter().chain(weights));
    }
    Ok(all)
}

/// Two guests with two folds each of one fleet: each tells of the vehicles of its own folds, those that it
/// would have if they were one fleet, and of none of the other's.
#[test]
fn a_guest_in_folds_sees_the_queues_of_its_own_vehicles() -> Fallible<()> {
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
        optimiser: OptimiserSettings {
            rate: 0.1,
            one_cycle: false,
            decay: 0.0,
            clip: None,
            average: None,
        },
        local: LocalUpdates::default(),
        segment: 1,
        measured: BTreeSet::new(),
        shares: None,
        sealing: None,
    }
}

/// What a guest can measure besides does not weigh its queues less, only what the host asks for does; and it
/// tells where its vehicles went only where that is of use.
#[test]
fn the_plan_says_how_much_queues_count() -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    simulate(folder)?;
    let announced = |kinds: &[MeasurementKind]| {
        let folds = [1, 2].map(|part| FleetData::open(folder, &part_name("fleet-40", part, 4)));
        let folds = folds.into_iter().collect::<Result<Vec<_>, _>>()?;
        let windows = folds[0].timeline().windows().to_vec();
        let found = unprotected(folder, folds, &windows, &kinds.iter().copied().collect())?;
        Ok::<_, Box<dyn std::error::Error>>((found, windows))
    };
    let ((measures, measured), windows) =
        announced(&[MeasurementKind::HeldOut, MeasurementKind::Queues])?;
    assert!(!measures.movements.turned.is_empty());
    let alone = numbers(&measured[&MeasurementKind::Queues], &[MeasurementKind::Queues], &windows)?;
    let beside = numbers(
        &measured[&MeasurementKind::Queues],
        &[MeasurementKind::HeldOut, MeasurementKind::Queues],
        &windows,
    )?;
    let ((_, only), _) = announced(&[MeasurementKind::Queues])?;
    assert!(
        alone == numbers(&only[&MeasurementKind::Queues], &[MeasurementKind::Queues], &windows)?
    );
    let entries = measures.layout.of(&[MeasurementKind::Queues].into()).len();
    for (alone, beside) in alone.chunks(2 * entries).zip(beside.chunks(2 * entries)) {
        assert_eq!(alone[..entries], beside[..entries]);
        for (alone, beside) in alone[entries..].iter().zip(&beside[entries..]) {
            assert_eq!((f64::from(*alone) * SYSTEMATIC) as f32, *beside);
        }
    }
    let ((measures, _), _) = announced(&[MeasurementKind::HeldOut])?;
    assert_eq!(measures.movements, Movements::default());
    Ok(())
}
