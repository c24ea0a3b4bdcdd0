//! Training by measurements and a traffic model on simulated traffic.

#[path = "../../estimator/tests/simulated/mod.rs"]
mod simulated;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use traffic::Window;

use estimator::data::train_span;
use estimator::loss::{MeasuredTerms, PhysicsPlan, calibrated_physics, penetration};
use estimator::{
    Architecture, CalibratedFilter, Estimates, FeatureSet, FleetData, LabelFreeStudy, LoopData,
    MeasurementSource, MeasurementTable, NeuralPlan, QueueKnowledge, QueueStates, Study,
    TargetKind, score,
};
use sensing::split;
use training::CentralRun;
use training::learner::{HostLoss, Sources};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const FLEET: &str = "fleet-20";
const LINKS: usize = 17;
const TERMS: MeasuredTerms = MeasuredTerms { speeds: true, ..MeasuredTerms::HOST };

/// An hour of traffic, made once for all tests.
fn data() -> &'static Path {
    static DATA: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = DATA.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        simulated::simulated(&path, 60.0).expect("a simulation");
        (folder, path)
    });
    path
}

/// Trains on loops and speeds with the CTM; validation losses, and estimates of the test part.
fn learn(data: &Path, epochs: usize, threads: usize) -> Fallible<(Vec<f64>, Estimates)> {
    let loops = LoopData::open(data)?;
    let fleets = [FleetData::open(data, FLEET)?];
    let split = split(loops.timeline().windows());
    let mut plan = NeuralPlan::new(FeatureSet::Both, Architecture::Link, TargetKind::Raw, 5);
    (plan.recipe.epochs, plan.sizes.units) = (epochs, 16);
    let data = LabelFreeStudy::new(&loops, &fleets, &split, plan, TERMS, None, 4)?;
    let physics = calibrated_physics(
        &loops,
        &fleets,
        &train_span(&split.train, estimator::WINDOW),
        PhysicsPlan::default(),
    )?;
    let own = data.measured().iter();
    let own =
        own.map(|(name, table)| (name.clone(), Arc::clone(table) as Arc<dyn MeasurementSource>));
    let sources = Sources { own: own.collect(), ..Sources::default() };
    let objective = Box::new(data.objective(Some(physics), None)?);
    let mut run = CentralRun::new(data.data(), HostLoss { objective, sources })?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut losses = Vec::new();
    while let Some(epoch) = pool.install(|| run.epoch())? {
        losses.push(epoch.validation);
    }
    Ok((losses, data.assemble(&run.best())?.estimate(&loops, &fleets, &split.test)?))
}

#[test]
fn no_truth_is_read_and_threads_make_no_difference() -> Fallible<()> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir_all(folder.path().join("features"))?;
    let own = [FLEET, "turns-fleet-20", "trips-fleet-20", "loops"];
    let own = own.iter().map(|name| format!("features/{name}.parquet"));
    let others = ["network.toml", "features/manifest.json"].map(String::from);
    for file in own.chain(others) {
        std::fs::copy(data().join(&file), folder.path().join(&file))?;
    }
    assert!(Study::open(folder.path(), FLEET).is_err(), "there is no truth here");
    assert_eq!(learn(folder.path(), 2, 1)?, learn(data(), 2, 3)?);
    Ok(())
}

#[test]
fn the_loss_without_labels_falls() -> Fallible<()> {
    let (losses, estimates) = learn(data(), 12, 2)?;
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    // The first epoch has hardly left usual values, from which speeds of queues are far away. Of less
    // than an hour, later epochs learn by heart.
    assert!(best < 0.7 * losses[0], "{losses:?}");
    for state in estimates {
        let (density, flow) = (state.density.get(), state.flow.get());
        // A jam has 133 vehicles, capacity is below 30.
        assert!((0.0..200.0).contains(&density) && (0.0..60.0).contains(&flow), "{state:?}");
    }
    Ok(())
}

#[test]
fn batches_are_of_whole_segments_and_the_schedule_knows() -> Fallible<()> {
    let loops = LoopData::open(data())?;
    let fleets = [FleetData::open(data(), FLEET)?];
    let split = split(loops.timeline().windows());
    let mut plan = NeuralPlan::new(FeatureSet::Both, Architecture::Link, TargetKind::Raw, 5);
    plan.sizes.units = 4;
    assert_eq!(plan.recipe.batch, 128);
    for (segment, batch) in [(12, 120), (4, 128), (200, 200)] {
        let plan = plan.clone();
        let data = LabelFreeStudy::new(&loops, &fleets, &split, plan, TERMS, None, segment)?;
        // Of this the schedule of learning rates is made, and the batches are taken.
        assert_eq!(data.data().record.plan.recipe.batch, batch, "segments of {segment}");
    }
    Ok(())
}

/// Nothing is trained, so that the first hour after the usual values tells all.
#[test]
fn the_filter_knows_more_than_the_mean_of_each_link() -> Fallible<()> {
    let study = Study::open(data(), FLEET)?;
    let split = study.split();
    let (fleet, span) = (&study.fleets()[0], study.train_span());
    let queues = QueueStates::read(data(), FLEET, QueueKnowledge::Fleet)?;
    let filter = CalibratedFilter::fit(study.loops(), fleet, Some(&queues), &span)?;
    let states = filter.states(study.loops(), fleet, Some(&queues))?;
    let links = study.targets().len();
    let states_of = |steps: &[traffic::Step]| -> Estimates {
        let of_step = |&step| study.targets().iter().map(move |&link| (step, link));
        let truth = |(step, link)| study.target(TargetKind::Raw, step, link);
        steps.iter().flat_map(of_step).map(truth).collect()
    };
    let truths = states_of(&split.test);
    // The means of the very states that are estimated: what no one could know beforehand.
    let mut means = vec![truths[0]; truths.len()];
    for link in 0..links {
        let own = || truths.iter().skip(link).step_by(links);
        let count = own().count() as f64;
        let density = own().map(|state| state.density.get()).sum::<f64>() / count;
        let flow = own().map(|state| state.flow.get()).sum::<f64>() / count;
        for mean in means.iter_mut().skip(link).step_by(links) {
            mean.density = traffic::VehPerKmLane::new(density);
            mean.flow = traffic::VehPerMinLane::new(flow);
        }
    }
    let judged = |estimates: &Estimates| {
        let score = score(&study, TargetKind::Raw, &split.test, estimates);
        [score.density.rmse, score.flow.rmse]
    };
    let filtered = judged(&states.estimate(&study.asked(TargetKind::Raw, &split.test)));
    let means = judged(&means);
    assert!(filtered[0] < means[0] && filtered[1] < means[1], "{filtered:?} {means:?}");
    Ok(())
}

/// Weights by time make the mean of speeds that in space: all distance over all time.
#[test]
fn weighted_speeds_are_distance_over_time() -> Fallible<()> {
    let fleet = FleetData::open(data(), FLEET)?;
    let table = MeasurementTable::fleet_speeds(&fleet);
    let (mut values, mut weights) = ([0.0; LINKS], [0.0; LINKS]);
    let mut sums = [[0.0; 4]; LINKS];
    for step in fleet.timeline().steps() {
        table.write(Window::whole(step), &mut values, &mut weights);
        for (link, sums) in fleet.timeline().network().link_ids().zip(&mut sums) {
            let totals = fleet.totals(step, link);
            let (value, weight) = (f64::from(values[link.index()]), weights[link.index()]);
            assert_eq!(weight == 0.0, totals.time.get() == 0.0);
            let weight = f64::from(weight);
            let add = [weight * value, weight, totals.distance.get(), totals.time.get()];
            sums.iter_mut().zip(add).for_each(|(sum, add)| *sum += add);
        }
    }
    for [weighted, weight, distance, time] in sums {
        assert!(time > 0.0);
        // f32 values and weights.
        assert!((weighted / weight - distance / time).abs() < 1e-5 * (1.0 + distance / time));
    }
    Ok(())
}

/// What fleets passed over their share is, on the links of loops together, what loops counted.
#[test]
fn usual_flows_are_as_much_as_loops_count() -> Fallible<()> {
    let study = Study::open(data(), FLEET)?;
    let (loops, span) = (study.loops(), study.train_span());
    let rate = penetration(loops, study.fleets(), &span)?;
    let table = MeasurementTable::usual_flows(study.timeline(), study.fleets(), rate, &span);
    let (mut values, mut weights) = ([0.0; LINKS], [0.0; LINKS]);
    let steps: Vec<_> = study.steps().filter(|step| span.contains(step)).collect();
    table.write(Window::whole(steps[0]), &mut values, &mut weights);
    let (mut usual, mut counted) = (0.0, 0.0);
    for (at, detector) in study.network().loops().iter().enumerate() {
        let per_step = f64::from(values[detector.link.index()]) * study.step().get() / 60.0;
        let lanes = f64::from(study.network().link(detector.link).lanes);
        usual += per_step * lanes * steps.len() as f64;
        counted += steps.iter().filter_map(|&step| loops.counts(step)[at]).sum::<f64>();
    }
    // f32 values.
    assert!((usual / counted - 1.0).abs() < 1e-5, "{usual} {counted}");
    // The same in all steps.
    let before = values;
    table.write(Window::whole(steps[steps.len() / 2]), &mut values, &mut weights);
    assert_eq!(values, before);
    Ok(())
}
