//! Centralised training: the learners of host and guests in one process, without messages.
//!
//! ```text
//! for each batch of the schedule:
//!   guests  embed: z^1 … z^K
//!   host    fuses, loss, ∂L/∂z^1 … ∂L/∂z^K, update
//!   guests  update
//! after an epoch: validation loss; the best weights are kept
//! ```
//!
//! The samples are those of `federation`'s [`SampleSchedule`]; with one local update per exchange, the weights are those of a
//! federation, bit for bit. Everything random is a hash of seed, epoch and step, so that a run depends neither on
//! threads nor on interruptions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use estimator::data::JointData;
use estimator::model::ModelError;
use estimator::{
    Embeddings, Epoch, HostModel, LayerSubModel, ModelShape, NeuralPlan, Recipe, SubModel,
    WindowSource, whole_batch,
};
use federation::{
    GuestModel, HostModel as _, ModelFailure, Order, Progress, SampleSchedule, Samples,
};
use protocol::message::Purpose;
use protocol::{LocalUpdates, Plan};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{Network, Step, Window};

use crate::learner::{
    GuestLearner, HostLearner, HostLoss, host_plan, optimiser_settings, update_rule,
};

/// Windows that are validated together.
const BLOCK: usize = 512;
/// What the bytes of a saved run begin with.
const FORMAT: &str = "fedtse-central-run/1";

/// Any source of a party's inputs.
type Inputs = Arc<dyn WindowSource>;

/// Why training failed.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The loss is not a number any more.
    #[error(
        "training diverged in epoch {epoch}, step {step}: the loss is {loss}; try a smaller learning rate"
    )]
    Diverged {
        /// The epoch.
        epoch: usize,
        /// The step of the whole run.
        step: u64,
        /// Its loss.
        loss: f64,
    },
    /// A model or the loss.
    #[error(transparent)]
    Model(#[from] ModelFailure),
    /// Too few windows for one segment.
    #[error("{part} part: found no segments of {segment} steps, expected at least one")]
    NoSegments {
        /// Which part.
        part: &'static str,
        /// Steps of a segment.
        segment: usize,
    },
    /// A saved run that is none.
    #[error("saved run: {0}")]
    Saved(String),
}

/// A host's and some guests' learners in one process.
pub struct Learners<H, G> {
    /// The host's.
    pub host: HostLearner<H>,
    /// The guests', by name.
    pub guests: Vec<(String, GuestLearner<LayerSubModel, G>)>,
}

/// What crossed between the parties in an exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The loss; none if there was nothing to learn from.
    pub loss: Option<f64>,
    /// From each guest, `[sample, number]`.
    pub embeddings: Vec<Vec<f32>>,
    /// To each guest, the same; none without a loss.
    pub gradients: Vec<(String, Vec<f32>)>,
}

impl<H: WindowSource, G: WindowSource> Learners<H, G> {
    /// With first weights. `guests`: their inputs, in the order of the shape; `recipe`: what the host has of its own.
    pub fn new(
        shape: &ModelShape,
        network: &Network,
        (host, guests): (H, Vec<G>),
        loss: HostLoss,
        (plan, recipe): (&Plan, &Recipe),
    ) -> Result<Self, ModelFailure> {
        let rule = update_rule(plan);
        let failed = |error: ModelError| ModelFailure(error.to_string());
        let model = HostModel::new(&shape.host, network, plan.seed, rule).map_err(failed)?;
        let host = HostLearner::new(model, host, loss, &host_plan(plan, recipe))?;
        let mut learners = Vec::new();
        for (guest, inputs) in shape.guests.iter().zip(guests) {
            let model = LayerSubModel::of(guest, network, plan.seed, rule).map_err(failed)?;
            learners.push((guest.name.clone(), GuestLearner::new(model, inputs, plan)?));
        }
        Ok(Self { host, guests: learners })
    }

    /// All updates of one exchange.
    pub fn exchange(&mut self, samples: &[Window]) -> Result<Exchange, ModelFailure> {
        let embeddings = self.embed(samples, GuestLearner::embed)?;
        let given = by_name(&self.guests, &embeddings);
        let Some(update) = self.host.learn_from(samples, &given, &BTreeMap::new())? else {
            self.guests.iter_mut().for_each(|(_, guest)| guest.skip_update());
            return Ok(Exchange { loss: None, embeddings, gradients: Vec::new() });
        };
        let gradients = update.gradients;
        for (name, guest) in &mut self.guests {
            match gradients.iter().find(|(own, _)| own == name) {
                Some((_, gradient)) if update.loss.is_finite() => guest.learn_from(gradient)?,
                _ => guest.skip_update(),
            }
        }
        Ok(Exchange { loss: Some(update.loss), embeddings, gradients })
    }

    /// Adds the validation losses of some samples to `total`, and gives the sum.
    pub(crate) fn validate(&mut self, samples: &[Window], total: f64) -> Result<f64, ModelFailure> {
        let embeddings = self.embed(samples, GuestLearner::validate)?;
        let given = by_name(&self.guests, &embeddings);
        self.host.validate(samples, &given, &BTreeMap::new(), total)
    }

    /// Estimates of some samples by the weights that are validated, in the model's own scale.
    pub(crate) fn infer(&mut self, samples: &[Window]) -> Result<Vec<f32>, ModelFailure> {
        let embeddings = self.embed(samples, GuestLearner::validate)?;
        let given = by_name(&self.guests, &embeddings);
        self.host.infer(samples, &given)
    }

    /// The weights that are validated are the best so far.
    pub(crate) fn keep_best(&mut self) {
        self.host.keep_best();
        self.guests.iter_mut().for_each(|(_, guest)| guest.keep_best());
    }

    /// The best weights: the host's, then each guest's.
    pub(crate) fn best(&self) -> Vec<&[f32]> {
        let guests = self.guests.iter().map(|(_, guest)| guest.sub_model().best());
        [self.host.host_model().best()].into_iter().chain(guests).collect()
    }

    fn embed(
        &mut self,
        samples: &[Window],
        embed: impl Fn(&mut GuestLearner<LayerSubModel, G>, &[Window]) -> Result<Vec<f32>, ModelFailure>,
    ) -> Result<Vec<Vec<f32>>, ModelFailure> {
        self.guests.iter_mut().map(|(_, guest)| embed(guest, samples)).collect()
    }
}

fn by_name<'a, G>(guests: &'a [(String, G)], embeddings: &'a [Vec<f32>]) -> Embeddings<'a> {
    let names = guests.iter().map(|(name, _)| name.as_str());
    names.zip(embeddings.iter().map(Vec::as_slice)).collect()
}

/// The plan of centralised training: one update per exchange, and nobody measures for others.
pub fn central_plan(
    plan: &NeuralPlan,
    (batch, segment): (usize, usize),
    exchanges_per_epoch: usize,
) -> Plan {
    Plan {
        seed: plan.seed,
        batch: batch as u32,
        epochs: plan.recipe.epochs as u32,
        exchanges: exchanges_per_epoch as u32,
        optimiser: optimiser_settings(&plan.recipe),
        local: LocalUpdates::default(),
        segment: segment as u32,
        measured: BTreeSet::new(),
        shares: None,
        sealing: None,
    }
}

/// How far a run has come.
pub(crate) enum Advanced {
    /// To the end of an epoch.
    Epoch(Epoch),
    /// To the moment that was given.
    Due,
    /// To its own end.
    Ended,
}

/// A centralised training run, between two exchanges.
pub struct CentralRun {
    parties: Learners<Inputs, Inputs>,
    schedule: SampleSchedule,
    /// Exchanges of an epoch.
    exchanges: usize,
}

/// The beginning of a saved run: one line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    fingerprint: String,
    progress: Progress,
    /// Bytes of the host's state, then of each guest's.
    lengths: Vec<usize>,
}

impl CentralRun {
    /// A run before its first epoch.
    pub fn new(data: &JointData, loss: HostLoss) -> Result<Self, EngineError> {
        let (plan, segment) = (&data.record.plan, data.segment.max(1));
        let batch = whole_batch(plan.recipe.batch.max(1), segment);
        let samples = Samples {
            train: data.train.clone(),
            validation: data.validation.clone(),
            estimate: Vec::new(),
        };
        let cut = samples.in_segments(segment);
        for (part, windows) in [("training", &cut.train), ("validation", &cut.validation)] {
            if windows.is_empty() {
                return Err(EngineError::NoSegments { part, segment });
            }
        }
        let shared = central_plan(plan, (batch, segment), cut.train.len().div_ceil(batch));
        let inputs = (Arc::clone(&data.host), data.guests.clone());
        let (shape, network) = (&data.record.shape, &*data.network);
        let parties = Learners::new(shape, network, inputs, loss, (&shared, &plan.recipe))?;
        let order = Order {
            seed: plan.seed,
            shuffle: plan.recipe.shuffle,
            segment,
            batch,
            block: BLOCK,
            epochs: shared.epochs,
            patience: plan.recipe.patience as u32,
        };
        let exchanges = shared.exchanges as usize;
        Ok(Self { parties, schedule: SampleSchedule::new(samples, order), exchanges })
    }

    /// The epochs so far.
    pub fn history(&self) -> Vec<Epoch> {
        self.schedule.history().iter().map(epoch).collect()
    }

    /// The epoch with the least validation loss so far.
    pub fn best_epoch(&self) -> Option<usize> {
        self.schedule.best().map(|best| best.number as usize)
    }

    /// Exchanges of an epoch.
    pub(crate) fn exchanges(&self) -> usize {
        self.exchanges
    }

    /// One pass over the training part, then the validation part; none if training has ended.
    pub fn epoch(&mut self) -> Result<Option<Epoch>, EngineError> {
        match self.advance(None)? {
            Advanced::Epoch(epoch) => Ok(Some(epoch)),
            Advanced::Due | Advanced::Ended => Ok(None),
        }
    }

    /// Goes on to the end of the epoch, or to the end of the exchange in which a moment passes.
    pub(crate) fn advance(&mut self, until: Option<Instant>) -> Result<Advanced, EngineError> {
        // On a thread of the pool: an exchange has some ten short parallel parts, and to begin each from outside
        // costs two changes of threads.
        rayon::scope(|_| self.pass(until))
    }

    fn pass(&mut self, until: Option<Instant>) -> Result<Advanced, EngineError> {
        let number = self.schedule.history().len() + 1;
        let mut begun = false;
        loop {
            if begun && until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Advanced::Due);
            }
            begun = true;
            let Some((purpose, samples)) = self.schedule.next() else {
                return Ok(Advanced::Ended);
            };
            let step = self.schedule.exchanges();
            let finite = |loss: f64| match loss.is_finite() {
                true => Ok(loss),
                false => Err(EngineError::Diverged { epoch: number, step, loss }),
            };
            if purpose == Purpose::Train {
                let loss = self.parties.exchange(samples)?.loss.map(finite).transpose()?;
                self.schedule.learned(loss);
                continue;
            }
            let total = self.schedule.validation_total();
            let total = finite(self.parties.validate(samples, total)?)?;
            let verdict = self.schedule.validated(total, false);
            if verdict.best {
                self.parties.keep_best();
            }
            if let Some(losses) = self.schedule.history().last().filter(|_| verdict.epoch) {
                return Ok(Advanced::Epoch(epoch(losses)));
            }
        }
    }

    /// Outputs for windows of the whole fleet by the weights that are validated, in the model's own scale.
    pub(crate) fn outputs(&mut self, windows: &[Step]) -> Result<Vec<f32>, EngineError> {
        let windows: Vec<Window> = windows.iter().map(|&last| Window::whole(last)).collect();
        let mut outputs = Vec::new();
        for block in windows.chunks(BLOCK) {
            outputs.extend(self.parties.infer(block)?);
        }
        Ok(outputs)
    }

    /// The best weights: the host's, then each guest's in the order of the plan.
    pub fn best(&self) -> Vec<&[f32]> {
        self.parties.best()
    }

    /// The run between two exchanges, as bytes; `fingerprint` says what it belongs to.
    pub fn save(&self, fingerprint: &str) -> Result<Vec<u8>, EngineError> {
        let mut states = vec![self.parties.host.save()?];
        for (_, guest) in &self.parties.guests {
            states.push(guest.save()?);
        }
        let header = Header {
            format: FORMAT.into(),
            fingerprint: fingerprint.into(),
            progress: self.schedule.progress().clone(),
            lengths: states.iter().map(Vec::len).collect(),
        };
        let header = serde_json::to_vec(&header).map_err(|e| EngineError::Saved(e.to_string()))?;
        Ok([&header[..], b"\n", &states.concat()].concat())
    }

    /// Goes to a run that was saved with the same data and settings.
    pub fn restore(&mut self, saved: &[u8], fingerprint: &str) -> Result<(), EngineError> {
        let wrong = |found: &str, expected: &str| {
            EngineError::Saved(format!("found {found}, expected {expected}"))
        };
        let end = saved.iter().position(|byte| *byte == b'\n');
        let (header, states) = saved.split_at(end.unwrap_or(saved.len()));
        let header: Header = serde_json::from_slice(header)
            .map_err(|_| wrong("other bytes", &format!("a run of format {FORMAT}")))?;
        if header.format != FORMAT {
            return Err(wrong(&header.format, FORMAT));
        }
        if header.fingerprint != fingerprint {
            let expected = "the same to continue; choose another folder or delete it";
            return Err(wrong("a training run on other data or with other settings", expected));
        }
        let mut rest = states.get(1..).unwrap_or_default();
        let mut parts = Vec::new();
        for length in &header.lengths {
            let split = rest.split_at_checked(*length);
            let (part, after) = split.ok_or_else(|| wrong("too few bytes", "whole states"))?;
            parts.push(part);
            rest = after;
        }
        let parties = 1 + self.parties.guests.len();
        if parts.len() != parties || !rest.is_empty() {
            let found = format!("{} states", parts.len());
            return Err(wrong(&found, &format!("those of {parties} parties")));
        }
        self.parties.host.restore(parts[0])?;
        for ((_, guest), part) in self.parties.guests.iter_mut().zip(&parts[1..]) {
            guest.restore(part)?;
        }
        self.schedule.restore(header.progress);
        Ok(())
    }
}

fn epoch(losses: &federation::EpochLosses) -> Epoch {
    let federation::EpochLosses { number, train, validation, .. } = *losses;
    Epoch { number: number as usize, train, validation }
}
