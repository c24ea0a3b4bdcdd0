//! The estimators: a table with a row for each.

use estimator::loss::Penetration;
use estimator::{FeatureSet, QueueKnowledge, TargetKind, TrainingSignal};
use serde::{Deserialize, Serialize};

use crate::error::{Result, ensure};
use crate::options::InvalidOption;
use crate::signal::{CENTRAL_FOLDS, FEDERATED_FOLDS};
use crate::task::Watch;

/// The name of an estimator; what it is says its row of [`METHODS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[expect(missing_docs, reason = "the table explains them")]
pub enum Method {
    ScaleUp,
    Ukf,
    Qest,
    QestF,
    QestLive,
    QestFLive,
    RidgeN,
    RidgeP,
    Ridge,
    TseN,
    TseP,
    Oracle,
    OracleCell,
    FedTse,
    FedTseCell,
    FedTsePi,
    FedTsePiV,
    FedTsePiK,
    FedTseHf,
    FedTsePiHf,
    FedTseLabelFree,
    Hf,
    HfLocal,
    HfCell,
    LabelFree,
    TsePiP,
    OraclePi,
    OraclePiV,
    OraclePiK,
    OraclePiHf,
}

/// An estimator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MethodSpec {
    /// Which one.
    pub method: Method,
    /// Its name on the command line and in files.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub summary: &'static str,
    /// Whose data are where.
    pub participants: Participants,
    /// What it sees.
    pub features: FeatureSet,
    /// What makes the estimates.
    pub estimator: EstimatorKind,
    /// What it learns from, if it learns.
    pub signal: Option<TrainingSignal>,
}

/// Whose data are where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participants {
    /// The host without any fleet.
    HostAlone,
    /// The fleet without the host.
    FleetAlone,
    /// All data in one place.
    Central,
    /// Every party keeps its data.
    Federated,
}

/// What makes the estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatorKind {
    /// Fleet totals over the penetration rate.
    ScaleUp,
    /// An unscented Kalman filter on a traffic model.
    Filter,
    /// Queue profiles.
    QueueProfiles(QueueKnowledge, Hindsight),
    /// Ridge regression.
    Ridge,
    /// The neural model.
    Neural,
    /// Several neural models, each with the weight that a held-out part of the fleet gives it.
    Combination,
}

/// Whether an estimate of a step may use what happened after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindsight {
    /// It may.
    Yes,
    /// It may not.
    No,
}

use EstimatorKind::{Combination, Filter, Neural, QueueProfiles, ScaleUp};
use Participants::{Central, Federated, FleetAlone, HostAlone};

const LABELS: Option<TrainingSignal> = Some(TrainingSignal::Labels);

const fn held_out(penetration: Penetration) -> Option<TrainingSignal> {
    Some(TrainingSignal::HeldOutFleet { folds: CENTRAL_FOLDS, penetration })
}

const fn row(
    method: Method,
    name: &'static str,
    (participants, features): (Participants, FeatureSet),
    estimator: EstimatorKind,
    signal: Option<TrainingSignal>,
    summary: &'static str,
) -> MethodSpec {
    MethodSpec { method, name, summary, participants, features, estimator, signal }
}

/// All estimators, in the order of [`Method`].
#[rustfmt::skip]
pub const METHODS: [MethodSpec; 30] = [
    row(Method::ScaleUp, "scale-up", (FleetAlone, FeatureSet::Both), ScaleUp, None,
        "Fleet totals divided by the penetration rate"),
    row(Method::Ukf, "ukf", (Central, FeatureSet::HostAndSpeeds), Filter, None,
        "Unscented Kalman filter on a traffic model, with loop flow, the fleet's speeds and densities by queue profiles"),
    row(Method::Qest, "qest", (FleetAlone, FeatureSet::Both),
        QueueProfiles(QueueKnowledge::Fleet, Hindsight::Yes), None,
        "Queue profiles from the fleet's trajectories, by a convex program"),
    row(Method::QestF, "qest-f", (Central, FeatureSet::Both),
        QueueProfiles(QueueKnowledge::FleetAndHost, Hindsight::Yes), None,
        "As qest, with the host's loop counts and signal plans"),
    row(Method::QestLive, "qest-live", (FleetAlone, FeatureSet::Both),
        QueueProfiles(QueueKnowledge::Fleet, Hindsight::No), None,
        "As qest, without hindsight: each step by what was seen by its end"),
    row(Method::QestFLive, "qest-f-live", (Central, FeatureSet::Both),
        QueueProfiles(QueueKnowledge::FleetAndHost, Hindsight::No), None,
        "As qest-f, without hindsight"),
    row(Method::RidgeN, "ridge-n", (HostAlone, FeatureSet::Host), EstimatorKind::Ridge, LABELS,
        "Ridge regression on loop counts alone"),
    row(Method::RidgeP, "ridge-p", (Central, FeatureSet::HostAndSpeeds), EstimatorKind::Ridge, LABELS,
        "Ridge regression on loop counts and the fleet's speeds"),
    row(Method::Ridge, "ridge", (Central, FeatureSet::Both), EstimatorKind::Ridge, LABELS,
        "Ridge regression on loop counts and the fleet's totals"),
    row(Method::TseN, "tse-n", (HostAlone, FeatureSet::Host), Neural, LABELS,
        "Neural, on loop counts alone"),
    row(Method::TseP, "tse-p", (Central, FeatureSet::HostAndSpeeds), Neural, LABELS,
        "Neural, on loop counts and the fleet's speeds"),
    row(Method::Oracle, "oracle", (Central, FeatureSet::Both), Neural, LABELS,
        "Neural, on loop counts and the fleet's totals"),
    row(Method::OracleCell, "oracle-cell", (Central, FeatureSet::BothAndCells), Neural, LABELS,
        "Neural, on loop counts and the fleet's totals in cells and sub-steps"),
    row(Method::FedTse, "fedtse", (Federated, FeatureSet::Both), Neural, LABELS,
        "As oracle, but host and guests train together and keep their data"),
    row(Method::FedTseCell, "fedtse-cell", (Federated, FeatureSet::BothAndCells), Neural, LABELS,
        "As oracle-cell, but host and guests train together and keep their data"),
    row(Method::FedTsePi, "fedtse-pi", (Federated, FeatureSet::Both), Neural, Some(TrainingSignal::PI),
        "As oracle-pi, but host and guests train together and keep their data"),
    row(Method::FedTsePiV, "fedtse-pi-v", (Federated, FeatureSet::Both), Neural, Some(TrainingSignal::PI_V),
        "As fedtse-pi, without densities by queue profiles"),
    row(Method::FedTsePiK, "fedtse-pi-k", (Federated, FeatureSet::Both), Neural, Some(TrainingSignal::PI_K),
        "As fedtse-pi, without the fleet's speeds"),
    row(Method::FedTseHf, "fedtse-hf", (Federated, FeatureSet::Both), Neural,
        Some(TrainingSignal::held_out_totals(FEDERATED_FOLDS)),
        "As hf, but host and guests train together and keep their data"),
    row(Method::FedTsePiHf, "fedtse-pi-hf", (Federated, FeatureSet::Both), Neural,
        Some(TrainingSignal::pi_and_held_out(FEDERATED_FOLDS)),
        "As fedtse-hf, with loop flow and a traffic model besides"),
    row(Method::FedTseLabelFree, "fedtse-label-free", (Federated, FeatureSet::Both), Combination,
        Some(TrainingSignal::held_out_totals(FEDERATED_FOLDS)),
        "As label-free, but host and guests train together and keep their data"),
    row(Method::Hf, "hf", (Central, FeatureSet::Both), Neural, held_out(Penetration::Constant),
        "As oracle, but without ground truth: the model predicts a held-out part of the fleet from the rest"),
    row(Method::HfLocal, "hf-local", (Central, FeatureSet::Both), Neural, held_out(Penetration::Local),
        "As hf, with a fleet that is not a fair sample: its share by link and time, from loops"),
    row(Method::HfCell, "hf-cell", (Central, FeatureSet::BothAndCells), Neural, held_out(Penetration::Constant),
        "As oracle-cell, but without ground truth, like hf"),
    row(Method::LabelFree, "label-free", (Central, FeatureSet::Both), Combination, held_out(Penetration::Constant),
        "The default without ground truth: hf, and hf with loops, queues and a traffic model, weighted by how well they predict a held-out part of the fleet"),
    row(Method::TsePiP, "tse-pi-p", (Central, FeatureSet::HostAndSpeeds), Neural, Some(TrainingSignal::PI_P),
        "As tse-p, but without ground truth: loop flow, the fleet's speeds, usual flows and a traffic model"),
    row(Method::OraclePi, "oracle-pi", (Central, FeatureSet::Both), Neural, Some(TrainingSignal::PI),
        "As oracle, but without ground truth: loop flow, the fleet's speeds, densities by queue profiles and a traffic model"),
    row(Method::OraclePiV, "oracle-pi-v", (Central, FeatureSet::Both), Neural, Some(TrainingSignal::PI_V),
        "As oracle-pi, without densities by queue profiles"),
    row(Method::OraclePiK, "oracle-pi-k", (Central, FeatureSet::Both), Neural, Some(TrainingSignal::PI_K),
        "As oracle-pi, without the fleet's speeds"),
    row(Method::OraclePiHf, "oracle-pi-hf", (Central, FeatureSet::Both), Neural,
        Some(TrainingSignal::pi_and_held_out(CENTRAL_FOLDS)),
        "Like hf, with loop flow and a traffic model besides"),
];

impl Method {
    /// Its row.
    pub(crate) const fn spec(self) -> &'static MethodSpec {
        const TABLE: &[MethodSpec] = &METHODS;
        &TABLE[self as usize]
    }

    /// As on the command line.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether every party keeps its data.
    pub fn is_federated(self) -> bool {
        self.spec().participants == Federated
    }

    /// Of a federated estimator: the one that makes the same of all data in one place. Of the sum over guests the host has
    /// all data in one place.
    pub fn centralised(self) -> Option<Method> {
        match self {
            Method::FedTse => Some(Method::Oracle),
            Method::FedTseCell => Some(Method::OracleCell),
            Method::FedTsePi => Some(Method::OraclePi),
            Method::FedTsePiV => Some(Method::OraclePiV),
            Method::FedTsePiK => Some(Method::OraclePiK),
            Method::FedTseHf => Some(Method::Hf),
            Method::FedTsePiHf => Some(Method::OraclePiHf),
            Method::FedTseLabelFree => Some(Method::LabelFree),
            _ => None,
        }
    }

    /// What the host makes of the sum over guests: of a federated method its centralised counterpart, and scale-up itself.
    pub fn of_sum(self) -> Option<Method> {
        self.centralised().or((self == Method::ScaleUp).then_some(self))
    }

    /// The federated method of totals of links that learns from a signal.
    pub fn federated_by(signal: &TrainingSignal) -> Option<Method> {
        let by = |spec: &&MethodSpec| {
            spec.participants == Federated
                && (spec.features, spec.estimator) == (FeatureSet::Both, Neural)
                && spec.signal.as_ref() == Some(signal)
        };
        METHODS.iter().find(by).map(|spec| spec.method)
    }

    /// Whether it is a neural estimator.
    pub fn is_neural(self) -> bool {
        matches!(self.spec().estimator, Neural | Combination)
    }

    /// Whose data it sees, in words.
    pub fn sees(self) -> &'static str {
        match self.spec().participants {
            HostAlone => "loops alone",
            FleetAlone => "fleets in one place",
            Central => "all data in one place",
            Federated => "everyone its own",
        }
    }

    /// Whether it learns from ground truth.
    pub fn learns_from_truth(self) -> bool {
        self.spec().signal.is_some_and(|signal| signal.has_labels())
    }

    /// Whether some labels can be added to what it learns from.
    pub fn takes_labels_besides(self) -> bool {
        let MethodSpec { participants, signal, .. } = self.spec();
        *participants == Central && signal.is_some_and(|signal| signal.measurements().is_some())
    }

    /// Parts into which each guest's fleet is dealt, if one of them is held out.
    pub fn folds(self) -> Option<usize> {
        self.spec().signal.and_then(|signal| signal.folds())
    }

    /// Whether it estimates this: measurements and traffic models are of single steps, and what is
    /// learned from them is too.
    pub fn has_target(self, target: TargetKind) -> bool {
        let spec = self.spec();
        let of_steps = spec.estimator == Combination
            || spec.signal.is_some_and(|signal| signal.measurements().is_some());
        target == TargetKind::Raw || !of_steps
    }

    /// Refuses a target that it does not estimate.
    pub fn check_target(self, target: TargetKind) -> Result<()> {
        if self.has_target(target) {
            return Ok(());
        }
        let name = self.name();
        let problem =
            format!("found smooth, expected raw: {name} learns from measurements of single steps");
        Err(InvalidOption::new("target", problem).into())
    }

    /// Refuses learning curves of what has none: between epochs only models that learn from labels
    /// are looked at.
    pub(crate) fn check_watch(self, watch: Watch) -> Result<()> {
        ensure!(
            !watch.each_epoch || (self.is_neural() && self.learns_from_truth()),
            "learning curves: found {}, expected a neural method that learns from labels",
            self.name()
        );
        Ok(())
    }
}

impl From<Method> for &'static str {
    fn from(method: Method) -> Self {
        method.name()
    }
}

impl TryFrom<String> for Method {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        let found = METHODS.iter().find(|spec| spec.name == name);
        found.map(|spec| spec.method).ok_or_else(|| {
            let names: Vec<&str> = METHODS.iter().map(|spec| spec.name).collect();
            format!("found `{name}`, expected one of {}", names.join(", "))
        })
    }
}

#[cfg(feature = "clap")]
impl clap::ValueEnum for Method {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: std::sync::LazyLock<Vec<Method>> =
            std::sync::LazyLock::new(|| METHODS.iter().map(|spec| spec.method).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()).help(self.spec().summary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_row() {
        for (at, spec) in METHODS.iter().enumerate() {
            assert_eq!(spec.method as usize, at, "{}", spec.name);
            assert_eq!(Method::try_from(spec.name.to_owned()), Ok(spec.method));
            let text = serde_json::to_string(&spec.method).unwrap();
            assert_eq!(text, format!("\"{}\"", spec.name));
        }
        assert!(Method::try_from("oracel".to_owned()).unwrap_err().contains("found `oracel`"));
    }

    #[test]
    fn every_federated_method_has_a_centralised_one_that_learns_from_the_same() {
        for spec in &METHODS {
            let Some(other) = spec.method.centralised() else {
                assert!(!spec.method.is_federated(), "{}", spec.name);
                continue;
            };
            let other = other.spec();
            assert_eq!((other.participants, other.features), (Central, spec.features));
            assert_eq!(other.estimator, spec.estimator);
            let terms = |spec: &MethodSpec| {
                let terms = spec.signal.and_then(|signal| signal.measurements().copied());
                terms.map(|terms| (terms.loops, terms.speeds, terms.queues, terms.physics))
            };
            let folds = |spec: &MethodSpec| spec.method.folds().is_some();
            assert_eq!(folds(other), folds(spec), "{}", spec.name);
            // Held-out totals are the whole signal of one and a measurement among others of the other.
            let held_out = spec.signal.is_some_and(|signal| !signal.has_physics());
            assert!(held_out || terms(other) == terms(spec), "{}", spec.name);
        }
    }

    #[test]
    fn only_what_learns_from_labels_has_learning_curves() {
        let watch = Watch { each_epoch: true, ..Watch::default() };
        for spec in &METHODS {
            let labelled = ["tse-n", "tse-p", "oracle", "oracle-cell", "fedtse", "fedtse-cell"];
            let expected = labelled.contains(&spec.name);
            assert_eq!(spec.method.check_watch(watch).is_ok(), expected, "{}", spec.name);
            assert!(spec.method.check_watch(Watch::default()).is_ok(), "{}", spec.name);
        }
    }
}
