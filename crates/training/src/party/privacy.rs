//! What guests show of their measurements, and what they add to all that they show.
//!
//! | mode | measurements cross | noise, drawn once |
//! |---|---|---|
//! | `clear` | as they are | none |
//! | `noisy-clear` | as they are | on features and measurements |
//! | `sealed` | in secure products alone | none |
//! | `sealed+noise` | in secure products alone | on features and measurements |
//! | `aggregate` | in masked sums over guests alone, with the fleets' totals | none |

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use estimator::TrainingSignal;
use protocol::{Bounds, CommitmentTerms, MeasurementKind, Scheme, Sealing};
use serde::{Deserialize, Deserializer, Serialize};

use super::noise::{NoiseTerms, Unit};
use super::policy::{NOISE_FOLDER, Policy, PolicyFile, PrivacyContext};
use crate::error::{Result, TrainingError, bail, ensure};
use crate::options::InvalidOption;
use crate::signal::measured_kinds;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Measurements cross as they are
    Clear,
    /// Noise is drawn once; what is noised crosses as it is
    NoisyClear,
    /// Measurements cross in secure products alone, exact ones
    Sealed,
    /// Noise is drawn once, and measurements cross in secure products alone
    #[cfg_attr(feature = "clap", value(name = "sealed+noise"))]
    #[serde(rename = "sealed+noise")]
    SealedNoise,
    /// The host sees the sum over guests and nothing of a single one
    Aggregate,
    /// The same, and each guest draws noise for its totals once: the sum has that of all guests
    #[cfg_attr(feature = "clap", value(name = "aggregate+noise"))]
    #[serde(rename = "aggregate+noise")]
    AggregateNoise,
}

/// By what measurements are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum SchemeChoice {
    /// Lattice encryption between host and guest alone
    Rlwe,
    /// Functional encryption for the host's products, with keys of an authority that sees the host's rows
    Ipfe,
}

impl SchemeChoice {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SchemeChoice::Rlwe => "rlwe",
            SchemeChoice::Ipfe => "ipfe",
        }
    }

    /// Seals by this scheme; refuses what it is not made for.
    pub fn over(
        self,
        sealing: Option<Sealing>,
        measured: &BTreeSet<MeasurementKind>,
    ) -> Result<Option<Sealing>> {
        if self == SchemeChoice::Rlwe {
            return Ok(sealing);
        }
        let Some(sealing) = sealing else {
            bail!("found ipfe with measurements in the clear, or none, expected sealed ones");
        };
        ensure!(
            !measured.contains(&MeasurementKind::HeldOut),
            "found ipfe with held-out folds, expected rlwe: functional encryption is for fedtse-pi, fedtse-pi-v and fedtse-pi-k"
        );
        Ok(Some(Sealing { scheme: Scheme::KeyAuthority, ..sealing }))
    }
}

impl Mode {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Clear => "clear",
            Mode::NoisyClear => "noisy-clear",
            Mode::Sealed => "sealed",
            Mode::SealedNoise => "sealed+noise",
            Mode::Aggregate => "aggregate",
            Mode::AggregateNoise => "aggregate+noise",
        }
    }

    /// Whether measurements cross in secure products alone.
    pub fn is_sealed(self) -> bool {
        matches!(self, Mode::Sealed | Mode::SealedNoise)
    }

    /// Whether noise is drawn.
    pub(crate) fn is_noisy(self) -> bool {
        matches!(self, Mode::NoisyClear | Mode::SealedNoise | Mode::AggregateNoise)
    }

    /// What the host sees of each guest, in words.
    pub fn shown(self) -> &'static str {
        match self {
            Mode::Clear => "each guest's embeddings and, without labels, its measurements",
            Mode::NoisyClear => "each guest's embeddings and measurements, of data with noise",
            Mode::Sealed => "each guest's embeddings, and secure products of its measurements",
            Mode::SealedNoise => {
                "each guest's embeddings, and secure products of its measurements, of data with noise"
            }
            Mode::Aggregate => "the sum over the guests and nothing else of one of them",
            Mode::AggregateNoise => "the sum over the guests, with the noise of all of them",
        }
    }

    /// Whether the host sees sums over guests alone.
    pub fn is_aggregate(self) -> bool {
        matches!(self, Mode::Aggregate | Mode::AggregateNoise)
    }

    /// What is done unless something else is asked for: `sealed+noise` where queues or speeds are measured; `clear` with
    /// labels, of which nothing is measured, and with held-out folds, which can be sealed but have no noise.
    pub fn usual(signal: &TrainingSignal) -> Self {
        if protects(&measured_kinds(signal)) { Mode::SealedNoise } else { Mode::Clear }
    }

    /// How measurements are sealed. Refuses to protect what cannot be protected so.
    pub fn sealing(self, signal: &TrainingSignal) -> Result<Option<Sealing>> {
        let kinds = measured_kinds(signal);
        let unprotected = self == Mode::Clear || self.is_aggregate();
        ensure!(
            unprotected || !kinds.is_empty(),
            "found {} with a method that learns from the host's labels, expected clear: guests measure nothing there \
             that could be sealed",
            self.name()
        );
        ensure!(
            unprotected || !self.is_noisy() || protects(&kinds),
            "found {} with held-out folds, expected sealed or clear: a fold stands for all vehicles, and its noise would \
             count as often as it does",
            self.name()
        );
        Ok(self.is_sealed().then(Sealing::lattice))
    }
}

/// Whether measurements of these kinds can have noise, too: some, and none of held-out folds.
pub(crate) fn protects(kinds: &BTreeSet<MeasurementKind>) -> bool {
    !kinds.is_empty() && !kinds.contains(&MeasurementKind::HeldOut)
}

/// Products of measurements that guests are held to; refuses that for measurements in the clear.
pub fn committed(sealing: Option<Sealing>, committing: CommitmentTerms) -> Result<Option<Sealing>> {
    let Some(sealing) = sealing else {
        bail!("found measurements in the clear, or none, expected sealed ones to commit to");
    };
    ensure!(
        !sealing.is_keyed(),
        "found products whose keys an authority issues (ipfe), expected products that guests compute (rlwe)"
    );
    Ok(Some(Sealing { commitments: Some(committing), ..sealing }))
}

/// What one may choose of privacy where there are no labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct PrivacyOptions {
    /// What guests show: with two or more of them aggregate unless given, or unless another option is of exchanges
    /// of embeddings; else sealed+noise with fedtse-pi, fedtse-pi-v and fedtse-pi-k, and clear with all others
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub privacy: Option<Mode>,
    /// By what measurements are sealed: rlwe unless given. ipfe is the paper's functional encryption, with a key authority
    /// that sees the host's rows; for fedtse-pi, fedtse-pi-v and fedtse-pi-k, without --commitments and --most-products
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub scheme: Option<SchemeChoice>,
    /// ε of the noise: what everything that leaves a guest costs together; 8 unless given
    #[cfg_attr(feature = "clap", arg(long))]
    pub epsilon: Option<f64>,
    /// δ of the noise; 0.000001 unless given
    #[cfg_attr(feature = "clap", arg(long))]
    pub delta: Option<f64>,
    /// What the noise hides; cell unless given
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub unit: Option<Unit>,
    /// Where noise is kept; `noise` in the dataset's folder unless given. Noise drawn for other terms is refused: what
    /// leaves a guest twice costs twice
    #[cfg_attr(feature = "clap", arg(long))]
    pub noise_folder: Option<PathBuf>,
    /// Most products that a guest answers of each number of a step; no limit unless given
    #[cfg_attr(feature = "clap", arg(long))]
    pub most_products: Option<f64>,
    /// A file with what each guest contributes and keeps to, see `fedtse guest --example-policy`. Measurements are
    /// sealed where they can be; what the file does not name is as without it
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_parser = policy))]
    #[serde(deserialize_with = "policy_file")]
    pub policy: Option<PolicyFile>,
    /// Guests commit to their measurements before training, with proofs that they are possible, and are held to them:
    /// whoever trains with others is found. Only where measurements are sealed
    #[cfg_attr(feature = "clap", arg(long))]
    pub commitments: bool,
}

/// Reads a policy; the message has all causes, since neither `clap` nor `serde` shows more than the first.
fn policy(file: &str) -> Result<PolicyFile, String> {
    PolicyFile::read(Path::new(file)).map_err(|error| match error {
        TrainingError::In { place, source } => format!("{place}: {source}"),
        other => other.to_string(),
    })
}

fn policy_file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PolicyFile>, D::Error> {
    let file: Option<String> = Deserialize::deserialize(from)?;
    file.map(|file| policy(&file)).transpose().map_err(serde::de::Error::custom)
}

impl PrivacyOptions {
    /// Nothing is hidden.
    pub fn clear() -> Self {
        Self { privacy: Some(Mode::Clear), ..Self::default() }
    }

    /// Refuses what a policy says already.
    ///
    /// # Errors
    /// With the first of them.
    pub fn check(&self) -> Result<(), InvalidOption> {
        let said = [
            ("privacy", self.privacy.is_some()),
            ("epsilon", self.epsilon.is_some()),
            ("delta", self.delta.is_some()),
            ("unit", self.unit.is_some()),
            ("most_products", self.most_products.is_some()),
        ];
        match said.into_iter().find(|(_, given)| *given && self.policy.is_some()) {
            Some((name, _)) => {
                Err(InvalidOption::new(name, "found with a policy, expected one of the two"))
            }
            None => self.check_scheme(),
        }
    }

    /// Refuses what functional encryption does not have.
    fn check_scheme(&self) -> Result<(), InvalidOption> {
        let Some(scheme) = self.scheme else { return Ok(()) };
        if let Some(mode) = self.privacy.filter(|mode| !mode.is_sealed()) {
            let (scheme, mode) = (scheme.name(), mode.name());
            let problem =
                format!("found {scheme} with --privacy {mode}, expected sealed or sealed+noise");
            return Err(InvalidOption::new("scheme", problem));
        }
        if scheme == SchemeChoice::Rlwe {
            return Ok(());
        }
        let counted = self.policy.as_ref().is_some_and(PolicyFile::counts_products);
        let other = [
            ("commitments", self.commitments),
            ("most_products", self.most_products.is_some()),
            ("policy", counted),
        ];
        match other.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some(("commitments", _)) => Err(InvalidOption::new(
                "commitments",
                "found with --scheme ipfe, expected rlwe: guests open what they have committed to in answers, which they do not give here",
            )),
            Some((name, _)) => Err(InvalidOption::new(
                name,
                "found a limit on products (most-products) with --scheme ipfe, expected none: guests see no products that they could count",
            )),
        }
    }

    /// What was chosen, or is usual.
    pub(crate) fn mode(&self, signal: &TrainingSignal) -> Mode {
        let usual = Mode::usual(signal);
        let Some(file) = &self.policy else { return self.privacy.unwrap_or(usual) };
        let noise = file.over(&Policy::usual(&measured_kinds(signal))).noise.is_some();
        match (noise, usual.is_sealed()) {
            (true, true) => Mode::SealedNoise,
            (true, false) => Mode::NoisyClear,
            (false, true) => Mode::Sealed,
            (false, false) => Mode::Clear,
        }
    }

    /// How measurements are sealed, and whether guests are held to them.
    pub(crate) fn sealing(&self, signal: &TrainingSignal) -> Result<Option<Sealing>> {
        let mode = self.mode(signal);
        let sealing = mode.sealing(signal);
        let mut sealing = sealing.map_err(|error| InvalidOption::new("privacy", error))?;
        if let Some(scheme) = self.scheme {
            let by_scheme = scheme.over(sealing, &measured_kinds(signal));
            sealing = by_scheme.map_err(|error| InvalidOption::new("scheme", error))?;
        }
        if !self.commitments {
            return Ok(sealing);
        }
        let bounds = if mode.is_noisy() { Bounds::Noised } else { Bounds::Physical };
        let sealing = committed(sealing, CommitmentTerms::within(bounds));
        Ok(sealing.map_err(|error| InvalidOption::new("commitments", error))?)
    }

    /// What each guest of a dataset keeps to.
    pub(crate) fn context(&self, signal: &TrainingSignal, data: &Path) -> PrivacyContext {
        let mode = self.mode(signal);
        let usual = NoiseTerms::default();
        let noise = NoiseTerms {
            epsilon: self.epsilon.unwrap_or(usual.epsilon),
            delta: self.delta.unwrap_or(usual.delta),
            unit: self.unit.unwrap_or(usual.unit),
            ..usual
        };
        let policy = match &self.policy {
            Some(file) => file.over(&Policy::usual(&measured_kinds(signal))),
            None => Policy {
                sealed_only: mode.is_sealed(),
                most_products: self.most_products,
                noise: mode.is_noisy().then_some(noise),
                ..Policy::default()
            },
        };
        let noise_folder = self.noise_folder.clone().unwrap_or_else(|| data.join(NOISE_FOLDER));
        PrivacyContext { policy, noise_folder }
    }
}

#[cfg(all(test, feature = "clap"))]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: PrivacyOptions,
    }

    fn parsed(words: &[&str]) -> Result<PrivacyOptions, clap::Error> {
        let words = ["train"].iter().chain(words);
        Command::try_parse_from(words).map(|command| command.options)
    }

    #[test]
    fn a_policy_says_what_guests_contribute_and_which_noise_they_get() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            parsed(&["--policy", file.to_str().unwrap()])
        };
        let (pi, labels) = (&TrainingSignal::PI, &TrainingSignal::Labels);
        let options = read("links = [\"E1\"]\nmost-products = 7.0\n").unwrap();
        // What it does not name is as without it: to restrict links takes no protection away.
        let modes = |options: &PrivacyOptions| [pi, labels].map(|signal| options.mode(signal));
        assert_eq!(modes(&options), [Mode::SealedNoise, Mode::Clear]);
        let context = options.context(pi, folder.path());
        assert_eq!(context.policy.noise, Some(NoiseTerms::default()));
        assert!(context.policy.sealed_only);
        assert_eq!(context.policy.links, Some(["E1".to_owned()].into()));
        assert_eq!(context.policy.sharing().most_products, Some(7.0));
        let options = read("[noise]\nepsilon = 2.0\n").unwrap();
        assert_eq!(modes(&options), [Mode::SealedNoise, Mode::NoisyClear]);
        let noise = options.context(pi, folder.path()).policy.noise;
        assert_eq!(noise.map(|noise| noise.epsilon), Some(2.0));
        // With labels nothing is measured that noise could protect.
        assert!(Mode::NoisyClear.sealing(labels).is_err());
        assert_eq!(modes(&read("noise = false\n").unwrap()), [Mode::Sealed, Mode::Clear]);
        // What a policy says cannot be said otherwise; without one, everything is as before.
        let path = file.to_str().unwrap();
        for option in [["--epsilon", "8"], ["--privacy", "clear"]] {
            read("").unwrap();
            let both = parsed(&["--policy", path, option[0], option[1]]).unwrap();
            let expected = format!("{}: found with a policy, expected one of the two", option[0]);
            assert_eq!(both.check().unwrap_err().to_string(), expected);
        }
        assert!(read("").unwrap().check().is_ok());
        // As data it is the same.
        let as_data = || serde_json::from_value(serde_json::json!({ "policy": path }));
        assert_eq!(read("most-numbers = 3\n").unwrap(), as_data().unwrap());
        std::fs::write(&file, "hours = [[9, 7]]\n").unwrap();
        let error = as_data().unwrap_err().to_string();
        assert_eq!(error, format!("{path}: hours: found 9 to 7, expected a part of 0 to 24"));
        assert!(read("unknown = 1\n").is_err());
        assert_eq!(modes(&parsed(&[]).unwrap()), [Mode::SealedNoise, Mode::Clear]);
    }

    #[test]
    fn commitments_are_to_sealed_measurements_alone_and_leave_room_for_noise() {
        let committing = |words: &[&str], signal: &TrainingSignal| {
            let sealing = parsed(words).unwrap().sealing(signal);
            sealing.map(|sealing| sealing.and_then(|sealing| sealing.commitments))
        };
        let (pi, labels) = (&TrainingSignal::PI, &TrainingSignal::Labels);
        assert_eq!(committing(&[], pi).unwrap(), None);
        let noised = committing(&["--commitments"], pi).unwrap();
        assert_eq!(noised, Some(CommitmentTerms { bounds: Bounds::Noised, checks: 1 }));
        let exact = committing(&["--commitments", "--privacy", "sealed"], pi).unwrap();
        assert_eq!(exact, Some(CommitmentTerms { bounds: Bounds::Physical, checks: 1 }));
        for (words, signal) in [
            (&["--commitments", "--privacy", "clear"][..], pi),
            (&["--commitments", "--privacy", "noisy-clear"], pi),
            (&["--commitments"], labels),
        ] {
            let error = committing(words, signal).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("--commitments: found measurements in the clear"), "{text}");
        }
    }
}
