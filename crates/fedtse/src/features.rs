//! `fedtse features`: link-time features of a dataset.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use sensing::{
    Concentration, Dataset, FeaturePlan, FeatureTable, Features, FeaturesManifest, Fleets,
    ScaleUpErrors, Trait, make_features, scale_up_errors,
};
use serde::Serialize;
use serde_json::json;
use traffic::{Network, Seconds, StepClock};

use crate::progress;

/// Turn trajectories into link-time features, per fleet
///
/// Writes the folder `features` into the dataset: totals of travel time and distance per link and
/// step, and per cell and sub-step, for each fleet and for all vehicles; loop counts; turns; trips;
/// targets raw and smooth.
#[derive(Args)]
#[command(after_help = "Example:\n  fedtse features data/corridor --rates 20,40,60,80 --seed 1")]
pub struct FeaturesArguments {
    /// The dataset
    folder: PathBuf,
    #[command(flatten)]
    options: FeatureOptions,
}

/// What one may choose of features.
#[derive(Args)]
pub struct FeatureOptions {
    /// Penetration rates in percent, one nested fleet for each
    #[arg(long, value_delimiter = ',', default_values_t = [20.0, 40.0, 60.0, 80.0])]
    rates: Vec<f64>,
    /// Instead of rates: shares in percent of guests that have no vehicle in common
    #[arg(long, value_delimiter = ',', conflicts_with = "rates")]
    guests: Vec<f64>,
    /// Also divide each rate's fleet among so many providers, for each number: `fleet-20-1of2`, …
    #[arg(long, value_delimiter = ',', conflicts_with = "guests", value_name = "K")]
    providers: Vec<usize>,
    /// Make fleets that are no fair sample: each vehicle's chance depends on what it has in common
    /// with others
    #[arg(long, value_enum, value_name = "BY")]
    concentrate: Option<By>,
    /// With --concentrate: chances are multiplied by up to 1 ± this
    #[arg(long, default_value_t = 0.5, requires = "concentrate")]
    strength: f64,
    /// Seed that deals vehicles to fleets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of a step in seconds
    #[arg(long, default_value_t = 10.0)]
    step: f64,
    /// Cells of each link
    #[arg(long, default_value_t = 6)]
    cells: usize,
    /// Sub-steps of each step
    #[arg(long, default_value_t = 2)]
    sub_steps: usize,
    /// Seconds that a vehicle may go unseen and still be on its way
    #[arg(long, default_value_t = 5.0)]
    patience: f64,
    /// Leave out everything before this time in seconds
    #[arg(long, default_value_t = f64::NEG_INFINITY, hide_default_value = true)]
    from: f64,
}

/// What a vehicle's chance of belonging to a fleet depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
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
    /// The plan, and the time before which everything is left out.
    pub fn plan(&self) -> Result<(FeaturePlan, Seconds)> {
        let fractions = |percents: &[f64]| percents.iter().map(|p| p / 100.0).collect::<Vec<_>>();
        let fleets = if self.guests.is_empty() {
            Fleets::nested(&fractions(&self.rates), self.seed)?.divided(&self.providers)?
        } else {
            Fleets::partition(&fractions(&self.guests), self.seed)?
        };
        let fleets = match self.concentrate {
            Some(by) => {
                let strength = self.strength;
                fleets.concentrated(Concentration { by: by.into(), strength })?
            }
            None => fleets,
        };
        if self.from.is_nan() {
            bail!("--from: found NaN, expected a number of seconds");
        }
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
    pub scale_up: Vec<ScaleUpErrors>,
}

pub fn run(arguments: &FeaturesArguments, json: bool) -> Result<()> {
    let made = make_stored(&arguments.folder, &arguments.options)?;
    if json {
        println!("{}", json!(made));
    } else {
        print_summary(&arguments.folder, &made.features);
        print_scale_up(&made.scale_up);
    }
    Ok(())
}

/// Makes the features of a dataset and stores them in its folder.
pub fn make_stored(folder: &Path, options: &FeatureOptions) -> Result<Featured> {
    let dataset = Dataset::open(folder)?;
    let (plan, from) = options.plan()?;
    let features = make(&dataset, plan, from)?;
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
        progress::go_on().is_ok()
    })?;
    bar.finish_and_clear();
    Ok(manifest)
}

/// Errors of scale-up for every fleet.
pub fn scale_up(
    features: &Features,
    network: &Network,
    truth: &FeatureTable,
) -> Result<Vec<ScaleUpErrors>> {
    let step = features.manifest().step_s;
    let targets = network.targets();
    let fleets = features.manifest().fleets.iter().map(|fleet| {
        let table = features.fleet(&fleet.name)?;
        Ok(scale_up_errors(network, step, truth, &table, fleet.rate, &targets))
    });
    fleets.collect()
}

fn print_summary(folder: &Path, manifest: &FeaturesManifest) {
    let report = &manifest.report;
    println!(
        "{}: {} complete steps of {} s in {} range(s), {} fleets, loops counted by {}",
        folder.join("features").display(),
        manifest.held.len(),
        manifest.step_s.get(),
        manifest.held.ranges().len(),
        manifest.fleets.len(),
        manifest.loops
    );
    let relative = |a: f64, b: f64| if b == 0.0 { 0.0 } else { ((a - b) / b).abs() };
    println!(
        "trajectories: {:.0} vehicle-seconds, {:.0} m; boxes differ by {:.1e} and {:.1e} relative",
        report.trajectory_time_s,
        report.trajectory_distance_m,
        relative(report.box_time_s, report.trajectory_time_s),
        relative(report.box_distance_m, report.trajectory_distance_m)
    );
    println!("tracks broken: {} by gaps, {} by jumps", report.gaps, report.jumps);
}

/// The table of scale-up errors.
pub fn print_scale_up(errors: &[ScaleUpErrors]) {
    if errors.is_empty() {
        return;
    }
    println!("\nscale-up (fleet totals ÷ rate) on the target links, RMSE; in brackets what");
    println!("binomial sampling of vehicles explains");
    println!("{:>6}   {:>21}   {:>21}", "rate", "density veh/km/lane", "flow veh/min/lane");
    for row in errors {
        println!(
            "{:>5.0}%   {:>11.2}  ({:>6.2})   {:>11.2}  ({:>6.2})",
            row.rate * 100.0,
            row.density_rmse,
            row.density_expected,
            row.flow_rmse,
            row.flow_expected
        );
    }
}
