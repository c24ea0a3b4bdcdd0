//! Link-time features of a dataset.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use estimator::FleetData;
use sensing::{
    Concentration, Dataset, FeaturePlan, FeatureTable, Features, FeaturesError, FeaturesManifest,
    Fleets, ScaleUpErrors, Trait, add_fleets, add_parts, make_features, part_of, scale_up_errors,
};
use serde::{Deserialize, Serialize};
use traffic::{Network, Seconds, StepClock};
use training::InvalidOption;

/// What one may choose of features.
#[derive(Clone, Debug, PartialEq, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeatureOptions {
    /// Penetration rates in percent, one nested fleet for each; 20,40,60,80 unless given
    #[arg(long, value_delimiter = ',')]
    pub rates: Vec<f64>,
    /// Instead of rates: shares in percent of guests that have no vehicle in common
    #[arg(long, value_delimiter = ',')]
    pub guests: Vec<f64>,
    /// Also divide each rate's fleet among so many providers, for each number: `fleet-20-1of2`, …
    #[arg(long, value_delimiter = ',', value_name = "K")]
    pub providers: Vec<usize>,
    /// Make fleets that are no fair sample: each vehicle's chance depends on what it has in common
    /// with others
    #[arg(long, value_enum, value_name = "BY")]
    pub concentrate: Option<By>,
    /// With --concentrate: chances are multiplied by up to 1 ± this; 0.5 unless given
    #[arg(long)]
    pub strength: Option<f64>,
    /// Seed that deals vehicles to fleets
    #[arg(long, default_value_t = FeatureOptions::default().seed)]
    pub seed: u64,
    /// Length of a step in seconds
    #[arg(long, default_value_t = FeatureOptions::default().step)]
    pub step: f64,
    /// Cells of each link
    #[arg(long, default_value_t = FeatureOptions::default().cells)]
    pub cells: usize,
    /// Sub-steps of each step
    #[arg(long, default_value_t = FeatureOptions::default().sub_steps)]
    pub sub_steps: usize,
    /// Seconds that a vehicle may go unseen and still be on its way
    #[arg(long, default_value_t = FeatureOptions::default().patience)]
    pub patience: f64,
    /// Leave out everything before this time in seconds
    #[arg(long, default_value_t = FeatureOptions::default().from, hide_default_value = true)]
    #[serde(rename = "start")]
    pub from: f64,
    /// Delete the features that are there, instead of adding fleets to them
    #[arg(long)]
    pub replace: bool,
}

/// The paper's penetration rates, in percent.
pub const RATES: [f64; 4] = [20.0, 40.0, 60.0, 80.0];
const STRENGTH: f64 = 0.5;

impl Default for FeatureOptions {
    fn default() -> Self {
        Self {
            rates: Vec::new(),
            guests: Vec::new(),
            providers: Vec::new(),
            concentrate: None,
            strength: None,
            seed: 1,
            step: 10.0,
            cells: 6,
            sub_steps: 2,
            patience: 5.0,
            from: f64::NEG_INFINITY,
            replace: false,
        }
    }
}

/// What a vehicle's chance of belonging to a fleet depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The link by which it enters
    Entry,
    /// The hour in which it enters
    Hour,
    /// Its kind
    Class,
}

impl From<By> for Trait {
    fn from(by: By) -> Self {
        match by {
            By::Entry => Trait::Entry,
            By::Hour => Trait::Hour,
            By::Class => Trait::Class,
        }
    }
}

impl FeatureOptions {
    fn check(&self) -> Result<(), InvalidOption> {
        let wrong = |name, problem| Err(InvalidOption::new(name, problem));
        if !self.guests.is_empty() && !self.rates.is_empty() {
            return wrong("guests", "found with rates, expected one of the two");
        }
        if !self.guests.is_empty() && !self.providers.is_empty() {
            return wrong("providers", "found with guests, expected with rates");
        }
        for (name, percents) in [("rates", &self.rates), ("guests", &self.guests)] {
            if let Some(found) = percents.iter().find(|p| !(**p > 0.0 && **p <= 100.0)) {
                let problem =
                    format!("found {found}, expected percentages of more than 0 and at most 100");
                return Err(InvalidOption::new(name, problem));
            }
        }
        if self.strength.is_some() && self.concentrate.is_none() {
            return wrong("strength", "found alone, expected with concentrate");
        }
        if self.from.is_nan() {
            return wrong("from", "found NaN, expected a number of seconds");
        }
        Ok(())
    }

    /// The plan, and the time before which everything is left out.
    pub fn plan(&self) -> Result<(FeaturePlan, Seconds)> {
        self.check()?;
        let rates = if self.rates.is_empty() { &RATES[..] } else { &self.rates };
        let fractions = |percents: &[f64]| percents.iter().map(|p| p / 100.0).collect::<Vec<_>>();
        let fleets = if self.guests.is_empty() {
            Fleets::nested(&fractions(rates), self.seed)?.divided(&self.providers)?
        } else {
            Fleets::partition(&fractions(&self.guests), self.seed)?
        };
        let fleets = match self.concentrate {
            Some(by) => {
                let strength = self.strength.unwrap_or(STRENGTH);
                fleets.concentrated(Concentration { by: by.into(), strength })?
            }
            None => fleets,
        };
        let plan = FeaturePlan {
            clock: StepClock { length: Seconds::new(self.step) },
            cells: self.cells,
            sub_steps: self.sub_steps,
            patience: Seconds::new(self.patience),
            fleets,
        };
        Ok((plan, Seconds::new(self.from)))
    }
}

/// What was made of a dataset.
#[derive(Serialize)]
pub struct Featured {
    /// The features' manifest.
    pub features: FeaturesManifest,
    /// Errors of scale-up for every fleet.
    pub scale_up: Vec<FleetErrors>,
}

/// Errors of a fleet's scaled-up totals.
#[derive(Clone, Debug, Serialize)]
pub struct FleetErrors {
    /// The fleet's name.
    pub fleet: String,
    /// Its errors.
    #[serde(flatten)]
    pub errors: ScaleUpErrors,
}

/// Makes the features of a dataset and stores them in its folder, beside the fleets that are there.
pub fn make_stored(folder: &Path, options: &FeatureOptions) -> Result<Featured> {
    let dataset = Dataset::open(folder)?;
    let (plan, from) = options.plan()?;
    let features = match options.replace || !folder.join("features/manifest.json").exists() {
        true => make(&dataset, plan, from)?,
        false => add(&dataset, &plan, from).map_err(|error| match error {
            error @ FeaturesError::Mismatch { .. } => {
                anyhow!(
                    "{error}; --replace makes all of them again and deletes those that are there"
                )
            }
            error => error.into(),
        })?,
    };
    let stored = Features::open(folder, dataset.network())?;
    let scale_up = scale_up(&stored, dataset.network(), &stored.all()?)?;
    Ok(Featured { features, scale_up })
}

/// Makes features with a progress bar.
pub fn make(dataset: &Dataset, plan: FeaturePlan, from: Seconds) -> Result<FeaturesManifest> {
    let bar = progress::bar("features", dataset.manifest().samples);
    let manifest = make_features(dataset, plan, from, |done, _| {
        if done % 4096 < 256 {
            bar.set_position(done);
        }
        progress::check_stop().is_ok()
    })?;
    bar.finish_and_clear();
    Ok(manifest)
}

/// Adds fleets to stored features, with a progress bar.
fn add(
    dataset: &Dataset,
    plan: &FeaturePlan,
    from: Seconds,
) -> Result<FeaturesManifest, FeaturesError> {
    let bar = progress::bar("features", dataset.manifest().samples);
    let manifest = add_fleets(dataset, plan, from, |done, _| {
        if done % 4096 < 256 {
            bar.set_position(done);
        }
        progress::check_stop().is_ok()
    })?;
    bar.finish_and_clear();
    Ok(manifest)
}

/// Adds the parts of a fleet to stored features, with a progress bar.
pub(crate) fn divide(folder: &Path, fleet: &str, parts: usize) -> Result<()> {
    let dataset = Dataset::open(folder)?;
    let bar = progress::bar("parts of the fleet", dataset.manifest().samples);
    add_parts(&dataset, fleet, parts, |done, _| {
        if done % 4096 < 256 {
            bar.set_position(done);
        }
        progress::check_stop().is_ok()
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// Held by whoever adds to a dataset's features.
const LOCK_FILE: &str = ".features.lock";

/// Opens fleets of a dataset. Parts of a fleet that nobody made yet are made.
pub(crate) fn open_fleets(folder: &Path, names: &[&str]) -> Result<Vec<FleetData>> {
    let open = || names.iter().map(|name| FleetData::open(folder, name)).collect::<Result<_, _>>();
    make_parts(folder, names, open)
}

/// Opens something of a dataset. Fleets that are missing, and parts of fleets, are made, and it is opened again.
pub(crate) fn make_parts<T, E>(
    folder: &Path,
    names: &[&str],
    mut open: impl FnMut() -> Result<T, E>,
) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let opened = open();
    if opened.is_ok() {
        return Ok(opened?);
    }
    // Two programs that need parts of one dataset make them one after the other.
    let path = folder.join(LOCK_FILE);
    let lock = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    lock.lock().with_context(|| path.display().to_string())?;
    let opened = open();
    let Err(error) = opened else { return Ok(opened?) };
    // A folder of features alone has no trajectories to make others of.
    let Ok(dataset) = Dataset::open(folder) else { return Err(error.into()) };
    let stored = Features::open(folder, dataset.network())?;
    let has = |name: &str| stored.manifest().fleets.iter().any(|fleet| fleet.name == name);
    let missing = || names.iter().filter(|name| !has(name));
    let mut parts: Vec<(&str, usize)> = missing()
        .filter_map(|name| part_of(name))
        .map(|(fleet, _, parts)| (fleet, parts))
        .collect();
    parts.sort_unstable();
    parts.dedup();
    let whole = missing().filter(|name| part_of(name).is_none()).copied();
    let mut whole: Vec<&str> = whole.chain(parts.iter().map(|(fleet, _)| *fleet)).collect();
    whole.retain(|fleet| !has(fleet));
    if !add_nested(&dataset, stored.manifest(), &whole)? {
        return Err(error.into());
    }
    for (fleet, count) in parts {
        divide(folder, fleet, count)
            .with_context(|| format!("fleet `{fleet}`: could not be divided into {count} parts"))?;
    }
    Ok(open()?)
}

/// Adds fair samples by their names, `fleet-20` of a fifth of all vehicles; false if one is called otherwise, or the fleets that
/// are there are no fair samples.
fn add_nested(dataset: &Dataset, stored: &FeaturesManifest, names: &[&str]) -> Result<bool> {
    let rate = |name: &&str| {
        let percent: f64 = name.strip_prefix("fleet-")?.parse().ok()?;
        (percent > 0.0 && percent <= 100.0).then_some(percent / 100.0)
    };
    let Some(rates) = names.iter().map(rate).collect::<Option<Vec<f64>>>() else {
        return Ok(false);
    };
    if rates.is_empty() {
        return Ok(true);
    }
    if stored.concentration.is_some() {
        return Ok(false);
    }
    let plan = FeaturePlan {
        clock: StepClock { length: stored.step_s },
        cells: stored.cells,
        sub_steps: stored.sub_steps,
        patience: stored.patience_s,
        fleets: Fleets::nested(&rates, stored.fleet_seed)?,
    };
    add(dataset, &plan, stored.from_s.unwrap_or(Seconds::new(f64::NEG_INFINITY)))?;
    Ok(true)
}

/// Errors of scale-up for every fleet.
pub fn scale_up(
    features: &Features,
    network: &Network,
    truth: &FeatureTable,
) -> Result<Vec<FleetErrors>> {
    let step = features.manifest().step_s;
    let targets = network.targets();
    let fleets = features.manifest().fleets.iter().map(|fleet| {
        let table = features.fleet(&fleet.name)?;
        let errors = scale_up_errors(network, step, truth, &table, fleet.rate, &targets);
        Ok(FleetErrors { fleet: fleet.name.clone(), errors })
    });
    fleets.collect()
}
