//! Many gradients of one batch: one for each direction of the outputs of each sample.
//!
//! ```text
//! for sample s and direction v of its outputs:   v·∂y_s/∂θ   and   v·∂y_s/∂x_s
//! ```
//!
//! [`Learner::backward`] gives their sum over all samples. Apart they are what a gradient is made of that is
//! linear in numbers which are elsewhere: one column of coefficients for each of these numbers.

use rayon::prelude::*;

use super::Learner;
use super::work::Work;
use crate::layer::{DropoutRng, Layer, Pass};

/// The gradients, see the text at the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PulledBack {
    /// `[sample, direction, parameter]`.
    pub parameters: Vec<f32>,
    /// `[sample, direction, input]`.
    pub inputs: Vec<f32>,
}

impl<L: Layer> Learner<L> {
    /// Gradients of `directions` directions of each sample of a batch. `direction` writes the one with a number of
    /// a sample into zeros. Dropout is that of the same batch in [`forward`](Self::forward).
    ///
    /// # Panics
    /// If `x` is not a whole number of samples.
    pub fn pull_back(
        &self,
        x: &[f32],
        rng: Option<DropoutRng>,
        directions: usize,
        direction: impl Fn(usize, usize, &mut [f32]) + Sync,
    ) -> PulledBack {
        let (samples, input) = (self.samples(x), self.model.input_len());
        let each = self.layout.len();
        let mut pulled = PulledBack {
            parameters: vec![0.0; samples * directions * each],
            inputs: vec![0.0; samples * directions * input],
        };
        let parameters = pulled.parameters.par_chunks_mut((directions * each).max(1));
        let inputs = pulled.inputs.par_chunks_mut((directions * input).max(1));
        let make = || OneSample::new(&self.model);
        parameters.zip(inputs).zip(x.par_chunks(input)).enumerate().for_each_init(
            make,
            |one, (sample, ((gradients, inputs), x))| {
                let pass = self.pass(x, sample, rng);
                one.forward(&self.model, &pass, x);
                let rows = gradients.chunks_exact_mut(each).zip(inputs.chunks_exact_mut(input));
                for (number, (gradient, dx)) in rows.enumerate() {
                    let write = |dy: &mut [f32]| direction(sample, number, dy);
                    one.backward(&self.model, &pass, x, write, Some(dx), gradient);
                }
            },
        );
        pulled
    }
}

/// Working memory for gradients of one sample at a time, of models of one shape with any parameters.
pub struct OneSample {
    work: Work,
    /// Backward passes may overwrite what forward kept.
    kept: Vec<f32>,
}

impl OneSample {
    /// For this model.
    pub fn new(model: &impl Layer) -> Self {
        let work = Work::new(model, 1);
        Self { kept: work.saved.clone(), work }
    }

    /// Outputs of the model. The sample's gradients may follow, any number of them.
    ///
    /// # Panics
    /// If the pass is not of one sample.
    pub fn forward(&mut self, model: &impl Layer, pass: &Pass<'_>, x: &[f32]) -> &[f32] {
        assert_eq!(pass.samples, 1, "samples of a pass");
        self.work.forward(model, pass, x);
        self.kept.copy_from_slice(&self.work.saved);
        &self.work.y
    }

    /// Writes the gradients of one direction: of the input, if wanted, and of the parameters. `direction` writes into
    /// zeros. Model, pass and input are those of the last [`forward`](Self::forward).
    pub fn backward(
        &mut self,
        model: &impl Layer,
        pass: &Pass<'_>,
        x: &[f32],
        direction: impl FnOnce(&mut [f32]),
        dx: Option<&mut [f32]>,
        gradient: &mut [f32],
    ) {
        self.work.dy.fill(0.0);
        direction(&mut self.work.dy);
        self.work.saved.copy_from_slice(&self.kept);
        gradient.fill(0.0);
        self.work.backward(model, pass, x, dx, gradient);
        model.finish_gradient(gradient);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Activation, Chain, Dropout, DropoutRng, Learner, Linear, Plan};

    /// Summed with weights, they are the gradient of the same weights as one pass gives it.
    #[test]
    fn together_they_are_the_gradient() {
        let model = Chain::new()
            .then("first", Linear::new(1, 3, 5).then(Activation::Silu))
            .then("drop", Dropout::new(0.3, 5, 9))
            .then("second", Linear::new(1, 5, 2));
        let mut learner = Learner::new(model, 3, Plan { chunk: 2, lanes: 2 });
        let x: Vec<f32> = (0..15).map(|i| (i as f32 * 0.37).sin()).collect();
        let rng = Some(DropoutRng { seed: 4, step: 7, first_sample: 0 });
        let weight = |sample: usize, output: usize| 0.5 + sample as f32 - 0.8 * output as f32;
        let dy: Vec<f32> = (0..10).map(|i| weight(i / 2, i % 2)).collect();
        let (mut y, mut dx) = (vec![0.0; 10], vec![0.0; 15]);
        learner.forward(&x, &mut y, rng);
        learner.backward(&x, &dy, Some(&mut dx), rng);
        let pulled = learner.pull_back(&x, rng, 2, |_, number, dy| dy[number] = 1.0);
        let mut sum = vec![0.0; learner.parameters().len()];
        let mut dx_sum = [0.0; 15];
        for (i, (row, dx)) in
            pulled.parameters.chunks(sum.len()).zip(pulled.inputs.chunks(3)).enumerate()
        {
            let weight = weight(i / 2, i % 2);
            sum.iter_mut().zip(row).for_each(|(sum, g)| *sum += weight * g);
            let own = &mut dx_sum[i / 2 * 3..][..3];
            own.iter_mut().zip(dx).for_each(|(sum, g)| *sum += weight * g);
        }
        // Sums of ten numbers of about 1, in another order.
        for (found, expected) in sum.iter().zip(learner.gradient()).chain(dx_sum.iter().zip(&dx)) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
}
