//! Training by measurements and a traffic model, all data in one place.

use anyhow::Result;
use clap::Args;
use estimator::{
    FleetData, LabelFreeStudy, MeasurementTable, Measures, NeuralPlan, QueueKnowledge, QueueStates,
    SomeLabels, Study, calibrated_ctm, last_share,
};
use indicatif::ProgressBar;
use traffic::Step;

use super::fit::{Fitted, Training};
use crate::party::learning::{DIAGRAM_RATE, SEGMENT};

/// Options of the estimators that learn from a traffic model
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct PhysicsOptions {
    /// Consecutive steps of a segment, which a traffic model ties together; 4 unless given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub segment: Option<u16>,
    /// Learn the traffic model's diagrams too
    #[arg(long)]
    pub learn_physics: bool,
    /// Leave the traffic model out
    #[arg(long)]
    pub no_physics: bool,
    /// Percentage of the training and of the validation part's steps, the last of each, that have ground truth besides
    #[arg(long, value_parser = percentage)]
    pub label_share: Option<f64>,
}

/// What is measured of the guest's fleet; loop flow always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    pub speeds: bool,
    pub queues: bool,
    pub held_out: bool,
    /// The usual flow of each link, one number for the whole training part.
    pub usual: bool,
}

impl Measured {
    const NOTHING: Self = Self { speeds: false, queues: false, held_out: false, usual: false };
    pub const SPEEDS: Self = Self { speeds: true, ..Self::NOTHING };
    pub const SPEEDS_AND_USUAL: Self = Self { usual: true, ..Self::SPEEDS };
    pub const QUEUES: Self = Self { queues: true, ..Self::NOTHING };
    pub const SPEEDS_AND_QUEUES: Self = Self { queues: true, ..Self::SPEEDS };
    pub const HELD_OUT: Self = Self { held_out: true, ..Self::QUEUES };
}

/// One over the square of the error that is left with labels, about 6 veh/km/lane and 1 veh/min/lane:
/// surer labels would drown all else.
const LABEL_WEIGHTS: [f64; 2] = [1.0 / 36.0, 1.0];

/// Trains and estimates some windows. Of the study, loops, fleets, the borders of its parts and, for a
/// share of labels, the truth of those steps are used.
pub fn train(
    study: &Study,
    plan: NeuralPlan,
    measured: Measured,
    options: &PhysicsOptions,
    windows: &[Step],
    bar: &ProgressBar,
) -> Result<Fitted> {
    let (loops, fleets) = (study.loops(), study.fleets());
    let Measured { speeds, held_out, .. } = measured;
    // Folds of one fleet are as many fleets here, and together tell its queues.
    let names: Vec<&str> = fleets.iter().map(FleetData::name).collect();
    let queues = match &names[..] {
        [first, ..] if measured.queues => {
            let own = if held_out { &names[..] } else { &[*first][..] };
            let queues = QueueStates::read_union(study.folder(), own, QueueKnowledge::Fleet)?;
            Some(MeasurementTable::queue_densities(&queues))
        }
        _ => None,
    };
    let segment = usize::from(options.segment.unwrap_or(SEGMENT));
    let target = plan.target;
    let measures = Measures { loops: true, speeds, held_out, usual: measured.usual };
    let data = LabelFreeStudy::new(loops, fleets, study.split(), plan, measures, queues, segment)?;
    let physics = if options.no_physics {
        None
    } else {
        let rate = options.learn_physics.then_some(DIAGRAM_RATE);
        Some(calibrated_ctm(study.timeline(), fleets, &study.train_span(), rate)?)
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
    let mut run = data.run(physics, labels)?;
    while !run.trainer.is_done() {
        let epoch = run.epoch(&data)?;
        progress::go_on()?;
        progress::after_epoch(bar, epoch.number, epoch.train, epoch.validation);
    }
    bar.finish_and_clear();
    let training = Training::central(
        run.trainer.history().to_vec(),
        run.trainer.best_epoch().map(|epoch| epoch.number),
        data.train().len().div_ceil(data.card().plan.recipe.batch),
    );
    let estimates = data.finish(run).estimate(loops, fleets, windows)?;
    Ok(Fitted { estimates, by_epoch: Vec::new(), absent: Vec::new(), training: Some(training) })
}

fn percentage(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| (0.0..=100.0).contains(share));
    share.ok_or_else(|| "expected a percentage, 0 to 100".to_owned())
}
