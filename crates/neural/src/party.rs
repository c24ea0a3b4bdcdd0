//! Party dropout: a head learns to do without a party.
//!
//! In training a party's embedding is, with some probability and for the whole sample, replaced by
//! a learned *absent* vector; a flag (1 present, 0 absent) is put beside it. So a head that has
//! seen this knows what to do when a party does not answer, and never takes silence for zeros.
//!
//! ```text
//! y = [z | 1]  if present        y = [absent | 0]  if not         z: [sample, width]
//! ```
//!
//! ```
//! use neural::{Learner, PartyDropout, Plan};
//! let layer = PartyDropout::new(0.2, 2, 0);
//! let mut learner = Learner::new(layer.clone(), 0, Plan::default());
//! learner.set_parameters(&[5.0, 6.0]).unwrap();
//! let mut y = [0.0; 3];
//! learner.infer(&[1.0, 2.0], &mut y); // present, as in every estimate
//! assert_eq!(y, [1.0, 2.0, 1.0]);
//! layer.write_absent(learner.parameters(), &mut y); // it did not answer
//! assert_eq!(y, [5.0, 6.0, 0.0]);
//! ```

use crate::layer::{Given, Layer, Memory, Noise, Pass};
use crate::layout::Layout;
use crate::random::{hash, unit};
use crate::vector;

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct PartyDropout {
    probability: f32,
    width: usize,
    number: u64,
    layout: Layout,
}

impl PartyDropout {
    /// For embeddings of `width` values. `number` tells the parties of a model apart.
    ///
    /// # Panics
    /// If the probability is not in [0, 1].
    pub fn new(probability: f32, width: usize, number: u64) -> Self {
        assert!((0.0..=1.0).contains(&probability), "probability {probability} is not in [0, 1]");
        let mut layout = Layout::default();
        layout.add("absent", &[width]);
        PartyDropout { probability, width, number, layout }
    }

    /// What the head is given for a party that does not answer.
    ///
    /// # Panics
    /// If `y` has not room for the vector and its flag.
    pub fn write_absent(&self, parameters: &[f32], y: &mut [f32]) {
        y[..self.width].copy_from_slice(&parameters[..self.width]);
        y[self.width] = 0.0;
    }

    fn absent(&self, noise: Option<Noise>, sample: usize) -> bool {
        noise.is_some_and(|noise| {
            let sample = noise.first_sample + sample as u64;
            // Apart from the dropout layers, which hash the same counters.
            let salt = 0x7061_7274_7900_0000 ^ self.number;
            unit(hash([noise.seed, noise.step, salt, sample])) < self.probability
        })
    }
}

impl Layer for PartyDropout {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        self.width
    }
    fn output_len(&self) -> usize {
        self.width + 1
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        for (sample, y) in y.chunks_exact_mut(self.width + 1).enumerate() {
            if self.absent(pass.noise, sample) {
                self.write_absent(pass.parameters, y);
            } else {
                let z = &x[sample * self.width..(sample + 1) * self.width];
                y[..self.width].copy_from_slice(z);
                y[self.width] = 1.0;
            }
        }
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        _given: Given<'_>,
        dy: &mut [f32],
        mut dx: Option<&mut [f32]>,
        gradient: &mut [f32],
        _memory: Memory<'_>,
    ) {
        for (sample, dy) in dy.chunks_exact(self.width + 1).enumerate() {
            let absent = self.absent(pass.noise, sample);
            let dy = &dy[..self.width];
            if absent {
                vector::add(gradient, dy);
            }
            if let Some(dx) = dx.as_deref_mut() {
                let dz = &mut dx[sample * self.width..(sample + 1) * self.width];
                if absent { dz.fill(0.0) } else { dz.copy_from_slice(dy) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{NOISE, check_layer_by_sample};

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        let layer = PartyDropout::new(0.5, 3, 1);
        let absent: Vec<bool> = (0..8).map(|sample| layer.absent(Some(NOISE), sample)).collect();
        assert!(absent.contains(&true) && absent.contains(&false), "{absent:?}");
        check_layer_by_sample(&layer, 8, 1, |w, sample, x| {
            let (z, flag) = if absent[sample] { (w, 0.0) } else { (x, 1.0) };
            [z, &[flag]].concat()
        });
    }
}
