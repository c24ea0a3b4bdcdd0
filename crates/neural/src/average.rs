//! Exponential moving average of weights: often a better model than the last weights.
//!
//! ```text
//! a ← d·a + (1 − d)·θ       d = min(decay, (1 + n)/(10 + n)) after n updates
//! ```
//!
//! The smaller decay at the start lets the average forget the first, random weights.
//!
//! ```
//! let mut average = neural::Average::new(&[0.0], 0.99);
//! average.update(&[1.0]); // d = 1/10
//! assert_eq!(average.weights(), [0.9]);
//! ```

use crate::vector;

/// The average, see the [module](self).
#[derive(Clone, Debug)]
pub struct Average {
    decay: f32,
    updates: u64,
    weights: Vec<f32>,
}

impl Average {
    /// Starts at some weights.
    pub fn new(weights: &[f32], decay: f32) -> Self {
        Average { decay, updates: 0, weights: weights.to_vec() }
    }

    /// Takes the weights of one more step into account.
    pub fn update(&mut self, weights: &[f32]) {
        let early = (1.0 + self.updates as f32) / (10.0 + self.updates as f32);
        let decay = self.decay.min(early);
        self.updates += 1;
        vector::map(&mut self.weights, Scale(decay));
        vector::add_scaled(&mut self.weights, 1.0 - decay, weights);
    }

    /// The average.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Number of updates, to be saved with the weights.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Continues from a saved average.
    pub fn restore(weights: &[f32], decay: f32, updates: u64) -> Self {
        Average { decay, updates, weights: weights.to_vec() }
    }
}

struct Scale(f32);

impl vector::Pointwise for Scale {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, x: f32) -> f32 {
        self.0 * x
    }
}
