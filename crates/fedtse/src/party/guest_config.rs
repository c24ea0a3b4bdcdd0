//! The configuration of a guest, and what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use estimator::{Architecture, GuestFeatures, GuestPlan, SubModelKind};
use federation::GuestSettings;
use federation::grpc::dial::HostAddress;
use federation::grpc::{Fingerprint, GuestCertificates, SigningKey, tls};
use federation::sums::SumGuestSettings;
use protocol::{Compression, MeasurementKind, PartyId};
use serde::Deserialize;
use tokio_rustls::rustls::ClientConfig;
use training::party::SumGuestPart;
use training::{Fusion, InvalidOption, RecipeOptions};

use super::CustomSubModelSpec;
use super::GuestPart;
use super::authority::client::RemoteAuthority;
use super::authority::section::KeyAuthoritySection;
use super::config::{FolderSection, IdentitySection, Numbers, ObserveSection, PatienceSection};
use super::policy::{NOISE_FOLDER, Policy, PolicyFile, PrivacyContext};
use super::{HeadKeys, own_name, random_session_id, software};

/// A configuration with all fields explained.
pub(super) const EXAMPLE: &str = include_str!("guest.toml");

/// Where products are counted, in the folder of the data that they are of.
const QUERIES_FOLDER: &str = "queries";

/// Where the participants of sums are kept, in the folder of the data that were summed.
const SUMS_FOLDER: &str = "sums";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct GuestConfig {
    identity: IdentitySection,
    pub host: HostSection,
    data: DataSection,
    #[serde(default)]
    model: ModelSection,
    key_authority: Option<KeyAuthoritySection>,
    pub run: FolderSection,
    #[serde(default)]
    participants: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    patience: PatienceSection,
    #[serde(default)]
    pub observe: ObserveSection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HostSection {
    pub name: String,
    pub address: String,
    certificate_name: Option<String>,
    certificate: Option<String>,
}

impl HostSection {
    /// Its address, and which certificate, or whose, is expected there.
    pub(super) fn dialled(&self) -> Result<HostAddress> {
        let certificate = self.certificate.as_ref().map(|text| text.parse()).transpose();
        let certificate = certificate.map_err(|problem| anyhow!("host.certificate: {problem}"))?;
        Ok(HostAddress::new(&self.address, self.certificate_name.as_deref())
            .map_err(|problem| anyhow!("host.address: {problem}"))?
            .with_certificate(certificate)
            .of(PartyId::new(&self.name)?))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataSection {
    folder: PathBuf,
    fleet: Fleet,
    #[serde(default = "totals")]
    features: GuestFeatures,
    #[serde(default)]
    measures: BTreeSet<MeasurementKind>,
    policy: Option<PathBuf>,
}

/// One fleet, or the folds of one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Fleet {
    Whole(String),
    Folds(Vec<String>),
}

impl Fleet {
    fn names(&self) -> Vec<String> {
        match self {
            Fleet::Whole(name) => vec![name.clone()],
            Fleet::Folds(names) => names.clone(),
        }
    }
}

fn totals() -> GuestFeatures {
    GuestFeatures::Totals
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct ModelSection {
    arch: Architecture,
    sub_model: Option<SubModelKind>,
    numbers: Option<Numbers>,
    learning_rate: Option<f32>,
    window: Option<u16>,
    compression: Compression,
    fusion: Option<Fusion>,
}

impl Default for ModelSection {
    fn default() -> Self {
        let (arch, compression) = (Architecture::Link, Compression::None);
        let (fusion, learning_rate, window) = (None, None, None);
        ModelSection {
            arch,
            sub_model: None,
            numbers: None,
            learning_rate,
            window,
            compression,
            fusion,
        }
    }
}

/// A guest that is ready to begin.
pub(super) struct Prepared {
    pub tls: Arc<ClientConfig>,
    pub heads: HeadKeys,
    pub address: HostAddress,
    pub part: GuestPart,
    pub settings: GuestSettings,
    /// Products that have left of this fleet, in all runs.
    pub queries: PathBuf,
    /// Who draws its public keys, for hosts that want that.
    pub keys: Option<RemoteAuthority>,
}

/// The same of a guest that adds to sums alone.
pub(super) struct PreparedSum {
    pub tls: Arc<ClientConfig>,
    pub heads: HeadKeys,
    pub address: HostAddress,
    pub part: SumGuestPart,
    pub settings: SumGuestSettings,
    pub credentials: Box<SigningKey>,
    pub verifier: Box<GuestCertificates>,
    /// Over whom its steps were summed, in all runs.
    pub records: PathBuf,
}

impl GuestConfig {
    /// Reads identity and data.
    pub(super) fn prepare(
        &self,
        folder: &Path,
        own: Option<&CustomSubModelSpec>,
    ) -> Result<Prepared> {
        let (identity, authority) = self.identity.read(folder)?;
        let party = own_name(identity.certificate_info())?;
        let heads = HeadKeys::of_guest(&identity, &authority)?;
        let tls = tls::guest_side(identity, &authority)?;
        let address = self.host.dialled()?;
        let data = folder.join(&self.data.folder);
        let (fleets, measures) = (self.data.fleet.names(), &self.data.measures);
        let privacy = self.privacy(folder, &data)?;
        let plan = self.plan(&party, own);
        InvalidOption::check_range(
            "learning_rate",
            self.model.learning_rate,
            f32::MIN_POSITIVE..=1.0,
        )
        .map_err(|error| anyhow!("model.learning-rate: {}", error.problem))?;
        let recipe = RecipeOptions { window: self.model.window, ..RecipeOptions::default() };
        recipe.check().map_err(|error| anyhow!("model.window: {}", error.problem))?;
        let given = (&privacy, recipe.window());
        let part = GuestPart::read(&data, &fleets, &plan, measures, given)?
            .with_custom(own)
            .with_learning_rate(self.model.learning_rate);
        let settings = GuestSettings {
            party,
            host: PartyId::new(&self.host.name)?,
            software: software(),
            session: random_session_id(),
            terms: part.terms(self.model.compression),
            subject: part.fingerprint()?,
            held: part.held()?,
            width: part.width(),
            measures: part.measures(),
            sharing: privacy.policy.sharing(),
            timing: self.patience.timing()?,
        };
        let queries = data
            .join(QUERIES_FOLDER)
            .join(format!("{}.jsonl", fleets.first().map_or("fleet", String::as_str)));
        let section = self.key_authority.as_ref();
        let keys = section.map(|section| section.remote(folder, &self.identity)).transpose()?;
        Ok(Prepared { tls, heads, address, part, settings, queries, keys })
    }

    /// Whether it adds to sums over guests, and gives nothing else: unless something else is said, by `fusion`, by what only embeddings
    /// have, or by a sub-model of its own. A guest shows no embeddings that has not said so.
    pub(super) fn is_summed(&self, own: Option<&CustomSubModelSpec>) -> bool {
        let ModelSection { sub_model, numbers, learning_rate, compression, fusion, .. } =
            &self.model;
        let embeds = sub_model.is_some()
            || numbers.is_some()
            || learning_rate.is_some()
            || *compression != Compression::None
            || own.is_some();
        fusion.map_or(!embeds, |fusion| fusion == Fusion::Sum)
    }

    /// The same of a guest that adds to sums alone.
    pub(super) fn prepare_sum(&self, folder: &Path) -> Result<PreparedSum> {
        let (identity, authority) = self.identity.read(folder)?;
        let party = own_name(identity.certificate_info())?;
        let credentials = SigningKey::of(&identity)?;
        let verifier = GuestCertificates::new(&authority, pinned(self.participants.as_ref())?)?;
        let heads = HeadKeys::of_guest(&identity, &authority)?;
        let tls = tls::guest_side(identity, &authority)?;
        let address = self.host.dialled()?;
        let data = folder.join(&self.data.folder);
        let (fleets, measures) = (self.data.fleet.names(), &self.data.measures);
        let policy = match &self.data.policy {
            Some(path) => PolicyFile::read(&folder.join(path))?.over(&Policy::default()),
            None => Policy::default(),
        };
        let privacy = PrivacyContext { policy, noise_folder: data.join(NOISE_FOLDER) };
        let part = SumGuestPart::read(&data, &fleets, measures, &privacy)?;
        let settings = SumGuestSettings {
            party,
            host: PartyId::new(&self.host.name)?,
            software: software(),
            session: random_session_id(),
            terms: part.terms(),
            held: part.held()?,
            folds: part.folds(),
            least: part.least(),
            timing: self.patience.timing()?,
        };
        let fleet = fleets.first().map_or("fleet", String::as_str);
        let records = records_of(&data.join(SUMS_FOLDER), fleet);
        let (credentials, verifier) = (Box::new(credentials), Box::new(verifier));
        Ok(PreparedSum { tls, heads, address, part, settings, credentials, verifier, records })
    }

    /// Its policy, with noise kept beside the data that it belongs to.
    fn privacy(&self, folder: &Path, data: &Path) -> Result<PrivacyContext> {
        let usual = Policy::usual(&self.data.measures);
        let policy = match &self.data.policy {
            Some(path) => PolicyFile::read(&folder.join(path))?.over(&usual),
            None => usual,
        };
        Ok(PrivacyContext { policy, noise_folder: data.join(NOISE_FOLDER) })
    }

    fn plan(&self, name: &PartyId, own: Option<&CustomSubModelSpec>) -> GuestPlan {
        let model = &self.model;
        let kind = model.sub_model.unwrap_or(model.arch.sub_model());
        let embedding = own.and_then(|own| own.embedding).filter(|_| model.numbers.is_none());
        GuestPlan {
            sub_model: own.map_or(kind, |own| own.kind),
            embedding: embedding.unwrap_or(Numbers::embedding(model.numbers, model.arch)),
            ..GuestPlan::new(name.as_str(), self.data.features, model.arch)
        }
    }
}

/// The certificates of other guests that a guest adds up with; any of the authority if none.
pub(super) fn pinned(
    participants: Option<&BTreeMap<String, Vec<String>>>,
) -> Result<Option<BTreeMap<PartyId, Vec<Fingerprint>>>> {
    let Some(participants) = participants else { return Ok(None) };
    let pinned = participants.iter().map(|(name, certificates)| {
        let certificates = certificates.iter().map(|text| text.parse());
        let certificates = certificates.collect::<Result<_, _>>();
        let certificates =
            certificates.map_err(|problem| anyhow!("participants.{name}: {problem}"))?;
        Ok((PartyId::new(name)?, certificates))
    });
    Ok(Some(pinned.collect::<Result<_>>()?))
}

/// The file that says over whom the steps of a fleet were summed, in the folder of all of these.
pub(super) fn records_of(sums: &Path, fleet: &str) -> PathBuf {
    sums.join(format!("{fleet}.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_configuration_with_the_defaults_it_names() {
        let config: GuestConfig = toml::from_str(EXAMPLE).unwrap();
        let short: GuestConfig = toml::from_str(
            r#"
            identity = { certificate = "c", key = "k", authority = "a" }
            host = { name = "city", address = "city.example:7443" }
            data = { folder = "d", fleet = "fleet-20" }
            run.folder = "r"
            "#,
        )
        .unwrap();
        let name = PartyId::new("fleet-a").unwrap();
        assert_eq!(config.plan(&name, None), short.plan(&name, None));
        assert_eq!(config.model.compression, short.model.compression);
        assert!(!config.is_summed(None) && short.is_summed(None));
        assert!(config.participants.is_none());
        assert_eq!(config.data.measures, short.data.measures);
        let timing = |config: &GuestConfig| config.patience.timing().unwrap();
        assert_eq!(timing(&config), timing(&short));
        let host = |config: &GuestConfig| config.host.dialled().unwrap().name;
        assert_eq!(host(&config), host(&short));
    }
}
