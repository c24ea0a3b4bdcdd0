//! Methods with all data in one place: each builds its data and loss, and [`CentralRun`] trains.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use estimator::data::{JointData, last_share};
use estimator::loss::{
    LabelFreeEstimator, MeasuredTerms, Penetration, SomeLabels, calibrated_physics,
};
use estimator::{
    Epoch, Estimates, FleetData, HeldOutEstimator, HeldOutStudy, LabelFreeStudy, MeasurementSource,
    MeasurementTable, NeuralPlan, NeuralStudy, SavedEstimator, Study, segments,
};
use federation::CheckpointInterval;
use indicatif::ProgressBar;
use traffic::{FleetView, Step, Window};

use crate::engine::{Advanced, CentralRun, EngineError};
use crate::error::Result;
use crate::kept_run::KeptRun;
use crate::learner::{HostLoss, Sources};
use crate::options::PhysicsOptions;
use crate::party::fleet_queues;
use crate::signal::{SEGMENT, physics_plan};
use crate::task::{Fitted, Training, Watch};

/// One over the square of the error that is left with labels, about 6 veh/km/lane and 1 veh/min/lane:
/// surer labels would drown all else.
const LABEL_WEIGHTS: [f64; 2] = [1.0 / 36.0, 1.0];

/// Learns from labels, keeping each epoch and at the end the model if a folder is given.
pub(crate) fn train_on_labels(
    study: &Study,
    plan: NeuralPlan,
    windows: &[Step],
    (watch, keep): (Watch, Option<&Path>),
    bar: &ProgressBar,
) -> Result<Fitted> {
    let data = NeuralStudy::new(study, plan)?;
    let mut run = CentralRun::new(data.data(), HostLoss::of(data.objective()))?;
    let kept = keep.map(|folder| KeptRun::open(folder, &data.data().record)).transpose()?;
    if let Some(kept) = &kept {
        kept.resume(&mut run)?;
    }
    bar.set_position(run.history().len() as u64);
    let mut by_epoch = Vec::new();
    while let Some(epoch) = next_epoch(&mut run, kept.as_ref())? {
        if watch.each_epoch {
            let outputs = run.outputs(windows)?;
            by_epoch.push(scored(study, data.data(), &outputs));
        }
        progress::after_epoch(bar, epoch.number, epoch.train, epoch.validation);
        progress::check_stop()?;
    }
    bar.finish_and_clear();
    let training = Training::central(&run);
    let estimator = data.assemble(&run.best())?;
    let estimates = estimator.estimate(study, windows)?;
    let (training, estimator) = (Some(training), Some(SavedEstimator::Neural(estimator)));
    let kept = kept.into_iter().collect();
    Ok(Fitted { estimates, by_epoch, training, estimator, kept, ..Fitted::default() })
}

/// Learns from a held-out part of the fleet. Of the study, loops, fleets and the borders of its parts are used, and no
/// ground truth.
pub(crate) fn train_on_held_out_fleet(
    study: &Study,
    plan: NeuralPlan,
    penetration: Penetration,
    (keep, bar): (Option<&Path>, &ProgressBar),
) -> Result<(HeldOutEstimator, Training, Option<KeptRun>)> {
    let (loops, folds) = (study.loops(), study.fleets());
    let data = HeldOutStudy::new(loops, folds, study.split(), plan, penetration)?;
    let mut run = CentralRun::new(data.data(), HostLoss::of(data.objective()))?;
    let made_with = (&data.data().record, penetration);
    let kept = keep.map(|folder| KeptRun::open(folder, &made_with)).transpose()?;
    let training = run_to_the_end(&mut run, kept.as_ref(), bar)?;
    Ok((data.assemble(&run.best())?, training, kept))
}

/// Learns from measurements and a traffic model. Of the study, loops, fleets, the borders of its parts and, for a
/// share of labels, the ground truth of those steps are used.
pub(crate) fn train_on_measurements(
    study: &Study,
    plan: NeuralPlan,
    terms: MeasuredTerms,
    options: &PhysicsOptions,
    (keep, bar): (Option<&Path>, &ProgressBar),
) -> Result<(LabelFreeEstimator, Training, Option<KeptRun>)> {
    let (loops, fleets) = (study.loops(), study.fleets());
    let segment = usize::from(options.segment.unwrap_or(SEGMENT));
    // Before queues are solved, which takes long in a large network.
    check_segments(study, segment)?;
    // Folds of one fleet are as many fleets here, and together tell its queues.
    let names: Vec<&str> = fleets.iter().map(FleetData::name).collect();
    let queues = match &names[..] {
        // Those of a sum came with it.
        _ if study.queues().is_some() => study.queues().filter(|_| terms.queues).cloned(),
        [first, ..] if terms.queues => {
            let own = if terms.held_out.is_some() { &names[..] } else { &[*first][..] };
            let queues = fleet_queues(study.folder(), own)?;
            Some(MeasurementTable::queue_densities(&queues))
        }
        _ => None,
    };
    let target = plan.target;
    let data = LabelFreeStudy::new(loops, fleets, study.split(), plan, terms, queues, segment)?;
    let physics = if options.no_physics {
        None
    } else {
        let plan = physics_plan(options.traffic_model, options.learn_physics);
        Some(calibrated_physics(loops, fleets, &study.train_span(), plan)?)
    };
    let labels = options.label_share.map(|share| {
        let parts = [&study.split().train, &study.split().validation];
        let steps = parts.into_iter().flat_map(|part| last_share(part, share));
        let states = steps.map(|&step| {
            let links = study.network().link_ids();
            (step, links.map(|link| study.target(target, step, link)).collect())
        });
        SomeLabels::new(study.network().links().len(), LABEL_WEIGHTS, states)
    });
    let measured = data.measured().iter();
    let own = measured
        .map(|(name, table)| (name.clone(), Arc::clone(table) as Arc<dyn MeasurementSource>))
        .collect();
    let sources = Sources { own, ..Sources::default() };
    let loss = HostLoss { objective: Box::new(data.objective(physics, labels)?), sources };
    let mut run = CentralRun::new(data.data(), loss)?;
    let made_with = (&data.data().record, terms, options);
    let kept = keep.map(|folder| KeptRun::open(folder, &made_with)).transpose()?;
    let training = run_to_the_end(&mut run, kept.as_ref(), bar)?;
    Ok((data.assemble(&run.best())?, training, kept))
}

/// Trains to the end of an epoch. A run that is kept is written there and, in a long epoch, as often as federated parties store
/// checkpoints: a crash costs seconds.
fn next_epoch(run: &mut CentralRun, kept: Option<&KeptRun>) -> Result<Option<Epoch>> {
    let between = CheckpointInterval::default().time;
    loop {
        let advanced = run.advance(kept.map(|_| Instant::now() + between))?;
        if let (Some(kept), Advanced::Epoch(_) | Advanced::Due) = (kept, &advanced) {
            kept.write(run)?;
        }
        match advanced {
            Advanced::Epoch(epoch) => return Ok(Some(epoch)),
            Advanced::Due => {}
            Advanced::Ended => return Ok(None),
        }
    }
}

/// Training and validation part are long enough for a segment each.
fn check_segments(study: &Study, segment: usize) -> Result<()> {
    let split = study.split();
    for (part, steps) in [("training", &split.train), ("validation", &split.validation)] {
        let windows = steps.iter().map(|&last| Window { last, view: FleetView::WHOLE });
        if segments(&windows.collect::<Vec<_>>(), segment).is_empty() {
            return Err(EngineError::NoSegments { part, segment }.into());
        }
    }
    Ok(())
}

/// Trains from where a kept run stands.
fn run_to_the_end(
    run: &mut CentralRun,
    kept: Option<&KeptRun>,
    bar: &ProgressBar,
) -> Result<Training> {
    if let Some(kept) = kept {
        kept.resume(run)?;
    }
    bar.set_position(run.history().len() as u64);
    while let Some(epoch) = next_epoch(run, kept)? {
        progress::check_stop()?;
        progress::after_epoch(bar, epoch.number, epoch.train, epoch.validation);
    }
    bar.finish_and_clear();
    Ok(Training::central(run))
}

/// The states of the scored links, of one output after the other.
fn scored(study: &Study, data: &JointData, outputs: &[f32]) -> Estimates {
    let host = &data.record.host;
    let mut states = Vec::new();
    for output in outputs.chunks_exact(2 * host.outputs.len().max(1)) {
        let all: Vec<traffic::LinkState> = host.states(output).collect();
        states.extend(study.targets().iter().map(|link| all[link.index()]));
    }
    states
}
