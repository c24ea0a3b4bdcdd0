//! Every method estimates the same traffic and is scored on the last fifth of the time.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;
use estimator::artifact::IntervalsError;
use estimator::{Architecture, Intervals, Study, TargetKind, score};
use sensing::Features;
use traffic::{LinkState, Step};

use super::DemoArguments;
use crate::party::privacy::{Mode, PrivacyOptions};
use experiments::run_record::{Data, Estimated, MethodRun, RunRecord, Shown, TimeSpace, truths};
use experiments::train::{
    FederationOptions, GuestOptions, Method, PhysicsOptions, RecipeOptions, TrainOptions, Watch,
};

/// Of all vehicles, in percent, for both fleets together.
pub(super) const RATE: f64 = 40.0;
pub(super) const GUESTS: u16 = 2;
const TARGET: TargetKind = TargetKind::Raw;

/// A row of the table.
struct Compared {
    label: &'static str,
    method: Method,
    /// Guests protect their measurements as the user says.
    protected: bool,
    /// Its estimates are shown link by link; those of the first such with intervals.
    drawn: bool,
}

const fn compared(label: &'static str, method: Method) -> Compared {
    Compared { label, method, protected: false, drawn: false }
}

const METHODS: [Compared; 7] = [
    compared("no fusion (TSE-n)", Method::TseN),
    compared("scale-up", Method::ScaleUp),
    compared("ridge", Method::Ridge),
    compared("oracle", Method::Oracle),
    Compared { drawn: true, ..compared("FedTSE", Method::FedTse) },
    Compared { drawn: true, ..compared("FedTSE-PI, clear", Method::FedTsePi) },
    Compared { drawn: true, protected: true, ..compared("FedTSE-PI", Method::FedTsePi) },
];

/// Fits all to a dataset with features, and scores them.
pub(super) fn compare(folder: &Path, arguments: &DemoArguments) -> Result<RunRecord> {
    let together = study(folder, &task(&compared("", Method::Oracle), arguments))?;
    let split = together.split();
    let windows = [&split.validation[..], &split.test[..]].concat();
    let data = Data::of(&together, RATE, GUESTS)?;
    let mut record = RunRecord::new("Demo", command(arguments), data)?;
    let mut drawn = Vec::new();
    for compared in &METHODS {
        let (label, task) = (compared.label, task(compared, arguments));
        let study = study(folder, &task)?;
        let bar = match task.most_epochs() {
            Some(epochs) => progress::named(label, epochs as u64),
            None => indicatif::ProgressBar::hidden(),
        };
        let begun = Instant::now();
        let fitted = task.fit(&study, &windows, Watch::default(), None, &bar)?;
        let mut run = MethodRun::new(label, &task, begun.elapsed());
        let tested = &fitted.estimates[split.validation.len() * study.targets().len()..];
        run.score = score(&study, TARGET, &split.test, tested);
        if let Some(training) = &fitted.training {
            run.trained(training);
        }
        record.methods.push(run);
        if compared.drawn {
            drawn.push((label, fitted.estimates));
        }
    }
    let drawn: Vec<(&str, &[LinkState])> = drawn.iter().map(|(l, e)| (*l, &e[..])).collect();
    record.estimated = Some(estimated(&together, &drawn)?);
    if let (Some(&first), Some(&last)) = (split.test.first(), split.test.last()) {
        let stored = Features::open(folder, together.network())?;
        record.time_space =
            TimeSpace::new(together.network(), &stored, &stored.all()?, (first, last));
    }
    Ok(record)
}

/// Of the validation part, which tells intervals, and the test part, which is shown.
fn estimated(study: &Study, drawn: &[(&str, &[LinkState])]) -> Result<Estimated> {
    let (split, links) = (study.split(), study.targets().len());
    let known = split.validation.len() * links;
    let truths: Vec<LinkState> = truths(study, TARGET, &split.validation);
    let Some((_, surest)) = drawn.first() else { bail!("nothing to draw") };
    let intervals = match Intervals::calibrate(&surest[..known], &truths, links) {
        // A short demo has none.
        Err(IntervalsError::TooFew { .. }) => None,
        intervals => Some(intervals?),
    };
    let shown = drawn.iter().enumerate().map(|(place, (label, states))| Shown {
        label,
        states: &states[known..],
        intervals: intervals.as_ref().filter(|_| place == 0).map(|one| (one, (0..links).collect())),
    });
    let test: &[Step] = &split.test;
    Estimated::new(study, TARGET, test, &shown.collect::<Vec<_>>())
}

fn study(folder: &Path, task: &TrainOptions) -> Result<Study> {
    let fleets = task.fleets(RATE);
    let fleets: Vec<&str> = fleets.iter().map(String::as_str).collect();
    Ok(Study::open_fleets(folder, &fleets)?)
}

fn task(compared: &Compared, arguments: &DemoArguments) -> TrainOptions {
    let (mode, epochs) = match (compared.protected, compared.method) {
        (true, _) => (arguments.privacy, arguments.epochs_protected),
        (false, Method::FedTsePi) => (Mode::Clear, arguments.epochs_without_truth),
        _ => (Mode::Clear, arguments.epochs),
    };
    let mut privacy = PrivacyOptions::clear();
    privacy.privacy = Some(mode);
    TrainOptions {
        method: compared.method,
        architecture: Architecture::Link,
        target: TARGET,
        seed: arguments.seed,
        epochs: Some(epochs as usize),
        learning_rate: None,
        recipe: RecipeOptions::default(),
        guest: GuestOptions::default(),
        federation: FederationOptions { guests: GUESTS, privacy, ..FederationOptions::default() },
        physics: PhysicsOptions::default(),
    }
}

/// The command that gives the same numbers.
fn command(arguments: &DemoArguments) -> String {
    let DemoArguments { minutes, epochs, epochs_without_truth, epochs_protected, seed, .. } =
        arguments;
    let privacy = arguments.privacy.to_possible_value();
    let privacy = privacy.as_ref().map_or("clear", |value| value.get_name());
    format!(
        "fedtse demo --minutes {minutes} --epochs {epochs} --epochs-without-truth {epochs_without_truth} --privacy {privacy} --epochs-protected {epochs_protected} --seed {seed}"
    )
}
