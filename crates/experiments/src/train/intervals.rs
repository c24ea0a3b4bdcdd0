//! Intervals for a model that is kept: from the validation part, and measured on what is scored.

use std::path::Path;

use anyhow::Result;
use estimator::artifact::{Coverage, IntervalsError};
use estimator::{Intervals, NeuralEstimator, Study, TargetKind};
use traffic::{LinkId, LinkState, Step};

/// Writes the intervals of the model in a folder beside it, and tells how often they hold the truth of
/// some windows, given the model's estimates of the scored links. Of windows that the intervals come from nothing is
/// told: there they hold as much as they are made to.
pub(super) fn keep(
    folder: &Path,
    study: &Study,
    target: TargetKind,
    windows: &[Step],
    estimates: &[LinkState],
) -> Result<Vec<Coverage>> {
    let model = NeuralEstimator::load(folder, study.loops(), study.fleets())?;
    let known = &study.split().validation;
    let all: Vec<LinkId> = study.network().link_ids().collect();
    let of_known = model.estimate_all(study.loops(), study.fleets(), known)?;
    let truths = truths(study, target, known, &all);
    let intervals = match Intervals::calibrate(&of_known, &truths, all.len()) {
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
    let truths = self::truths(study, target, windows, study.targets());
    Ok(Coverage::measure(&intervals, &scored, estimates, &truths)?)
}

fn truths(study: &Study, target: TargetKind, steps: &[Step], links: &[LinkId]) -> Vec<LinkState> {
    let of_step = |&step| links.iter().map(move |&link| study.target(target, step, link));
    steps.iter().flat_map(of_step).collect()
}
