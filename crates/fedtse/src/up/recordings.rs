//! What parties learn from, and what they live through.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use sensing::{Dataset, FeaturePlan, Features, Fleets};
use traffic::{Network, Seconds};

use super::folders::HOST;
use super::{UpArguments, print_status};
use experiments::data::{features, simulate};

/// Shares of the traffic that the simulated guests see.
const SHARES: [f64; 2] = [0.3, 0.2];
/// The part of a recording that nothing was learned from.
const UNSEEN: f64 = 0.8;
const MANIFEST: &str = "features/manifest.json";

/// Two recordings of the same network; they may be one.
pub(super) struct Recordings {
    pub train: PathBuf,
    pub live: PathBuf,
    /// Names of the guests and of their fleets.
    guests: Vec<(String, String)>,
    pub replay_from: f64,
    pub step_s: f64,
    pub network: Network,
}

impl Recordings {
    pub(super) fn get(arguments: &UpArguments, folder: &Path, json: bool) -> Result<Self> {
        if let Some(data) = &arguments.data {
            let data = data.canonicalize().unwrap_or_else(|_| data.clone());
            if !data.join(MANIFEST).exists() {
                let shown = data.display();
                let shares = SHARES.map(|share| 100.0 * share);
                print_status(
                    json,
                    &format!(
                        "{shown}: making features of guests with {shares:?} % of the vehicles"
                    ),
                );
                make_features(&Dataset::open(&data)?, arguments.seed)?;
            }
            return Self::of(data.clone(), data, UNSEEN);
        }
        let days = [("data/yesterday", arguments.seed), ("data/today", arguments.seed + 1000)];
        let [train, live] = days.map(|(name, seed)| (folder.join(name), seed));
        for (day, seed) in [&train, &live] {
            if !day.join(MANIFEST).exists() {
                simulate_day(day, arguments.minutes, *seed, arguments.seed)?;
            }
        }
        Self::of(train.0, live.0, 0.0)
    }

    fn of(train: PathBuf, live: PathBuf, replay_share: f64) -> Result<Self> {
        let dataset = Dataset::open(&live)?;
        let features = Features::open(&live, dataset.network())?;
        let manifest = features.manifest();
        let fleets = manifest.fleets.iter().map(|fleet| fleet.name.clone());
        // Fleets of other kinds hold each other's vehicles.
        let fleets: Vec<String> = fleets.filter(|name| name.starts_with("guest-")).collect();
        ensure!(
            !fleets.is_empty(),
            "{}: found no features of guests; make them: fedtse features {0} --guests 30,20",
            live.display()
        );
        let named = |(number, fleet)| (format!("fleet-{}", number + 1), fleet);
        let guests = fleets.into_iter().enumerate().map(named).collect();
        let step_s = manifest.step_s.get();
        let ranges = manifest.held.ranges();
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            bail!("{}: found no steps, expected some", live.display());
        };
        let (begin, end) = (first.first.0 as f64 * step_s, (last.last.0 + 1) as f64 * step_s);
        let replay_from = begin + step_s * ((end - begin) / step_s * replay_share).round();
        let network = dataset.network().clone();
        Ok(Recordings { train, live, guests, replay_from, step_s, network })
    }

    pub(super) fn guests(&self) -> impl Iterator<Item = &str> {
        self.guests.iter().map(|(name, _)| name.as_str())
    }

    /// None of the host.
    pub(super) fn fleet_of(&self, party: &str) -> Option<&str> {
        let found = self.guests.iter().find(|(name, _)| name == party);
        debug_assert!(found.is_some() || party == HOST);
        found.map(|(_, fleet)| fleet.as_str())
    }
}

fn simulate_day(folder: &Path, minutes: f64, seed: u64, fleet_seed: u64) -> Result<()> {
    let network = traffic::corridor()?;
    simulate::corridor(simulate::World::Builtin, &network, folder, minutes, seed)?;
    make_features(&Dataset::open(folder)?, fleet_seed)
}

fn make_features(dataset: &Dataset, fleet_seed: u64) -> Result<()> {
    let fleets = Fleets::partition(&SHARES, fleet_seed)?;
    features::make(dataset, FeaturePlan::paper(fleets), Seconds::new(f64::NEG_INFINITY))?;
    Ok(())
}
