//! How each estimator is fitted: what `fedtse train` and the tables share.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use estimator::{
    Architecture, Epoch, Estimates, FilteredStates, GuestPlan, LiveQueues, NeuralPlan, NeuralStudy,
    Party, QueueKnowledge, QueueStates, Ridge, Study, TargetKind, scale_up,
};
use indicatif::ProgressBar;
use sensing::part_name;
use traffic::Step;

use super::curves;
use super::federated::{self, FederationOptions};
use super::guest_options::GuestOptions;
use super::held_out;
use super::label_free::{self, PhysicsOptions};
use super::method::{FOLDS, Hindsight, Kind, Method};
use super::releases::Releases;
use crate::party::privacy::Mode;
use crate::party::{Brought, learning};

/// What is to be fitted.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub method: Method,
    /// Of the neural estimators.
    pub architecture: Architecture,
    pub target: TargetKind,
    /// Of the neural estimators.
    pub seed: u64,
    /// Most epochs of the neural estimators; the architecture's own if none.
    pub epochs: Option<usize>,
    /// Highest learning rate of the neural estimators; the architecture's own if none.
    pub learning_rate: Option<f32>,
    /// Of the neural estimators.
    pub guest: GuestOptions,
    /// Of the federated ones.
    pub federation: FederationOptions,
    /// Of those with a traffic model.
    pub physics: PhysicsOptions,
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
pub struct Fitted {
    pub estimates: Estimates,
    /// After each epoch, if asked for.
    pub by_epoch: Vec<Estimates>,
    /// Without each guest, if asked for.
    pub absent: Vec<(String, Estimates)>,
    pub training: Option<Training>,
}

pub struct Training {
    /// The epoch whose weights were kept.
    pub best_epoch: Option<usize>,
    /// The losses of all epochs.
    pub history: Vec<Epoch>,
    /// Updates of an epoch with one local update each: exchanges of the federated ones.
    pub exchanges: usize,
    /// Of the federated ones: exchanges, and bytes that left any party.
    pub rounds: Option<u64>,
    pub bytes: Option<u64>,
    /// Of the federated ones: what has left each party, by its own ledger.
    pub releases: Vec<Releases>,
    /// Of the federated ones: guests that did not come to the end, and why.
    pub left: BTreeMap<String, String>,
}

impl Training {
    /// Of an estimator with all data in one place.
    pub fn central(history: Vec<Epoch>, best_epoch: Option<usize>, exchanges: usize) -> Self {
        let (releases, left) = (Vec::new(), BTreeMap::new());
        Self { best_epoch, history, exchanges, rounds: None, bytes: None, releases, left }
    }
}

impl Task {
    /// Epochs that training takes at most; none for what is not trained in epochs.
    pub fn most_epochs(&self) -> Option<usize> {
        match self.method.kind() {
            Kind::Neural(party)
            | Kind::Federated(party, _)
            | Kind::HeldOut(party, _)
            | Kind::LabelFree(party, _) => Some(self.plan(party).recipe.epochs),
            Kind::ScaleUp | Kind::Filter | Kind::Queue(..) | Kind::Ridge(_) => None,
        }
    }

    /// How what guests send is protected, of the federated ones. Modes are of measurements: without any, nothing is.
    fn mode(&self) -> Option<Mode> {
        let Kind::Federated(_, learning) = self.method.kind() else { return None };
        let measured = !learning.kinds().is_empty();
        Some(if measured { self.federation.privacy.mode(learning) } else { Mode::Clear })
    }

    /// The name of that.
    pub fn privacy(&self) -> Option<String> {
        self.mode()?.to_possible_value().map(|value| value.get_name().to_owned())
    }

    fn plan(&self, party: Party) -> NeuralPlan {
        let mut plan = NeuralPlan::new(party, self.architecture, self.target, self.seed);
        match self.method.kind() {
            Kind::Federated(_, learning) => plan.recipe = learning.recipe(plan.recipe),
            _ if self.method.folds().is_some() => plan.recipe = plan.recipe.held_out(FOLDS),
            _ => {}
        }
        if let Some(epochs) = self.epochs {
            plan.recipe.epochs = epochs;
        }
        if let Some(rate) = self.learning_rate {
            plan.recipe.rate = rate;
        }
        if let (Kind::Federated(..), Some(features)) = (self.method.kind(), party.guest_features())
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

    /// The plan with what guests bring along.
    fn plan_with(&self, party: Party, brought: &Brought) -> Result<NeuralPlan> {
        let mut plan = self.plan(party);
        for (name, own) in &brought.guests {
            let guest = plan.guests.iter_mut().find(|guest| guest.name == *name);
            let guest = guest.with_context(|| format!("guest `{name}`: not found in the plan"))?;
            guest.sub_model = own.kind;
            guest.crossing = own.crossing.unwrap_or(guest.crossing);
        }
        Ok(plan)
    }

    /// The fleets that are needed of a dataset, for a penetration rate in percent.
    pub fn fleets(&self, rate: f64) -> Vec<String> {
        let fleet = format!("fleet-{rate}");
        let parts = usize::from(self.federation.guests);
        match self.method.kind() {
            Kind::Federated(_, learning) if learning.is_held_out() => {
                let parts = parts * learning::FOLDS;
                (1..=parts).map(|part| part_name(&fleet, part, parts)).collect()
            }
            Kind::Federated(..) if parts > 1 => {
                (1..=parts).map(|part| part_name(&fleet, part, parts)).collect()
            }
            _ if self.method.folds().is_some() => {
                (1..=FOLDS).map(|part| part_name(&fleet, part, FOLDS)).collect()
            }
            _ => vec![fleet],
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
        self.fit_with(study, windows, (watch, keep), &Brought::default(), bar)
    }

    /// The same with what guests bring along.
    pub fn fit_with(
        &self,
        study: &Study,
        windows: &[Step],
        (watch, keep): (Watch, Option<&Path>),
        brought: &Brought,
        bar: &ProgressBar,
    ) -> Result<Fitted> {
        ensure!(
            brought.is_empty() || self.method.is_federated(),
            "host, guests: found sub-models of their own, expected a federated method such as fedtse"
        );
        self.method.check_target(self.target)?;
        self.method.check_watch(watch)?;
        let estimates = match self.method.kind() {
            Kind::ScaleUp => scale_up(study, self.target, windows),
            Kind::Filter => {
                let [fleet] = study.fleets() else { bail!("ukf: expected one fleet") };
                let states = FilteredStates::run(study.loops(), fleet, &study.train_span())?;
                let (name, softened) = (fleet.name(), states.softened);
                eprintln!("{name}: {softened} measurements contradicted all else and counted less");
                states.estimate(study, self.target, windows)
            }
            Kind::Queue(knowledge, hindsight) => {
                queues(study, self.target, knowledge, hindsight, windows)?
            }
            Kind::Ridge(party) => {
                Ridge::fit(study, self.target, party)?.estimate(study, windows)?
            }
            Kind::Neural(party) => {
                return train(study, self.plan(party), windows, watch, keep, bar);
            }
            Kind::Federated(party, learning) => {
                let (plan, options) = (self.plan_with(party, brought)?, &self.federation);
                let loss = (learning, &self.physics);
                let (plan, kept) = ((&plan, brought), (watch, keep));
                return federated::train(study, plan, loss, options, windows, kept, bar);
            }
            Kind::HeldOut(party, penetrates) => {
                return held_out::train(study, self.plan(party), penetrates, windows, bar);
            }
            Kind::LabelFree(party, measured) => {
                let options = &self.physics;
                return label_free::train(study, self.plan(party), measured, options, windows, bar);
            }
        };
        Ok(Fitted { estimates, by_epoch: Vec::new(), absent: Vec::new(), training: None })
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

/// Trains, keeping each epoch and at the end the model if a folder is given.
fn train(
    study: &Study,
    plan: NeuralPlan,
    windows: &[Step],
    watch: Watch,
    keep: Option<&Path>,
    bar: &ProgressBar,
) -> Result<Fitted> {
    let exchanges = study.split().train.len().div_ceil(plan.recipe.batch);
    let data = NeuralStudy::new(study, plan)?;
    let mut trainer = match keep {
        Some(folder) => data.resume(folder)?,
        None => data.trainer()?,
    };
    bar.set_position(trainer.history().len() as u64);
    let mut by_epoch = Vec::new();
    while !trainer.is_done() {
        let epoch = trainer.epoch(&data)?;
        if let Some(folder) = keep {
            data.keep(&trainer, folder)?;
        }
        if watch.each_epoch {
            by_epoch.push(data.estimate(&mut trainer, study, windows));
        }
        progress::after_epoch(bar, epoch.number, epoch.train, epoch.validation);
        progress::go_on()?;
    }
    bar.finish_and_clear();
    let best_epoch = trainer.best_epoch().map(|epoch| epoch.number);
    let history = trainer.history().to_vec();
    let estimator = data.finish(trainer);
    if let Some(folder) = keep {
        curves::draw(&folder.join("curves.svg"), &history)?;
        estimator.save(folder, &history)?;
    }
    let estimates = estimator.estimate(study, windows)?;
    let training = Some(Training::central(history, best_epoch, exchanges));
    Ok(Fitted { estimates, by_epoch, absent: Vec::new(), training })
}
