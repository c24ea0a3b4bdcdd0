//! What a job has otherwise than the estimator's usual.

use std::fmt::Write;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::scene::Scene;
use training::party::privacy::{Mode, PrivacyOptions};
use training::{FederationOptions, Fusion, GuestOptions, HostUpdating, TrainOptions, Watch};

/// See the [module](self). What is not given is as usual, and is not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Variant {
    /// Numbers of a guest's embedding, per link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_size: Option<u16>,
    /// Guests among which the fleet is divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guests: Option<u16>,
    /// What the host makes of the guests' data. A sum is scored with each guest absent too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fusion: Option<Fusion>,
    /// Local updates per exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<u32>,
    /// Which of them the host makes; each as usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_updates: Option<HostUpdating>,
    /// Epochs at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<usize>,
    /// Highest learning rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f32>,
    /// How often a guest counts as absent in training. Then it is scored with each guest absent too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub party_dropout: Option<f32>,
    /// Percentage of the steps that have ground truth, the last ones of each part; all of them as usual for who
    /// learns from it, none for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<u32>,
    /// Units of a link in the host's head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_units: Option<u16>,
    /// How what guests measure is protected; not at all as usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy: Option<Mode>,
    /// Whether it is scored after each epoch too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub curve: bool,
    /// Whether its estimates of two links are kept, to be drawn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub series: bool,
    /// In what its dataset differs.
    #[serde(skip_serializing_if = "Scene::is_usual")]
    pub scene: Scene,
}

impl Variant {
    /// Nothing otherwise.
    pub(super) const USUAL: Variant = Variant {
        embedding_size: None,
        guests: None,
        fusion: None,
        q: None,
        host_updates: None,
        epochs: None,
        learning_rate: None,
        party_dropout: None,
        labels: None,
        head_units: None,
        privacy: None,
        curve: false,
        series: false,
        scene: Scene::USUAL,
    };

    pub(super) fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }

    /// For the name of a job's file: nothing if all is as usual.
    pub(super) fn suffix(&self) -> String {
        let mut text = String::new();
        let mut add = |what: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = write!(text, ".{what}-{value}");
            }
        };
        add("embedding", self.embedding_size.map(|value| value.to_string()));
        add("guests", self.guests.map(|value| value.to_string()));
        let fusion = self.fusion.and_then(|fusion| fusion.to_possible_value());
        add("fusion", fusion.map(|fusion| fusion.get_name().to_owned()));
        add("q", self.q.map(|value| value.to_string()));
        let updating = self.host_updates.and_then(|updating| updating.to_possible_value());
        add("host-updates", updating.map(|updating| updating.get_name().to_owned()));
        add("epochs", self.epochs.map(|value| value.to_string()));
        add("rate", self.learning_rate.map(|value| value.to_string()));
        add("dropout", self.party_dropout.map(|value| value.to_string()));
        add("labels", self.labels.map(|value| value.to_string()));
        add("head", self.head_units.map(|value| value.to_string()));
        let mode = self.privacy.and_then(|mode| mode.to_possible_value());
        add("privacy", mode.map(|mode| mode.get_name().replace('+', "-")));
        if self.curve {
            text += ".curve";
        }
        if self.series {
            text += ".series";
        }
        text + &self.scene.suffix(".")
    }

    /// How many times as long as usual it takes, about.
    pub(super) fn effort(&self) -> u64 {
        let summed = self.fusion == Some(Fusion::Sum);
        let guests = if summed { 1 } else { u64::from(self.guests.unwrap_or(1)) };
        let sealed = if self.privacy.is_some_and(Mode::is_sealed) { 4 } else { 1 };
        // About two thirds of a training step are the guest's.
        sealed * (1 + 2 * guests) * u64::from(self.q.unwrap_or(1)) / 3
    }

    /// What is asked besides the estimates.
    pub(super) fn watch(&self) -> Watch {
        let each_absent = self.party_dropout.is_some() || self.fusion == Some(Fusion::Sum);
        Watch { each_epoch: self.curve, each_absent, known_errors: self.scene.world.is_some() }
    }

    /// Changes a task accordingly.
    pub(super) fn apply(&self, task: &mut TrainOptions) {
        task.guest = GuestOptions {
            embedding_size: self.embedding_size,
            party_dropout: self.party_dropout,
            head_units: self.head_units,
            ..GuestOptions::default()
        };
        let usual = FederationOptions::clear();
        task.federation = FederationOptions {
            guests: self.guests.unwrap_or(usual.guests),
            fusion: self.fusion,
            q: self.q.unwrap_or(usual.q),
            host_updates: self.host_updates.unwrap_or(usual.host_updates),
            privacy: PrivacyOptions {
                privacy: self.privacy.or(usual.privacy.privacy),
                ..usual.privacy
            },
            ..usual
        };
        task.epochs = task.epochs.or(self.epochs);
        task.learning_rate = self.learning_rate;
        // Who learns from labels has no others: its study is cut to those steps.
        let besides = self.labels.filter(|_| !task.method.learns_from_truth());
        task.physics.label_share = besides.map(f64::from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_leaves_no_trace() {
        assert_eq!(Variant::default(), Variant::USUAL);
        assert_eq!((Variant::USUAL.suffix(), Variant::USUAL.effort()), (String::new(), 1));
        assert_eq!(serde_json::to_string(&Variant::USUAL).unwrap(), "{}");
        let changed = Variant { q: Some(2), learning_rate: Some(1e-4), ..Variant::USUAL };
        assert_eq!(changed.suffix(), ".q-2.rate-0.0001");
        let text = serde_json::to_string(&changed).unwrap();
        assert_eq!(serde_json::from_str::<Variant>(&text).unwrap(), changed);
        let (head_units, privacy) = (Some(4), Some(Mode::SealedNoise));
        let sealed = Variant { head_units, privacy, ..Variant::USUAL };
        assert_eq!(sealed.suffix(), ".head-4.privacy-sealed-noise");
        let sum = Variant { guests: Some(16), fusion: Some(Fusion::Sum), ..Variant::USUAL };
        // The host trains on one fleet, whatever the guests.
        assert_eq!((sum.suffix().as_str(), sum.effort()), (".guests-16.fusion-sum", 1));
        assert!(sum.watch().each_absent);
    }
}
