//! Learning a traffic model's parameters together with the network that it trains.
//!
//! Free and wave speed, jam density and capacity of each link are the first values times `exp(x)`, with x
//! held within ±ln 1.5, so that they stay positive and usual; x moves by Adam. Shares of turns stay as
//! counted. A step that would make the model unstable is not taken.

use neural::{Adam, Checkpoint, CheckpointError, Decay, Optimiser};
use physics::TrafficModel;

/// ln 1.5: half as much again, or a third less.
const FURTHEST: f32 = 0.405;
/// Names within a checkpoint.
const MOVED: &str = "physics.moved";
const ADAM: &str = "physics.adam";

/// The state of learning a traffic model's diagrams: first values times `exp(x)`, x by Adam.
pub struct LearnedPhysics {
    first: Vec<f64>,
    /// How many of the parameters are diagrams: all before the shares.
    diagrams: usize,
    x: Vec<f32>,
    gradient: Vec<f32>,
    adam: Adam,
    rate: f32,
}

impl LearnedPhysics {
    /// From the parameters that a model of links has now.
    pub fn new(model: &dyn TrafficModel, rate: f32) -> Self {
        let diagrams = model.parameters().len() - model.graph().movements();
        Self {
            first: model.parameters().to_vec(),
            diagrams,
            x: vec![0.0; diagrams],
            gradient: vec![0.0; diagrams],
            adam: Adam::new(diagrams, Decay::None),
            rate,
        }
    }

    /// Keeps the gradient of a batch.
    pub(super) fn take(&mut self, gradient: &[f64]) {
        let values = self.first.iter().zip(&self.x).map(|(first, x)| first * f64::from(x.exp()));
        let moved = gradient.iter().zip(values);
        for (own, (gradient, value)) in self.gradient.iter_mut().zip(moved) {
            *own = (gradient * value) as f32;
        }
    }

    /// One step along it.
    pub(super) fn step(&mut self, model: &mut dyn TrafficModel) {
        let before = self.x.clone();
        self.adam.update(self.rate, &mut self.x, &self.gradient);
        self.x.iter_mut().for_each(|x| *x = x.clamp(-FURTHEST, FURTHEST));
        if model.set_parameters(self.values()).is_err() {
            self.x = before;
        }
    }

    pub(super) fn save(&self, to: &mut Checkpoint) {
        to.put(MOVED, &[self.diagrams], &self.x);
        to.put_optimiser(ADAM, &self.adam);
    }

    pub(super) fn restore(
        &mut self,
        from: &Checkpoint,
        model: &mut dyn TrafficModel,
    ) -> Result<(), CheckpointError> {
        let x = from.tensor(MOVED, &[self.diagrams])?.to_vec();
        from.restore_optimiser(ADAM, &mut self.adam)?;
        self.x = x;
        model.set_parameters(self.values()).map_err(|error| from.broken(&error))
    }

    /// The parameters as they have moved.
    fn values(&self) -> Vec<f64> {
        let mut values = self.first.clone();
        for (value, x) in values[..self.diagrams].iter_mut().zip(&self.x) {
            *value *= f64::from(x.exp());
        }
        values
    }
}
