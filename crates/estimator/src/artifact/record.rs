//! What a model assumes about its data, besides its weights. Data that do not fit are refused.

use serde::{Deserialize, Serialize};
use traffic::{LinkState, VehPerKmLane, VehPerMinLane};

use crate::artifact::neural_estimator::NeuralError;
use crate::data::scales::{GuestScales, HostScales, Scale};
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::GuestFeatures;
use crate::data::timeline::Timeline;
use crate::model::architecture::ModelShape;
use crate::model::plan::NeuralPlan;

/// Of a whole model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRecord {
    /// What was trained.
    pub plan: NeuralPlan,
    /// Sizes.
    pub shape: ModelShape,
    /// The host's data.
    pub host: HostRecord,
    /// The guests' data, in the order of the plan.
    pub guests: Vec<GuestRecord>,
}

/// The losses of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Its number, from 1.
    pub number: usize,
    /// Mean loss of its batches.
    pub train: f64,
    /// Loss of the validation part after it.
    pub validation: f64,
}

/// What all parties share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// Hash of the network.
    pub network_hash: String,
    /// Length of a step.
    pub step_s: f64,
    /// Steps of a window.
    pub window: usize,
}

/// Of the host's part and head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRecord {
    /// Network and steps.
    pub common: DataSpec,
    /// Names of the host's loops.
    pub loops: Vec<String>,
    /// Scales of the inputs.
    pub inputs: HostScales,
    /// Scales of density and flow of each link.
    pub outputs: Vec<[Scale; 2]>,
}

/// Of a guest's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestRecord {
    /// Network and steps.
    pub common: DataSpec,
    /// Names of the fleets of its dataset that are the guest's fleet together: one, or its folds.
    pub fleets: Vec<String>,
    /// Its penetration rate; 1 of a fleet that does not know it.
    pub rate: f64,
    /// What is made of it.
    pub features: GuestFeatures,
    /// Cells of a link and sub-steps of a step, where cells are seen.
    pub cells: Option<[usize; 2]>,
    /// Scales of the inputs.
    pub inputs: GuestScales,
}

impl DataSpec {
    /// Of some data.
    pub fn of(timeline: &Timeline) -> Self {
        Self {
            network_hash: timeline.network_hash().to_owned(),
            step_s: timeline.step().get(),
            window: timeline.window(),
        }
    }

    pub(crate) fn check(&self, timeline: &Timeline) -> Result<(), NeuralError> {
        let found = Self::of(timeline);
        same("network hash", &found.network_hash, &self.network_hash)?;
        same("length of a step, s", &found.step_s, &self.step_s)?;
        same("steps of a window", &found.window, &self.window)
    }
}

impl HostRecord {
    /// Refuses data that the host's part was not made for.
    pub fn check(&self, data: &LoopData) -> Result<(), NeuralError> {
        self.common.check(data.timeline())?;
        let named = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        same("loops", &named(&data.names()), &named(&self.loops))
    }

    /// A scaled output as states of all links. Negative traffic does not exist; what is not a number
    /// stays none.
    pub fn states(&self, estimate: &[f32]) -> impl Iterator<Item = LinkState> {
        estimate.chunks_exact(2).zip(&self.outputs).map(|(pair, [density, flow])| LinkState {
            density: VehPerKmLane::new(not_negative(density.undo(pair[0]))),
            flow: VehPerMinLane::new(not_negative(flow.undo(pair[1]))),
        })
    }
}

impl GuestRecord {
    /// Refuses data that the guest's part was not made for.
    pub fn check(&self, fleet: &FleetData) -> Result<(), NeuralError> {
        self.common.check(fleet.timeline())?;
        same("penetration rate", &fleet.rate(), &self.rate)?;
        let cells = self.cells.map(|_| fleet.timeline().cell_shape());
        same("cells and sub-steps", &Debugged(cells), &Debugged(self.cells))
    }
}

/// `f64::max` would make a road without vehicles of NaN.
pub(crate) fn not_negative(value: f64) -> f64 {
    if value.is_nan() { value } else { value.max(0.0) }
}

#[derive(PartialEq)]
struct Debugged(Option<[usize; 2]>);

impl std::fmt::Display for Debugged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

fn same<T: PartialEq + ToString>(
    what: &'static str,
    found: &T,
    expected: &T,
) -> Result<(), NeuralError> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (found.to_string(), expected.to_string());
    Err(NeuralError::Mismatch { what, found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_traffic_is_none_and_nan_is_not() {
        let scale = Scale { mean: 1.0, deviation: 2.0 };
        let record = HostRecord {
            common: DataSpec {
                network_hash: String::new(),
                step_s: 10.0,
                window: crate::data::study::WINDOW,
            },
            loops: Vec::new(),
            inputs: HostScales { loops: Vec::new() },
            outputs: vec![[scale; 2]; 2],
        };
        let states: Vec<LinkState> = record.states(&[-3.0, 0.5, f32::NAN, f32::NAN]).collect();
        assert_eq!((states[0].density.get(), states[0].flow.get()), (0.0, 2.0));
        assert!(states[1].density.get().is_nan() && states[1].flow.get().is_nan());
    }
}
