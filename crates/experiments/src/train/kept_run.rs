//! What a training came to, beside its model, for `fedtse report`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use estimator::artifact::ModelFile;
use estimator::{Intervals, SavedEstimator, Study, score};
use sensing::Features;
use traffic::{LinkState, Step};

use crate::run_record::{Data, Estimated, MethodRun, Part, RUN_FILE, RunRecord, Shown, TimeSpace};
use training::{Fitted, Method, TrainOptions};

/// Writes `run.json` into the model's folder.
pub(super) fn keep(
    folder: &Path,
    task: &TrainOptions,
    (study, rate): (&Study, f64),
    (windows, part): (&[Step], Part),
    fitted: &Fitted,
    took: Duration,
) -> Result<()> {
    let label = task.method.name();
    let data = Data::of(study, rate, guests(task))?;
    let command = format!("fedtse train --method {label} --rate {rate} --seed {}", task.seed);
    let mut record = RunRecord::new("Training", command, data)?;
    let mut run = MethodRun::new(label, task, took);
    run.score = score(study, task.target, windows, &fitted.estimates);
    if let Some(training) = &fitted.training {
        run.trained(training);
    }
    record.methods.push(run);
    record.methods.extend(baseline(task, study, windows)?);
    record.part = part;
    let states: &[LinkState] = &fitted.estimates;
    let intervals = Intervals::load(folder, study.network().links().len()).ok();
    let places = || study.targets().iter().map(|link| link.index()).collect();
    let intervals = intervals.as_ref().map(|intervals| (intervals, places()));
    let shown = [Shown { label, states, intervals }];
    record.estimated = Some(Estimated::new(study, task.target, windows, &shown)?);
    if let (Some(&first), Some(&last)) = (windows.first(), windows.last()) {
        let stored = Features::open(study.folder(), study.network())?;
        record.time_space = TimeSpace::new(study.network(), &stored, &stored.all()?, (first, last));
    }
    record.write(folder)
}

/// What every estimator must beat, on the same windows: the totals of its fleets over their penetration rate.
fn baseline(task: &TrainOptions, study: &Study, windows: &[Step]) -> Result<Option<MethodRun>> {
    if task.method == Method::ScaleUp {
        return Ok(None);
    }
    let begun = Instant::now();
    let asked = study.asked(task.target, windows);
    let (estimates, _) = SavedEstimator::ScaleUp.estimate(&study.observed(), &[], &asked)?;
    let task = TrainOptions { method: Method::ScaleUp, ..task.clone() };
    let mut run = MethodRun::new("scale-up", &task, begun.elapsed());
    run.score = score(study, task.target, windows, &estimates);
    Ok(Some(run))
}

/// What a fit that is kept in a folder came to, if it is this one and finished.
pub(super) fn read_again(
    folder: &Path,
    task: &TrainOptions,
    (study, rate): (&Study, f64),
    part: Part,
) -> Result<Option<MethodRun>> {
    if !(folder.join(RUN_FILE).exists() && ModelFile::is_in(folder)) {
        return Ok(None);
    }
    let record = RunRecord::read(folder)?;
    let run = record.methods.into_iter().next();
    let same = record.part == part
        && record.data == Data::of(study, rate, guests(task))?
        && run.as_ref().is_some_and(|run| {
            (run.fingerprint.as_ref(), run.seed) == (Some(&task.fingerprint()), Some(task.seed))
        });
    ensure!(
        same,
        "{}: found a model of other data or options, expected an empty folder or the same run; choose another --out",
        folder.display()
    );
    Ok(run)
}

fn guests(task: &TrainOptions) -> u16 {
    if task.method.is_federated() { task.federation.guests } else { 1 }
}
