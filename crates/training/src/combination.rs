//! The default without ground truth: several models, each with the weight that a held-out part of the fleet gives it.
//!
//! 1. Each model of [`MODELS`] is trained like a method of its own, with a fold of each fleet held out in turn. They differ in what else
//!    their losses hold, loops, queue profiles or a traffic model, and in how fast they learn.
//! 2. [`HeldOutJudge`](estimator::loss::HeldOutJudge) compares their estimates of the validation part, made from all folds but one, with the labels of
//!    that fold, and weighs them. A model that a term of its loss misleads gets no weight.
//! 3. The estimate is the weighted sum. The judge also tells its error on the windows that are estimated.

use std::collections::BTreeMap;
use std::path::Path;

use estimator::artifact::{Combination, CombinedModel, weighted_sum, weighted_windows};
use estimator::loss::{
    FleetMeans, FollowedWeights, LabelFreeEstimator, MeasuredTerms, Penetration, ViewEstimates,
    WeightsInTime, limit_to_standing,
};
use estimator::{Estimates, HeldOutEstimator, SavedEstimator, Study, TargetKind, TrainingSignal};
use indicatif::ProgressBar;
use traffic::{Step, Window};

use crate::central;
use crate::error::{Result, TrainingError};
use crate::federated::{self, FederatedTask};
use crate::judged::Judged;
use crate::kept_run::KeptRun;
use crate::method::Participants;
use crate::options::PhysicsOptions;
use crate::party::CustomSubModels;
use crate::task::{Fitted, TrainOptions, Training, Watch};

/// A model that is combined with others.
pub(crate) struct Model {
    name: &'static str,
    /// What its loss holds besides the held-out fleet.
    besides: Besides,
    schedule: Schedule,
}

/// How long a model is trained: noisy labels are soon known by heart.
#[derive(Clone, Copy, PartialEq)]
enum Schedule {
    /// The usual number of epochs divided by this, all of them. The validation part's labels are noisy, too: where traffic moves, the
    /// epoch that they choose is a matter of chance.
    Whole(usize),
    /// At a third of the usual learning rate, the epoch that the validation part chooses: where vehicles stand, later epochs are
    /// worse.
    Slow,
}

#[derive(Clone, Copy, PartialEq)]
enum Besides {
    Nothing,
    LoopsAndQueues,
    LoopsQueuesAndPhysics,
}

/// The models, the plainest first. Their seeds differ.
#[rustfmt::skip]
pub(crate) const MODELS: [Model; 5] = [
    Model { name: "held-out fleet", besides: Besides::Nothing, schedule: Schedule::Whole(2) },
    Model { name: "held-out fleet, briefly", besides: Besides::Nothing, schedule: Schedule::Whole(4) },
    Model { name: "held-out fleet, slowly", besides: Besides::Nothing, schedule: Schedule::Slow },
    Model { name: "with loops and queues", besides: Besides::LoopsAndQueues, schedule: Schedule::Whole(2) },
    Model { name: "with loops, queues and traffic model", besides: Besides::LoopsQueuesAndPhysics, schedule: Schedule::Whole(2) },
];

/// A model's part in a combination.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelWeight {
    /// What it is.
    pub model: &'static str,
    /// Its weights, of density and of flow.
    pub weights: [f64; 2],
}

/// A trained model's estimates.
struct Trained {
    name: &'static str,
    /// Of whole fleets, as asked for.
    estimates: Estimates,
    estimator: Option<SavedEstimator>,
    kept: Vec<KeptRun>,
    /// Without each fold, of the windows by which it is judged.
    in_views: ViewEstimates,
    training: Option<Training>,
}

impl Trained {
    /// No density is above that of standing vehicles.
    fn limit(&mut self) {
        let views = self.in_views.values_mut().flatten();
        self.estimates.iter_mut().chain(views).for_each(limit_to_standing);
    }
}

/// Trains all models and estimates some windows by their weighted sum.
pub(crate) fn train(
    options: &TrainOptions,
    study: &Study,
    windows: &[Step],
    (custom, keep): (&CustomSubModels, Option<&Path>),
    bar: &ProgressBar,
) -> Result<Fitted> {
    let judge = Judged::new(study, options.method.folds().unwrap_or(1))?;
    let (validation, estimated) = (judge.thinned(&study.split().validation), judge.told(windows));
    let central = options.method.spec().participants == Participants::Central;
    // Windows that weights follow: the same as when the model is kept and used again.
    let followed = match validation.last() {
        Some(&last) if central => {
            let folds = study.fleets().len();
            FollowedWeights::steps_after(last, study.timeline(), folds, windows)
        }
        _ => Vec::new(),
    };
    let mut judged = [&validation[..], &estimated[..], &followed[..]].concat();
    judged.sort_unstable();
    judged.dedup();

    let (mut models, mut plain) = (Vec::new(), 0);
    let mut failed: Option<TrainingError> = None;
    for (at, model) in MODELS.iter().enumerate() {
        bar.set_message(format!("model {} of {}: {}", at + 1, MODELS.len(), model.name));
        let seeded = TrainOptions { seed: options.seed + at as u64, ..options.clone() };
        // Where a model is kept whose training has ended, it is read again; one that was interrupted goes on.
        let folder = keep.map(|folder| folder.join("training").join((at + 1).to_string()));
        let place = (custom, folder.as_deref());
        match model.train(&seeded, study, &judge, (windows, &judged), place) {
            Ok(mut trained) => {
                trained.limit();
                models.push(trained);
                plain += usize::from(model.besides == Besides::Nothing);
            }
            // Queue profiles or a traffic model that the data do not allow are left out; told to stop is not that.
            Err(error) => {
                progress::check_stop()?;
                eprintln!("model \"{}\" is left out: {error}", model.name);
                failed = Some(error);
            }
        }
        bar.set_position(at as u64 + 1);
    }
    bar.finish_and_clear();
    if central {
        let mut means = means(study, (windows, &judged))?;
        means.iter_mut().for_each(Trained::limit);
        models.extend(means);
    }
    if models.is_empty() {
        return Err(failed.unwrap_or_else(|| TrainingError::Invalid("models: found none".into())));
    }
    let on = |steps: &[Step]| -> Vec<ViewEstimates> {
        let of = |model: &Trained| {
            let views = model.in_views.iter();
            let some = views.filter(|(window, _)| steps.binary_search(&window.last).is_ok());
            some.map(|(window, states)| (*window, states.clone())).collect()
        };
        models.iter().map(of).collect()
    };
    let first = on(&validation);
    let first: Vec<&ViewEstimates> = first.iter().collect();
    // In a federation the host does not have what the fleets see, and its estimates in views cross the network: there weights are
    // those of the validation part.
    let following = central.then(|| FollowedWeights::fit(&judge.judge, &first, plain, &validation));
    let weights = match &following {
        Some(following) => following.now(),
        None => judge.judge.combine(&first, plain),
    };
    let in_time = match following.clone() {
        Some(following) => {
            let views: Vec<&ViewEstimates> = models.iter().map(|model| &model.in_views).collect();
            following.follow(&judge.judge, &views, &followed)
        }
        None => WeightsInTime::constant(weights.clone()),
    };
    let mean_of_views = central;
    let errors = judge.judge.errors(&sum_of_views(&on(&estimated), &in_time), mean_of_views);
    let known_errors =
        judge.judge.known_errors(&sum_of_views(&on(&validation), &in_time), mean_of_views);
    let each: Vec<&Estimates> = models.iter().map(|model| &model.estimates).collect();
    let estimates = weighted_windows(&each, &in_time, windows, study.targets().len());
    let (mut named, mut combined, mut trainings) = (Vec::new(), Vec::new(), Vec::new());
    let mut kept = Vec::new();
    for (model, weights) in models.into_iter().zip(weights) {
        named.push(ModelWeight { model: model.name, weights });
        let name = model.name.to_owned();
        let one = model.estimator.map(|estimator| CombinedModel { name, weights, estimator });
        combined.push(one);
        trainings.extend(model.training);
        kept.extend(model.kept);
    }
    let estimator: Option<Vec<CombinedModel>> = combined.into_iter().collect();
    Ok(Fitted {
        estimates,
        training: trainings.into_iter().reduce(together),
        weights: named,
        estimated_errors: Some(errors),
        known_errors: Some(known_errors),
        estimator: estimator
            .map(|models| SavedEstimator::Combination(Combination { models, following })),
        kept,
        ..Fitted::default()
    })
}

impl Model {
    /// Trains it, and estimates some windows by whole fleets and some without each fold.
    fn train(
        &self,
        options: &TrainOptions,
        study: &Study,
        judge: &Judged<'_>,
        (windows, judged): (&[Step], &[Step]),
        (custom, keep): (&CustomSubModels, Option<&Path>),
    ) -> Result<Trained> {
        if let Some(folder) = keep {
            std::fs::create_dir_all(folder).map_err(|error| TrainingError::file(folder, error))?;
        }
        let folds = options.method.folds().unwrap_or(1);
        let physics = PhysicsOptions {
            no_physics: options.physics.no_physics
                || self.besides != Besides::LoopsQueuesAndPhysics,
            ..options.physics
        };
        let mut plan = options.plan_with(custom)?;
        match self.schedule {
            Schedule::Whole(part) => {
                plan.recipe.epochs = plan.recipe.epochs.div_ceil(part);
                plan.recipe.patience = 0;
            }
            Schedule::Slow => {
                plan.recipe.rate /= 3.0;
                plan.recipe.host_rate = plan.recipe.host_rate.map(|rate| rate / 3.0);
            }
        }
        let (name, bar) = (self.name, ProgressBar::hidden());
        let (loops, fleets) = (study.loops(), study.fleets());
        let central = |estimator: HeldOutEstimator, training, kept| -> Result<Trained> {
            let estimates = estimator.estimate(loops, fleets, windows)?;
            let in_views = estimator.estimate_in_views(loops, fleets, judged)?;
            let estimator = Some(SavedEstimator::HeldOut(estimator));
            let kept = Option::<KeptRun>::into_iter(kept).collect();
            Ok(Trained { name, estimates, estimator, kept, in_views, training: Some(training) })
        };
        let signal = match self.besides {
            Besides::Nothing => TrainingSignal::held_out_totals(folds),
            Besides::LoopsAndQueues | Besides::LoopsQueuesAndPhysics => {
                TrainingSignal::pi_and_held_out(folds)
            }
        };
        if options.method.spec().participants == Participants::Federated {
            let task = FederatedTask {
                study,
                plan: &plan,
                custom,
                signal,
                physics: &physics,
                options: &options.federation,
                windows,
                in_views: &judge.in_views(judged),
                watch: Watch::default(),
                keep,
            };
            let (fitted, in_views) = federated::train(&task, &bar)?;
            let Fitted { estimates, training, estimator, kept, .. } = fitted;
            return Ok(Trained { name, estimates, estimator, kept, in_views, training });
        }
        let terms: Option<MeasuredTerms> = signal.measurements().copied();
        match terms.filter(|_| self.besides != Besides::Nothing) {
            None => {
                let constant = Penetration::Constant;
                let (estimator, training, kept) =
                    central::train_on_held_out_fleet(study, plan, constant, (keep, &bar))?;
                central(estimator, training, kept)
            }
            Some(terms) => {
                match central::train_on_measurements(study, plan, terms, &physics, (keep, &bar))? {
                    (LabelFreeEstimator::HeldOut(estimator), training, kept) => {
                        central(estimator, training, kept)
                    }
                    (LabelFreeEstimator::Whole(_), ..) => {
                        Err(TrainingError::Invalid(format!("{name}: nothing is held out")))
                    }
                }
            }
        }
    }
}

/// What the fleet shows by itself: of the step, in the mean of the window and in that of the training part. Nothing is trained, so that
/// none of it can be known by heart.
fn means(study: &Study, (windows, judged): (&[Step], &[Step])) -> Result<Vec<Trained>> {
    let (loops, folds, span) = (study.loops(), study.fleets(), study.train_span());
    let all = [
        ("fleet, scaled up", FleetMeans::of_steps(loops, folds, &span, 1)?),
        (
            "fleet, mean of the window",
            FleetMeans::of_steps(loops, folds, &span, study.timeline().window())?,
        ),
        ("fleet, usual state", FleetMeans::of_training(loops, folds, &span)?),
    ];
    let of = |(name, means): (&'static str, FleetMeans)| -> Result<Trained> {
        let observed = study.observed();
        let estimator = SavedEstimator::FleetMeans(means.clone());
        let asked = study.asked(TargetKind::Raw, windows);
        let (estimates, _) = estimator.estimate(&observed, &[], &asked)?;
        Ok(Trained {
            name,
            estimates,
            in_views: means.estimate_in_views(loops, folds, judged)?,
            estimator: Some(estimator),
            kept: Vec::new(),
            training: None,
        })
    };
    all.into_iter().map(of).collect()
}

fn sum_of_views(models: &[ViewEstimates], weights: &WeightsInTime) -> ViewEstimates {
    let Some(first) = models.first() else { return BTreeMap::new() };
    let of_window = |&window: &Window| {
        let states: Option<Vec<_>> =
            models.iter().map(|model| model.get(&window).map(Vec::as_slice)).collect();
        Some((window, weighted_sum(&states?, weights.at(window.last))))
    };
    first.keys().filter_map(of_window).collect()
}

/// What several trainings cost together; epochs are those of the first.
fn together(mut all: Training, one: Training) -> Training {
    let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    all.rounds = sum(all.rounds, one.rounds);
    all.bytes = sum(all.bytes, one.bytes);
    all.exchanges += one.exchanges;
    all.releases.extend(one.releases);
    all.left.extend(one.left);
    all
}
