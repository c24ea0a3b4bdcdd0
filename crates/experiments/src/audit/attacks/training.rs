//! A host and a guest that train together in this process, with everything that crosses in the hands of the
//! attacks: the learners of a federation, one local update per exchange.

use std::sync::Arc;

use anyhow::{Context, Result};
use estimator::{
    Embeddings, GuestShape, GuestSlot, HostStudy, ModelShape, NeuralPlan, WindowSource,
    epoch_order, gather_rows, whole_batch,
};
use federation::GuestModel;
use neural::{Fusion, Learner, Plan};
use traffic::{Network, Step, Window};
use training::learner::HostLoss;
use training::{Exchange, Learners, central_plan};

/// The guest's name at the host.
pub(super) const GUEST: &str = "guest";

/// A guest's numbers, by window.
pub(super) type Features = Box<dyn Fn(Step, &mut [f32]) + Send + Sync>;

/// Host and guest in training.
pub(super) struct Parties<'a> {
    network: &'a Network,
    study: Arc<HostStudy>,
    learners: Learners<Arc<HostStudy>, FeatureRows>,
    shape: ModelShape,
    seed: u64,
}

/// A guest's features, of so many numbers.
struct FeatureRows(Features, usize);

impl WindowSource for FeatureRows {
    fn row_len(&self) -> usize {
        self.1
    }
    fn write_row(&self, window: Window, to: &mut [f32]) {
        (self.0)(window.last, to);
    }
}

impl<'a> Parties<'a> {
    /// With first weights; `features` has as many numbers as `inputs`, and the learning rates are those of so many
    /// rounds.
    pub(super) fn new(
        network: &'a Network,
        study: &Arc<HostStudy>,
        plan: &NeuralPlan,
        guest: &GuestShape,
        (features, inputs): (Features, usize),
        loss: HostLoss,
        rounds: usize,
    ) -> Result<Self> {
        let slots = vec![GuestSlot::of(guest)];
        let shape = ModelShape {
            host: plan.host_shape(study.inputs(), slots),
            guests: vec![guest.clone()],
        };
        let mut plan = plan.clone();
        plan.recipe.epochs = 1;
        let rows = (Arc::clone(study), vec![FeatureRows(features, inputs)]);
        let shared = central_plan(&plan, (plan.recipe.batch, 1), rounds.max(1));
        let learners = Learners::new(&shape, network, rows, loss, (&shared, &plan.recipe))?;
        Ok(Self { network, study: Arc::clone(study), learners, shape, seed: plan.seed })
    }

    /// Exchanges on shuffled batches of segments until so many were made.
    pub(super) fn train(
        &mut self,
        samples: &[Window],
        (batch, segment): (usize, usize),
        rounds: usize,
    ) -> Result<()> {
        let epochs = (1..).map(|epoch| epoch_order(samples, segment, self.seed, epoch));
        let batches: Vec<Vec<Window>> = epochs
            .flat_map(|order| {
                let batches = order.chunks(whole_batch(batch, segment)).map(<[Window]>::to_vec);
                batches.collect::<Vec<_>>()
            })
            .take(rounds)
            .collect();
        batches.iter().try_for_each(|batch| self.exchange(batch).map(|_| ()))
    }

    /// One exchange.
    pub(super) fn exchange(&mut self, samples: &[Window]) -> Result<Exchange> {
        Ok(self.learners.exchange(samples)?)
    }

    /// What the guest gives for some windows now, without dropout.
    pub(super) fn embeddings(&mut self, samples: &[Window]) -> Result<Vec<f32>> {
        let (_, guest) = self.learners.guests.first_mut().context("the guest")?;
        Ok(guest.validate(samples)?)
    }

    /// Estimates of some windows, in the model's own scale.
    pub(super) fn estimates(&mut self, samples: &[Window], embedding: &[f32]) -> Result<Vec<f32>> {
        Ok(self.learners.host.infer(samples, &Embeddings::from([(GUEST, embedding)]))?)
    }

    /// The host's model with its weights of now, to be differentiated by hand, and what it sees of some windows:
    /// its own numbers, a flag, the guest's.
    pub(super) fn host_view(
        &self,
        samples: &[Window],
        embedding: &[f32],
    ) -> Result<(Learner<Fusion>, Vec<f32>)> {
        let mut learner = Learner::new(self.shape.host.build(self.network)?, 0, Plan::default());
        learner.set_parameters(self.learners.host.host_model().parameters())?;
        let mut own = Vec::new();
        gather_rows(&self.study, samples, &mut own);
        let width = embedding.len() / samples.len().max(1);
        let rows = own.chunks_exact(self.study.row_len()).zip(embedding.chunks_exact(width.max(1)));
        let x = rows.flat_map(|(own, z)| [own, &[1.0], z].concat()).collect();
        Ok((learner, x))
    }
}
