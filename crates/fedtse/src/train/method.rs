//! The estimators by name.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use estimator::{Party, Penetration, QueueKnowledge, TargetKind};
use serde::{Deserialize, Serialize};

use super::fit::Watch;
use super::label_free::Measured;
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
    /// As qest, without hindsight: each step by what was seen by its end
    QestLive,
    /// As qest-f, without hindsight
    QestFLive,
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
    /// As hf, with a fleet that is no fair sample: its share by link and time, from loops
    HfLocal,
    /// As oracle-cell, but without ground truth, like hf
    HfCell,
    /// As tse-p, but without ground truth: loop flow, the fleet's speeds, usual flows and a traffic model
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
    /// Queue profiles, with hindsight or as of each step's end.
    Queue(QueueKnowledge, Hindsight),
    Ridge(Party),
    Neural(Party),
    Federated(Party, Learning),
    /// Without ground truth.
    HeldOut(Party, Penetration),
    /// The same, by measurements and a traffic model.
    LabelFree(Party, Measured),
}

/// Whether an estimate of a step may use what happened after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindsight {
    Yes,
    No,
}

/// Parts into which a fleet is dealt, one of which is held out at a time.
pub const FOLDS: usize = 4;

impl Method {
    pub fn kind(self) -> Kind {
        match self {
            Method::ScaleUp => Kind::ScaleUp,
            Method::Ukf => Kind::Filter,
            Method::Qest => Kind::Queue(QueueKnowledge::Fleet, Hindsight::Yes),
            Method::QestF => Kind::Queue(QueueKnowledge::FleetAndHost, Hindsight::Yes),
            Method::QestLive => Kind::Queue(QueueKnowledge::Fleet, Hindsight::No),
            Method::QestFLive => Kind::Queue(QueueKnowledge::FleetAndHost, Hindsight::No),
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
            Method::Hf => Kind::HeldOut(Party::Both, Penetration::Constant),
            Method::HfLocal => Kind::HeldOut(Party::Both, Penetration::Local),
            Method::HfCell => Kind::HeldOut(Party::BothAndCells, Penetration::Constant),
            Method::TsePiP => Kind::LabelFree(Party::HostAndSpeeds, Measured::SPEEDS_AND_USUAL),
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
        !matches!(self.kind(), Kind::ScaleUp | Kind::Filter | Kind::Queue(..) | Kind::Ridge(_))
    }

    /// As on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(|| "this method".to_owned(), |value| value.get_name().to_owned())
    }

    /// Whose data it sees, in words.
    pub fn sees(self) -> &'static str {
        match self.kind() {
            Kind::ScaleUp | Kind::Queue(QueueKnowledge::Fleet, _) => "fleets in one place",
            Kind::Ridge(Party::Host) | Kind::Neural(Party::Host) => "loops alone",
            Kind::Federated(..) => "everyone its own",
            _ => "all data in one place",
        }
    }

    /// Whether it learns from ground truth.
    pub fn learns_from_truth(self) -> bool {
        matches!(
            self.kind(),
            Kind::Ridge(_) | Kind::Neural(_) | Kind::Federated(_, Learning::Labels)
        )
    }

    /// Whether some labels can be added to what it learns from.
    pub fn takes_labels_besides(self) -> bool {
        matches!(self.kind(), Kind::LabelFree(..))
    }

    /// Parts into which each guest's fleet is dealt, if one of them is held out.
    pub fn folds(self) -> Option<usize> {
        match self.kind() {
            Kind::HeldOut(..) => Some(FOLDS),
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
        ensure!(
            self.has_target(target),
            "--target: found smooth, expected raw: {} learns from measurements of single steps",
            self.name()
        );
        Ok(())
    }

    /// Refuses learning curves of what has none: between epochs only models that learn from labels
    /// are looked at.
    pub fn check_watch(self, watch: Watch) -> Result<()> {
        ensure!(
            !watch.each_epoch || self.is_kept(),
            "learning curves: found {}, expected a neural method that learns from labels",
            self.name()
        );
        Ok(())
    }

    /// Whether `--out` keeps what it has learned.
    pub fn is_kept(self) -> bool {
        matches!(self.kind(), Kind::Neural(_) | Kind::Federated(_, Learning::Labels))
    }
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
