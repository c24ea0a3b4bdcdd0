//! The configuration of a host, and what it says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use estimator::loss::TrafficModelKind;
use estimator::{
    Architecture, FeatureSet, GuestSlot, NeuralPlan, Recipe, Sizes, TargetKind, TrainingSignal,
    WINDOW, whole_batch,
};
use federation::grpc::{GuestCertificates, tls};
use federation::sums::SumHostSettings;
use federation::{AbsencePolicy, CheckpointInterval, HostSettings};
use protocol::{
    Bounds, CommitmentTerms, Compression, HostUpdates, LocalUpdates, LocalVariant, PartyId, Plan,
    RunId, Sealing,
};
use serde::Deserialize;
use tokio_rustls::rustls::ServerConfig;
use training::learner::optimiser_settings;
use training::party::SumHostPart;
use training::signal::{LossOptions, SEGMENT, federated_signal, measured_kinds};
use training::{
    FederationOptions, Fusion, GuestOptions, InvalidOption, Method, PhysicsOptions, RecipeOptions,
    TrainOptions,
};

use super::CustomSubModelSpec;
use super::HOST_SUB_MODEL;
use super::HostPart;
use super::authority::client::RemoteAuthority;
use super::authority::section::KeyAuthoritySection;
use super::config::{self, FolderSection, IdentitySection, ObserveSection, PatienceSection};
use super::privacy::{Mode, PrivacyOptions, SchemeChoice, committed};
use super::{HeadKeys, own_name, random_session_id, software};

/// A configuration with all fields explained.
pub(super) const EXAMPLE: &str = include_str!("host.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HostConfig {
    identity: IdentitySection,
    pub network: NetworkSection,
    data: DataSection,
    pub guests: BTreeMap<String, GuestSection>,
    #[serde(default)]
    training: TrainingSection,
    key_authority: Option<KeyAuthoritySection>,
    pub run: FolderSection,
    #[serde(default)]
    patience: PatienceSection,
    #[serde(default)]
    pub observe: ObserveSection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkSection {
    pub listen: SocketAddr,
    pub accepted: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataSection {
    folder: PathBuf,
    target: TargetKind,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct GuestSection {
    numbers: Option<config::Numbers>,
    starts_as_state: bool,
}

impl Default for GuestSection {
    fn default() -> Self {
        GuestSection { numbers: None, starts_as_state: true }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct TrainingSection {
    #[serde(deserialize_with = "federated_signal")]
    method: TrainingSignal,
    segment: u16,
    traffic_model: TrafficModelKind,
    learn_physics: bool,
    no_physics: bool,
    arch: Architecture,
    seed: u64,
    epochs: Option<u32>,
    batch: Option<u32>,
    learning_rate: Option<f32>,
    host_learning_rate: Option<f32>,
    weight_decay: Option<f32>,
    flow_weight: Option<f32>,
    window: Option<u16>,
    local_updates: u32,
    variant: LocalVariant,
    host_updates: HostUpdates,
    proximal: f32,
    party_dropout: f32,
    head_units: Option<u16>,
    sealed: Option<bool>,
    scheme: Option<SchemeChoice>,
    most_rows: u32,
    fusion: Option<Fusion>,
    privacy: Option<Mode>,
    commitments: Option<Bounds>,
    check_rows: u32,
    compression: Compression,
    checkpoint_s: f64,
    checkpoint_rounds: Option<NonZeroU32>,
    absent: AbsencePolicy,
}

impl Default for TrainingSection {
    fn default() -> Self {
        let local = LocalUpdates::default();
        TrainingSection {
            method: TrainingSignal::Labels,
            segment: SEGMENT,
            traffic_model: TrafficModelKind::default(),
            learn_physics: false,
            no_physics: false,
            arch: Architecture::Link,
            seed: 1,
            epochs: None,
            batch: None,
            learning_rate: None,
            host_learning_rate: None,
            weight_decay: None,
            flow_weight: None,
            window: None,
            local_updates: local.count,
            variant: local.variant,
            host_updates: local.host,
            proximal: local.proximal,
            party_dropout: 0.0,
            head_units: None,
            sealed: None,
            scheme: None,
            most_rows: Sealing::lattice().most_rows,
            fusion: None,
            privacy: None,
            commitments: None,
            check_rows: 1,
            compression: Compression::None,
            checkpoint_s: CheckpointInterval::default().time.as_secs_f64(),
            checkpoint_rounds: None,
            absent: AbsencePolicy::Wait,
        }
    }
}

impl TrainingSection {
    /// Sealed wherever that is possible, unless it is said otherwise. Noise is the guests' own affair.
    fn is_sealed(&self) -> bool {
        self.sealed.unwrap_or_else(|| Mode::usual(&self.method).is_sealed())
    }

    /// Whether it is said that the host learns sums over guests alone, or that it does not.
    fn says_summed(&self) -> Option<bool> {
        match (self.privacy.is_some_and(Mode::is_aggregate), self.fusion) {
            (true, _) | (_, Some(Fusion::Sum)) => Some(true),
            (false, Some(Fusion::Concatenate)) => Some(false),
            (false, None) => None,
        }
    }

    /// Fields that only exchanges of embeddings have, and whether they are given.
    fn of_exchanges(&self) -> [(&'static str, bool); 10] {
        let usual = Self::default();
        [
            ("batch", self.batch.is_some()),
            ("local-updates", self.local_updates != usual.local_updates),
            ("variant", self.variant != usual.variant),
            ("host-updates", self.host_updates != usual.host_updates),
            ("proximal", self.proximal != usual.proximal),
            ("sealed", self.sealed == Some(true)),
            ("window", self.window.is_some_and(|window| usize::from(window) != WINDOW)),
            ("scheme", self.scheme == Some(SchemeChoice::Ipfe)),
            ("commitments", self.commitments.is_some()),
            ("compression", self.compression != usual.compression),
        ]
    }

    /// Refuses what a sum does not have, or what only a sum has.
    fn check_fusion(&self) -> Result<()> {
        if let Some(mode) = self.privacy.filter(|mode| !mode.is_aggregate()) {
            bail!(
                "training.privacy: found \"{}\", expected \"aggregate\" or \"aggregate+noise\"; for others see training.sealed and the guests' policies",
                mode.name()
            );
        }
        if self.says_summed() != Some(true) {
            return Ok(());
        }
        let contradicts = ("fusion", self.fusion == Some(Fusion::Concatenate));
        let mut other = [contradicts].into_iter().chain(self.of_exchanges());
        if let Some((field, _)) = other.find(|(_, found)| *found) {
            bail!(
                "training.{field}: found a value of exchanges of embeddings, expected none beside fusion = \"sum\": guests give their totals once"
            );
        }
        Ok(())
    }

    fn sealing(&self) -> Result<Option<Sealing>> {
        let mode = if self.is_sealed() { Mode::Sealed } else { Mode::Clear };
        let mut sealing = mode.sealing(&self.method).context("training.sealed")?;
        if let Some(scheme) = self.scheme {
            let by_scheme = scheme.over(sealing, &measured_kinds(&self.method));
            sealing = by_scheme.context("training.scheme")?;
        }
        let most_rows = self.most_rows;
        let sealing = sealing.map(|sealing| Sealing { most_rows, ..sealing });
        let Some(bounds) = self.commitments else { return Ok(sealing) };
        let committing = CommitmentTerms { bounds, checks: self.check_rows };
        committed(sealing, committing).context("training.commitments")
    }

    /// What is chosen of the recipe, checked.
    fn recipe_options(&self) -> Result<RecipeOptions> {
        let chosen = RecipeOptions {
            batch: self.batch,
            host_learning_rate: self.host_learning_rate,
            weight_decay: self.weight_decay,
            flow_weight: self.flow_weight,
            window: self.window,
        };
        let named = |error: InvalidOption| {
            anyhow!("training.{}: {}", error.name.replace('_', "-"), error.problem)
        };
        chosen.check().map_err(named)?;
        InvalidOption::check_range("learning_rate", self.learning_rate, f32::MIN_POSITIVE..=1.0)
            .map_err(named)?;
        Ok(chosen)
    }

    /// The recipe.
    fn recipe(&self, usual: Recipe) -> Result<Recipe> {
        let rate = self.learning_rate.unwrap_or(usual.rate);
        let mut recipe = Recipe { rate, ..self.method.recipe(usual) };
        self.recipe_options()?.apply(&mut recipe);
        Ok(recipe)
    }

    /// When the parties store checkpoints.
    fn checkpoints(&self) -> Result<CheckpointInterval> {
        let found = self.checkpoint_s;
        ensure!(
            (0.01..=1e6).contains(&found),
            "training.checkpoint-s: found {found}, expected 0.01 to 1000000 seconds"
        );
        let time = Duration::from_secs_f64(found);
        Ok(CheckpointInterval { time, rounds: self.checkpoint_rounds })
    }

    /// Sizes of the host's part and head, if they are not the usual ones.
    fn head(&self, usual: Sizes) -> Option<Sizes> {
        let sealed = self.is_sealed().then(|| usual.for_products());
        self.head_units.map(|units| usual.with_units(units.into())).or(sealed)
    }
}

/// A host that is ready to begin.
pub(super) struct Prepared {
    pub name: PartyId,
    pub tls: Arc<ServerConfig>,
    pub heads: HeadKeys,
    pub part: HostPart,
    pub slots: Vec<GuestSlot>,
    pub settings: HostSettings,
    /// Who issues the keys of its products, if an authority does.
    pub keys: Option<RemoteAuthority>,
}

/// The same of a host that learns sums over guests alone.
pub(super) struct PreparedSum {
    pub name: PartyId,
    pub tls: Arc<ServerConfig>,
    pub heads: HeadKeys,
    pub part: SumHostPart,
    pub guests: Vec<String>,
    pub settings: SumHostSettings,
}

impl HostConfig {
    /// Reads identity and data, for a host with a sub-model of its own if there is one.
    pub(super) fn prepare(
        &self,
        folder: &Path,
        own: Option<&CustomSubModelSpec>,
    ) -> Result<Prepared> {
        self.check_target()?;
        self.training.check_fusion()?;
        ensure!(
            own.is_none() || !self.guests.contains_key(HOST_SUB_MODEL),
            "guests: found `{HOST_SUB_MODEL}`, expected another name: that is the host's custom sub-model"
        );
        let (identity, authority) = self.identity.read(folder)?;
        let name = own_name(identity.certificate_info())?;
        let heads = HeadKeys::of_host(&identity, &authority)?;
        let tls = tls::host_side(identity, &authority)?;
        let loss = self.loss();
        let window = self.training.recipe_options()?.window();
        let data = folder.join(&self.data.folder);
        let part = HostPart::read(&data, self.neural_plan()?, loss, window)?;
        let slots = self.slots();
        let settings = self.settings(&name, &part, (&slots, own))?;
        let keys = self.key_authority(folder, settings.plan.sealing)?;
        Ok(Prepared { name, tls, heads, part, slots, settings, keys })
    }

    /// Who issues the keys of the host's products, if the plan needs keys.
    fn key_authority(
        &self,
        folder: &Path,
        sealing: Option<Sealing>,
    ) -> Result<Option<RemoteAuthority>> {
        match (&self.key_authority, sealing.is_some_and(|sealing| sealing.is_keyed())) {
            (Some(section), true) => Ok(Some(section.remote(folder, &self.identity)?)),
            (None, true) => bail!(
                "training.scheme: found \"ipfe\" without a section key-authority, expected one (name, address, certificate, key)"
            ),
            (Some(_), false) => {
                bail!("key-authority: found one, expected none without training.scheme = \"ipfe\"")
            }
            (None, false) => Ok(None),
        }
    }

    /// Whether the host learns sums over guests alone.
    ///
    /// With two or more guests it does unless something else is said: by `fusion`, by a field that only exchanges of embeddings have,
    /// or by a sub-model of its own.
    pub(super) fn is_summed(&self, own: Option<&CustomSubModelSpec>) -> bool {
        let embeds =
            self.guests.values().any(|guest| guest.numbers.is_some() || !guest.starts_as_state);
        let exchanges = self.training.of_exchanges().iter().any(|(_, given)| *given);
        let usual = self.guests.len() > 1 && !(exchanges || embeds || own.is_some());
        self.training.says_summed().unwrap_or(usual)
    }

    /// What the host sees of its guests, in a line.
    pub(super) fn what_it_sees(&self, own: Option<&CustomSubModelSpec>) -> String {
        let training = &self.training;
        let mode = match (self.is_summed(own), training.is_sealed()) {
            (true, _) => training.privacy.unwrap_or(Mode::Aggregate),
            (false, true) => Mode::Sealed,
            (false, false) => Mode::Clear,
        };
        format!("privacy: {}: this host sees {}", mode.name(), mode.shown())
    }

    /// The same of a host that learns sums over guests alone.
    pub(super) fn prepare_sum(&self, folder: &Path) -> Result<PreparedSum> {
        self.check_target()?;
        self.training.check_fusion()?;
        let (identity, authority) = self.identity.read(folder)?;
        let name = own_name(identity.certificate_info())?;
        let verifier = GuestCertificates::new(&authority, None)?;
        let heads = HeadKeys::of_host(&identity, &authority)?;
        let tls = tls::host_side(identity, &authority)?;
        let part = SumHostPart::read(&folder.join(&self.data.folder), self.sum_options()?)?;
        let names: Vec<String> = self.guests.keys().cloned().collect();
        let guests = names.iter().map(|name| PartyId::new(name)).collect::<Result<_, _>>()?;
        let settings = SumHostSettings {
            party: name.clone(),
            guests,
            software: software(),
            run: RunId(random_session_id()),
            subject: part.fingerprint(&names)?,
            plan: part.plan(),
            held: part.held()?,
            absent: self.training.absent,
            timing: self.patience.timing()?,
            verifier: Box::new(verifier),
        };
        Ok(PreparedSum { name, tls, heads, part, guests: names, settings })
    }

    /// What is trained on the sum.
    fn sum_options(&self) -> Result<TrainOptions> {
        let training = &self.training;
        let method = Method::federated_by(&training.method)
            .context("training.method: expected one that has a sum")?;
        let head_units = training.head_units;
        let dropout = training.party_dropout;
        let party_dropout = (dropout > 0.0).then_some(dropout);
        let mode = training.privacy.unwrap_or(Mode::Aggregate);
        let privacy = PrivacyOptions { privacy: Some(mode), ..PrivacyOptions::clear() };
        Ok(TrainOptions {
            method,
            architecture: training.arch,
            target: self.data.target,
            seed: training.seed,
            epochs: training.epochs.map(|epochs| epochs as usize),
            learning_rate: training.learning_rate,
            recipe: training.recipe_options()?,
            guest: GuestOptions { party_dropout, head_units, ..GuestOptions::default() },
            federation: FederationOptions {
                guests: self.guests.len() as u16,
                fusion: Some(Fusion::Sum),
                privacy,
                ..FederationOptions::clear()
            },
            physics: PhysicsOptions {
                segment: training.method.has_physics().then_some(training.segment),
                traffic_model: training.traffic_model,
                learn_physics: training.learn_physics,
                no_physics: training.no_physics,
                ..PhysicsOptions::default()
            },
        })
    }

    /// What guests measure is of single steps, and so is what is learned from it.
    fn check_target(&self) -> Result<()> {
        let labels = self.training.method.has_labels();
        ensure!(
            labels || self.data.target == TargetKind::Raw,
            "data.target: found \"smooth\", expected \"raw\" with a training.method other than \"labels\""
        );
        Ok(())
    }

    fn neural_plan(&self) -> Result<NeuralPlan> {
        let training = &self.training;
        // Which features the guests have is their own affair.
        let mut plan =
            NeuralPlan::new(FeatureSet::Host, training.arch, self.data.target, training.seed);
        plan.recipe = training.recipe(plan.recipe)?;
        let head = training.head(plan.sizes);
        Ok(NeuralPlan { party_dropout: training.party_dropout, head, ..plan })
    }

    fn loss(&self) -> LossOptions {
        let TrainingSection { method: signal, traffic_model, learn_physics, no_physics, .. } =
            self.training;
        LossOptions { signal, physics: !no_physics, traffic_model, learn_physics }
    }

    /// Steps of a segment.
    fn segment(&self) -> u32 {
        if self.training.method.has_physics() { self.training.segment.into() } else { 1 }
    }

    fn slots(&self) -> Vec<GuestSlot> {
        let slot = |(name, guest): (&String, &GuestSection)| GuestSlot {
            name: name.clone(),
            embedding: config::Numbers::embedding(guest.numbers, self.training.arch),
            direct: guest.starts_as_state && self.training.arch == Architecture::Link,
        };
        self.guests.iter().map(slot).collect()
    }

    fn settings(
        &self,
        name: &PartyId,
        part: &HostPart,
        (slots, own): (&[GuestSlot], Option<&CustomSubModelSpec>),
    ) -> Result<HostSettings> {
        let training = &self.training;
        let recipe = self.neural_plan()?.recipe;
        let width = |slot: &GuestSlot| {
            Ok((PartyId::new(&slot.name)?, slot.embedding.len(part.links()) as u32))
        };
        Ok(HostSettings {
            party: name.clone(),
            guests: slots.iter().map(width).collect::<Result<_>>()?,
            software: software(),
            run: RunId(random_session_id()),
            terms: part.terms(training.compression),
            subject: part.fingerprint(slots, own)?,
            plan: Plan {
                seed: training.seed,
                batch: whole_batch(recipe.batch, self.segment() as usize) as u32,
                epochs: training.epochs.unwrap_or(recipe.epochs as u32),
                exchanges: 0,
                optimiser: optimiser_settings(&recipe),
                local: LocalUpdates {
                    count: training.local_updates,
                    variant: training.variant,
                    proximal: training.proximal,
                    host: training.host_updates,
                },
                segment: self.segment(),
                measured: measured_kinds(&training.method),
                shares: None,
                sealing: training.sealing()?,
            },
            checkpoints: training.checkpoints()?,
            measurement_bounds: part.measurement_bounds(),
            samples: part.samples(),
            shuffle: recipe.shuffle,
            patience: recipe.patience as u32,
            absent: training.absent,
            timing: self.patience.timing()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_configuration_with_the_defaults_it_names() {
        let config: HostConfig = toml::from_str(EXAMPLE).unwrap();
        let short: HostConfig = toml::from_str(
            r#"
            identity = { certificate = "c", key = "k", authority = "a" }
            network = { listen = "127.0.0.1:0", accepted = "g" }
            data = { folder = "d", target = "raw" }
            guests.fleet-a = {}
            run.folder = "r"
            "#,
        )
        .unwrap();
        let plan = |config: &HostConfig| {
            let plan = config.neural_plan().unwrap();
            (plan.recipe, plan.seed)
        };
        assert_eq!(plan(&config), plan(&short));
        assert_eq!(config.slots()[0], short.slots()[0]);
        assert_eq!(config.patience.timing().unwrap(), short.patience.timing().unwrap());
        let short_loss = short.loss();
        let (long, short) = (&config.training, &short.training);
        assert_eq!((long.local_updates, long.variant), (short.local_updates, short.variant));
        assert_eq!(long.host_updates, short.host_updates);
        assert_eq!(long.checkpoints().unwrap(), short.checkpoints().unwrap());
        assert_eq!(long.absent, short.absent);
        assert_eq!(long.compression, short.compression);
        assert_eq!((long.method, long.segment), (short.method, short.segment));
        assert_eq!(config.loss(), short_loss);
        assert_eq!((long.commitments, long.check_rows), (short.commitments, short.check_rows));
        assert_eq!((long.fusion, long.privacy), (Some(Fusion::Concatenate), short.privacy));
    }

    #[test]
    fn a_sum_has_no_exchanges_of_embeddings() {
        let check = |fusion: &str, words: &str| {
            let text = EXAMPLE.replace("fusion = \"concatenate\"", fusion);
            let text = text.replace("batch = 128", words);
            let training = toml::from_str::<HostConfig>(&text).unwrap().training;
            training.check_fusion().map(|()| training.says_summed())
        };
        assert_eq!(check("privacy = \"aggregate\"", "").unwrap(), Some(true));
        assert_eq!(check("fusion = \"sum\"", "").unwrap(), Some(true));
        assert_eq!(check("", "batch = 128").unwrap(), None);
        let error = check("privacy = \"aggregate\"", "batch = 128").unwrap_err().to_string();
        assert!(error.starts_with("training.batch: found a value"), "{error}");
        let error = check("privacy = \"clear\"", "").unwrap_err().to_string();
        assert!(error.starts_with("training.privacy: found \"clear\""), "{error}");
    }

    #[test]
    fn two_or_more_guests_are_summed_unless_something_else_is_said() {
        let summed = |text: &str| {
            let common = r#"
            identity = { certificate = "c", key = "k", authority = "a" }
            network = { listen = "127.0.0.1:0", accepted = "g" }
            data = { folder = "d", target = "raw" }
            run.folder = "r"
            "#;
            let config: HostConfig = toml::from_str(&format!("{common}{text}")).unwrap();
            (config.is_summed(None), config.what_it_sees(None))
        };
        let (two, sees) = summed("guests = { a = {}, b = {} }");
        assert!(
            two && sees.ends_with("sees the sum over the guests and nothing else of one of them")
        );
        let (one, sees) = summed("guests = { a = {} }");
        assert!(!one && sees.contains("each guest's embeddings"), "{sees}");
        for said in ["batch = 64", "compression = \"q8\"", "fusion = \"concatenate\""] {
            let text = format!("guests = {{ a = {{}}, b = {{}} }}\ntraining = {{ {said} }}");
            assert!(!summed(&text).0, "{said}");
        }
        assert!(!summed("guests = { a = { numbers = { per-link = 2 } }, b = {} }").0);
    }

    #[test]
    fn the_traffic_model_is_chosen() {
        let text = EXAMPLE
            .replace("traffic-model = \"ctm\"", "traffic-model = \"store-and-forward\"")
            .replace("learn-physics = false", "learn-physics = true");
        let loss = toml::from_str::<HostConfig>(&text).unwrap().loss();
        assert_eq!(loss.traffic_model, TrafficModelKind::StoreAndForward);
        assert!(loss.physics && loss.learn_physics);
        let unknown = EXAMPLE.replace("traffic-model = \"ctm\"", "traffic-model = \"lwr\"");
        let error = toml::from_str::<HostConfig>(&unknown).unwrap_err().to_string();
        assert!(error.contains("lwr") && error.contains("store-and-forward"), "{error}");
        let without = EXAMPLE.replace("no-physics = false", "no-physics = true");
        assert!(!toml::from_str::<HostConfig>(&without).unwrap().loss().physics);
    }

    #[test]
    fn commitments_are_asked_for_where_measurements_are_sealed() {
        let sealing = |words: &str| {
            let text = EXAMPLE
                .replace("method = \"labels\"", "method = \"pi\"")
                .replace("sealed = false ", &format!("commitments = \"noised\"\n{words}"));
            toml::from_str::<HostConfig>(&text).unwrap().training.sealing()
        };
        let sealed = sealing("sealed = true #").unwrap().unwrap();
        assert_eq!(sealed.commitments, Some(CommitmentTerms { bounds: Bounds::Noised, checks: 1 }));
        let error = format!("{:#}", sealing("sealed = false #").unwrap_err());
        assert!(error.starts_with("training.commitments: found measurements in the"), "{error}");
    }

    #[test]
    fn means_over_a_minute_are_learned_from_labels_alone() {
        let with = |target: &str, method: &str| {
            let text = EXAMPLE
                .replace("target = \"smooth\"", &format!("target = \"{target}\""))
                .replace("method = \"labels\"", &format!("method = \"{method}\""));
            let config: HostConfig = toml::from_str(&text).unwrap();
            config.prepare(Path::new("nowhere"), None).err().unwrap().to_string()
        };
        for method in ["hf", "pi", "pi-v", "pi-k", "pi-hf"] {
            let error = with("smooth", method);
            assert!(error.contains("data.target: found \"smooth\""), "{method}: {error}");
            assert!(!with("raw", method).contains("data.target"), "{method}");
        }
        assert!(!with("smooth", "labels").contains("data.target"));
    }

    #[test]
    fn unknown_fields_are_refused_with_their_line() {
        let error =
            toml::from_str::<HostConfig>(&EXAMPLE.replace("seed = 1", "sead = 1")).unwrap_err();
        let line = 1 + EXAMPLE.lines().position(|line| line.starts_with("seed")).unwrap();
        let text = error.to_string();
        assert!(text.contains(&format!("line {line}")) && text.contains("sead"), "{text}");
    }
}
