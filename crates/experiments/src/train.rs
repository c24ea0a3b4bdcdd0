//! `fedtse train`: fits an estimator and scores it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use estimator::artifact::{Coverage, ModelFile};
use estimator::loss::TrafficModelKind;
use estimator::{Architecture, Epoch, FleetData, Score, Study, TargetKind, score};
use indicatif::ProgressBar;
use sensing::part_of;
use serde::{Deserialize, Serialize};
use serde_json::json;

use training::Fitted;
use training::SubModelChoice;
use training::party::CustomSubModels;
use training::party::privacy::Mode;

mod curves;
mod intervals;
mod kept_run;
mod metrics;

pub use training::{
    FederationOptions, GuestOptions, InvalidOption, Method, PhysicsOptions, RecipeOptions,
    Releases, TrainOptions, Training, Watch,
};

use crate::data::check_folder;
use crate::data::features::{RATES, make_parts};
use crate::run_record::{MethodRun, Part, spread};

/// Fit an estimator on a dataset's features and score it
///
/// Fitted on the first 70 % of the time, chosen on the next 10 %, scored on the last 20 %. The
/// references that every estimator must beat: scale-up and ridge regression.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[command(
    after_help = "Examples:\n  fedtse train --data data/corridor --method ridge --rate 20\n  fedtse train --data data/corridor --method scale-up,ridge,fedtse --rate 10,20 --target raw --seed 1,2,3\n  fedtse train --example > run.toml\n  fedtse train --config run.toml --epochs 10\n  fedtse train --data data/corridor --method oracle --rate 20 --target raw --out model\n  fedtse train --data data/corridor --method fedtse --rate 20 --guests 2 --q 2\n  fedtse train --data data/corridor --method fedtse --rate 20 --guests 4 --privacy aggregate"
)]
pub struct TrainArguments {
    /// Options from a file in TOML, under their names here; what is given here comes first
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Print such a file with all options and their defaults
    #[arg(long, exclusive = true)]
    #[serde(skip)]
    pub example: bool,
    /// The dataset, with features
    #[arg(long, required_unless_present_any = ["config", "example"], default_value = ".", hide_default_value = true)]
    data: PathBuf,
    /// Which estimators
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = TrainArguments::default().method)]
    method: Vec<Method>,
    /// Penetration rates in percent; a fleet of each must be among the features
    #[arg(long, value_delimiter = ',', default_values_t = TrainArguments::default().rate)]
    rate: Vec<f64>,
    /// Instead of rates: the fleet of each guest, by its name among the features; they may differ in size
    #[arg(long, value_delimiter = ',', value_name = "NAME", conflicts_with_all = ["rate", "guests"])]
    fleets: Vec<String>,
    /// What is estimated: states of single steps, or their means over 60 s; both unless given, but
    /// raw alone for the methods that learn from measurements of single steps
    #[arg(long, value_enum, value_delimiter = ',')]
    target: Vec<TargetKind>,
    /// Model of the neural estimators
    #[arg(long, value_enum, default_value_t = TrainArguments::default().arch)]
    arch: Architecture,
    #[command(flatten)]
    guest: GuestOptions,
    #[command(flatten)]
    federation: FederationOptions,
    #[command(flatten)]
    physics: PhysicsOptions,
    /// Seeds of the neural estimators: first weights, order of samples, dropout; of several, mean and standard deviation are shown
    #[arg(long, value_delimiter = ',', default_values_t = TrainArguments::default().seed)]
    seed: Vec<u64>,
    /// Epochs of the neural estimators, at most; 100 for `link`, 200 for `paper` unless given
    #[arg(long)]
    epochs: Option<u64>,
    /// Highest learning rate of the neural estimators; 0.003 for `link`, 0.0003 for `paper` unless given
    #[arg(long)]
    learning_rate: Option<f32>,
    #[command(flatten)]
    recipe: RecipeOptions,
    /// File for the losses of each epoch, as CSV
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Folder for what was fitted, for `estimate`, `report` and `compare`: of one target. Of several methods, rates or
    /// seeds each has a folder in it
    ///
    /// A run that was interrupted continues where it stood and ends with the same weights. Of the federated
    /// methods it also holds each party's checkpoints, ledger and model, for `live`
    #[arg(long)]
    out: Option<PathBuf>,
    /// The part of the data that is scored; choices belong on the validation part
    #[arg(long, value_enum, default_value_t = TrainArguments::default().part)]
    part: Part,
}

/// More is a mistake.
pub const MOST_EPOCHS: u64 = 100_000;
/// Methods, and seeds, of one command.
const MOST_OF_EACH: usize = 100;

/// How one fit went.
#[derive(Clone, Serialize)]
pub struct Row {
    method: Method,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<Architecture>,
    /// Of those with a traffic model: which one.
    #[serde(skip_serializing_if = "Option::is_none")]
    traffic_model: Option<TrafficModelKind>,
    rate: f64,
    target: TargetKind,
    part: Part,
    /// The seeds of its fits.
    seeds: Vec<u64>,
    /// Of several fits, the mean of each error.
    score: Score,
    /// Of several fits, the standard deviation of each error (n − 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    deviation: Option<Score>,
    /// Of the neural estimators: the epoch whose weights were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_epoch: Option<usize>,
    /// Of the federated ones: exchanges, and bytes that left any party.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Of the federated ones: guests that did not come to the end, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    left: BTreeMap<String, String>,
    /// Of a combination: its models, with their weights for density and for flow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<(&'static str, [f64; 2])>,
    /// Errors as a held-out part of the fleet tells them, without ground truth: root mean squares of density and flow, none where
    /// they cannot be told from noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_errors: Option<[Option<f64>; 2]>,
    /// Of a federation with custom sub-models: each epoch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Epoch>,
    /// Of a model that is kept: how often its intervals hold the truth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    intervals: Vec<Coverage>,
    /// Of several fits: each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<Row>,
    /// Losses by epoch.
    #[serde(skip)]
    losses: Vec<Epoch>,
}

impl Default for TrainArguments {
    fn default() -> Self {
        Self {
            config: None,
            example: false,
            data: PathBuf::new(),
            method: vec![Method::Oracle],
            rate: RATES.to_vec(),
            fleets: Vec::new(),
            target: Vec::new(),
            arch: Architecture::Link,
            guest: GuestOptions::default(),
            federation: FederationOptions::default(),
            physics: PhysicsOptions::default(),
            seed: vec![1],
            epochs: None,
            learning_rate: None,
            recipe: RecipeOptions::default(),
            metrics: None,
            out: None,
            part: Part::Test,
        }
    }
}

impl TrainArguments {
    fn check(&self) -> Result<(), InvalidOption> {
        check_folder("data", &self.data)?;
        self.guest.check()?;
        self.federation.check()?;
        self.physics.check()?;
        self.recipe.check()?;
        for (name, found) in [("method", self.method.len()), ("seed", self.seed.len())] {
            InvalidOption::check_range(name, [found], 1..=MOST_OF_EACH).map_err(|_| {
                let problem = format!("found {found}, expected 1 to {MOST_OF_EACH} of them");
                InvalidOption::new(name, problem)
            })?;
        }
        InvalidOption::check_range("epochs", self.epochs, 1..=MOST_EPOCHS)?;
        let (names, most) = (
            self.fleets.len(),
            if self.method.iter().all(|one| one.is_federated()) { 64 } else { 1 },
        );
        InvalidOption::check_range("fleets", (names > 0).then_some(names), 1..=most)?;
        if let Some(rate) = self.learning_rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
            let problem = format!("found {rate}, expected a number of more than 0");
            return Err(InvalidOption::new("learning_rate", problem));
        }
        // Two blocks with kernels of 3 steps take 8 of them.
        let temporal =
            self.arch == Architecture::Paper || self.guest.sub_model == Some(SubModelChoice::Stgcn);
        if let Some(window) = self.recipe.window.filter(|window| temporal && *window < 9) {
            let problem = format!(
                "found {window}, expected 9 or more with --arch paper or --sub-model stgcn"
            );
            return Err(InvalidOption::new("window", problem));
        }
        let without_labels = self.method.iter().find(|method| !method.takes_labels_besides());
        if let (Some(_), Some(method)) = (self.physics.label_share, without_labels) {
            let method = method.name();
            let problem = format!(
                "found {method}, expected tse-pi-p, oracle-pi, oracle-pi-v, oracle-pi-k or oracle-pi-hf: the others learn from all labels or none"
            );
            return Err(InvalidOption::new("label_share", problem));
        }
        Ok(())
    }

    /// The same where the host sees sums over two or more guests alone, unless an option says otherwise; with why it is as it is.
    fn protected(&self, custom: bool) -> (Self, String) {
        let mut protected = self.clone();
        let guests = match self.fleets.len() {
            0 => usize::from(self.federation.guests),
            fleets => fleets,
        };
        let otherwise = self.federation.says_otherwise().or(custom.then_some("sub-models"));
        let why = match (guests, otherwise) {
            (1, None) => "of one guest".to_owned(),
            (_, None) => {
                protected.federation.privacy.privacy = Some(Mode::Aggregate);
                format!("of {guests} guests, unless something else is asked for")
            }
            (_, Some(name)) => format!("as {} says", name.replace('_', "-")),
        };
        (protected, why)
    }

    /// Those that make a difference to a method.
    fn seeds(&self, method: Method) -> &[u64] {
        if method.is_neural() { &self.seed } else { &self.seed[..1] }
    }

    /// The targets asked for, or all that a method has.
    fn targets(&self, method: Method) -> Result<Vec<TargetKind>> {
        let kinds = [TargetKind::Raw, TargetKind::Smooth];
        if self.target.is_empty() {
            return Ok(kinds.into_iter().filter(|&kind| method.has_target(kind)).collect());
        }
        let targets = self.target.iter().map(|&kind| {
            method.check_target(kind)?;
            Ok(kind)
        });
        targets.collect()
    }
}

pub fn run(arguments: &TrainArguments, json: bool) -> Result<()> {
    let rows = make(arguments, &CustomSubModels::default())?;
    if json {
        println!("{}", json!(rows));
    } else {
        print(&rows, arguments.part);
    }
    Ok(())
}

/// Fits for each method, rate, target and seed, with custom sub-models: a row for each method, rate and target.
pub fn make(arguments: &TrainArguments, custom: &CustomSubModels) -> Result<Vec<Row>> {
    arguments.check()?;
    let (protected, why) = &arguments.protected(!custom.is_empty());
    let given = arguments;
    let mut methods = Vec::new();
    for &method in &arguments.method {
        methods.push((method, arguments.targets(method)?));
    }
    let rates = if arguments.fleets.is_empty() { arguments.rate.len() } else { 1 };
    let fits =
        methods.iter().map(|(method, targets)| arguments.seeds(*method).len() * targets.len());
    let count = rates * fits.sum::<usize>();
    if !custom.is_empty() && count > 1 {
        // A sub-model that someone else holds cannot begin anew.
        let problem = format!("found {count} trainings with custom sub-models, expected one");
        return Err(InvalidOption::new("method", problem).into());
    }
    let one_each = Folders::new(arguments, &methods, count)?;
    let mut rows: Vec<Row> = Vec::new();
    for (method, targets) in methods {
        let arguments = if method.is_federated() { protected } else { given };
        let task = task(arguments, method, TargetKind::Raw);
        if let Some(line) = what_the_host_sees(&task, why) {
            eprintln!("{line}");
        }
        let fleets: Vec<Vec<String>> = match arguments.fleets.is_empty() {
            true => arguments.rate.iter().map(|&rate| task.fleets(rate)).collect(),
            false => vec![task.parts_of(&arguments.fleets)],
        };
        for fleets in fleets {
            let fleets: Vec<&str> = fleets.iter().map(String::as_str).collect();
            let data = &arguments.data;
            let window = arguments.recipe.window();
            let study =
                make_parts(data, &fleets, || Study::open_fleets(data, &fleets)?.windowed(window))?;
            if let Some(warning) = unseen(&study) {
                eprintln!("warning: {warning}");
            }
            let rate_of = study.fleets().iter().map(FleetData::rate);
            // To a millionth of a percent, as rates are given.
            let rate = (rate_of.sum::<f64>() * 1e8).round() / 1e6;
            for &target in &targets {
                let mut fits = Vec::new();
                for &seed in arguments.seeds(method) {
                    let task = TrainOptions { seed, ..self::task(arguments, method, target) };
                    let out = one_each.of(&task, rate)?;
                    fits.push(fit(arguments, &task, custom, (&study, rate), out.as_ref())?);
                    if let Some(path) = &arguments.metrics {
                        metrics::write(path, rows.iter().chain(&fits))?;
                    }
                }
                rows.push(Row::of_seeds(fits)?);
            }
        }
    }
    Ok(rows)
}

/// Where each fit is kept.
struct Folders<'a> {
    out: Option<&'a Path>,
    /// Whether each has a folder of its own in it.
    several: bool,
}

/// A folder for one fit.
struct Folder {
    path: PathBuf,
    /// Whether what is there already is read instead of refused.
    read_again: bool,
}

impl<'a> Folders<'a> {
    /// Refuses before anything is fitted what cannot be kept.
    fn new(
        arguments: &'a TrainArguments,
        methods: &[(Method, Vec<TargetKind>)],
        count: usize,
    ) -> Result<Self> {
        let several = count > 1;
        let Some(out) = arguments.out.as_deref() else { return Ok(Self { out: None, several }) };
        if let Some((_, targets)) = methods.iter().find(|(_, targets)| targets.len() != 1) {
            let found = targets.len();
            let problem = format!("found {found} targets, expected one: --target raw or smooth");
            return Err(InvalidOption::new("out", problem).into());
        }
        if !several {
            // A federated run that is finished is read again: its parties know that they are.
            let federated = arguments.method.iter().all(|method| method.is_federated());
            let read_again = federated && out.join("host").exists();
            ensure!(
                read_again || !ModelFile::is_in(out),
                "{}: holds a model already, expected a new folder or an unfinished run",
                out.display()
            );
        }
        std::fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
        Ok(Self { out: Some(out), several })
    }

    fn of(&self, task: &TrainOptions, rate: f64) -> Result<Option<Folder>> {
        let Some(out) = self.out else { return Ok(None) };
        if !self.several {
            return Ok(Some(Folder { path: out.to_owned(), read_again: false }));
        }
        let target = format!("{:?}", task.target).to_lowercase();
        let name = format!("{}-{rate}-{target}-seed-{}", task.method.name(), task.seed);
        let path = out.join(name);
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Some(Folder { path, read_again: true }))
    }
}

impl Row {
    /// Of a fit that was kept earlier.
    fn again(task: &TrainOptions, rate: f64, part: Part, kept: MethodRun) -> Self {
        Self {
            method: task.method,
            architecture: task.method.is_neural().then_some(task.architecture),
            traffic_model: task.traffic_model(),
            rate,
            target: task.target,
            part,
            seeds: vec![task.seed],
            score: kept.score,
            deviation: None,
            best_epoch: kept.best_epoch,
            rounds: kept.rounds,
            bytes: task
                .method
                .is_federated()
                .then(|| kept.releases.iter().map(|released| released.bytes).sum()),
            left: BTreeMap::new(),
            models: Vec::new(),
            estimated_errors: None,
            history: Vec::new(),
            intervals: Vec::new(),
            runs: Vec::new(),
            losses: kept.history,
        }
    }

    /// Of one fit itself; of several, with other seeds, mean and standard deviation.
    fn of_seeds(mut fits: Vec<Row>) -> Result<Row> {
        let first = fits.first().context("no seeds")?.clone();
        if fits.len() == 1 {
            return Ok(first);
        }
        let scores: Vec<Score> = fits.iter().map(|fit| fit.score).collect();
        let (score, deviation) = spread(&scores);
        fits.iter_mut().for_each(|fit| fit.runs.clear());
        Ok(Row {
            seeds: fits.iter().flat_map(|fit| fit.seeds.iter().copied()).collect(),
            score,
            deviation,
            best_epoch: None,
            rounds: None,
            bytes: None,
            left: BTreeMap::new(),
            models: Vec::new(),
            estimated_errors: None,
            history: Vec::new(),
            intervals: Vec::new(),
            losses: Vec::new(),
            runs: fits,
            ..first
        })
    }
}

/// A fleet that is absent from more links than this share is worth a warning.
const MANY_UNSEEN: f64 = 0.25;

/// What is wrong with fleets that are hardly there, all of them together, in the training part.
fn unseen(study: &Study) -> Option<String> {
    let (first, span) = (study.fleets().first()?, study.train_span());
    let mut seen = vec![false; study.network().links().len()];
    for fleet in study.fleets() {
        seen.iter_mut().zip(fleet.links_seen_in(&span)).for_each(|(all, own)| *all |= own);
    }
    let name = part_of(first.name()).map_or(first.name(), |(fleet, ..)| fleet);
    let (links, found) = (seen.len(), seen.iter().filter(|seen| **seen).count());
    match found {
        0 => Some(format!(
            "{name}: found no vehicle in the training part: estimates come from loops and usual values alone"
        )),
        _ if (links - found) as f64 > MANY_UNSEEN * links as f64 => Some(format!(
            "{name}: found on {found} of {links} links in the training part: estimates of the others come from these, loops and usual values"
        )),
        _ => None,
    }
}

fn fit(
    arguments: &TrainArguments,
    task: &TrainOptions,
    custom: &CustomSubModels,
    (study, rate): (&Study, f64),
    out: Option<&Folder>,
) -> Result<Row> {
    let target = task.target;
    let windows = match arguments.part {
        Part::Validation => &study.split().validation,
        Part::Test => &study.split().test,
    };
    if let Some(Folder { path, read_again: true }) = out
        && let Some(kept) = kept_run::read_again(path, task, (study, rate), arguments.part)?
    {
        return Ok(Row::again(task, rate, arguments.part, kept));
    }
    let out = out.map(|folder| folder.path.as_path());
    let bar = match task.most_epochs() {
        Some(epochs) => progress::bar("training", epochs as u64),
        None => ProgressBar::hidden(),
    };
    let begun = Instant::now();
    let keep = (Watch::default(), out);
    let fitted = task.fit_with(study, windows, keep, custom, &bar)?;
    let score = score(study, target, windows, &fitted.estimates);
    let architecture = task.method.is_neural().then_some(task.architecture);
    let intervals = match out {
        Some(folder) if custom.is_empty() => {
            intervals::keep(folder, study, task, windows, &fitted)?
        }
        _ => Vec::new(),
    };
    if let Some(folder) = out.filter(|_| custom.is_empty()) {
        let history = fitted.training.as_ref().map_or(&[][..], |training| &training.history);
        if !history.is_empty() {
            curves::draw(&folder.join("curves.svg"), history)?;
        }
        let took = begun.elapsed();
        kept_run::keep(folder, task, (study, rate), (windows, arguments.part), &fitted, took)?;
    }
    let models = fitted.weights.iter().map(|one| (one.model, one.weights)).collect();
    let estimated_errors = fitted.estimated_errors.map(|errors| errors.rmse);
    let mut training = fitted.training;
    let left = training.as_mut().map(|training| std::mem::take(&mut training.left));
    let left = left.unwrap_or_default();
    let losses = training.as_ref().map_or_else(Vec::new, |training| training.history.clone());
    let history = training.as_ref().filter(|_| !custom.is_empty());
    let history = history.map_or_else(Vec::new, |training| training.history.clone());
    let row = Row {
        method: task.method,
        architecture,
        traffic_model: task.traffic_model(),
        rate,
        target,
        part: arguments.part,
        seeds: vec![task.seed],
        score,
        deviation: None,
        best_epoch: training.as_ref().and_then(|training| training.best_epoch),
        rounds: training.as_ref().and_then(|training| training.rounds),
        bytes: training.as_ref().and_then(|training| training.bytes),
        left,
        models,
        estimated_errors,
        history,
        intervals,
        runs: Vec::new(),
        losses,
    };
    if let Some(folder) = out.filter(|_| !row.losses.is_empty()) {
        metrics::write(&folder.join("metrics.csv"), [&row])?;
    }
    Ok(row)
}

/// Leaves intervals beside a model of a sum over guests, or none if nothing tells its errors.
pub fn keep_intervals_of_sum(
    folder: &Path,
    study: &Study,
    task: &TrainOptions,
    fitted: &Fitted,
) -> Result<()> {
    intervals::keep_of_sum(folder, study, task, fitted)
}

/// One line on what the host sees of the guests of a federated method.
fn what_the_host_sees(task: &TrainOptions, why: &str) -> Option<String> {
    let mode = task.mode()?;
    Some(format!("privacy: {} ({why}): the host sees {}", mode.name(), mode.shown()))
}

fn task(arguments: &TrainArguments, method: Method, target: TargetKind) -> TrainOptions {
    let mut federation = arguments.federation.clone();
    if !arguments.fleets.is_empty() {
        federation.guests = arguments.fleets.len() as u16;
    }
    TrainOptions {
        method,
        architecture: arguments.arch,
        target,
        seed: arguments.seed.first().copied().unwrap_or(1),
        epochs: arguments.epochs.map(|epochs| epochs as usize),
        learning_rate: arguments.learning_rate,
        recipe: arguments.recipe,
        guest: arguments.guest,
        federation,
        physics: arguments.physics,
    }
}

fn print(rows: &[Row], part: Part) {
    let part = match part {
        Part::Validation => "validation part (10 % of the time, before the last 20 %)",
        Part::Test => "test part (last 20 % of the time)",
    };
    println!("errors on the {part}, target links");
    let names = rows.iter().map(|row| row.method.name().len()).max().unwrap_or(0).max(6);
    let several = rows.iter().any(|row| row.deviation.is_some());
    // A number, or a mean and a standard deviation.
    let wide = if several { 14 } else { 9 };
    let both = 2 * wide + 1;
    println!(
        "{:<names$} {:>6} {:>7}   {:^both$}   {:^both$}",
        "method", "rate", "target", "density veh/km/lane", "flow veh/min/lane"
    );
    println!(
        "{:<names$} {:>6} {:>7}   {:>wide$} {:>wide$}   {:>wide$} {:>wide$}",
        "", "", "", "RMSE", "MAE", "RMSE", "MAE"
    );
    for row in rows {
        let cell = |number: fn(&Score) -> f64| match &row.deviation {
            Some(deviation) => format!("{:.2} ± {:.2}", number(&row.score), number(deviation)),
            None => format!("{:.2}", number(&row.score)),
        };
        let seeds = if several { format!("   {} seed(s)", row.seeds.len()) } else { String::new() };
        println!(
            "{:<names$} {:>5}% {:>7}   {:>wide$} {:>wide$}   {:>wide$} {:>wide$}{seeds}",
            row.method.name(),
            row.rate,
            format!("{:?}", row.target).to_lowercase(),
            cell(|score| score.density.rmse),
            cell(|score| score.density.mae),
            cell(|score| score.flow.rmse),
            cell(|score| score.flow.mae)
        );
    }
    for row in rows {
        if let (Some(rounds), Some(bytes)) = (row.rounds, row.bytes) {
            let megabytes = bytes as f64 / 1e6;
            println!("{:>5}%: {rounds} exchanges, {megabytes:.1} MB left the parties", row.rate);
        } else if let Some(bytes) = row.bytes {
            let megabytes = bytes as f64 / 1e6;
            println!("{:>5}%: {megabytes:.1} MB left the guests, once", row.rate);
        }
        for (model, weights) in &row.models {
            let [density, flow] = weights.map(|weight| 100.0 * weight);
            println!(
                "{:>5}%: {model}: weight {density:.0} % for density, {flow:.0} % for flow",
                row.rate
            );
        }
        if let Some(errors) = row.estimated_errors {
            let [density, flow] = errors.map(|rmse| {
                rmse.map_or_else(
                    || "not told from noise".to_owned(),
                    |rmse| format!("RMSE {rmse:.2}"),
                )
            });
            println!(
                "{:>5}%: without ground truth, a held-out part of the fleet tells: density {density}, flow {flow}",
                row.rate
            );
        }
        for one in &row.intervals {
            let [density, flow] = one.within.map(|share| 100.0 * share);
            println!(
                "{:>5}%: intervals of {} % hold {density:.1} % of densities (mean width {:.1}), {flow:.1} % of flows ({:.2})",
                row.rate, one.level, one.width[0], one.width[1]
            );
        }
    }
}
