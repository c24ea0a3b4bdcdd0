//! What a guest contributes, whatever a host asks for: its policy, enforced before anything is computed for others.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use estimator::FleetData;
use federation::guest::{CommitmentPolicy, DisclosurePolicy};
use protocol::{MeasurementKind, MeasurementOffer};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use traffic::{LinkId, Network, Seconds, Step, Totals};

use super::noise::NoiseTerms;
use super::privacy::protects;
use crate::error::{Context, Result, TrainingError, ensure};

/// A policy with all fields explained.
pub const EXAMPLE: &str = include_str!("policy.toml");

/// Where noise is kept, in the folder of the data that it belongs to.
pub const NOISE_FOLDER: &str = "noise";

/// The policy of a trained guest, beside its model.
const KEPT: &str = "policy.toml";

/// See the [module](self). By [`Policy::default`] everything is contributed as it is; what a guest keeps to that
/// says nothing is [`Policy::usual`], and what a [`PolicyFile`] does not name is as there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Policy {
    /// Names of links; all if none.
    pub links: Option<BTreeSet<String>>,
    /// Hours of the day, from and to, by the clock of the data; all if none.
    pub hours: Option<Vec<[f64; 2]>>,
    /// Kinds of measurements that may be given; all if none.
    pub kinds: Option<BTreeSet<MeasurementKind>>,
    /// Most numbers of an embedding, per sample.
    pub most_numbers: Option<u32>,
    /// Measurements are given sealed or not at all.
    pub sealed_only: bool,
    /// Most products per number, in the mean.
    pub most_products: Option<f64>,
    /// Whether it commits to its measurements for a host that wants it; it does if nothing is said.
    pub commitments: Option<bool>,
    /// The fewest guests of a sum that it adds to, itself included; 2 if nothing is said.
    pub fewest_participants: Option<u32>,
    /// The noise that everything gets; `false` in a file is none.
    #[serde(deserialize_with = "noise_terms")]
    pub noise: Option<NoiseTerms>,
}

/// A policy as a file says it: what it names, over what a guest keeps to anyway.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFile {
    policy: Policy,
    names_sealing: bool,
    names_noise: bool,
}

impl PolicyFile {
    /// Whether it limits how many products are answered.
    pub(crate) fn counts_products(&self) -> bool {
        self.policy.most_products.is_some()
    }

    /// Reads a policy file.
    ///
    /// # Errors
    /// If it is no policy.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| TrainingError::file(path, error))?;
        let invalid = |error: toml::de::Error| TrainingError::Invalid(error.to_string());
        let policy = toml::from_str(&text).map_err(invalid).and_then(|policy: Policy| {
            policy.check()?;
            let named: toml::Table = toml::from_str(&text).map_err(invalid)?;
            let [names_sealing, names_noise] =
                ["sealed-only", "noise"].map(|field| named.contains_key(field));
            Ok(Self { policy, names_sealing, names_noise })
        });
        policy.with_context(|| path.display().to_string())
    }

    /// What it names, and the rest as in another policy.
    pub fn over(&self, usual: &Policy) -> Policy {
        let (own, usual) = (self.policy.clone(), usual.clone());
        Policy {
            links: own.links.or(usual.links),
            hours: own.hours.or(usual.hours),
            kinds: own.kinds.or(usual.kinds),
            most_numbers: own.most_numbers.or(usual.most_numbers),
            sealed_only: if self.names_sealing { own.sealed_only } else { usual.sealed_only },
            most_products: own.most_products.or(usual.most_products),
            commitments: own.commitments.or(usual.commitments),
            fewest_participants: own.fewest_participants.or(usual.fewest_participants),
            noise: if self.names_noise { own.noise } else { usual.noise },
        }
    }
}

/// Terms, or `false` for no noise.
fn noise_terms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NoiseTerms>, D::Error> {
    struct Terms;
    impl<'de> Visitor<'de> for Terms {
        type Value = Option<NoiseTerms>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("terms of noise, or false for none")
        }
        fn visit_bool<E: de::Error>(self, noise: bool) -> Result<Self::Value, E> {
            match noise {
                false => Ok(None),
                true => Err(E::invalid_value(Unexpected::Bool(true), &self)),
            }
        }
        fn visit_map<A: MapAccess<'de>>(self, terms: A) -> Result<Self::Value, A::Error> {
            NoiseTerms::deserialize(MapAccessDeserializer::new(terms)).map(Some)
        }
    }
    from.deserialize_any(Terms)
}

/// A policy, and where a guest keeps its noise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrivacyContext {
    /// What it contributes.
    pub policy: Policy,
    /// Where its noise is kept.
    pub noise_folder: PathBuf,
}

impl Policy {
    /// Of a guest that says nothing: measurements are sealed, and everything gets the usual noise; as it is
    /// where there are none, or of held-out folds, which cannot have noise.
    pub fn usual(measured: &BTreeSet<MeasurementKind>) -> Self {
        let protected = protects(measured);
        let noise = protected.then(NoiseTerms::default);
        Self { sealed_only: protected, noise, ..Self::default() }
    }

    /// Writes it into the folder of a trained guest's model: what leaves the guest live keeps to it, too.
    pub(crate) fn write(&self, model: &Path) -> Result<()> {
        let text =
            toml::to_string(self).map_err(|error| TrainingError::Invalid(error.to_string()))?;
        Ok(durable::write(&model.join(KEPT), text)?)
    }

    /// Reads that of a trained guest, from the folder of its model.
    pub fn of_trained(model: &Path) -> Result<Self> {
        let path = model.join(KEPT);
        ensure!(
            path.exists(),
            "{}: not found, expected the policy that the guest was trained under; train again",
            path.display()
        );
        Ok(PolicyFile::read(&path)?.over(&Self::default()))
    }

    fn check(&self) -> Result<()> {
        for [from, to] in self.hours.iter().flatten() {
            ensure!(
                0.0 <= *from && from < to && *to <= 24.0,
                "hours: found {from} to {to}, expected a part of 0 to 24"
            );
        }
        if let Some(least) = self.fewest_participants {
            ensure!(
                (1..=64).contains(&least),
                "fewest-participants: found {least}, expected 1 to 64"
            );
        }
        if let Some(most) = self.most_products {
            ensure!(most > 0.0, "most-products: found {most}, expected more than 0");
        }
        self.noise.as_ref().map_or(Ok(()), NoiseTerms::check)
    }

    /// The fewest guests of a sum that it adds to, itself included.
    pub(crate) fn least_participants(&self) -> usize {
        self.fewest_participants.map_or(2, |least| least as usize)
    }

    /// What the rounds must keep to.
    pub fn sharing(&self) -> DisclosurePolicy {
        let commits = match (self.commitments, &self.noise) {
            (Some(false), _) => CommitmentPolicy::Never,
            (_, Some(_)) => CommitmentPolicy::WithNoise,
            _ => CommitmentPolicy::Freely,
        };
        DisclosurePolicy {
            sealed_only: self.sealed_only,
            most_products: self.most_products,
            commits,
        }
    }

    /// Refuses to announce what may not be given.
    pub(crate) fn check_announced(&self, measures: &MeasurementOffer, width: u32) -> Result<()> {
        if let Some(allowed) = &self.kinds {
            let other = measures.layout.kinds().find(|kind| !allowed.contains(kind));
            ensure!(
                other.is_none(),
                "measures: found {}, which the policy does not allow",
                other.map_or("", MeasurementKind::name)
            );
        }
        self.check_width(width)
    }

    /// Refuses wider embeddings than may be given.
    pub(crate) fn check_width(&self, width: u32) -> Result<()> {
        if let Some(most) = self.most_numbers {
            ensure!(
                width <= most,
                "numbers of an embedding: found {width}, the policy allows at most {most}"
            );
        }
        Ok(())
    }

    /// Which links and steps of a network are contributed; refuses links that it does not have.
    pub(crate) fn contributed(
        &self,
        network: &Network,
        step: Seconds,
    ) -> Result<impl Fn(Step, LinkId) -> bool + use<>> {
        let names: Vec<String> = network.links().iter().map(|link| link.name.clone()).collect();
        for name in self.links.iter().flatten() {
            ensure!(
                names.contains(name),
                "links of the policy: found `{name}`, which the network does not have"
            );
        }
        let links: Vec<bool> = names
            .iter()
            .map(|name| self.links.as_ref().is_none_or(|links| links.contains(name)))
            .collect();
        let (hours, length) = (self.hours.clone(), step.get());
        Ok(move |Step(step): Step, link: LinkId| {
            let hour = (step as f64 * length / 3600.0).rem_euclid(24.0);
            let in_time = hours
                .as_ref()
                .is_none_or(|hours| hours.iter().any(|[from, to]| (*from..*to).contains(&hour)));
            links[link.index()] && in_time
        })
    }

    /// Whether anything is left out.
    pub(crate) fn restricts(&self) -> bool {
        self.links.is_some() || self.hours.is_some()
    }

    /// A fleet without what is not contributed: as if it had not been there.
    pub(crate) fn restricted(&self, fleet: &FleetData) -> Result<FleetData> {
        let timeline = fleet.timeline();
        let keep = self.contributed(timeline.network(), timeline.step())?;
        let links: Vec<LinkId> = timeline.network().link_ids().collect();
        let totals = timeline.steps().flat_map(|step| links.iter().map(move |&link| (step, link)));
        let totals = totals.map(|(step, link)| match keep(step, link) {
            true => fleet.totals(step, link),
            false => Totals::default(),
        });
        Ok(fleet.with_totals(totals.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_policy_and_unknown_fields_are_refused() {
        let policy: Policy = toml::from_str(EXAMPLE).unwrap();
        policy.check().unwrap();
        assert!(policy.sealed_only && policy.noise.is_some() && policy.kinds.is_some());
        let error = toml::from_str::<Policy>("most-product = 3").unwrap_err().to_string();
        assert!(error.contains("most-product"), "{error}");
        let wrong: Policy = toml::from_str("hours = [[9, 7]]").unwrap();
        assert!(wrong.check().unwrap_err().to_string().contains("hours: found 9 to 7"));
        assert_eq!(toml::from_str::<Policy>("").unwrap(), Policy::default());
        let commits = |text: &str| toml::from_str::<Policy>(text).unwrap().sharing().commits;
        assert_eq!(commits(""), CommitmentPolicy::Freely);
        assert_eq!(commits("[noise]"), CommitmentPolicy::WithNoise);
        assert_eq!(commits("commitments = false\n[noise]"), CommitmentPolicy::Never);
    }

    #[test]
    fn a_guest_that_says_nothing_is_protected_as_far_as_that_goes() {
        let usual = |kinds: &[MeasurementKind]| Policy::usual(&kinds.iter().copied().collect());
        let measured = usual(&[MeasurementKind::Queues, MeasurementKind::Speeds]);
        assert!(measured.sealed_only && measured.noise == Some(NoiseTerms::default()));
        assert_eq!(usual(&[]), Policy::default());
        assert_eq!(usual(&[MeasurementKind::Queues, MeasurementKind::HeldOut]), Policy::default());
    }

    #[test]
    fn what_a_file_does_not_name_is_as_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        let over = |text: &str, usual: &Policy| {
            std::fs::write(&path, text).unwrap();
            Ok::<_, TrainingError>(PolicyFile::read(&path)?.over(usual))
        };
        let usual = Policy::usual(&[MeasurementKind::Queues].into());
        assert_eq!(over("", &usual).unwrap(), usual);
        let links = over("links = [\"E1\"]\nhours = [[6.0, 10.0]]", &usual).unwrap();
        let (e1, morning) = (Some(["E1".to_owned()].into()), Some(vec![[6.0, 10.0]]));
        assert_eq!(links, Policy { links: e1, hours: morning, ..usual.clone() });
        // Less protection is named.
        let exact = over("noise = false", &usual).unwrap();
        assert_eq!((exact.sealed_only, exact.noise), (true, None));
        let clear = over("sealed-only = false\nnoise = false", &usual).unwrap();
        assert_eq!(clear, Policy::default());
        let other = over("[noise]\nepsilon = 2.0", &usual).unwrap();
        assert_eq!(other.noise, Some(NoiseTerms { epsilon: 2.0, ..NoiseTerms::default() }));
        // Where nothing is measured there is nothing to inherit.
        assert_eq!(over("most-numbers = 3", &Policy::default()).unwrap().noise, None);
        // What a trained guest has kept to is what its policy file says again.
        for policy in [usual, other, links, clear] {
            policy.write(folder.path()).unwrap();
            assert_eq!(Policy::of_trained(folder.path()).unwrap(), policy);
        }
        let error = over("noise = true", &exact).unwrap_err();
        let TrainingError::In { place, source } = error else { panic!("found {error}") };
        assert!(place.ends_with("policy.toml"), "{place}");
        assert!(source.to_string().contains("terms of noise, or false"), "{source}");
    }

    #[test]
    fn only_what_is_allowed_is_announced() {
        let policy: Policy = toml::from_str("kinds = [\"speeds\"]\nmost-numbers = 10").unwrap();
        let entry =
            traffic::MeasurementEntry { link: LinkId(0), quantity: traffic::Quantity::Density };
        let measures = |kind| MeasurementOffer {
            layout: protocol::MeasurementLayout::new([(kind, vec![entry])].into()).unwrap(),
            ..MeasurementOffer::default()
        };
        assert!(policy.check_announced(&measures(MeasurementKind::Speeds), 10).is_ok());
        let error =
            policy.check_announced(&measures(MeasurementKind::Queues), 10).unwrap_err().to_string();
        assert!(error.contains("found queues, which the policy does not allow"), "{error}");
        let error =
            policy.check_announced(&measures(MeasurementKind::Speeds), 11).unwrap_err().to_string();
        assert!(error.contains("found 11, the policy allows at most 10"), "{error}");
    }
}
