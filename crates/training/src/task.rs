//! How each estimator is fitted: what `fedtse train`, the tables and the wheel share.

use std::collections::BTreeMap;
use std::path::Path;

use estimator::artifact::{KeptWith, Remark};
use estimator::loss::{EstimatedErrors, LabelFreeEstimator, TrafficModelKind};
use estimator::{
    Architecture, CalibratedFilter, Epoch, Estimates, GuestPlan, NeuralPlan, QueueKnowledge,
    QueueStates, Ridge, SavedEstimator, Study, TargetKind, TrainingSignal,
};
use indicatif::ProgressBar;
use sensing::part_name;
use traffic::{LinkId, Step};

use crate::aggregate::{self, SummedGuests};
use crate::central;
use crate::combination::{self, ModelWeight};
use crate::engine::CentralRun;
use crate::error::{Context, Result, bail, ensure};
use crate::federated::{self, FederatedTask};
use crate::fingerprint::of_bytes;
use crate::judged::{Judged, KnownErrors};
use crate::kept_run::KeptRun;
use crate::method::{EstimatorKind, Hindsight, Method};
use crate::options::{FederationOptions, GuestOptions, PhysicsOptions, RecipeOptions};
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
    /// More of how they are trained.
    pub recipe: RecipeOptions,
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
            recipe: RecipeOptions::default(),
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
    /// Of those that hold part of a fleet out: what they got wrong on the validation part. It is told of an estimator that is
    /// kept in any case.
    pub known_errors: bool,
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
    /// Of such a method: what it got wrong on the validation part, for intervals.
    pub known_errors: Option<KnownErrors>,
    /// What made the estimates; none with custom sub-models, which cannot be put together.
    pub estimator: Option<SavedEstimator>,
    /// Of centralised runs: their states, as long as the estimator is not kept.
    pub(crate) kept: Vec<KeptRun>,
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

fn parts(fleet: &str, count: usize) -> Vec<String> {
    match count {
        1 => vec![fleet.to_owned()],
        _ => (1..=count).map(|part| part_name(fleet, part, count)).collect(),
    }
}

impl TrainOptions {
    /// Tells these options, whatever the seed, from others.
    pub fn fingerprint(&self) -> String {
        let options = Self { seed: 0, ..self.clone() };
        of_bytes(format!("{options:?}").as_bytes())
    }

    /// Epochs that training takes at most, or models of a combination; none for what is not trained.
    pub fn most_epochs(&self) -> Option<usize> {
        if let Some(of_sum) = self.of_sum().filter(|of_sum| of_sum.method != self.method) {
            return of_sum.most_epochs();
        }
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

    /// What the host trains on the sum over guests, where that is how their data are fused.
    fn of_sum(&self) -> Option<Self> {
        let method = self.method.of_sum().filter(|_| self.federation.is_summed())?;
        Some(Self { method, ..self.clone() })
    }

    /// How what guests send is protected, of the federated ones. Other modes than `aggregate` are of measurements: without any,
    /// nothing is.
    pub fn mode(&self) -> Option<Mode> {
        let signal = self.method.spec().signal.filter(|_| self.method.is_federated())?;
        if self.federation.is_summed() {
            return Some(self.federation.privacy.privacy.unwrap_or(Mode::Aggregate));
        }
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
        self.recipe.apply(&mut plan.recipe);
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
        let guests = match self.method.is_federated() || self.of_sum().is_some() {
            true => usize::from(self.federation.guests),
            false => 1,
        };
        parts(&format!("fleet-{rate}"), guests * self.folds())
    }

    /// The fleets that are needed of a dataset where each guest's has a name: themselves or their folds.
    pub fn parts_of(&self, fleets: &[String]) -> Vec<String> {
        fleets.iter().flat_map(|fleet| parts(fleet, self.folds())).collect()
    }

    /// Folds of each guest's fleet; 1 if none is held out.
    fn folds(&self) -> usize {
        let method = self.method.of_sum().filter(|_| self.federation.is_summed());
        method.unwrap_or(self.method).folds().unwrap_or(1)
    }

    /// The fleets of a study, guest by guest: one or its folds; none where none is looked at.
    fn fleets_by_guest(&self, study: &Study) -> Vec<Vec<String>> {
        if self.method.spec().features.guest_features().is_none() {
            return Vec::new();
        }
        let names = study.fleets().chunks(self.folds());
        names.map(|own| own.iter().map(|fleet| fleet.name().to_owned()).collect()).collect()
    }

    /// Fits on the training part and estimates some windows; the estimator is kept in the folder, if one is given. The
    /// bar goes one further with each epoch.
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
        let of_sum = self.of_sum();
        let mut fitted = match &of_sum {
            Some(of_sum) => {
                ensure!(
                    custom.is_empty(),
                    "fusion: found a sum over guests and custom sub-models, expected one of the two"
                );
                of_sum.fit_on_sum(study, windows, (watch, keep), bar)?
            }
            None => self.fit_estimator(study, windows, (watch, keep), custom, bar)?,
        };
        if let (Some(folder), Some(estimator)) = (keep, &fitted.estimator) {
            let history = fitted.training.as_ref().map(|training| training.history.clone());
            let fleets = self.fleets_by_guest(study);
            let sum = of_sum.map(|of_sum| aggregate::columns_at_use(of_sum.method));
            let with = KeptWith { fleets, sum, history: history.unwrap_or_default() };
            estimator.save(folder, (study.timeline(), self.target), with)?;
        }
        for kept in std::mem::take(&mut fitted.kept) {
            kept.remove()?;
        }
        Ok(fitted)
    }

    /// Fits a centralised method on the sum over the guests of a study.
    fn fit_on_sum(
        &self,
        study: &Study,
        windows: &[Step],
        (watch, keep): (Watch, Option<&Path>),
        bar: &ProgressBar,
    ) -> Result<Fitted> {
        let guests = SummedGuests::of(study, self.method, &self.federation)?;
        let summed = guests.all()?;
        let (whole, study) = (summed.whole, study.with_fleets(summed));
        let custom = CustomSubModels::default();
        let mut fitted = self.fit_estimator(&study, windows, (watch, keep), &custom, bar)?;
        if let Some(training) = &mut fitted.training {
            training.bytes = Some(guests.bytes());
        }
        if let (true, Some(estimator)) = (watch.each_absent, &fitted.estimator) {
            let asked = study.asked(self.target, windows);
            let names = self.fleets_by_guest(&study);
            for absent in guests.without_each(whole) {
                let (name, summed) = absent?;
                let study = study.with_fleets(summed);
                let (estimates, _) = estimator.estimate(&study.observed(), &names, &asked)?;
                fitted.absent.push((name.to_owned(), estimates));
            }
        }
        Ok(fitted)
    }

    /// Fits what this federated method trains on the sum over guests, whose fleets a study has: it came over the network. The
    /// estimator is kept in a folder, with the names of the guests' fleets.
    pub(crate) fn fit_summed(
        &self,
        study: &Study,
        windows: &[Step],
        watch: Watch,
        (fleets, keep): (Vec<Vec<String>>, Option<&Path>),
        bar: &ProgressBar,
    ) -> Result<Fitted> {
        let of_sum = self.of_sum().context("fusion: expected a sum over guests")?;
        let custom = CustomSubModels::default();
        let mut fitted = of_sum.fit_estimator(study, windows, (watch, keep), &custom, bar)?;
        if let (Some(folder), Some(estimator)) = (keep, &fitted.estimator) {
            let history = fitted.training.as_ref().map(|training| training.history.clone());
            let sum = Some(aggregate::columns_at_use(of_sum.method));
            let with = KeptWith { fleets, sum, history: history.unwrap_or_default() };
            estimator.save(folder, (study.timeline(), self.target), with)?;
        }
        for kept in std::mem::take(&mut fitted.kept) {
            kept.remove()?;
        }
        Ok(fitted)
    }

    fn fit_estimator(
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
        let reference = match (spec.estimator, spec.signal) {
            (EstimatorKind::ScaleUp, _) => SavedEstimator::ScaleUp,
            (EstimatorKind::Filter, _) => {
                let [fleet] = study.fleets() else { bail!("ukf: expected one fleet") };
                ensure!(
                    self.physics.traffic_model == TrafficModelKind::Ctm,
                    "traffic-model: found {:?}, expected ctm: the filter ukf has no other",
                    self.physics.traffic_model
                );
                let queues = QueueStates::read(study.folder(), fleet.name(), QueueKnowledge::Fleet);
                let (loops, span) = (study.loops(), study.train_span());
                let filter = CalibratedFilter::fit(loops, fleet, queues.ok().as_ref(), &span)?;
                SavedEstimator::Filter(Box::new(filter))
            }
            (EstimatorKind::QueueProfiles(knowledge, hindsight), _) => {
                let hindsight = hindsight == Hindsight::Yes;
                SavedEstimator::QueueProfiles { knowledge, hindsight }
            }
            (EstimatorKind::Ridge, _) => {
                let all: Vec<LinkId> = study.network().link_ids().collect();
                let links = if keep.is_some() { &all[..] } else { study.targets() };
                let bar = progress::bar("passes over links", Ridge::PASSES * links.len() as u64);
                let passed = || bar.inc(1);
                let ridge = Ridge::fit(study, self.target, spec.features, links, passed)?;
                bar.finish_and_clear();
                SavedEstimator::Ridge(ridge)
            }
            (EstimatorKind::Combination, _) => {
                return combination::train(self, study, windows, (custom, keep), bar);
            }
            (EstimatorKind::Neural, None) => {
                bail!("{}: found nothing to learn from, expected a signal", spec.name)
            }
            (EstimatorKind::Neural, Some(signal)) if self.method.is_federated() => {
                let judged = signal.folds().map(|folds| Judged::new(study, folds)).transpose()?;
                let told = keep.is_some() || watch.known_errors;
                let in_views = judged.as_ref().map(|judged| {
                    let mut steps = judged.told(windows);
                    if told {
                        steps.extend(judged.thinned(&study.split().validation));
                        steps.sort_unstable();
                        steps.dedup();
                    }
                    judged.in_views(&steps)
                });
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
                let judged = judged.as_ref();
                let estimated_errors = judged.map(|judged| judged.errors_in_views(&views, windows));
                let known_errors = judged.filter(|_| told);
                let known_errors = known_errors.map(|judged| judged.known_in_views(&views));
                return Ok(Fitted { estimated_errors, known_errors, ..fitted });
            }
            (EstimatorKind::Neural, Some(TrainingSignal::Labels)) => {
                return central::train_on_labels(study, self.plan(), windows, (watch, keep), bar);
            }
            (EstimatorKind::Neural, Some(TrainingSignal::HeldOutFleet { penetration, .. })) => {
                let plan = self.plan();
                let (estimator, training, kept) =
                    central::train_on_held_out_fleet(study, plan, penetration, (keep, bar))?;
                let estimator = LabelFreeEstimator::HeldOut(estimator);
                return self.label_free(study, windows, estimator, (training, kept));
            }
            (EstimatorKind::Neural, Some(TrainingSignal::Measurements(terms))) => {
                let (plan, options, place) = (self.plan(), &self.physics, (keep, bar));
                let (estimator, training, kept) =
                    central::train_on_measurements(study, plan, terms, options, place)?;
                return self.label_free(study, windows, estimator, (training, kept));
            }
        };
        let asked = study.asked(self.target, windows);
        let fleets = self.fleets_by_guest(study);
        let (estimates, remark) = reference.estimate(&study.observed(), &fleets, &asked)?;
        let fleet = study.fleets().first().map_or("", |fleet| fleet.name());
        match remark {
            Some(Remark::Queues(report)) => eprintln!("{fleet}: {report}"),
            Some(Remark::Softened(count)) if count > 0 => {
                eprintln!("{fleet}: {count} measurements contradicted all else and counted less");
            }
            Some(Remark::Softened(_)) | None => {}
        }
        Ok(Fitted { estimates, estimator: Some(reference), ..Fitted::default() })
    }

    /// Estimates of a model that was trained without ground truth, all data in one place, and its errors where it holds
    /// part of the fleet out.
    fn label_free(
        &self,
        study: &Study,
        windows: &[Step],
        estimator: LabelFreeEstimator,
        (training, kept): (Training, Option<KeptRun>),
    ) -> Result<Fitted> {
        let estimates = estimator.estimate(study.loops(), study.fleets(), windows)?;
        let (mut estimated_errors, mut known_errors) = (None, None);
        if let LabelFreeEstimator::HeldOut(estimator) = &estimator {
            let judged = Judged::new(study, self.method.folds().unwrap_or(1))?;
            estimated_errors = Some(judged.errors_of(estimator, windows)?);
            known_errors = Some(judged.known_of(estimator)?);
        }
        let kept = kept.into_iter().collect();
        let (training, estimator) = (Some(training), Some(estimator.into()));
        Ok(Fitted {
            estimates,
            training,
            estimated_errors,
            known_errors,
            estimator,
            kept,
            ..Fitted::default()
        })
    }
}
