//! A host and a guest that train together in this process, with everything that crosses in the hands of the
//! attacks: the same models and updates as in a federation, one local update per exchange.

use anyhow::{Context, Result};
use estimator::{
    Embeddings, GuestShape, GuestSlot, HostBatch, HostModel, HostShape, HostStudy, LayerSubModel,
    MeasuredBatch, NeuralPlan, Objective, SubModel, UpdateRule, epoch_order, whole_batch,
};
use neural::{DropoutRng, Fusion, Learner, Plan, Schedule};
use traffic::{Network, Step, Window};

/// The guest's name at the host.
pub const GUEST: &str = "guest";

/// A guest's numbers, by window.
pub type Features<'a> = &'a dyn Fn(Step, &mut [f32]);

/// Host and guest in training.
pub struct Parties<'a> {
    network: &'a Network,
    study: &'a HostStudy,
    features: Features<'a>,
    host: HostModel,
    guest: LayerSubModel,
    shape: HostShape,
    schedule: Schedule,
    seed: u64,
    round: u64,
}

/// What crossed in an exchange.
pub struct Exchange {
    /// From the guest, `[sample, number]`.
    pub embedding: Vec<f32>,
    /// To the guest, the same.
    pub gradient: Vec<f32>,
}

impl<'a> Parties<'a> {
    /// With first weights.
    pub fn new(
        network: &'a Network,
        study: &'a HostStudy,
        plan: &NeuralPlan,
        guest: &GuestShape,
        features: Features<'a>,
        rounds: usize,
    ) -> Result<Self> {
        let rule = UpdateRule::of(&plan.recipe);
        let shape = plan.host_shape(study.inputs(), vec![GuestSlot::of(guest)]);
        let mut recipe = plan.recipe;
        recipe.epochs = 1;
        Ok(Self {
            network,
            study,
            features,
            host: HostModel::new(&shape, network, plan.seed, rule)?,
            guest: LayerSubModel::of(guest, network, plan.seed, rule)?,
            shape,
            schedule: recipe.schedule(rounds.max(1)),
            seed: plan.seed,
            round: 0,
        })
    }

    /// Exchanges on shuffled batches of segments until so many were made.
    pub fn train(
        &mut self,
        samples: &[Window],
        (batch, segment): (usize, usize),
        rounds: usize,
        learn: &mut dyn FnMut(&mut Self, &[Window]) -> Result<()>,
    ) -> Result<()> {
        let mut epoch = 0;
        let mut left = rounds;
        while left > 0 {
            epoch += 1;
            let order = epoch_order(samples, segment, self.seed, epoch);
            for batch in order.chunks(whole_batch(batch, segment)).take(left) {
                learn(self, batch)?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// One exchange.
    pub fn exchange(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        objective: &mut dyn Objective,
    ) -> Result<Exchange> {
        let noise = DropoutRng { seed: self.seed, step: self.round, first_sample: 0 };
        let (own, x) = (self.host_inputs(samples), self.guest_inputs(samples));
        let mut embedding = vec![0.0; samples.len() * self.guest.output_len()];
        self.guest.begin_round();
        self.guest.forward(&x, &mut embedding, noise)?;
        let embeddings = Embeddings::from([(GUEST, &embedding[..])]);
        let batch = HostBatch { samples, x: &own, embeddings: &embeddings, measured };
        self.host.begin_round();
        self.host.train(&batch, objective, noise)?;
        let gradient = self.host.gradient_of(GUEST).context("the guest took part")?.to_vec();
        let rate = self.schedule.rate(self.round);
        self.guest.backward(&x, &gradient, noise)?;
        self.guest.update(rate);
        self.host.update(rate);
        self.round += 1;
        Ok(Exchange { embedding, gradient })
    }

    /// What the guest gives for some windows now, without dropout.
    pub fn embeddings(&self, samples: &[Window]) -> Result<Vec<f32>> {
        let mut embedding = vec![0.0; samples.len() * self.guest.output_len()];
        self.guest.infer(&self.guest_inputs(samples), &mut embedding)?;
        Ok(embedding)
    }

    /// Estimates of some windows, in the model's own scale.
    pub fn estimates(&self, samples: &[Window], embedding: &[f32]) -> Result<Vec<f32>> {
        let mut y = vec![0.0; samples.len() * self.host.output_len()];
        let embeddings = Embeddings::from([(GUEST, embedding)]);
        self.host.infer(&self.host_inputs(samples), &embeddings, &mut y)?;
        Ok(y)
    }

    /// The host's model with its weights of now, to be differentiated by hand, and what it sees of some windows:
    /// its own numbers, a flag, the guest's.
    pub fn host_view(
        &self,
        samples: &[Window],
        embedding: &[f32],
    ) -> Result<(Learner<Fusion>, Vec<f32>)> {
        let mut learner = Learner::new(self.shape.build(self.network)?, 0, Plan::default());
        learner.set_parameters(self.host.parameters())?;
        let own = self.host_inputs(samples);
        let width = self.guest.output_len();
        let rows = own.chunks_exact(self.study.inputs().len()).zip(embedding.chunks_exact(width));
        let x = rows.flat_map(|(own, z)| [own, &[1.0], z].concat()).collect();
        Ok((learner, x))
    }

    fn host_inputs(&self, samples: &[Window]) -> Vec<f32> {
        let inputs = self.study.inputs();
        written(samples, inputs.len(), &|step, to: &mut [f32]| inputs.write(step, to))
    }

    fn guest_inputs(&self, samples: &[Window]) -> Vec<f32> {
        written(samples, self.guest.input_len(), self.features)
    }
}

/// The inputs of some windows, one after the other.
pub fn written(samples: &[Window], each: usize, write: Features<'_>) -> Vec<f32> {
    let mut x = vec![0.0; samples.len() * each];
    for (sample, to) in samples.iter().zip(x.chunks_exact_mut(each.max(1))) {
        write(sample.last, to);
    }
    x
}
