//! What a training came to, beside its model, for `fedtse report`.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use estimator::{Intervals, Study, score};
use sensing::Features;
use traffic::{LinkState, Step};

use crate::run_record::{Data, Estimated, MethodRun, RunRecord, Shown, TimeSpace};
use training::{Fitted, TrainOptions};

/// Writes `run.json` into the model's folder.
pub(super) fn keep(
    folder: &Path,
    task: &TrainOptions,
    (study, rate): (&Study, f64),
    windows: &[Step],
    fitted: &Fitted,
    took: Duration,
) -> Result<()> {
    let label = task.method.name();
    let guests = if task.method.is_federated() { task.federation.guests } else { 1 };
    let data = Data::of(study, rate, guests)?;
    let command = format!("fedtse train --method {label} --rate {rate} --seed {}", task.seed);
    let mut record = RunRecord::new("Training", command, data)?;
    let mut run = MethodRun::new(label, task, took);
    run.score = score(study, task.target, windows, &fitted.estimates);
    if let Some(training) = &fitted.training {
        run.trained(training);
    }
    record.methods.push(run);
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
