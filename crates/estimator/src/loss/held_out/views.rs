//! A fleet in folds as its guest's part sees it: whole, or without one of them.

use std::ops::RangeInclusive;

use traffic::Step;

use super::error::HeldOutError;
use crate::artifact::neural_estimator::NeuralError;
use crate::artifact::record::GuestRecord;
use crate::data::inputs::GuestInputs;
use crate::data::sources::FleetData;
use crate::data::window_source::WindowSource;
use crate::model::plan::GuestPlan;
use traffic::Window;

/// A guest's inputs in every view, all in scale-up units of what is seen: with the fleet's nominal rate
/// and folds of the same size, none of it needs the share that loops would tell.
pub struct FoldedInputs {
    /// The whole fleet, then without each fold.
    views: Vec<GuestInputs>,
}

impl FoldedInputs {
    /// Of folds that hold the same steps, with scales of the whole fleet in the training part.
    pub fn new(
        folds: &[FleetData],
        plan: &GuestPlan,
        training: &RangeInclusive<Step>,
    ) -> Result<(Self, GuestRecord), HeldOutError> {
        let whole = whole_fleet(folds)?;
        let (inputs, mut record) = plan.read(&whole, training)?;
        record.fleets = folds.iter().map(|fold| fold.name().to_owned()).collect();
        let mut views = vec![inputs];
        for left_out in 0..folds.len() {
            let seen = without(folds, left_out).ok_or(HeldOutError::Folds(folds.len()))?;
            let arrangement = plan.sub_model.arrangement();
            let inputs = GuestInputs::new(&seen, plan.features, arrangement, &record.inputs);
            views.push(inputs.map_err(NeuralError::from)?);
        }
        Ok((Self { views }, record))
    }

    /// The whole fleet's inputs.
    pub fn whole(&self) -> &GuestInputs {
        &self.views[0]
    }

    /// Numbers of one sample.
    pub fn len(&self) -> usize {
        self.whole().len()
    }

    /// Whether a sample holds no numbers.
    pub fn is_empty(&self) -> bool {
        self.whole().is_empty()
    }

    /// Writes a sample.
    ///
    /// # Panics
    /// If there is no such view, or as [`GuestInputs::write`].
    pub fn write(&self, sample: Window, to: &mut [f32]) {
        self.views[usize::from(sample.view.0)].write(sample.last, to);
    }
}

impl WindowSource for FoldedInputs {
    fn row_len(&self) -> usize {
        self.len()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        self.write(window, to);
    }
}

/// All folds of a fleet as one, of the rate that they have together.
pub(super) fn whole_fleet(folds: &[FleetData]) -> Result<FleetData, HeldOutError> {
    if folds.len() < 2 {
        return Err(HeldOutError::Folds(folds.len()));
    }
    FleetData::union(folds).ok_or(HeldOutError::Folds(folds.len()))
}

/// All folds but one, of the rate that they have together if all are alike.
pub(super) fn without(folds: &[FleetData], left_out: usize) -> Option<FleetData> {
    let rest: Vec<&FleetData> =
        folds.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, fold)| fold).collect();
    let all: f64 = folds.iter().map(FleetData::rate).sum::<f64>().min(1.0);
    let rate = all * rest.len() as f64 / folds.len() as f64;
    FleetData::together(&rest, folds.get(left_out)?.name(), rate)
}
