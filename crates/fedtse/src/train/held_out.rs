//! Training without ground truth, all data in one place.

use anyhow::Result;
use estimator::{Examples, HeldOutStudy, NeuralPlan, Penetration, Study};
use indicatif::ProgressBar;
use traffic::Step;

use super::fit::{Fitted, Training};

/// Trains on the folds of a fleet and estimates some windows. Of the study, loops, fleets and the
/// borders of its parts are used; the truth in it is for whoever scores the estimates.
pub fn train(
    study: &Study,
    plan: NeuralPlan,
    penetrates: Penetration,
    windows: &[Step],
    bar: &ProgressBar,
) -> Result<Fitted> {
    let (loops, folds) = (study.loops(), study.fleets());
    let batch = plan.recipe.batch;
    let data = HeldOutStudy::new(loops, folds, study.split(), plan, penetrates)?;
    let mut trainer = data.trainer()?;
    while !trainer.is_done() {
        let epoch = trainer.epoch(&data)?;
        progress::go_on()?;
        progress::after_epoch(bar, epoch.number, epoch.train, epoch.validation);
    }
    bar.finish_and_clear();
    let training = Training::central(
        trainer.history().to_vec(),
        trainer.best_epoch().map(|epoch| epoch.number),
        data.train().len().div_ceil(batch),
    );
    let estimates = data.finish(trainer).estimate(loops, folds, windows)?;
    Ok(Fitted { estimates, by_epoch: Vec::new(), absent: Vec::new(), training: Some(training) })
}
