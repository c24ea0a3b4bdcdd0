//! The course of training, as finished jobs tell it: errors on the test part after each epoch.

use std::collections::BTreeMap;

use estimator::{Architecture, Score, TargetKind};
use serde::Serialize;

use super::cells::Quantity;
use super::job::{Job, Record};
use super::plan::{Range, TablePlan};
use super::variant::Variant;

/// One row of a plan at one rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Curve {
    pub label: &'static str,
    pub estimator: String,
    pub architecture: Option<Architecture>,
    #[serde(skip_serializing_if = "Variant::is_usual")]
    pub variant: Variant,
    /// In percent.
    pub rate: u32,
    /// Rounds of an epoch.
    pub exchanges: usize,
    pub runs: Vec<TrainingCurve>,
}

/// One training.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TrainingCurve {
    pub demand_seed: u64,
    pub training_seed: Option<u64>,
    /// Of the weights that were kept.
    pub end: Score,
    /// RMSE on the test part after each epoch.
    pub density: Vec<f64>,
    pub flow: Vec<f64>,
    /// The same on the validation part.
    pub validation_density: Vec<f64>,
    pub validation_flow: Vec<f64>,
}

/// The rows of a plan that have at least one finished job.
pub(super) fn curves(
    plan: &TablePlan,
    range: &Range,
    target: TargetKind,
    records: &BTreeMap<String, Record>,
) -> Vec<Curve> {
    let mut curves = Vec::new();
    for column in &plan.columns {
        for row in &plan.rows {
            let found = row.jobs(column, target, range).filter_map(|job| records.get(&job.name()));
            let found: Vec<&Record> = found.collect();
            let Some(first) = found.first() else { continue };
            curves.push(Curve {
                label: row.label,
                estimator: row.estimator.name(),
                architecture: row.architecture,
                variant: first.job.variant,
                rate: column.rate,
                exchanges: first.exchanges.unwrap_or(1),
                runs: found.into_iter().map(TrainingCurve::of).collect(),
            });
        }
    }
    curves
}

impl TrainingCurve {
    fn of(record: &Record) -> Self {
        let numbers =
            |pick: fn(&super::job::Moment) -> f64| record.curve.iter().map(pick).collect();
        let Job { demand_seed, training_seed, .. } = record.job;
        Self {
            demand_seed,
            training_seed,
            end: record.score,
            density: numbers(|moment| moment.test.density.rmse),
            flow: numbers(|moment| moment.test.flow.rmse),
            validation_density: numbers(|moment| moment.validation.density.rmse),
            validation_flow: numbers(|moment| moment.validation.flow.rmse),
        }
    }

    pub(super) fn rmse(&self, quantity: Quantity) -> &[f64] {
        quantity.pick(&self.density, &self.flow)
    }

    /// RMSE of the weights that were kept.
    pub(super) fn end_rmse(&self, quantity: Quantity) -> f64 {
        quantity.pick(self.end.density.rmse, self.end.flow.rmse)
    }

    /// The first epoch after which the error is at most this.
    pub(super) fn epochs_to(&self, quantity: Quantity, target: f64) -> Option<usize> {
        self.rmse(quantity).iter().position(|&rmse| rmse <= target).map(|epoch| epoch + 1)
    }
}

impl Curve {
    /// Epoch and mean over trainings, for as long as all of them lasted.
    pub(super) fn mean(&self, quantity: Quantity) -> Vec<(usize, f64)> {
        let epochs = self.runs.iter().map(|run| run.rmse(quantity).len()).min();
        let mean = |epoch: usize| {
            let all = self.runs.iter().map(|run| run.rmse(quantity)[epoch]);
            (epoch + 1, all.sum::<f64>() / self.runs.len() as f64)
        };
        (0..epochs.unwrap_or(0)).map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training_curve(density: &[f64]) -> TrainingCurve {
        TrainingCurve {
            demand_seed: 1,
            training_seed: Some(1),
            end: Score::default(),
            density: density.to_vec(),
            flow: Vec::new(),
            validation_density: Vec::new(),
            validation_flow: Vec::new(),
        }
    }

    #[test]
    fn a_target_is_reached_at_the_first_epoch_below_it() {
        let run = training_curve(&[9.0, 5.0, 6.0, 4.0]);
        let reached = |target| run.epochs_to(Quantity::Density, target);
        assert_eq!([9.0, 5.5, 4.0].map(reached), [Some(1), Some(2), Some(4)]);
        assert_eq!(reached(3.9), None);
        assert_eq!(run.epochs_to(Quantity::Flow, 9.0), None);
    }

    #[test]
    fn means_last_as_long_as_all_trainings() {
        let curve = Curve {
            label: "",
            estimator: String::new(),
            architecture: None,
            variant: Variant::USUAL,
            rate: 20,
            exchanges: 27,
            runs: vec![training_curve(&[4.0, 2.0, 1.0]), training_curve(&[6.0, 3.0])],
        };
        assert_eq!(curve.mean(Quantity::Density), [(1, 5.0), (2, 2.5)]);
    }
}
