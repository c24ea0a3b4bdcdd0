//! Intervals for an estimator that is kept: from the validation part, and measured on what is scored.
//!
//! Of an estimator that learned from ground truth they come from its errors there; of one that holds part of the fleet out,
//! from what the held-out part tells of them. An estimator that does neither has none.

use std::path::Path;

use anyhow::{Context, Result};
use estimator::artifact::{Coverage, IntervalsError, ModelFile};
use estimator::{Asked, Intervals, Observed, Study, TargetKind};
use traffic::{LinkId, LinkState, Step};
use training::{Fitted, TrainOptions};

/// Writes the intervals of a fitted estimator into its folder, and tells how often they hold the truth of some windows.
/// Of windows that the intervals come from nothing is told: there they hold as much as they are made to.
pub(super) fn keep(
    folder: &Path,
    study: &Study,
    task: &TrainOptions,
    windows: &[Step],
    fitted: &Fitted,
) -> Result<Vec<Coverage>> {
    let known = &study.split().validation;
    let made = match &fitted.known_errors {
        Some(errors) => Intervals::of_errors(errors),
        None if task.method.learns_from_truth() => from_truth(folder, study, task.target)?,
        None => return Ok(Vec::new()),
    };
    let intervals = match made {
        // The model is good without them.
        Err(error @ IntervalsError::TooFew { .. }) => {
            eprintln!("{error}; the model has none");
            return Ok(Vec::new());
        }
        intervals => intervals?,
    };
    intervals.save(folder)?;
    if windows.iter().any(|step| known.binary_search(step).is_ok()) {
        eprintln!(
            "intervals: made from the validation part; how often they hold, the test part tells"
        );
        return Ok(Vec::new());
    }
    let scored: Vec<usize> = study.targets().iter().map(|link| link.index()).collect();
    let truths = truths(study, task.target, windows, study.targets());
    Ok(Coverage::measure(&intervals, &scored, &fitted.estimates, &truths)?)
}

/// Writes those of an estimator that was fitted on a sum over guests: the study has the joined fleet, or its folds.
pub(super) fn keep_of_sum(
    folder: &Path,
    study: &Study,
    task: &TrainOptions,
    fitted: &Fitted,
) -> Result<()> {
    let made = match (&fitted.known_errors, &fitted.estimator) {
        (Some(errors), _) => Intervals::of_errors(errors),
        (None, Some(estimator)) if task.method.learns_from_truth() => {
            let windows = &study.split().validation;
            let links: Vec<LinkId> = study.network().link_ids().collect();
            let asked = Asked { target: task.target, links: &links, windows };
            let names = study.fleets().iter().map(|fleet| fleet.name().to_owned()).collect();
            let (estimates, _) = estimator.estimate(&study.observed(), &[names], &asked)?;
            let truths = truths(study, task.target, windows, &links);
            Intervals::calibrate(&estimates, &truths, links.len())
        }
        _ => return Ok(()),
    };
    match made {
        Err(error @ IntervalsError::TooFew { .. }) => eprintln!("{error}; the model has none"),
        intervals => intervals?.save(folder)?,
    }
    Ok(())
}

/// From errors on the validation part.
fn from_truth(
    folder: &Path,
    study: &Study,
    target: TargetKind,
) -> Result<Result<Intervals, IntervalsError>> {
    let windows = &study.split().validation;
    let links: Vec<LinkId> = study.network().link_ids().collect();
    let file = ModelFile::read(folder)?;
    let (fleets, fleet_names) = training::fleets_at_use(&file, study.fleets())?;
    let observed = Observed { fleets: &fleets, ..study.observed() };
    let named = || folder.display().to_string();
    let model = file.load(folder, &observed).with_context(named)?;
    let asked = Asked { target, links: &links, windows };
    let (estimates, _) = model.estimate(&observed, &fleet_names, &asked).with_context(named)?;
    let truths = truths(study, target, windows, &links);
    Ok(Intervals::calibrate(&estimates, &truths, links.len()))
}

fn truths(study: &Study, target: TargetKind, steps: &[Step], links: &[LinkId]) -> Vec<LinkState> {
    let of_step = |&step| links.iter().map(move |&link| study.target(target, step, link));
    steps.iter().flat_map(of_step).collect()
}
