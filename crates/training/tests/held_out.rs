//! Learning from a held-out part of the fleet, on simulated traffic: labels without bias, no truth
//! read, and estimates better than what the fleet alone tells.

#[path = "../../estimator/tests/simulated/mod.rs"]
mod simulated;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use estimator::data::train_span;
use estimator::loss::{
    FleetMeans, FoldRates, FollowedWeights, HeldOutJudge, LocalShareModel, Penetration,
    ViewEstimates, penetration,
};
use estimator::{
    Architecture, Estimates, FeatureSet, FleetData, HeldOutStudy, LoopData, NeuralPlan, Study,
    TargetKind, WINDOW, scale_up, score,
};
use sensing::{
    Concentration, Dataset, FeaturePlan, Fleets, Trait, make_features, part_name, split,
};
use traffic::{FleetView, LinkState, Seconds, Step, VehPerKmLane, VehPerMinLane, Window};
use training::CentralRun;
use training::learner::HostLoss;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const FOLDS: usize = 4;
const RATE: f64 = 0.4;

fn make_folds(data: &Path, seed: u64) -> Outcome {
    let fleets = Fleets::nested(&[RATE], seed)?.divided(&[FOLDS])?;
    let plan = FeaturePlan { cells: 1, sub_steps: 1, ..FeaturePlan::paper(fleets) };
    make_features(&Dataset::open(data)?, plan, Seconds::new(600.0), |_, _| {})?;
    Ok(())
}

/// Two and a half hours with a fleet in folds, made once for all tests.
fn data() -> &'static Path {
    static DATA: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = DATA.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        simulated::simulated(&path, 150.0).expect("a simulation");
        make_folds(&path, 1).expect("features");
        (folder, path)
    });
    path
}

fn fold_names() -> Vec<String> {
    (1..=FOLDS).map(|fold| part_name("fleet-40", fold, FOLDS)).collect()
}

fn study(data: &Path) -> Result<Study, estimator::data::StudyError> {
    let names = fold_names();
    Study::open_fleets(data, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn plan(target: TargetKind, epochs: usize) -> NeuralPlan {
    let mut plan = NeuralPlan::new(FeatureSet::Both, Architecture::Link, target, 5);
    plan.recipe = plan.recipe.held_out(FOLDS);
    plan.recipe.epochs = epochs;
    plan.sizes.units = 32;
    plan
}

/// Trains on what is in a folder, without its truth, and estimates the test part.
fn learn(data: &Path, plan: NeuralPlan) -> Result<Estimates, Box<dyn std::error::Error>> {
    let loops = LoopData::open(data)?;
    let names = fold_names();
    let folds = names.iter().map(|name| FleetData::open(data, name));
    let folds = folds.collect::<Result<Vec<_>, _>>()?;
    let split = split(loops.timeline().windows());
    let data = HeldOutStudy::new(&loops, &folds, &split, plan, Penetration::Constant)?;
    let mut run = CentralRun::new(data.data(), HostLoss::of(data.objective()))?;
    while run.epoch()?.is_some() {}
    Ok(data.assemble(&run.best())?.estimate(&loops, &folds, &split.test)?)
}

/// Everything but the truth is enough, and gives the same to the last bit.
#[test]
fn no_truth_is_read() -> Outcome {
    let folder = tempfile::tempdir()?;
    let bare = folder.path();
    std::fs::create_dir_all(bare.join("features"))?;
    let parts = fold_names().into_iter().map(|name| format!("features/{name}.parquet"));
    let others = ["network.toml", "features/manifest.json", "features/loops.parquet"];
    for file in others.into_iter().map(String::from).chain(parts) {
        std::fs::copy(data().join(&file), bare.join(&file))?;
    }
    assert!(study(bare).is_err(), "a study with truth cannot be opened here");
    let plan = plan(TargetKind::Raw, 1);
    assert_eq!(learn(bare, plan.clone())?, learn(data(), plan)?);
    Ok(())
}

/// Twenty draws of the fleet, over all boxes of an hour: the labels' sum is the truth's.
#[test]
fn labels_have_no_bias_on_simulated_traffic() -> Outcome {
    const DRAWS: u64 = 20;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    simulated::simulated(&path, 40.0)?;
    let rates = FoldRates::new(RATE, FOLDS)?;
    let (mut errors, mut shares) = (Vec::new(), Vec::new());
    for seed in 0..DRAWS {
        make_folds(&path, seed)?;
        let study = study(&path)?;
        let (mut labels, mut truth) = ([0.0; 2], [0.0; 2]);
        for step in study.steps() {
            for link in study.network().link_ids() {
                let pair = |fleet: &FleetData| {
                    let state = fleet.scaled_up(step, link);
                    [state.density.get() * fleet.rate(), state.flow.get() * fleet.rate()]
                };
                let (held_out, seen) = study.fleets().split_at(1);
                let held_out = pair(&held_out[0]);
                let state = study.target(TargetKind::Raw, step, link);
                let state = [state.density.get(), state.flow.get()];
                for (at, (label, total)) in labels.iter_mut().zip(&mut truth).enumerate() {
                    let seen: f64 = seen.iter().map(|fold| pair(fold)[at]).sum();
                    *label += rates.label(seen, held_out[at]);
                    *total += state[at];
                }
            }
        }
        errors.push([labels[0] / truth[0] - 1.0, labels[1] / truth[1] - 1.0]);
        let span = train_span(&study.split().train, estimator::WINDOW);
        shares.push(penetration(study.loops(), study.fleets(), &span)?);
    }
    let check = |values: Vec<f64>, expected: f64| {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Four standard errors, from how the draws differ.
        let tolerance = 4.0 * (variance / count).sqrt();
        assert!((mean - expected).abs() < tolerance, "{mean} {expected} ± {tolerance}");
        // The error of such a sum is that of a few hundred vehicles held out: a few percent. A
        // tolerance that large would prove nothing.
        assert!(tolerance < 0.06, "{tolerance}");
    };
    check(errors.iter().map(|error| error[0]).collect(), 0.0);
    check(errors.iter().map(|error| error[1]).collect(), 0.0);
    check(shares, RATE);
    Ok(())
}

/// How the folds differ tells how far labels are from what they stand for, which only the truth
/// knows.
#[test]
fn the_folds_tell_the_noise_of_their_labels() -> Outcome {
    let study = study(data())?;
    let plan = plan(TargetKind::Raw, 1);
    let held_out = HeldOutStudy::new(
        study.loops(),
        study.fleets(),
        study.split(),
        plan,
        Penetration::Constant,
    )?;
    let rates = held_out.rates();
    let (mut expected, mut found) = ([0.0; 2], [0.0; 2]);
    let windows = &study.split().train;
    for link in study.network().link_ids() {
        let noise = held_out.noise().unseen(link);
        expected.iter_mut().zip(noise).for_each(|(sum, noise)| *sum += noise);
        for &step in windows {
            let folds = study.fleets().iter().map(|fold| {
                let state = fold.scaled_up(step, link);
                [state.density.get() * fold.rate(), state.flow.get() * fold.rate()]
            });
            let folds: Vec<[f64; 2]> = folds.collect();
            let truth = study.target(TargetKind::Raw, step, link);
            for (at, truth) in [truth.density.get(), truth.flow.get()].into_iter().enumerate() {
                let all: f64 = folds.iter().map(|fold| fold[at]).sum();
                for fold in &folds {
                    let unseen = (truth - (all - fold[at])) / (1.0 - rates.seen());
                    let error = rates.unseen_label(fold[at]) - unseen;
                    found[at] += error * error / (windows.len() * FOLDS) as f64;
                }
            }
        }
    }
    for (found, expected) in found.iter().zip(expected) {
        // Some four thousand vehicles, whose squares differ by as much as their mean or twice
        // that: 3 % each, five of them.
        assert!((found / expected - 1.0).abs() < 0.15, "{found} {expected}");
    }
    Ok(())
}

/// From less than two hours, and without any truth, it knows more than the fleet's totals tell.
#[test]
fn it_learns_more_than_scale_up_tells() -> Outcome {
    let study = study(data())?;
    let test = &study.split().test;
    let estimates = learn(data(), plan(TargetKind::Raw, 12))?;
    let learned = score(&study, TargetKind::Raw, test, &estimates);
    let plain = score(
        &study,
        TargetKind::Raw,
        test,
        &scale_up(&study.observed(), &study.asked(TargetKind::Raw, test)),
    );
    // With eight hours it is 0.6; what the seed changes is a few percent.
    assert!(learned.density.rmse < 0.9 * plain.density.rmse, "{learned:?} {plain:?}");
    assert!(learned.flow.rmse < 0.9 * plain.flow.rmse, "{learned:?} {plain:?}");
    Ok(())
}

/// A fleet that drives at some hours more than at others: loops tell its share on all links, with nothing but
/// what they counted before.
#[test]
fn a_share_that_changes_by_the_hour_is_followed() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    simulated::simulated(&path, 360.0)?;
    let fleets = Fleets::nested(&[RATE], 1)?.divided(&[FOLDS])?;
    let fleets = fleets.concentrated(Concentration { by: Trait::Hour, strength: 0.5 })?;
    let plan = FeaturePlan { cells: 1, sub_steps: 1, ..FeaturePlan::paper(fleets) };
    make_features(&Dataset::open(&path)?, plan, Seconds::new(600.0), |_, _| {})?;
    let study = study(&path)?;
    let span = train_span(&study.split().train, estimator::WINDOW);
    let mean = penetration(study.loops(), study.fleets(), &span)?;
    let model = LocalShareModel::fit(study.loops(), study.fleets(), &span)?;
    // The least candidate above a constant share: an hour's rhythm is no constant.
    assert!(model.variation().drift >= 0.005, "{model:?}");
    let shares = model.shares(study.loops(), study.fleets())?;

    let steps: Vec<Step> = study.steps().collect();
    let (mut constant, mut local) = (0.0, 0.0);
    // Ten minutes at a time, in which some hundred vehicles pass.
    for block in steps[60..].chunks_exact(60) {
        for link in study.network().targets() {
            let (mut fleet, mut all, mut found) = (0.0, 0.0, 0.0);
            for &step in block {
                let density = study.target(TargetKind::Raw, step, link).density.get();
                let of_fold =
                    |fold: &FleetData| fold.scaled_up(step, link).density.get() * fold.rate();
                fleet += study.fleets().iter().map(of_fold).sum::<f64>();
                all += density;
                found += density * mean * shares.factor(step, link);
            }
            if fleet > 0.0 {
                constant += (mean * all / fleet).ln().powi(2);
                local += (found / fleet).ln().powi(2);
            }
        }
    }
    // Half of the error that remains is the sampling of the fleet itself.
    assert!(local < 0.5 * constant, "{local} {constant} {:?}", model.variation());
    Ok(())
}

/// Folds of other steps do not make a fleet; nor does one fold.
#[test]
fn folds_that_do_not_belong_together_are_refused() -> Outcome {
    let study = study(data())?;
    let split = study.split();
    let new = |folds: &[FleetData]| {
        let plan = plan(TargetKind::Raw, 1);
        HeldOutStudy::new(study.loops(), folds, split, plan, Penetration::Constant)
            .err()
            .map(|error| error.to_string())
    };
    let alone = new(&study.fleets()[..1]).unwrap_or_default();
    assert!(alone.contains("found 1, expected 2 or more"), "{alone}");
    let none = new(&[]).unwrap_or_default();
    assert!(none.contains("found 0.0 passages"), "{none}");

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    simulated::simulated(&path, 40.0)?;
    make_folds(&path, 1)?;
    let other = FleetData::open(&path, &fold_names()[1])?;
    let first = FleetData::open(data(), &fold_names()[0])?;
    let span = Step(60)..=Step(60 + WINDOW as i64);
    assert!(penetration(study.loops(), std::slice::from_ref(&first), &span)? < RATE);
    let mixed = new(&[first, other]).unwrap_or_default();
    assert!(mixed.contains("fleet-40-2of4") && mixed.contains("other steps"), "{mixed}");
    Ok(())
}

/// Estimates that are off by the same everywhere: what the folds tell of their error is that, over twelve draws of the fleet.
#[test]
fn held_out_folds_tell_the_error_of_any_estimates() -> Outcome {
    const DRAWS: u64 = 12;
    const OFF: [f64; 2] = [15.0, 4.0];
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    simulated::simulated(&path, 60.0)?;
    let mut squares = [Vec::new(), Vec::new()];
    for seed in 0..DRAWS {
        make_folds(&path, seed)?;
        let study = study(&path)?;
        let judge = HeldOutJudge::new(study.loops(), &[study.fleets()], &study.train_span())?;
        let steps: Vec<Step> = study.steps().collect();
        let views = (0..FOLDS).filter_map(FleetView::without);
        let state = |step, link| {
            let truth = study.target(TargetKind::Raw, step, link);
            LinkState {
                density: VehPerKmLane::new(truth.density.get() + OFF[0]),
                flow: VehPerMinLane::new(truth.flow.get() + OFF[1]),
            }
        };
        let of_step = |&last: &Step| {
            let states: Vec<_> = study.network().link_ids().map(|link| state(last, link)).collect();
            views.clone().map(move |view| (Window { last, view }, states.clone()))
        };
        let estimates = steps.iter().flat_map(of_step).collect();
        let told = judge.errors(&estimates, false).rmse;
        // The same estimate from every view: their mean errs as much, on the part that the whole fleet does not see.
        let (rates, of_mean) = (judge.rates(), judge.errors(&estimates, true).rmse);
        let share = (1.0 - rates.fleet()) / (1.0 - rates.seen());
        for at in 0..2 {
            let (told, of_mean) = (told[at].ok_or("no error")?, of_mean[at].ok_or("no error")?);
            assert!((of_mean - share * told).abs() < 1e-9 * told, "{of_mean} {told}");
            squares[at].push(told * told);
        }
    }
    for (squares, off) in squares.iter().zip(OFF) {
        let mean = squares.iter().sum::<f64>() / DRAWS as f64;
        let spread: f64 = squares.iter().map(|one| (one - mean).powi(2)).sum();
        let standard_error = (spread / (DRAWS * (DRAWS - 1)) as f64).sqrt();
        assert!((mean - off * off).abs() < 4.0 * standard_error, "{mean} {off} {standard_error}");
        // The test can fail: without the noise of labels taken off, the mean would be several times as much.
        assert!(standard_error < 0.2 * off * off, "{standard_error}");
    }
    Ok(())
}

/// What the fleet shows by itself: over a step its scale-up; over the training part a mean that is its own mean there.
#[test]
fn means_of_the_fleet_are_scale_up_and_usual_states() -> Outcome {
    let study = study(data())?;
    let (loops, folds, span) = (study.loops(), study.fleets(), study.train_span());
    let share = penetration(loops, folds, &span)?;
    let scaled_up = |step: Step, link| {
        let density = |fold: &FleetData| fold.scaled_up(step, link).density.get() * fold.rate();
        folds.iter().map(density).sum::<f64>() / share
    };
    let windows = &study.split().test[..20];
    let links: Vec<_> = study.network().link_ids().collect();
    let of_step = FleetMeans::of_steps(loops, folds, &span, 1)?;
    let found = of_step.estimate_all(loops, folds, windows)?;
    let boxes = windows.iter().flat_map(|&step| links.iter().map(move |&link| (step, link)));
    for ((step, link), state) in boxes.zip(&found) {
        // Sums of four folds in another order.
        assert!((state.density.get() - scaled_up(step, link)).abs() < 1e-9);
    }
    // In the training part: p·mean + (1 − p)·mean.
    let training: Vec<Step> = study.steps().filter(|step| span.contains(step)).collect();
    let usual = FleetMeans::of_training(loops, folds, &span)?;
    let found = usual.estimate_all(loops, folds, &training)?;
    for (at, &link) in links.iter().enumerate() {
        let of_link = found.iter().skip(at).step_by(links.len());
        let sum: f64 = of_link.map(|state| state.density.get()).sum();
        let expected: f64 = training.iter().map(|&step| scaled_up(step, link)).sum();
        assert!((sum - expected).abs() < 1e-6 * (1.0 + expected), "{sum} {expected}");
    }
    Ok(())
}

/// Of two models one is right until the middle of the test part, and then the other.
#[test]
fn weights_follow_the_model_that_is_right() -> Outcome {
    let study = study(data())?;
    let (validation, test) = (&study.split().validation, &study.split().test);
    let judge = HeldOutJudge::new(study.loops(), &[study.fleets()], &study.train_span())?;
    let middle = test[test.len() / 2];
    let model = |right: &dyn Fn(Step) -> bool| -> ViewEstimates {
        let of_step = |&last: &Step| {
            let off = if right(last) { 0.0 } else { 60.0 };
            let state = |link| {
                let truth = study.target(TargetKind::Raw, last, link);
                LinkState {
                    density: VehPerKmLane::new(truth.density.get() + off),
                    flow: VehPerMinLane::new(truth.flow.get() + off),
                }
            };
            let states: Vec<_> = study.network().link_ids().map(state).collect();
            let views = (0..FOLDS).filter_map(FleetView::without);
            views.map(move |view| (Window { last, view }, states.clone())).collect::<Vec<_>>()
        };
        validation.iter().chain(test).flat_map(of_step).collect()
    };
    let models = [model(&|step| step < middle), model(&|step| step >= middle)];
    let models: Vec<&ViewEstimates> = models.iter().collect();
    let weights = FollowedWeights::fit(&judge, &models, 2, validation);
    let steps = weights.steps(study.timeline(), test);
    assert_eq!(steps, *test, "all windows after the validation part");
    let in_time = weights.follow(&judge, &models, &steps);
    let before = in_time.at(Step(middle.0 - 1));
    // Beside an error of 60, noise and the weights of a half beforehand move the first little.
    assert!(before[0].iter().all(|weight| *weight > 0.85), "{before:?}");
    // What was told before the middle counts e^(−t/600 s) at the end, t the time since then.
    let past = (-((test[test.len() - 1].0 - middle.0 + 1) as f64) * 10.0 / 600.0).exp();
    let after = in_time.at(test[test.len() - 1]);
    assert!(after[1].iter().all(|weight| (weight - (1.0 - past)).abs() < 0.15), "{after:?} {past}");
    // Each pair adds up to 1, to rounding.
    let pairs = after[0].iter().zip(&after[1]);
    assert!(pairs.map(|(one, other)| one + other).all(|sum| (sum - 1.0).abs() < 1e-9));
    Ok(())
}
