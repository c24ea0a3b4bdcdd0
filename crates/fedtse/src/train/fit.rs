//! The estimators by name, and how each is fitted: what `fedtse train` and the tables share.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use estimator::{
    Architecture, Estimates, FilteredStates, GuestPlan, NeuralPlan, NeuralStudy, Party,
    QueueKnowledge, QueueStates, Ridge, Study, TargetKind, scale_up,
};
use indicatif::ProgressBar;
use sensing::part_name;
use serde::{Deserialize, Serialize};
use traffic::Step;

use super::curves;
use super::federated::{self, FederationOptions};
use super::guest_options::GuestOptions;
use super::held_out;
use super::label_free::{self, Measured, PhysicsOptions};
use crate::party::learning::{self, Learning};

/// The estimators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Fleet totals divided by the penetration rate
    ScaleUp,
    /// Unscented Kalman filter on a traffic model, with loop flow and the fleet's speeds
    Ukf,
    /// Queue profiles from the fleet's trajectories, by a convex program
    Qest,
    /// The same, with the host's loop counts and signal plans
    QestF,
    /// Ridge regression on loop counts alone
    RidgeN,
    /// Ridge regression on loop counts and the fleet's speeds
    RidgeP,
    /// Ridge regression on loop counts and the fleet's totals
    Ridge,
    /// Neural, on loop counts alone
    TseN,
    /// Neural, on loop counts and the fleet's speeds
    TseP,
    /// Neural, on loop counts and the fleet's totals
    Oracle,
    /// Neural, on loop counts and the fleet's totals in cells and sub-steps
    OracleCell,
    /// As oracle, but host and guests train together and keep their data
    #[value(name = "fedtse")]
    #[serde(rename = "fedtse")]
    FedTse,
    /// As oracle-cell, but host and guests train together and keep their data
    #[value(name = "fedtse-cell")]
    #[serde(rename = "fedtse-cell")]
    FedTseCell,
    /// As oracle-pi, but host and guests train together and keep their data
    #[value(name = "fedtse-pi")]
    #[serde(rename = "fedtse-pi")]
    FedTsePi,
    /// As fedtse-pi, without densities by queue profiles
    #[value(name = "fedtse-pi-v")]
    #[serde(rename = "fedtse-pi-v")]
    FedTsePiV,
    /// As fedtse-pi, without the fleet's speeds
    #[value(name = "fedtse-pi-k")]
    #[serde(rename = "fedtse-pi-k")]
    FedTsePiK,
    /// As hf, but host and guests train together and keep their data
    #[value(name = "fedtse-hf")]
    #[serde(rename = "fedtse-hf")]
    FedTseHf,
    /// As fedtse-hf, with loop flow and a traffic model besides
    #[value(name = "fedtse-pi-hf")]
    #[serde(rename = "fedtse-pi-hf")]
    FedTsePiHf,
    /// As oracle, but without ground truth: part of the fleet is held out, and the rest learns to
    /// tell it
    Hf,
    /// As oracle-cell, but without ground truth, like hf
    HfCell,
    /// As tse-p, but without ground truth: loop flow, the fleet's speeds and a traffic model
    TsePiP,
    /// As oracle, but without ground truth: loop flow, the fleet's speeds, densities by queue profiles
    /// and a traffic model
    OraclePi,
    /// As oracle-pi, without densities by queue profiles
    OraclePiV,
    /// As oracle-pi, without the fleet's speeds
    OraclePiK,
    /// Like hf, with loop flow and a traffic model besides
    OraclePiHf,
}

/// What kind of estimator a method is, and whose features it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ScaleUp,
    Filter,
    /// Queue profiles.
    Queue(QueueKnowledge),
    Ridge(Party),
    Neural(Party),
    Federated(Party, Learning),
    /// Without ground truth.
    HeldOut(Party),
    /// The same, by measurements and a traffic model.
    LabelFree(Party, Measured),
}

/// Parts into which a fleet is dealt, one of which is held out at a time.
pub const FOLDS: usize = 4;

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
    pub epochs: usize,
    /// Updates of an epoch with one local update each: exchanges of the federated ones.
    pub exchanges: usize,
    /// Of the federated ones: exchanges, and bytes that left any party.
    pub rounds: Option<u64>,
    pub bytes: Option<u64>,
}

impl Method {
    pub fn kind(self) -> Kind {
        match self {
            Method::ScaleUp => Kind::ScaleUp,
            Method::Ukf => Kind::Filter,
            Method::Qest => Kind::Queue(QueueKnowledge::Fleet),
            Method::QestF => Kind::Queue(QueueKnowledge::FleetAndHost),
            Method::RidgeN => Kind::Ridge(Party::Host),
            Method::RidgeP => Kind::Ridge(Party::HostAndSpeeds),
            Method::Ridge => Kind::Ridge(Party::Both),
            Method::TseN => Kind::Neural(Party::Host),
            Method::TseP => Kind::Neural(Party::HostAndSpeeds),
            Method::Oracle => Kind::Neural(Party::Both),
            Method::OracleCell => Kind::Neural(Party::BothAndCells),
            Method::FedTse => Kind::Federated(Party::Both, Learning::Labels),
            Method::FedTseCell => Kind::Federated(Party::BothAndCells, Learning::Labels),
            Method::FedTsePi => Kind::Federated(Party::Both, Learning::Pi),
            Method::FedTsePiV => Kind::Federated(Party::Both, Learning::PiV),
            Method::FedTsePiK => Kind::Federated(Party::Both, Learning::PiK),
            Method::FedTseHf => Kind::Federated(Party::Both, Learning::Hf),
            Method::FedTsePiHf => Kind::Federated(Party::Both, Learning::PiHf),
            Method::Hf => Kind::HeldOut(Party::Both),
            Method::HfCell => Kind::HeldOut(Party::BothAndCells),
            Method::TsePiP => Kind::LabelFree(Party::HostAndSpeeds, Measured::SPEEDS),
            Method::OraclePi => Kind::LabelFree(Party::Both, Measured::SPEEDS_AND_QUEUES),
            Method::OraclePiV => Kind::LabelFree(Party::Both, Measured::SPEEDS),
            Method::OraclePiK => Kind::LabelFree(Party::Both, Measured::QUEUES),
            Method::OraclePiHf => Kind::LabelFree(Party::Both, Measured::HELD_OUT),
        }
    }

    pub fn is_federated(self) -> bool {
        matches!(self.kind(), Kind::Federated(..))
    }

    pub fn is_neural(self) -> bool {
        !matches!(self.kind(), Kind::ScaleUp | Kind::Filter | Kind::Queue(_) | Kind::Ridge(_))
    }

    /// What it needs of a dataset beyond the usual features.
    pub fn need(self, data: &Path) -> Option<String> {
        self.folds().map(|folds| {
            let data = data.display();
            format!("this method needs each guest's fleet in {folds} parts; for one guest they are made by `fedtse features {data} --providers {folds}`")
        })
    }

    /// Parts into which each guest's fleet is dealt, if one of them is held out.
    pub fn folds(self) -> Option<usize> {
        match self.kind() {
            Kind::HeldOut(_) => Some(FOLDS),
            Kind::LabelFree(_, measured) => measured.held_out.then_some(FOLDS),
            Kind::Federated(_, learning) => learning.is_held_out().then_some(learning::FOLDS),
            _ => None,
        }
    }

    /// Whether it estimates this: measurements and traffic models are of single steps, and what is
    /// learned from them is too.
    pub fn has_target(self, target: TargetKind) -> bool {
        let of_steps = match self.kind() {
            Kind::LabelFree(..) => true,
            Kind::Federated(_, learning) => learning != Learning::Labels,
            _ => false,
        };
        target == TargetKind::Raw || !of_steps
    }

    /// Refuses a target that it does not estimate.
    pub fn check_target(self, target: TargetKind) -> Result<()> {
        let name = self.to_possible_value();
        ensure!(
            self.has_target(target),
            "--target: found smooth, expected raw: {} learns from measurements of single steps",
            name.as_ref().map_or("this method", |value| value.get_name())
        );
        Ok(())
    }

    /// Refuses learning curves of what has none: between epochs only models that learn from labels
    /// are looked at.
    pub fn check_watch(self, watch: Watch) -> Result<()> {
        let name = self.to_possible_value();
        ensure!(
            !watch.each_epoch || self.is_kept(),
            "learning curves: found {}, expected a neural method that learns from labels",
            name.as_ref().map_or("this method", |value| value.get_name())
        );
        Ok(())
    }

    /// Whether `--out` keeps what it has learned.
    pub fn is_kept(self) -> bool {
        matches!(self.kind(), Kind::Neural(_) | Kind::Federated(_, Learning::Labels))
    }
}

impl Task {
    /// Epochs that training takes at most; none for what is not trained in epochs.
    pub fn most_epochs(&self) -> Option<usize> {
        match self.method.kind() {
            Kind::Neural(party)
            | Kind::Federated(party, _)
            | Kind::HeldOut(party)
            | Kind::LabelFree(party, _) => Some(self.plan(party).recipe.epochs),
            Kind::ScaleUp | Kind::Filter | Kind::Queue(_) | Kind::Ridge(_) => None,
        }
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
        self.guest.apply(&mut plan);
        plan
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
            Kind::Queue(knowledge) => queues(study, self.target, knowledge, windows)?,
            Kind::Ridge(party) => {
                Ridge::fit(study, self.target, party)?.estimate(study, windows)?
            }
            Kind::Neural(party) => {
                return train(study, self.plan(party), windows, watch, keep, bar);
            }
            Kind::Federated(party, learning) => {
                let (plan, options) = (self.plan(party), &self.federation);
                let loss = (learning, &self.physics);
                let kept = (watch, keep);
                return federated::train(study, &plan, loss, options, windows, kept, bar);
            }
            Kind::HeldOut(party) => {
                return held_out::train(study, self.plan(party), windows, bar);
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
    windows: &[Step],
) -> Result<Estimates> {
    let fleet = study.fleets().first().map_or("", |fleet| fleet.name());
    let states = QueueStates::read(study.folder(), fleet, knowledge)?;
    eprintln!("{fleet}: {}", states.report());
    Ok(states.estimate(study, target, windows))
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
        crate::progress::after_epoch(bar, epoch.number, epoch.train, epoch.validation);
    }
    bar.finish_and_clear();
    let best_epoch = trainer.best_epoch().map(|epoch| epoch.number);
    let history = trainer.history().to_vec();
    let estimator = data.finish(trainer);
    if let Some(folder) = keep {
        curves::draw(&folder.join("curves.svg"), &history)?;
        estimator.save(folder, &history)?;
    }
    let epochs = history.len();
    Ok(Fitted {
        estimates: estimator.estimate(study, windows)?,
        by_epoch,
        absent: Vec::new(),
        training: Some(Training { best_epoch, epochs, exchanges, rounds: None, bytes: None }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_learns_from_labels_has_learning_curves() {
        let watch = Watch { each_epoch: true, each_absent: false };
        for method in Method::value_variants() {
            let labelled = matches!(
                method,
                Method::TseN
                    | Method::TseP
                    | Method::Oracle
                    | Method::OracleCell
                    | Method::FedTse
                    | Method::FedTseCell
            );
            assert_eq!(method.check_watch(watch).is_ok(), labelled, "{method:?}");
            assert!(method.check_watch(Watch::default()).is_ok(), "{method:?}");
        }
    }
}
