//! How each estimator is fitted: what `fedtse train`, the tables and the wheel share.

use std::collections::BTreeMap;
use std::path::Path;

use estimator::baseline::LiveQueues;
use estimator::loss::{EstimatedErrors, LabelFreeEstimator, TrafficModelKind};
use estimator::{
    Architecture, Epoch, Estimates, FilteredStates, GuestPlan, NeuralPlan, QueueKnowledge,
    QueueStates, Ridge, Study, TargetKind, TrainingSignal, scale_up,
};
use indicatif::ProgressBar;
use sensing::part_name;
use traffic::Step;

use crate::central;
use crate::combination::{self, ModelWeight};
use crate::engine::CentralRun;
use crate::error::{Context, Result, bail, ensure};
use crate::federated::{self, FederatedTask};
use crate::judged::Judged;
use crate::method::{EstimatorKind, Hindsight, Method};
use crate::options::{FederationOptions, GuestOptions, PhysicsOptions};
use crate::party::CustomSubModels;
use crate::party::privacy::Mode;
use crate::releases::Releases;
use crate::signal::measured_kinds;

/// What is to be fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// Which estimator.
    pub method: Method,
    /// The model of the neural estimators.
    pub architecture: Architecture,
    /// What is estimated.
    pub target: TargetKind,
    /// Seed of the neural estimators: first weights, order of samples, dropout.
    pub seed: u64,
    /// Most epochs of the neural estimators; the architecture's own if none.
    pub epochs: Option<usize>,
    /// Highest learning rate of the neural estimators; the architecture's own if none.
    pub learning_rate: Option<f32>,
    /// Models of the neural estimators.
    pub guest: GuestOptions,
    /// Rounds of the federated ones.
    pub federation: FederationOptions,
    /// The traffic model of those that have one.
    pub physics: PhysicsOptions,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            method: Method::Oracle,
            architecture: Architecture::Link,
            target: TargetKind::Raw,
            seed: 1,
            epochs: None,
            learning_rate: None,
            guest: GuestOptions::default(),
            federation: FederationOptions::clear(),
            physics: PhysicsOptions::default(),
        }
    }
}

/// What is asked of a fit besides its estimates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Of neural estimators: the same estimates after each epoch.
    pub each_epoch: bool,
    /// Of federated ones: the same estimates with each guest absent.
    pub each_absent: bool,
}

/// A fit's estimates, and of a neural estimator how it was trained.
#[derive(Default)]
pub struct Fitted {
    /// `[window][target link]`.
    pub estimates: Estimates,
    /// After each epoch, if asked for.
    pub by_epoch: Vec<Estimates>,
    /// Without each guest, if asked for.
    pub absent: Vec<(String, Estimates)>,
    /// Of a neural estimator.
    pub training: Option<Training>,
    /// Of a combination: its models and their weights, for density and for flow.
    pub weights: Vec<ModelWeight>,
    /// Errors on the test part, or on all estimated windows if none is of it, by what held-out folds tell, of a method that holds some out.
    pub estimated_errors: Option<EstimatedErrors>,
}

/// How a neural estimator was trained.
pub struct Training {
    /// The epoch whose weights were kept.
    pub best_epoch: Option<usize>,
    /// The losses of all epochs.
    pub history: Vec<Epoch>,
    /// Updates of an epoch with one local update each: exchanges of the federated ones.
    pub exchanges: usize,
    /// Of the federated ones: exchanges.
    pub rounds: Option<u64>,
    /// Of the federated ones: bytes that left any party.
    pub bytes: Option<u64>,
    /// Of the federated ones: what has left each party, by its own ledger.
    pub releases: Vec<Releases>,
    /// Of the federated ones: guests that did not come to the end, and why.
    pub left: BTreeMap<String, String>,
}

impl Training {
    /// Of an estimator with all data in one place.
    pub(crate) fn central(run: &CentralRun) -> Self {
        Self {
            best_epoch: run.best_epoch(),
            history: run.history(),
            exchanges: run.exchanges(),
            rounds: None,
            bytes: None,
            releases: Vec::new(),
            left: BTreeMap::new(),
        }
    }
}

impl TrainOptions {
    /// Epochs that training takes at most, or models of a combination; none for what is not trained.
    pub fn most_epochs(&self) -> Option<usize> {
        match self.method.spec().estimator {
            EstimatorKind::Neural => Some(self.plan().recipe.epochs),
            EstimatorKind::Combination => Some(combination::MODELS.len()),
            _ => None,
        }
    }

    /// The traffic model of those that have one.
    pub fn traffic_model(&self) -> Option<TrafficModelKind> {
        let spec = self.method.spec();
        let filter = spec.estimator == EstimatorKind::Filter;
        let in_loss = spec.signal.is_some_and(|signal| signal.has_physics())
            || spec.estimator == EstimatorKind::Combination;
        let loss = in_loss && !self.physics.no_physics;
        (filter || loss).then_some(self.physics.traffic_model)
    }

    /// How what guests send is protected, of the federated ones. Modes are of measurements: without any, nothing is.
    fn mode(&self) -> Option<Mode> {
        let signal = self.method.spec().signal.filter(|_| self.method.is_federated())?;
        let measured = !measured_kinds(&signal).is_empty();
        Some(if measured { self.federation.privacy.mode(&signal) } else { Mode::Clear })
    }

    /// The name of that.
    pub fn privacy(&self) -> Option<String> {
        self.mode().map(|mode| mode.name().to_owned())
    }

    fn plan(&self) -> NeuralPlan {
        let spec = self.method.spec();
        let mut plan = NeuralPlan::new(spec.features, self.architecture, self.target, self.seed);
        if let Some(signal) = spec.signal {
            plan.recipe = signal.recipe(plan.recipe);
        }
        if let Some(epochs) = self.epochs {
            plan.recipe.epochs = epochs;
        }
        if let Some(rate) = self.learning_rate {
            plan.recipe.rate = rate;
        }
        if let (true, Some(features)) = (self.method.is_federated(), spec.features.guest_features())
            && self.federation.guests > 1
        {
            let names = (1..=self.federation.guests).map(|number| format!("guest-{number}"));
            let guests = names.map(|name| GuestPlan::new(&name, features, self.architecture));
            plan = plan.with_guests(guests.collect());
        }
        if self.mode().is_some_and(Mode::is_sealed) {
            plan.head = Some(plan.sizes.for_products());
        }
        self.guest.apply(&mut plan);
        plan
    }

    /// The plan with custom sub-models of the guests.
    pub(crate) fn plan_with(&self, custom: &CustomSubModels) -> Result<NeuralPlan> {
        let mut plan = self.plan();
        for (name, own) in &custom.guests {
            let guest = plan.guests.iter_mut().find(|guest| guest.name == *name);
            let guest = guest.with_context(|| format!("guest `{name}`: not found in the plan"))?;
            guest.sub_model = own.kind;
            guest.embedding = own.embedding.unwrap_or(guest.embedding);
        }
        Ok(plan)
    }

    /// The fleets that are needed of a dataset, for a penetration rate in percent.
    pub fn fleets(&self, rate: f64) -> Vec<String> {
        let guests = match self.method.is_federated() {
            true => usize::from(self.federation.guests),
            false => 1,
        };
        let (fleet, parts) = (format!("fleet-{rate}"), guests * self.method.folds().unwrap_or(1));
        match parts {
            1 => vec![fleet],
            _ => (1..=parts).map(|part| part_name(&fleet, part, parts)).collect(),
        }
    }

    /// Fits on the training part and estimates some windows; a neural estimator is kept in the
    /// folder, if one is given. The bar goes one further with each epoch.
    pub fn fit(
        &self,
        study: &Study,
        windows: &[Step],
        watch: Watch,
        keep: Option<&Path>,
        bar: &ProgressBar,
    ) -> Result<Fitted> {
        self.fit_with(study, windows, (watch, keep), &CustomSubModels::default(), bar)
    }

    /// The same with custom sub-models.
    pub fn fit_with(
        &self,
        study: &Study,
        windows: &[Step],
        (watch, keep): (Watch, Option<&Path>),
        custom: &CustomSubModels,
        bar: &ProgressBar,
    ) -> Result<Fitted> {
        ensure!(
            custom.is_empty() || self.method.is_federated(),
            "host, guests: found custom sub-models, expected a federated method such as fedtse"
        );
        self.method.check_target(self.target)?;
        self.method.check_watch(watch)?;
        let spec = self.method.spec();
        let estimates = match (spec.estimator, spec.signal) {
            (EstimatorKind::ScaleUp, _) => scale_up(study, self.target, windows),
            (EstimatorKind::Filter, _) => {
                let [fleet] = study.fleets() else { bail!("ukf: expected one fleet") };
                ensure!(
                    self.physics.traffic_model == TrafficModelKind::Ctm,
                    "traffic-model: found {:?}, expected ctm: the filter ukf has no other",
                    self.physics.traffic_model
                );
                let queues = QueueStates::read(study.folder(), fleet.name(), QueueKnowledge::Fleet);
                if let Err(error) = &queues {
                    eprintln!("warning: ukf: no densities by queue profiles: {error}");
                }
                let (loops, queues) = (study.loops(), queues.ok());
                let span = study.train_span();
                let states = FilteredStates::run(loops, fleet, queues.as_ref(), &span)?;
                let (name, softened) = (fleet.name(), states.softened);
                eprintln!("{name}: {softened} measurements contradicted all else and counted less");
                states.estimate(study, self.target, windows)
            }
            (EstimatorKind::QueueProfiles(knowledge, hindsight), _) => {
                queues(study, self.target, knowledge, hindsight, windows)?
            }
            (EstimatorKind::Ridge, _) => {
                Ridge::fit(study, self.target, spec.features)?.estimate(study, windows)?
            }
            (EstimatorKind::Combination, _) => {
                ensure!(keep.is_none(), "{}: cannot be kept yet", spec.name);
                return combination::train(self, study, windows, custom, bar);
            }
            (EstimatorKind::Neural, None) => {
                bail!("{}: found nothing to learn from, expected a signal", spec.name)
            }
            (EstimatorKind::Neural, Some(signal)) if self.method.is_federated() => {
                let judged = signal.folds().map(|folds| Judged::new(study, folds)).transpose()?;
                let in_views = judged.as_ref().map(|judged| judged.in_views(&judged.told(windows)));
                let task = FederatedTask {
                    study,
                    plan: &self.plan_with(custom)?,
                    custom,
                    signal,
                    physics: &self.physics,
                    options: &self.federation,
                    windows,
                    in_views: in_views.as_deref().unwrap_or_default(),
                    watch,
                    keep,
                };
                let (fitted, views) = federated::train(&task, bar)?;
                let estimated_errors = judged.map(|judged| judged.errors_in_views(&views));
                return Ok(Fitted { estimated_errors, ..fitted });
            }
            (EstimatorKind::Neural, Some(TrainingSignal::Labels)) => {
                return central::train_on_labels(study, self.plan(), windows, (watch, keep), bar);
            }
            (EstimatorKind::Neural, Some(TrainingSignal::HeldOutFleet { penetration, .. })) => {
                let plan = self.plan();
                let (estimator, training) =
                    central::train_on_held_out_fleet(study, plan, penetration, bar)?;
                let estimates = estimator.estimate(study.loops(), study.fleets(), windows)?;
                let judged = Judged::new(study, self.method.folds().unwrap_or(1))?;
                let estimated_errors = Some(judged.errors_of(&estimator, windows)?);
                let training = Some(training);
                return Ok(Fitted { estimates, training, estimated_errors, ..Fitted::default() });
            }
            (EstimatorKind::Neural, Some(TrainingSignal::Measurements(terms))) => {
                let (estimator, training) =
                    central::train_on_measurements(study, self.plan(), terms, &self.physics, bar)?;
                let estimates = estimator.estimate(study.loops(), study.fleets(), windows)?;
                let estimated_errors = match &estimator {
                    LabelFreeEstimator::HeldOut(estimator) => {
                        let judged = Judged::new(study, self.method.folds().unwrap_or(1))?;
                        Some(judged.errors_of(estimator, windows)?)
                    }
                    LabelFreeEstimator::Whole(_) => None,
                };
                let training = Some(training);
                return Ok(Fitted { estimates, training, estimated_errors, ..Fitted::default() });
            }
        };
        Ok(Fitted { estimates, ..Fitted::default() })
    }
}

/// Estimates by the queue profiles of the study's fleet, and says what was taken for granted.
fn queues(
    study: &Study,
    target: TargetKind,
    knowledge: QueueKnowledge,
    hindsight: Hindsight,
    windows: &[Step],
) -> Result<Estimates> {
    let fleet = study.fleets().first().map_or("", |fleet| fleet.name());
    let (estimates, report) = match hindsight {
        Hindsight::Yes => {
            let states = QueueStates::read(study.folder(), fleet, knowledge)?;
            (states.estimate(study, target, windows), *states.report())
        }
        Hindsight::No => {
            let queues = LiveQueues::read(study.folder(), fleet, knowledge)?;
            queues.estimate(study, target, windows)?
        }
    };
    eprintln!("{fleet}: {report}");
    Ok(estimates)
}
