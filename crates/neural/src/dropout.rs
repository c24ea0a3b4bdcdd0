//! Dropout: in training each value is zero with probability p, else divided by 1 − p.
//!
//! What is dropped is a hash of the seed, the training step, the layer's number, the sample and
//! the place: the same for any chunk size and number of threads, and the same in backward, which
//! therefore needs no memory. Estimates drop nothing.
//!
//! ```
//! use neural::{Dropout, DropoutRng, Learner, Plan};
//! let mut layer = Learner::new(Dropout::new(0.5, 1, 0), 0, Plan::default());
//! let (x, mut y) = ([1.0; 1000], [0.0; 1000]);
//! layer.infer(&x, &mut y);
//! assert_eq!(y, x);
//! layer.forward(&x, &mut y, Some(DropoutRng { seed: 1, step: 0, first_sample: 0 }));
//! assert!(y.iter().all(|&y| y == 0.0 || y == 2.0));
//! // Mean 1, standard deviation 1/√1000 = 0.03.
//! assert!((y.iter().sum::<f32>() / 1000.0 - 1.0).abs() < 0.1);
//! ```

use crate::kernel::{Vectorised, vectorise};
use crate::layer::{BackwardPass, DropoutRng, Layer, Memory, Pass};
use crate::random::hash;

/// The layer, see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// A value is dropped if 16 bits of its hash are below this.
    threshold: u32,
    keep: f32,
    len: usize,
    number: u64,
}

impl Dropout {
    /// For samples of `len` values. `number` tells the dropout layers of a model apart.
    ///
    /// # Panics
    /// If the probability is not in [0, 1).
    pub fn new(probability: f32, len: usize, number: u64) -> Self {
        assert!((0.0..1.0).contains(&probability), "probability {probability} is not in [0, 1)");
        // Rounded to 16 bits; the scale follows the rounded value, so the mean is exact.
        let threshold = (probability * 65_536.0).round().min(65_535.0) as u32;
        Dropout { threshold, keep: 65_536.0 / (65_536 - threshold) as f32, len, number }
    }

    fn apply(&self, rng: DropoutRng, values: &mut [f32]) {
        for (sample, values) in values.chunks_exact_mut(self.len.max(1)).enumerate() {
            let sample = rng.first_sample + sample as u64;
            let key = hash([rng.seed, rng.step, self.number, sample]);
            vectorise(Mask { values, key, threshold: self.threshold, keep: self.keep });
        }
    }
}

/// Drops values of one sample.
struct Mask<'a> {
    values: &'a mut [f32],
    key: u64,
    threshold: u32,
    keep: f32,
}

impl Vectorised for Mask<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let (low, high) = (self.key as u32, (self.key >> 32) as u32);
        for (place, value) in self.values.iter_mut().enumerate() {
            // A 32-bit mixer of the place and both halves of the key: vectors have no fast 64-bit
            // multiplication.
            let bits = (place as u32).wrapping_mul(0x9e37_79b9) ^ low;
            let bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d) ^ high;
            let bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
            let bits = (bits ^ (bits >> 16)) & 0xffff;
            *value = if bits < self.threshold { 0.0 } else { *value * self.keep };
        }
    }
}

impl Layer for Dropout {
    fn input_len(&self) -> usize {
        self.len
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        y.copy_from_slice(x);
        if let Some(rng) = pass.rng {
            self.apply(rng, y);
        }
    }

    fn backward(&self, pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { dy, dx, .. } = work;
        let Some(dx) = dx else { return };
        dx.copy_from_slice(dy);
        if let Some(rng) = pass.rng {
            self.apply(rng, dx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{RNG, check_layer_by_sample};

    fn mask(layer: &Dropout, sample: usize) -> Vec<f64> {
        let mut ones = vec![1.0; layer.len];
        layer.apply(DropoutRng { first_sample: sample as u64, ..RNG }, &mut ones);
        ones.iter().map(|&value| f64::from(value)).collect()
    }

    #[test]
    fn values_and_gradients_have_the_same_mask_in_any_chunk() {
        let layer = Dropout::new(0.3, 13, 2);
        check_layer_by_sample(&layer, 3, 1, |_, sample, x| {
            x.iter().zip(mask(&layer, sample)).map(|(x, mask)| x * mask).collect()
        });
    }

    #[test]
    fn masks_differ_by_sample_layer_and_step_and_keep_the_mean() {
        let layer = Dropout::new(0.25, 10_000, 0);
        let first = mask(&layer, 0);
        let share = first.iter().filter(|&&value| value == 0.0).count() as f64 / 1e4;
        // Standard deviation √(0.25·0.75/10⁴) = 0.0043: four of them.
        assert!((share - 0.25).abs() < 0.018, "{share}");
        let of = |noise: DropoutRng| {
            let mut ones = vec![1.0; 10_000];
            layer.apply(noise, &mut ones);
            ones.into_iter().map(f64::from).collect::<Vec<f64>>()
        };
        for (what, other) in [
            ("sample", mask(&layer, 1)),
            ("layer", mask(&Dropout::new(0.25, 10_000, 1), 0)),
            ("step", of(DropoutRng { step: RNG.step + 1, ..RNG })),
            ("seed", of(DropoutRng { seed: RNG.seed + 1, ..RNG })),
        ] {
            let same = first.iter().zip(&other).filter(|(a, b)| a == b).count() as f64 / 1e4;
            // Independent masks agree where both drop or both keep: 0.25² + 0.75², deviation 0.0048; five of them.
            assert!((same - 0.625).abs() < 0.024, "{what}: {same}");
        }
    }

    #[test]
    fn what_is_kept_makes_up_for_what_is_dropped() {
        // 16 bits: a third is 21845/65536, and what is kept is divided by the rest of exactly that.
        let third = Dropout::new(1.0 / 3.0, 1, 0);
        assert_eq!(third.threshold, 21_845);
        assert_eq!(f64::from(third.keep), f64::from(65_536.0f32 / 43_691.0));
        let none = Dropout::new(0.0, 5, 0);
        assert_eq!(mask(&none, 0), [1.0; 5]);
        // A probability that rounds to one drops all but one in 65,536.
        let nearly = Dropout::new(1.0 - f32::EPSILON, 65_536 * 4, 0);
        assert_eq!((nearly.threshold, nearly.keep), (65_535, 65_536.0));
        let kept = mask(&nearly, 0).into_iter().filter(|&value| value > 0.0).count();
        // Four expected: more than 20 have a probability of 1e-9.
        assert!(kept <= 20, "{kept}");
    }

    #[test]
    #[should_panic(expected = "probability 1 is not in [0, 1)")]
    fn not_everything_can_be_dropped() {
        let _ = Dropout::new(1.0, 1, 0);
    }

    #[test]
    #[should_panic(expected = "probability NaN is not in [0, 1)")]
    fn a_probability_is_a_number() {
        let _ = Dropout::new(f32::NAN, 1, 0);
    }
}
