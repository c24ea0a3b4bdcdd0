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
//! Where a party may fail to answer, the input says so: [`flagged`](PartyDropout::flagged) takes
//! `[flag | z]`, and does not read `z` where the flag is 0.
//!
//! ```
//! use neural::{Learner, PartyDropout, Plan};
//! let layer = PartyDropout::new(0.2, 2, 0).flagged();
//! let mut learner = Learner::new(layer, 0, Plan::default());
//! learner.set_parameters(&[5.0, 6.0]).unwrap();
//! let mut y = [0.0; 6];
//! learner.infer(&[1.0, 1.0, 2.0, 0.0, 7.0, 8.0], &mut y); // the second did not answer
//! assert_eq!(y, [1.0, 2.0, 1.0, 5.0, 6.0, 0.0]);
//! ```

use crate::layer::{BackwardPass, DropoutRng, Layer, Memory, Pass};
use crate::layout::Layout;
use crate::random::{hash, unit};
use crate::vector;

/// The layer, see the [module](self).
#[derive(Clone, Debug)]
pub struct PartyDropout {
    probability: f32,
    width: usize,
    number: u64,
    /// Whether the input starts with a flag.
    flagged: bool,
    /// Whether the output ends with a flag.
    telling: bool,
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
        PartyDropout { probability, width, number, flagged: false, telling: true, layout }
    }

    /// The same for inputs `[flag | z]`: absent too where the flag is 0.
    pub fn flagged(mut self) -> Self {
        self.flagged = true;
        self
    }

    /// The same without a flag beside its output.
    pub fn silent(mut self) -> Self {
        self.telling = false;
        self
    }

    fn absent(&self, rng: Option<DropoutRng>, sample: usize, x: &[f32]) -> bool {
        let missing = self.flagged && x[0] == 0.0;
        missing || self.dropped(rng, sample)
    }

    fn dropped(&self, rng: Option<DropoutRng>, sample: usize) -> bool {
        rng.is_some_and(|rng| {
            let sample = rng.first_sample + sample as u64;
            // Apart from the dropout layers, which hash the same counters.
            let salt = 0x7061_7274_7900_0000 ^ self.number;
            unit(hash([rng.seed, rng.step, salt, sample])) < self.probability
        })
    }
}

impl Layer for PartyDropout {
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn input_len(&self) -> usize {
        usize::from(self.flagged) + self.width
    }
    fn output_len(&self) -> usize {
        self.width + usize::from(self.telling)
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        let samples = x.chunks_exact(self.input_len()).zip(y.chunks_exact_mut(self.output_len()));
        for (sample, (x, y)) in samples.enumerate() {
            let absent = self.absent(pass.rng, sample, x);
            let (z, flag) = y.split_at_mut(self.width);
            let given = if absent { pass.parameters } else { &x[usize::from(self.flagged)..] };
            z.copy_from_slice(given);
            flag.fill(if absent { 0.0 } else { 1.0 });
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, mut dx, gradient, .. } = work;
        let input = self.input_len();
        let samples = given.x.chunks_exact(input).zip(dy.chunks_exact(self.output_len()));
        for (sample, (x, dy)) in samples.enumerate() {
            let absent = self.absent(pass.rng, sample, x);
            let dy = &dy[..self.width];
            if absent {
                vector::add(gradient, dy);
            }
            if let Some(dx) = dx.as_deref_mut() {
                let dx = &mut dx[sample * input..(sample + 1) * input];
                dx.fill(0.0);
                if !absent {
                    dx[usize::from(self.flagged)..].copy_from_slice(dy);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{RNG, check_layer_by_sample, passes};

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        let layer = PartyDropout::new(0.5, 3, 1);
        let absent: Vec<bool> = (0..8).map(|sample| layer.dropped(Some(RNG), sample)).collect();
        assert!(absent.contains(&true) && absent.contains(&false), "{absent:?}");
        check_layer_by_sample(&layer, 8, 1, |w, sample, x| {
            let (z, flag) = if absent[sample] { (w, 0.0) } else { (x, 1.0) };
            [z, &[flag]].concat()
        });
        // The flags of a random input are not 0.
        check_layer_by_sample(&layer.clone().flagged().silent(), 8, 1, |w, sample, x| {
            if absent[sample] { w.to_vec() } else { x[1..].to_vec() }
        });
    }

    #[test]
    fn what_did_not_come_is_not_read_and_teaches_the_absent_vector() {
        let layer = PartyDropout::new(0.0, 2, 1).flagged();
        let nothing = [0.0, f32::NAN, f32::NAN];
        let (y, dx, gradient) = passes(&layer, 1, &[5.0, 6.0], &nothing, &[1.0, 2.0, 3.0]);
        assert_eq!(y, [5.0, 6.0, 0.0]);
        assert_eq!(dx, [0.0; 3]);
        assert_eq!(gradient, [1.0, 2.0]);
    }
}
