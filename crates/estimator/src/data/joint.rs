//! The data of all parties in one place, as the host's and the guests' learners read them.

use std::ops::Range;
use std::sync::Arc;

use neural::{Fusion, Layer, Learner};
use traffic::{Network, Step, Window};

use crate::artifact::neural_estimator::NeuralError;
use crate::artifact::record::ModelRecord;
use crate::data::inputs::{GuestInputs, HostInputs};
use crate::data::window_source::WindowSource;

/// Windows that are estimated together outside training.
pub(crate) const BLOCK: usize = 512;

/// All that centralised training reads but the loss.
pub struct JointData {
    /// What the models assume.
    pub record: ModelRecord,
    /// The network.
    pub network: Arc<Network>,
    /// The host's inputs.
    pub host: Arc<dyn WindowSource>,
    /// The guests' inputs, in the order of the plan.
    pub guests: Vec<Arc<dyn WindowSource>>,
    /// Windows to learn from.
    pub train: Vec<Window>,
    /// Windows to validate by.
    pub validation: Vec<Window>,
    /// Consecutive steps that a traffic model ties together; 1 without one.
    pub segment: usize,
}

impl JointData {
    /// The joint model with weights of its parts: the host's part and head, then each guest's part in the order of
    /// the plan.
    pub(crate) fn assemble(&self, parts: &[&[f32]]) -> Result<Learner<Fusion>, NeuralError> {
        assemble(&self.network, &self.record, parts)
    }
}

/// See [`JointData::assemble`].
pub(crate) fn assemble(
    network: &Network,
    record: &ModelRecord,
    parts: &[&[f32]],
) -> Result<Learner<Fusion>, NeuralError> {
    let mut learner = new_learner(network, record)?;
    let blocks = record.shape.blocks(learner.model());
    let length = |ranges: &[Range<usize>]| ranges.iter().map(|r| r.len()).sum();
    let expected: Vec<usize> = blocks.iter().map(|ranges| length(ranges)).collect();
    let found: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    if found != expected {
        let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
        return Err(NeuralError::Mismatch { what: "weights of each party", found, expected });
    }
    learner.update(|parameters, _| {
        for (ranges, part) in blocks.into_iter().zip(parts) {
            let mut rest = *part;
            for range in ranges {
                let (own, after) = rest.split_at(range.len());
                parameters[range].copy_from_slice(own);
                rest = after;
            }
        }
    });
    Ok(learner)
}

/// A fleet's inputs without each of its folds, by the fold that is left out.
pub(crate) struct ViewInputs(pub Vec<GuestInputs>);

impl WindowSource for ViewInputs {
    fn row_len(&self) -> usize {
        self.0.first().map_or(0, GuestInputs::len)
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        self.0[window.view.held_out().unwrap_or(0)].write(window.last, to);
    }
}

/// The joint model of a record, with its first weights.
pub(crate) fn new_learner(
    network: &Network,
    record: &ModelRecord,
) -> Result<Learner<Fusion>, NeuralError> {
    Ok(record.shape.learner(network, record.plan.seed)?)
}

/// Writes the host's numbers, then each guest's: an input of the joint model.
pub(crate) fn write_all(host: &HostInputs, guests: &[GuestInputs], last: Step, to: &mut [f32]) {
    let (own, mut rest) = to.split_at_mut(host.len());
    host.write(last, own);
    for guest in guests {
        let (own, after) = rest.split_at_mut(guest.len());
        guest.write(last, own);
        rest = after;
    }
}

/// Runs a joint model over windows block by block, and hands each one's output on.
pub(crate) fn estimate_windows(
    learner: &Learner<Fusion>,
    windows: &[Step],
    write_input: impl Fn(Step, &mut [f32]),
    mut take: impl FnMut(&[f32]),
) {
    let (inputs, outputs) = (learner.model().input_len(), learner.model().output_len());
    let mut x = vec![0.0; BLOCK.min(windows.len()) * inputs];
    let mut y = vec![0.0; BLOCK.min(windows.len()) * outputs];
    for block in windows.chunks(BLOCK) {
        let (x, y) = (&mut x[..block.len() * inputs], &mut y[..block.len() * outputs]);
        for (&last, x) in block.iter().zip(x.chunks_exact_mut(inputs)) {
            write_input(last, x);
        }
        learner.infer(x, y);
        y.chunks_exact(outputs).for_each(&mut take);
    }
}
