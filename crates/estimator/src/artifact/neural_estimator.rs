//! The neural estimator with all data in one place: what a federation is compared with.
//!
//! 1. [`NeuralPlan`](crate::NeuralPlan) says who sees what, which model and how it is trained.
//! 2. [`NeuralStudy`] holds a dataset as the model reads it, and the loss; crate `training` trains on it.
//! 3. [`NeuralEstimator`] is the result: a model with its weights and everything it assumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use neural::{Fusion, Layer, Learner};
use thiserror::Error;
use traffic::{LinkState, Network, Step, Window};

use crate::artifact::record::{DataSpec, GuestRecord, ModelRecord};
use crate::data::host_study::{HostStudy, HostTargets};
use crate::data::inputs::{GuestInputs, HostInputs, InputsError};
use crate::data::joint::{BLOCK, JointData, assemble, estimate_windows, write_all};
use crate::data::scales::GuestScales;
use crate::data::sources::{FleetData, LoopData};
use crate::data::study::{GuestFeatures, Study};
use crate::data::window_source::{WindowSource, gather_rows};
use crate::loss::objective::Labelled;
use crate::metrics::Estimates;
use crate::model::architecture::{GuestSlot, ModelShape};
use crate::model::host_model::HostModel;
use crate::model::model_error::ModelError;
use crate::model::party_block::UpdateRule;
use crate::model::plan::{GuestPlan, NeuralPlan};
use crate::model::read_out::ReadOut;
use crate::model::sub_model::{LayerSubModel, PassError, SubModel};

/// Why a model cannot be trained or used on some data.
#[derive(Debug, Error, PartialEq)]
pub enum NeuralError {
    /// The features.
    #[error(transparent)]
    Inputs(#[from] InputsError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Numbers that a part of the model cannot take.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A target is not a number.
    #[error("step {step}, link `{link}`: target: found a value that is not finite")]
    Target {
        /// The step.
        step: i64,
        /// The link.
        link: String,
    },
    /// Model and data do not belong together.
    #[error("the model does not fit the data: {what}: found {found}, expected {expected}")]
    Mismatch {
        /// Which property.
        what: &'static str,
        /// In the data.
        found: String,
        /// In the model.
        expected: String,
    },
}

/// A dataset as a model that learns from labels reads it.
pub struct NeuralStudy {
    host: Arc<HostStudy>,
    data: JointData,
}

impl NeuralStudy {
    /// Reads a study, with scales from its training part. Guests and fleets go together in their
    /// order; without guests, fleets are not looked at.
    pub fn new(study: &Study, plan: NeuralPlan) -> Result<Self, NeuralError> {
        let host = Arc::new(HostStudy::new(study, &plan)?);
        let (mut guests, mut shapes, mut records) = (Vec::new(), Vec::new(), Vec::new());
        check_fleets(&plan, study.fleets().len())?;
        for (guest, fleet) in plan.guests.iter().zip(study.fleets()) {
            let (inputs, record) = guest.read(fleet, &study.train_span())?;
            shapes.push(guest.shape(&inputs, plan.sizes));
            guests.push(Arc::new(inputs) as Arc<dyn WindowSource>);
            records.push(record);
        }
        let slots = shapes.iter().map(GuestSlot::of).collect();
        let shape = ModelShape { host: plan.host_shape(host.inputs(), slots), guests: shapes };
        let record = ModelRecord { shape, host: host.record().clone(), guests: records, plan };
        let whole = |steps: &[Step]| steps.iter().map(|&last| Window::whole(last)).collect();
        let data = JointData {
            record,
            network: study.timeline().shared_network(),
            host: Arc::clone(&host) as Arc<dyn WindowSource>,
            guests,
            train: whole(&host.split().train),
            validation: whole(&host.split().validation),
            segment: 1,
        };
        Ok(Self { host, data })
    }

    /// Inputs and windows.
    pub fn data(&self) -> &JointData {
        &self.data
    }

    /// The loss: squared errors against the host's labels.
    pub fn objective(&self) -> Labelled<HostTargets> {
        Labelled::new(HostTargets(Arc::clone(&self.host)), self.host.loss_weights().clone())
    }

    /// The estimator made of trained parts: the host's part and head, then each guest's part in the order of the plan.
    /// Its read-out is fitted on the training and the validation part.
    pub fn assemble(self, parts: &[&[f32]]) -> Result<NeuralEstimator, NeuralError> {
        let learner = self.data.assemble(parts)?;
        let mut whole = NeuralEstimator::new(self.data.record, learner);
        let (mut host, guests) = whole.parties(&self.data.network)?;
        let names: Vec<&str> = host.guests().map(|(name, _)| name).collect();
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        self.host.fit_read_out(&mut host, |steps| {
            let windows: Vec<Window> = steps.iter().map(|&last| Window::whole(last)).collect();
            let mut embedded = BTreeMap::new();
            for ((name, guest), inputs) in names.iter().zip(&guests).zip(&self.data.guests) {
                let mut x = Vec::new();
                gather_rows(inputs, &windows, &mut x);
                embedded.insert(name.clone(), embed(guest, &x, windows.len())?);
            }
            Ok(Some(embedded))
        })?;
        whole.read_out = host.read_out().cloned();
        Ok(whole)
    }
}

impl GuestPlan {
    /// A fleet as this guest's part reads it, with scales from the steps of the training part.
    pub fn read(
        &self,
        fleet: &FleetData,
        steps: &std::ops::RangeInclusive<Step>,
    ) -> Result<(GuestInputs, GuestRecord), NeuralError> {
        let scales = GuestScales::fit(fleet, self.features, steps)?;
        let arrangement = self.sub_model.arrangement();
        let inputs = GuestInputs::new(fleet, self.features, arrangement, &scales)?;
        let with_cells = self.features == GuestFeatures::TotalsAndCells;
        let record = GuestRecord {
            common: DataSpec::of(fleet.timeline()),
            fleets: vec![fleet.name().to_owned()],
            rate: fleet.rate(),
            features: self.features,
            cells: with_cells.then(|| fleet.timeline().cell_shape()),
            inputs: scales,
        };
        Ok((inputs, record))
    }
}

fn check_fleets(plan: &NeuralPlan, found: usize) -> Result<(), NeuralError> {
    let expected = plan.guests.len();
    if expected == 0 || found == expected {
        return Ok(());
    }
    let (found, expected) = (found.to_string(), expected.to_string());
    Err(NeuralError::Mismatch { what: "fleets", found, expected })
}

/// What a guest's part gives for some samples by its best weights.
fn embed(guest: &LayerSubModel, x: &[f32], samples: usize) -> Result<Vec<f32>, PassError> {
    let mut z = vec![0.0; samples * guest.output_len()];
    guest.infer_best(x, &mut z)?;
    Ok(z)
}

/// A trained model.
pub struct NeuralEstimator {
    record: ModelRecord,
    learner: Learner<Fusion>,
    read_out: Option<ReadOut>,
}

impl NeuralEstimator {
    pub(crate) fn new(record: ModelRecord, learner: Learner<Fusion>) -> Self {
        Self { record, learner, read_out: None }
    }

    /// Of parts that were trained apart: the host's part and head with its read-out, if there is one, then each guest's
    /// part in the order of the plan.
    pub fn of_parts(
        record: ModelRecord,
        network: &Network,
        parts: &[&[f32]],
        read_out: Option<&ReadOut>,
    ) -> Result<Self, NeuralError> {
        let learner = assemble(network, &record, parts)?;
        Ok(Self { record, learner, read_out: read_out.cloned() })
    }

    pub(crate) fn with_read_out(self, read_out: Option<ReadOut>) -> Self {
        Self { read_out, ..self }
    }

    /// What moves its estimates, if it has learned from labels.
    pub(crate) fn read_out(&self) -> Option<&ReadOut> {
        self.read_out.as_ref()
    }

    /// Each party's part with its weights and the read-out: the host's, then the guests' in the order of the plan.
    fn parties(&self, network: &Network) -> Result<(HostModel, Vec<LayerSubModel>), NeuralError> {
        let (shape, seed) = (&self.record.shape, self.record.plan.seed);
        let rule = UpdateRule::of(&self.record.plan.recipe);
        let weights = self.learner.parameters();
        let blocks = shape.blocks(self.learner.model()).into_iter();
        let mut parts = blocks.map(|ranges| -> Vec<f32> {
            ranges.into_iter().flat_map(|range| &weights[range]).copied().collect()
        });
        let mut host = HostModel::new(&shape.host, network, seed, rule)?;
        host.set_best(&parts.next().unwrap_or_default(), self.read_out.clone());
        let guests = shape.guests.iter().zip(parts).map(|(shape, part)| {
            let mut guest = LayerSubModel::of(shape, network, seed, rule)?;
            guest.set_best(&part);
            Ok(guest)
        });
        let guests = guests.collect::<Result<_, ModelError>>()?;
        Ok((host, guests))
    }

    /// What it assumes.
    pub fn record(&self) -> &ModelRecord {
        &self.record
    }

    /// Its model and weights.
    pub(crate) fn learner(&self) -> &Learner<Fusion> {
        &self.learner
    }

    /// Estimates all links of windows, given by their last steps: `[window][link]`. Needs no truth.
    pub fn estimate_all(
        &self,
        loops: &LoopData,
        fleets: &[FleetData],
        steps: &[Step],
    ) -> Result<Estimates, NeuralError> {
        self.prepare(loops, fleets)?.estimate(steps)
    }

    /// Reads the features of a dataset, to estimate its windows part by part.
    pub fn prepare(
        &self,
        loops: &LoopData,
        fleets: &[FleetData],
    ) -> Result<PreparedEstimator<'_>, NeuralError> {
        self.record.check(loops, fleets)?;
        let plan = &self.record.plan;
        let host = HostInputs::new(loops, plan.host_arrangement(), &self.record.host.inputs)?;
        let mut guests = Vec::new();
        for ((guest, record), fleet) in plan.guests.iter().zip(&self.record.guests).zip(fleets) {
            let arrangement = guest.sub_model.arrangement();
            guests.push(GuestInputs::new(fleet, guest.features, arrangement, &record.inputs)?);
        }
        // A network whose signals came or went has the same hash, but another clock.
        let found = host.len() + guests.iter().map(GuestInputs::len).sum::<usize>();
        let expected = self.learner.model().input_len();
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(NeuralError::Mismatch { what: "features of a window", found, expected });
        }
        let network = loops.timeline().network();
        let parties = self.read_out.as_ref().map(|_| self.parties(network)).transpose()?;
        Ok(PreparedEstimator { estimator: self, host, guests, parties })
    }

    /// Estimates the scored links of windows: `[window][target link]`.
    pub fn estimate(&self, study: &Study, steps: &[Step]) -> Result<Estimates, NeuralError> {
        let all = self.estimate_all(study.loops(), study.fleets(), steps)?;
        let of_window = |row: &[LinkState]| -> Estimates {
            study.targets().iter().map(|link| row[link.index()]).collect()
        };
        Ok(all.chunks(self.record.host.outputs.len()).flat_map(of_window).collect())
    }
}

/// A trained model with the features of a dataset.
pub struct PreparedEstimator<'a> {
    estimator: &'a NeuralEstimator,
    host: HostInputs,
    guests: Vec<GuestInputs>,
    /// Where there is a read-out, which looks at what guests give.
    parties: Option<(HostModel, Vec<LayerSubModel>)>,
}

impl PreparedEstimator<'_> {
    /// Estimates all links of windows, given by their last steps: `[window][link]`.
    pub fn estimate(&self, steps: &[Step]) -> Result<Estimates, NeuralError> {
        let host = &self.estimator.record.host;
        let mut states = Vec::with_capacity(steps.len() * host.outputs.len());
        if let Some((model, guests)) = &self.parties {
            for windows in steps.chunks(BLOCK) {
                let gather = |each: usize, write: &dyn Fn(Step, &mut [f32])| {
                    let mut x = vec![0.0; windows.len() * each];
                    for (&step, x) in windows.iter().zip(x.chunks_exact_mut(each.max(1))) {
                        write(step, x);
                    }
                    x
                };
                let mut embedded = Vec::new();
                for (guest, inputs) in guests.iter().zip(&self.guests) {
                    let x = gather(inputs.len(), &|step, to| inputs.write(step, to));
                    embedded.push(embed(guest, &x, windows.len())?);
                }
                let names = model.guests().map(|(name, _)| name);
                let given = names.zip(embedded.iter().map(Vec::as_slice)).collect();
                let x = gather(self.host.len(), &|step, to| self.host.write(step, to));
                let mut y = vec![0.0; windows.len() * model.output_len()];
                model.infer_best(&x, &given, &mut y)?;
                y.chunks_exact(model.output_len()).for_each(|row| states.extend(host.states(row)));
            }
            return Ok(states);
        }
        estimate_windows(
            &self.estimator.learner,
            steps,
            |last, x| write_all(&self.host, &self.guests, last, x),
            |estimate| states.extend(host.states(estimate)),
        );
        Ok(states)
    }
}

impl ModelRecord {
    /// Refuses data that the model was not made for.
    pub(crate) fn check(&self, loops: &LoopData, fleets: &[FleetData]) -> Result<(), NeuralError> {
        self.host.check(loops)?;
        check_fleets(&self.plan, fleets.len())?;
        self.guests.iter().zip(fleets).try_for_each(|(record, fleet)| record.check(fleet))
    }
}
