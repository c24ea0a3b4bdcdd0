//! The host's own data, ready for its part and head.

use std::collections::BTreeMap;
use std::sync::Arc;

use sensing::Split;
use traffic::Step;

use crate::artifact::neural_estimator::NeuralError;
use crate::artifact::record::{DataSpec, HostRecord};
use crate::baseline::Surroundings;
use crate::data::inputs::HostInputs;
use crate::data::scales::{HostScales, Scale};
use crate::data::sources::LoopData;
use crate::data::study::{Study, TargetKind, train_span};
use crate::data::timeline::Timeline;
use crate::data::window_source::WindowSource;
use crate::loss::objective::LossWeights;
use crate::model::host_model::{HostModel, KnownBlock};
use crate::model::plan::NeuralPlan;
use crate::model::sub_model::PassError;
use traffic::Window;

/// Scales of density and flow in streets with signals, where nobody has measured them: a quarter of
/// a jam of 7.5 m a vehicle, and what passes at half of capacity and a third of the time.
const USUAL: [Scale; 2] =
    [Scale { mean: 33.0, deviation: 33.0 }, Scale { mean: 5.0, deviation: 5.0 }];

/// Loops that a link's read-out looks at, the nearest ones.
const READ_OUT_LOOPS: usize = 4;
/// Windows that are embedded together for a read-out; a guest that is absent in one is absent in all of them.
const READ_OUT_BLOCK: usize = 128;

/// A dataset as the host's part and head read it: own inputs, targets and their weights.
pub struct HostStudy {
    timeline: Arc<Timeline>,
    record: HostRecord,
    inputs: HostInputs,
    split: Split,
    /// `[row, link, (density, flow)]`, scaled, for the windows of training and validation.
    targets: Vec<f32>,
    rows: Vec<Step>,
    weights: LossWeights,
}

impl HostStudy {
    /// Reads a study, with scales from its training part. Its fleets are not touched.
    pub fn new(study: &Study, plan: &NeuralPlan) -> Result<Self, NeuralError> {
        let scales = HostScales::fit(study.loops(), &study.train_span())?;
        let inputs = HostInputs::new(study.loops(), plan.host_arrangement(), &scales)?;
        let record = HostRecord {
            common: DataSpec::of(study.timeline()),
            loops: study.loops().names(),
            inputs: scales,
            outputs: output_scales(study, plan.target)?,
        };
        let windows = study.split().train.iter().chain(&study.split().validation);
        let rows: Vec<Step> = windows.copied().collect();
        let mut targets = Vec::with_capacity(rows.len() * 2 * record.outputs.len());
        for &step in &rows {
            for (link, scales) in study.network().link_ids().zip(&record.outputs) {
                let state = study.target(plan.target, step, link);
                let pair = [state.density.get(), state.flow.get()];
                targets.extend(pair.iter().zip(scales).map(|(value, scale)| scale.apply(*value)));
            }
        }
        let recipe = &plan.recipe;
        Ok(Self {
            timeline: Arc::clone(study.timeline()),
            inputs,
            split: study.split().clone(),
            targets,
            rows,
            weights: LossWeights::of(study.network(), recipe),
            record,
        })
    }

    /// Of loops alone, for training without ground truth: it holds no targets, and outputs have the
    /// scales that usual traffic has.
    pub fn without_truth(
        loops: &LoopData,
        split: &Split,
        plan: &NeuralPlan,
    ) -> Result<Self, NeuralError> {
        let scales = HostScales::fit(loops, &train_span(&split.train, loops.timeline().window()))?;
        let inputs = HostInputs::new(loops, plan.host_arrangement(), &scales)?;
        let network = loops.timeline().network();
        let recipe = &plan.recipe;
        Ok(Self {
            timeline: Arc::clone(loops.timeline()),
            record: HostRecord {
                common: DataSpec::of(loops.timeline()),
                loops: loops.names(),
                inputs: scales,
                outputs: vec![USUAL; network.links().len()],
            },
            inputs,
            split: split.clone(),
            targets: Vec::new(),
            rows: Vec::new(),
            weights: LossWeights::of(network, recipe),
        })
    }

    /// The steps held, and the network.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// What the host's part assumes.
    pub fn record(&self) -> &HostRecord {
        &self.record
    }

    /// The host's features.
    pub fn inputs(&self) -> &HostInputs {
        &self.inputs
    }

    /// Fits the read-out of a host's model, as far as a guest's embeddings of the windows are known. `embedded` gives
    /// what each guest gave for some windows of the training or validation part; none if one was absent.
    pub fn fit_read_out(
        &self,
        model: &mut HostModel,
        mut embedded: impl FnMut(&[Step]) -> Result<Option<BTreeMap<String, Vec<f32>>>, PassError>,
    ) -> Result<(), PassError> {
        let network = self.timeline.network();
        let nearest = |link| {
            let loops = Surroundings::of(network, link).loops.into_iter().take(READ_OUT_LOOPS);
            let places = |at: usize| self.inputs.places_of_loop(at, network.loops()[at].link);
            loops.flat_map(places).collect()
        };
        let own: Vec<Vec<usize>> = network.link_ids().map(nearest).collect();
        let mut blocks = [Vec::new(), Vec::new()];
        for (part, blocks) in
            [&self.split.train, &self.split.validation].into_iter().zip(&mut blocks)
        {
            for windows in part.chunks(READ_OUT_BLOCK) {
                blocks.extend(embedded(windows)?.map(|embeddings| (windows, embeddings)));
            }
        }
        let known = |(windows, embeddings): (&[Step], BTreeMap<String, Vec<f32>>)| {
            let mut x = vec![0.0; windows.len() * self.inputs.len()];
            let mut targets = vec![0.0; windows.len() * self.outputs()];
            for (at, &step) in windows.iter().enumerate() {
                self.inputs.write(step, &mut x[at * self.inputs.len()..][..self.inputs.len()]);
                self.write_target(step, &mut targets[at * self.outputs()..][..self.outputs()]);
            }
            Ok(KnownBlock { x, embeddings, targets })
        };
        let [train, validation] = blocks.map(|blocks| blocks.into_iter().map(known));
        model.fit_read_out(network, &own, train, validation)
    }

    /// The windows of each part, by their last step.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Numbers of a target: density and flow of each link.
    pub fn outputs(&self) -> usize {
        self.weights.training.len()
    }

    /// Writes the scaled target of a window of the training or validation part.
    ///
    /// # Panics
    /// If the window is in neither, or `to` has not [`outputs`](Self::outputs) numbers.
    pub(crate) fn write_target(&self, last: Step, to: &mut [f32]) {
        let row = self.rows.partition_point(|row| *row < last);
        assert_eq!(self.rows.get(row), Some(&last), "a window to learn from");
        to.copy_from_slice(&self.targets[row * self.outputs()..][..self.outputs()]);
    }

    /// Weights of the outputs in the training loss and in the validation loss, the latter of scored links alone.
    pub fn loss_weights(&self) -> &LossWeights {
        &self.weights
    }
}

/// The host's inputs.
impl WindowSource for HostStudy {
    fn row_len(&self) -> usize {
        self.inputs.len()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        self.inputs.write(window.last, to);
    }
}

/// The host's targets, as rows by window.
#[derive(Clone)]
pub struct HostTargets(pub Arc<HostStudy>);

impl WindowSource for HostTargets {
    fn row_len(&self) -> usize {
        self.0.outputs()
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        self.0.write_target(window.last, to);
    }
}

/// One scale for each quantity, pooled over links and repeated for each: a large error counts
/// alike wherever it is, as in the score.
fn output_scales(study: &Study, kind: TargetKind) -> Result<Vec<[Scale; 2]>, NeuralError> {
    let links = study.network().links().len();
    let mut states = Vec::with_capacity(links * study.split().train.len());
    for &step in study.split().train.iter().chain(&study.split().validation) {
        for link in study.network().link_ids() {
            let state = study.target(kind, step, link);
            if !(state.density.get() + state.flow.get()).is_finite() {
                let link = study.network().link(link).name.clone();
                return Err(NeuralError::Target { step: step.0, link });
            }
            states.push(state);
        }
    }
    states.truncate(links * study.split().train.len());
    let density = Scale::fit(states.iter().map(|state| state.density.get()));
    let flow = Scale::fit(states.iter().map(|state| state.flow.get()));
    Ok(vec![[density, flow]; links])
}
