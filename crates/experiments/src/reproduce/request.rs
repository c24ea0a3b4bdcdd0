//! What was asked for on the command line, as a plan, its range and its settings.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use estimator::{Architecture, TargetKind};
use serde::Deserialize;
use training::InvalidOption;

use super::datasets::{Needed, Source};
use super::job::{Estimator, Settings};
use super::plan::{ColumnKind, Range, TablePlan};
use super::worlds::WorldName;
use crate::data::simulate::World;
use crate::train::MOST_EPOCHS;

/// Make a table or a figure of the paper, our numbers beside the paper's
///
/// Simulates the corridor for several demand seeds, fits every estimator to each, and tabulates
/// the errors on the test part. Each finished fit is kept: a run that was interrupted continues
/// where it stood, with the same result.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(
    after_help = "Examples:\n  fedtse reproduce all --quick --out /tmp/quick --data /tmp/quick/data\n  fedtse reproduce table2\n  fedtse reproduce table2 --training-seeds 1,2,3 --jobs 2\n  fedtse reproduce table4 --only oracle,ridge --report\n  fedtse reproduce table1 --pneuma downloads --network athens.toml\n  fedtse reproduce table2 --quick --out /tmp/quick"
)]
pub struct ReproduceArguments {
    /// What
    #[arg(value_enum)]
    pub what: What,
    /// Folder for finished jobs and the result
    #[arg(long, default_value_os_t = ReproduceArguments::default().out)]
    pub out: PathBuf,
    /// Folder for datasets, which are found again
    #[arg(long, default_value_os_t = ReproduceArguments::default().data)]
    pub data: PathBuf,
    /// Which simulator; sumo unless --quick
    #[arg(long, value_enum)]
    world: Option<World>,
    /// Minutes to simulate, 10 of them warm-up; 810 unless --quick; of worlds each its own
    #[arg(long)]
    minutes: Option<f64>,
    /// Of table1: your folder of pNEUMA recordings (20181024_d1_0830_0900.csv and so on)
    #[arg(long, value_name = "DIR")]
    pub pneuma: Option<PathBuf>,
    /// Of table1: the network that the recordings are matched to; the corridor's schematic one
    /// unless given
    #[arg(long)]
    pub network: Option<PathBuf>,
    /// Demand seeds, one dataset each; of table1 seeds that deal vehicles to fleets; 1,2,3 unless
    /// --quick
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Seeds of the neural estimators
    #[arg(long, value_delimiter = ',', default_values_t = ReproduceArguments::default().training_seeds)]
    training_seeds: Vec<u64>,
    /// Penetration rates in percent, where a result has several; the paper's unless given
    #[arg(long, value_delimiter = ',')]
    rates: Vec<u32>,
    /// Numbers of samples, of table4; 600,1200,1800,2400,3000,3600 unless --quick
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Numbers of guests, of guests; 1,2,4,8,16 unless --quick
    #[arg(long, value_delimiter = ',')]
    guests: Vec<u16>,
    /// What is estimated; both in table1, table2 and table4, raw in the others unless given
    #[arg(long, value_enum, value_delimiter = ',')]
    target: Vec<TargetKind>,
    /// Epochs of the neural estimators, at most; their architecture's unless given or --quick
    #[arg(long)]
    epochs: Option<u64>,
    /// Worlds, of worlds; all unless given or --quick
    #[arg(long, value_delimiter = ',', value_parser = WorldName::parse)]
    worlds: Vec<WorldName>,
    /// Make the datasets and their features, and run nothing
    #[arg(long, conflicts_with = "report")]
    pub datasets_only: bool,
    /// Only these estimators: names as of `fedtse train --method`, boosting, boosting-n
    #[arg(long, value_delimiter = ',', value_parser = Estimator::parse)]
    only: Vec<Estimator>,
    /// Only this model of the neural estimators; both unless given
    #[arg(long, value_enum)]
    arch: Option<Architecture>,
    /// Jobs at a time; one for each core unless given
    #[arg(long)]
    pub jobs: Option<u64>,
    /// A small version in the built-in world, to see that all works; its numbers mean nothing
    #[arg(long)]
    pub quick: bool,
    /// Run nothing: tabulate what is finished
    #[arg(long)]
    pub report: bool,
    /// Keep jobs that were finished by another version of the program; the table names them all
    #[arg(long)]
    pub accept_other_programs: bool,
    /// Write the result into this folder too, such as docs/results
    #[arg(long)]
    pub publish: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// All estimators by penetration rate, on real recordings; needs --pneuma
    Table1,
    /// All estimators by penetration rate
    Table2,
    /// Communication rounds to a target error, with one, two and three local updates
    Table3,
    /// By number of samples
    Table4,
    /// Without ground truth, by penetration rate
    Table5,
    /// Rows of table 5 trained through secure products, beside the same in the clear
    Table5Sealed,
    /// Without ground truth, by number of loops
    Table6,
    /// Test error by epoch, Oracle-cell and FedTSE-cell
    FigLoss,
    /// Test error by communication round, with one, two and three local updates
    FigQ,
    /// Table 5 as a picture
    FigPiRate,
    /// Estimates without ground truth, on a link with and one without a loop
    FigPiEstimates,
    /// By the share of steps that have ground truth, alone and beside what needs none
    LabelShare,
    /// The same fleet in the hands of 1, 2, 4, 8 or 16 guests, by sum and by concatenation, and with each of them absent
    Guests,
    /// All estimators in worlds that nobody here has made for them: SUMO's scenarios, generated nets, a town
    Worlds,
    /// All of these that need no download but worlds, and a page of them: report.html
    All,
}

/// All that needs no download.
impl Default for ReproduceArguments {
    fn default() -> Self {
        Self {
            what: What::All,
            out: "results".into(),
            data: "data/reproduce".into(),
            world: None,
            minutes: None,
            pneuma: None,
            network: None,
            seeds: Vec::new(),
            training_seeds: vec![1],
            rates: Vec::new(),
            sizes: Vec::new(),
            guests: Vec::new(),
            target: Vec::new(),
            epochs: None,
            worlds: Vec::new(),
            datasets_only: false,
            only: Vec::new(),
            arch: None,
            jobs: None,
            quick: false,
            report: false,
            accept_other_programs: false,
            publish: None,
        }
    }
}

const MINUTES: f64 = 810.0;
const SEEDS: [u64; 3] = [1, 2, 3];
const FLEET_SEED: u64 = 1;
/// Minutes of each world in the small version.
const QUICK_WORLDS: f64 = 10.0;

impl What {
    /// Whether the course of training is shown, not its end.
    pub(crate) fn is_course(self) -> bool {
        matches!(self, What::Table3 | What::FigLoss | What::FigQ)
    }

    /// What it is made of, without columns.
    fn plan(self) -> Result<TablePlan> {
        let text = match self {
            What::Table1 => include_str!("../../assets/tables/table1.json"),
            What::Table2 => include_str!("../../assets/tables/table2.json"),
            What::Table3 | What::FigQ => include_str!("../../assets/tables/table3.json"),
            What::Table4 => include_str!("../../assets/tables/table4.json"),
            What::Table5 | What::FigPiRate => include_str!("../../assets/tables/table5.json"),
            What::Table5Sealed => include_str!("../../assets/tables/table5-sealed.json"),
            What::Table6 => include_str!("../../assets/tables/table6.json"),
            What::FigLoss => include_str!("../../assets/tables/fig-loss.json"),
            What::FigPiEstimates => include_str!("../../assets/tables/fig-pi-estimates.json"),
            What::LabelShare => include_str!("../../assets/tables/label-share.json"),
            What::Guests => include_str!("../../assets/tables/guests.json"),
            What::Worlds => include_str!("../../assets/tables/worlds.json"),
            What::All => bail!("all: expected one result at a time"),
        };
        let mut plan: TablePlan = serde_json::from_str(text)?;
        match self {
            What::FigQ => {
                plan.name = "fig-q";
                plan.title = "Test RMSE by communication round, with Q local updates";
            }
            What::FigPiRate => {
                plan.name = "fig-pi-rate";
                plan.title = "Test RMSE by penetration rate, without ground truth";
                plan.comparisons.clear();
            }
            _ => {}
        }
        Ok(plan)
    }
}

impl ReproduceArguments {
    pub(super) fn plan(&self) -> Result<TablePlan> {
        self.check_options()?;
        let mut plan = self.what.plan()?;
        let whole = |value: &u32| *value as usize;
        let (option, given): (_, Vec<usize>) = match plan.range.by {
            ColumnKind::Rates | ColumnKind::Worlds => {
                ("rates", self.rates.iter().map(whole).collect())
            }
            ColumnKind::Sizes => ("sizes", self.sizes.clone()),
            ColumnKind::Guests => ("guests", self.guests.iter().map(|&n| n.into()).collect()),
            ColumnKind::LabelShares => ("what", Vec::new()),
        };
        let values = match (&given[..], self.quick) {
            ([], false) => plan.range.usual.clone(),
            ([], true) => plan.range.quick.clone(),
            (given, _) => given.to_vec(),
        };
        let worlds = match &self.worlds[..] {
            [] => WorldName::all(self.quick),
            given => distinct("worlds", given.to_vec())?,
        };
        plan.columns = plan.range.columns(&distinct(option, values)?, &worlds);
        if !self.only.is_empty() {
            plan.rows.retain(|row| self.only.contains(&row.estimator));
        }
        if let Some(arch) = self.arch {
            plan.rows.retain(|row| row.architecture.is_none_or(|one| one == arch));
        }
        refuse("only", plan.rows.is_empty(), || format!("{} has no such row", plan.name))?;
        for &target in &self.target {
            for row in &plan.rows {
                let Estimator::Own(method) = row.estimator else { continue };
                method.check_target(target).with_context(|| plan.name)?;
            }
        }
        Ok(plan)
    }

    /// The same, asked of another result.
    pub fn of(&self, what: What) -> Self {
        Self { what, ..self.clone() }
    }

    /// Whether the result has rows of the estimators asked for.
    pub(crate) fn has_rows(&self) -> Result<bool> {
        let rows = Self { only: Vec::new(), ..self.clone() }.plan()?.rows;
        let wanted = |estimator: &Estimator| self.only.is_empty() || self.only.contains(estimator);
        Ok(rows.iter().any(|row| wanted(&row.estimator)))
    }

    /// Refuses options that not all results have a use for.
    pub(crate) fn check_all(&self) -> Result<()> {
        self.check_ranges()?;
        for (option, given) in [
            ("pneuma", self.pneuma.is_some()),
            ("network", self.network.is_some()),
            ("rates", !self.rates.is_empty()),
            ("sizes", !self.sizes.is_empty()),
            ("guests", !self.guests.is_empty()),
            ("worlds", !self.worlds.is_empty()),
            ("datasets_only", self.datasets_only),
            ("target", !self.target.is_empty()),
            ("arch", self.arch.is_some()),
        ] {
            refuse(option, given, || "not with all, expected a single result".to_owned())?;
        }
        Ok(())
    }

    /// Refuses values outside their limits.
    fn check_ranges(&self) -> Result<(), InvalidOption> {
        InvalidOption::check_range("rates", self.rates.iter().copied(), 1..=100)?;
        InvalidOption::check_range("guests", self.guests.iter().copied(), 1..=32)?;
        InvalidOption::check_range("epochs", self.epochs, 1..=MOST_EPOCHS)?;
        InvalidOption::check_range("jobs", self.jobs, 1..=1024)
    }

    /// Refuses options that the result has no use for.
    fn check_options(&self) -> Result<(), InvalidOption> {
        self.check_ranges()?;
        let name = self.name();
        let has_rates = matches!(
            self.what,
            What::Table1
                | What::Table2
                | What::Table5
                | What::Table5Sealed
                | What::Table6
                | What::FigPiRate
                | What::FigLoss
                | What::Worlds
        );
        let has = |what: &str| format!("{name} has {what}");
        if self.what == What::Table4 {
            refuse("rates", !self.rates.is_empty(), || has("sizes, expected those"))?;
        }
        refuse("rates", !self.rates.is_empty() && !has_rates, || has("one rate"))?;
        let no_sizes = !self.sizes.is_empty() && self.what != What::Table4;
        let expected = if has_rates { "rates, expected those" } else { "no sizes" };
        refuse("sizes", no_sizes, || has(expected))?;
        let one_guest = !self.guests.is_empty() && self.what != What::Guests;
        refuse("guests", one_guest, || has("one guest"))?;
        let of_worlds = self.what == What::Worlds;
        refuse("worlds", !self.worlds.is_empty() && !of_worlds, || has("one world"))?;
        refuse("world", self.world.is_some() && of_worlds, || {
            "each world has its simulator, expected --worlds".to_owned()
        })?;
        if self.what == What::Table1 {
            refuse("pneuma", self.pneuma.is_none() && !self.report, || {
                "found none, table1 needs your folder of recordings".to_owned()
            })?;
            refuse("world", self.world.is_some(), || has("recordings"))?;
            refuse("minutes", self.minutes.is_some(), || has("recordings"))
        } else {
            refuse("pneuma", self.pneuma.is_some(), || format!("{name} is simulated"))?;
            refuse("network", self.network.is_some(), || format!("{name} is of the corridor"))
        }
    }

    pub(super) fn range(&self) -> Result<Range> {
        let seeds = match (&self.seeds[..], self.quick) {
            ([], false) => SEEDS.to_vec(),
            ([], true) => vec![1, 2],
            (seeds, _) => seeds.to_vec(),
        };
        let both = matches!(self.what, What::Table1 | What::Table2 | What::Table4);
        let targets = match &self.target[..] {
            [] if both => vec![TargetKind::Raw, TargetKind::Smooth],
            [] => vec![TargetKind::Raw],
            given => given.to_vec(),
        };
        refuse("target", targets.len() != 1 && self.what.is_course(), || {
            format!("found {}, expected one for {}", targets.len(), self.name())
        })?;
        Ok(Range {
            seeds: distinct("seeds", seeds)?,
            training_seeds: distinct("training_seeds", self.training_seeds.clone())?,
            targets: distinct("target", targets)?,
        })
    }

    pub(super) fn settings(&self) -> Settings {
        let quick = self.quick;
        let epochs = self.epochs.map(|epochs| epochs as usize).or(quick.then_some(2));
        if self.what == What::Table1 {
            return Settings { world: Source::Pneuma, minutes: 0.0, fleet_seed: 0, epochs };
        }
        if self.what == What::Worlds {
            let minutes = self.minutes.or(quick.then_some(QUICK_WORLDS)).unwrap_or(0.0);
            return Settings { world: Source::Worlds, minutes, fleet_seed: FLEET_SEED, epochs };
        }
        let world = self.world.unwrap_or(if quick { World::Builtin } else { World::Sumo });
        Settings {
            world: world.into(),
            minutes: self.minutes.unwrap_or(if quick { 45.0 } else { MINUTES }),
            fleet_seed: FLEET_SEED,
            epochs,
        }
    }

    pub(super) fn name(&self) -> String {
        name(self.what.to_possible_value())
    }

    /// The command that makes the result again, without folders.
    pub(crate) fn command(&self, range: &Range, settings: &Settings) -> String {
        let list = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut words = vec!["fedtse reproduce".to_owned(), self.name()];
        let mut add = |option: &str, value: String| words.push(format!("{option} {value}"));
        if self.quick {
            add("--quick", String::new());
        }
        match settings.world {
            Source::Pneuma => add("--pneuma", "DIR".to_owned()),
            Source::Sumo if settings.minutes == MINUTES => {}
            Source::Worlds if settings.minutes == 0.0 => {}
            Source::Worlds => add("--minutes", settings.minutes.to_string()),
            world => {
                add("--world", format!("{world:?}").to_lowercase());
                add("--minutes", settings.minutes.to_string());
            }
        }
        if self.network.is_some() {
            add("--network", "FILE".to_owned());
        }
        add("--seeds", list(&range.seeds));
        add("--training-seeds", list(&range.training_seeds));
        let join = |words: Vec<String>| words.join(",");
        if !self.rates.is_empty() {
            add("--rates", join(self.rates.iter().map(u32::to_string).collect()));
        }
        if !self.sizes.is_empty() {
            add("--sizes", join(self.sizes.iter().map(usize::to_string).collect()));
        }
        if !self.worlds.is_empty() {
            add("--worlds", join(self.worlds.iter().map(ToString::to_string).collect()));
        }
        if !self.guests.is_empty() {
            add("--guests", join(self.guests.iter().map(u16::to_string).collect()));
        }
        if !self.target.is_empty() {
            let names = self.target.iter().map(|target| name(target.to_possible_value()));
            add("--target", join(names.collect()));
        }
        if let Some(epochs) = settings.epochs {
            add("--epochs", epochs.to_string());
        }
        if !self.only.is_empty() {
            add("--only", join(self.only.iter().map(|one| one.name()).collect()));
        }
        if let Some(arch) = self.arch {
            add("--arch", name(arch.to_possible_value()));
        }
        words.iter().map(|word| word.trim()).collect::<Vec<_>>().join(" ")
    }

    /// What is checked in must be the real thing.
    pub(crate) fn check_publishable(&self, settings: &Settings) -> Result<(), InvalidOption> {
        let real = match settings.world {
            Source::Builtin => false,
            Source::Sumo => settings.minutes == MINUTES,
            Source::Pneuma => true,
            Source::Worlds => settings.minutes == 0.0 && self.worlds.is_empty(),
        };
        refuse("publish", self.quick || !real || settings.epochs.is_some(), || {
            "expected the whole scenario in SUMO, not a quick one, all minutes and all epochs"
                .to_owned()
        })
    }
}

fn refuse(
    option: &'static str,
    wrong: bool,
    problem: impl FnOnce() -> String,
) -> Result<(), InvalidOption> {
    if wrong { Err(InvalidOption::new(option, problem())) } else { Ok(()) }
}

/// The fleets that the jobs of a plan need.
pub(super) fn needed(plan: &TablePlan) -> Needed {
    let mut needed = Needed::default();
    for column in &plan.columns {
        needed.rates.push(column.rate);
        if let Some(guests) = column.guests.filter(|&guests| guests > 1) {
            needed.divided.push((column.rate, guests));
        }
    }
    for row in &plan.rows {
        for scene in plan.columns.iter().map(|column| row.scene(column)) {
            if !needed.scenes.contains(&scene) {
                needed.scenes.push(scene);
            }
        }
        let Estimator::Own(method) = row.estimator else { continue };
        if let Some(folds) = method.folds() {
            let rates = plan.columns.iter().map(|column| (column.rate, folds as u16));
            needed.divided.extend(rates);
        }
    }
    needed.divided.sort_unstable();
    needed.divided.dedup();
    needed
}

fn name(value: Option<clap::builder::PossibleValue>) -> String {
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Refuses a value given twice: it would count twice.
fn distinct<T: PartialEq + std::fmt::Debug>(
    option: &'static str,
    values: Vec<T>,
) -> Result<Vec<T>, InvalidOption> {
    for (at, value) in values.iter().enumerate() {
        refuse(option, values[..at].contains(value), || format!("found {value:?} twice"))?;
    }
    Ok(values)
}
