//! The datasets that jobs are fitted to: simulated or imported once, then found again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use durable::PendingFolder;
use sensing::{Dataset, DatasetManifest, FeaturePlan, Features, FeaturesManifest, Fleets};
use serde::{Deserialize, Serialize};
use traffic::{Network, Seconds, network_file_hash};

use super::job::Settings;
use super::program::sha256;
use super::scene::Scene;
use super::worlds::WorldName;
use crate::data::features;
use crate::data::simulate::{self, World};

/// Fleets that every dataset has, in percent: the paper's.
const USUAL_RATES: [u32; 4] = [20, 40, 60, 80];

/// A dataset with the features of all fleets.
pub(super) struct Prepared {
    pub folder: PathBuf,
    pub facts: Facts,
}

/// Where datasets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Source {
    Builtin,
    Sumo,
    /// Drone recordings.
    Pneuma,
    /// Recipes, each in its own simulator.
    Worlds,
}

impl From<World> for Source {
    fn from(world: World) -> Self {
        match world {
            World::Builtin => Source::Builtin,
            World::Sumo => Source::Sumo,
        }
    }
}

/// Datasets by demand seed and scene.
pub(super) type Datasets = BTreeMap<(u64, Scene), Prepared>;

/// The fleets that jobs need besides the usual ones, and the scenes.
#[derive(Clone, Debug, Default)]
pub(super) struct Needed {
    /// At least one.
    pub scenes: Vec<Scene>,
    /// Penetration rates, in percent.
    pub rates: Vec<u32>,
    /// Fleets that are divided: rate, and number of providers.
    pub divided: Vec<(u32, u16)>,
}

/// What results say of their dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facts {
    /// Of recordings: the seed that deals vehicles to fleets.
    pub demand_seed: u64,
    pub source: BTreeMap<String, String>,
    pub network_file_hash: String,
    pub vehicles: u64,
    pub steps: usize,
    /// Hash of the manifests: of where the data come from, and of their totals to the last digit.
    pub fingerprint: String,
}

/// Finds or makes the dataset of a demand seed and scene.
fn prepare(
    root: &Path,
    settings: &Settings,
    seed: u64,
    scene: Scene,
    needed: &Needed,
) -> Result<Prepared> {
    if let Some(world) = scene.world {
        return prepare_world(root, settings, seed, (scene, world), needed);
    }
    let (simulator, world) = match settings.world {
        Source::Builtin => (World::Builtin, "builtin"),
        Source::Sumo => (World::Sumo, "sumo"),
        Source::Worlds => bail!("a world by a recipe has a name"),
        Source::Pneuma => bail!("recordings are imported, not simulated"),
    };
    let named =
        |scene: Scene| format!("{world}-{}-seed-{seed}{}", settings.minutes, scene.suffix("-"));
    let name = named(scene);
    let folder = root.join(&name);
    let network = scene.network()?;
    // Other fleets are dealt from the same traffic.
    let same_traffic = root.join(named(Scene { fleets: None, ..scene }));
    if !folder.exists() && same_traffic.exists() {
        copy(&same_traffic, &folder)?;
    } else if !folder.exists() {
        // In a folder of another name until it is whole: an interrupted simulation is none.
        let pending = PendingFolder::create(&folder)?;
        simulate::corridor(simulator, &network, pending.path(), settings.minutes, seed)?;
        pending.commit()?;
    }
    let dataset = Dataset::open(&folder)?;
    check(&folder, dataset.manifest(), &network, settings, world, seed)?;
    prepared(&dataset, seed, settings.fleet_seed, scene, needed)
}

/// The same of a world by a recipe.
fn prepare_world(
    root: &Path,
    settings: &Settings,
    seed: u64,
    (scene, world): (Scene, WorldName),
    needed: &Needed,
) -> Result<Prepared> {
    let minutes = (settings.minutes > 0.0).then_some(settings.minutes);
    let of = minutes.map_or_else(String::new, |minutes| format!("-{minutes}"));
    let folder = root.join(format!("{world}{of}-seed-{seed}"));
    if !folder.exists() {
        let pending = PendingFolder::create(&folder)?;
        world.make(pending.path(), minutes, seed).with_context(|| format!("world {world}"))?;
        pending.commit()?;
    }
    world.check(&folder, minutes, seed)?;
    let dataset = Dataset::open(&folder)?;
    let mut prepared = prepared(&dataset, seed, settings.fleet_seed, scene, needed)?;
    let network = dataset.network();
    let targets = network.targets().len();
    for (what, count) in [
        ("links", network.links().len()),
        ("targets", targets),
        ("loops", network.loops().len()),
        ("signals", network.signals().len()),
    ] {
        prepared.facts.source.insert(what.to_owned(), count.to_string());
    }
    Ok(prepared)
}

/// A dataset with the features of all fleets.
pub(super) fn prepared(
    dataset: &Dataset,
    seed: u64,
    fleet_seed: u64,
    scene: Scene,
    needed: &Needed,
) -> Result<Prepared> {
    let manifest = featured(dataset, fleet_seed, scene, needed)?;
    let facts = Facts {
        demand_seed: seed,
        source: dataset.manifest().source.clone(),
        network_file_hash: dataset.manifest().network_file_hash.clone(),
        vehicles: dataset.manifest().vehicles,
        steps: manifest.held.len(),
        fingerprint: fingerprint(dataset.manifest(), &manifest)?,
    };
    Ok(Prepared { folder: dataset.folder().to_owned(), facts })
}

/// Refuses a dataset that this program would make otherwise.
fn check(
    folder: &Path,
    manifest: &DatasetManifest,
    network: &Network,
    settings: &Settings,
    world: &str,
    seed: u64,
) -> Result<()> {
    let demand = worlds::corridor_demand(network)?;
    let until = Seconds::new(settings.minutes * 60.0);
    let vehicles = simulate::vehicle_table(&demand, network, seed, until).all().len();
    let source = |key: &str| manifest.source.get(key).cloned().unwrap_or_default();
    let pairs = [
        ("world", source("world"), world.to_owned()),
        ("demand", source("demand"), demand.name().to_owned()),
        ("seed", source("seed"), seed.to_string()),
        ("minutes", source("minutes"), settings.minutes.to_string()),
        ("warm-up", source("warm-up"), simulate::WARM_UP.to_string()),
        ("step", source("step"), simulate::STEP.to_string()),
        ("network", manifest.network_file_hash.clone(), network_file_hash(network)),
        // The demand file has no hash of its own, but hardly another one sends as many out.
        ("vehicles", manifest.vehicles.to_string(), vehicles.to_string()),
    ];
    for (what, found, expected) in pairs {
        ensure!(
            found == expected,
            "{}: {what}: found {found}, expected {expected}; delete the folder to simulate again, or choose another folder for datasets",
            folder.display()
        );
    }
    Ok(())
}

/// The features of all fleets, made unless they are there.
fn featured(
    dataset: &Dataset,
    fleet_seed: u64,
    scene: Scene,
    needed: &Needed,
) -> Result<FeaturesManifest> {
    let network: &Network = dataset.network();
    // A world has no fleets that no job needs: it is carried from machine to machine.
    let mut all = if scene.world.is_some() { Vec::new() } else { USUAL_RATES.to_vec() };
    all.extend(&needed.rates);
    all.sort_unstable();
    all.dedup();
    let shares: Vec<f64> = all.iter().map(|&rate| f64::from(rate) / 100.0).collect();
    let mut fleets = Fleets::nested(&shares, fleet_seed)?;
    for &(rate, providers) in &needed.divided {
        let name = format!("fleet-{rate}");
        fleets = fleets.divided_where(|fleet| fleet.name == name, &[providers.into()])?;
    }
    if let Some(concentration) = scene.concentration() {
        fleets = fleets.concentrated(concentration)?;
    }
    let plan = FeaturePlan::paper(fleets);
    if let Ok(found) = Features::open(dataset.folder(), network) {
        let manifest = found.manifest();
        let has = |name: &str| manifest.fleets.iter().any(|fleet| fleet.name == name);
        if manifest.step_s == plan.clock.length
            && manifest.cells == plan.cells
            && manifest.sub_steps == plan.sub_steps
            && manifest.patience_s == plan.patience
            && manifest.fleet_seed == fleet_seed
            && manifest.concentration == scene.concentration()
            && manifest.held.len() as f64 >= recorded_steps(dataset.manifest(), plan.clock.length)
            && plan.fleets.all().iter().all(|fleet| has(&fleet.name))
        {
            return Ok(manifest.clone());
        }
    }
    features::make(dataset, plan, Seconds::new(f64::NEG_INFINITY))
}

/// Whole steps that the recordings hold, at least.
fn recorded_steps(manifest: &DatasetManifest, step: Seconds) -> f64 {
    let lengths = manifest.recordings.iter().map(|one| (one.end - one.begin).get());
    lengths.map(|length| (length / step.get() - 1.0).floor().max(0.0)).sum()
}

/// The same whichever fleets there are: a fleet is drawn from rate and seed.
fn fingerprint(dataset: &DatasetManifest, features: &FeaturesManifest) -> Result<String> {
    let features = FeaturesManifest { fleets: Vec::new(), ..features.clone() };
    let (dataset, features) = (serde_json::to_vec(dataset)?, serde_json::to_vec(&features)?);
    Ok(sha256(&[&dataset, &features]))
}

/// Finds or makes the datasets of all demand seeds and scenes.
pub(super) fn prepare_all(
    root: &Path,
    settings: &Settings,
    seeds: &[u64],
    needed: &Needed,
) -> Result<Datasets> {
    std::fs::create_dir_all(root).with_context(|| root.display().to_string())?;
    let bar = progress::bar("datasets", (seeds.len() * needed.scenes.len()) as u64);
    let mut prepared = Datasets::new();
    for (&seed, &scene) in
        seeds.iter().flat_map(|seed| needed.scenes.iter().map(move |s| (seed, s)))
    {
        let dataset = prepare(root, settings, seed, scene, needed)?;
        let version = |facts: &Facts| facts.source.get("sumo").cloned();
        let others = prepared.values().find_map(|one| Some((one, version(&one.facts)?)));
        if let (Some(found), Some((first, expected))) = (version(&dataset.facts), others) {
            ensure!(
                found == expected,
                "{}: SUMO's version: found {found}, expected {expected} as in {}; delete one of them",
                dataset.folder.display(),
                first.folder.display()
            );
        }
        prepared.insert((seed, scene), dataset);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(prepared)
}

/// Copies the files of a dataset, without its features, into a new folder.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let pending = PendingFolder::create(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry.with_context(|| from.display().to_string())?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            std::fs::copy(&path, pending.path().join(name))
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(pending.commit()?)
}
