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

#[cfg(test)]
mod tests {
    use super::*;

    /// From 0 towards 1, what is missing is Π (1 + i)/(10 + i) = n!·9!/(n + 9)!, as long as the decay is not reached.
    #[test]
    fn the_start_is_forgotten_by_its_closed_form() {
        let mut average = Average::new(&[0.0], 0.99);
        let mut missing = 1.0f64;
        for n in 0..20u32 {
            assert_eq!(average.updates(), u64::from(n));
            average.update(&[1.0]);
            missing *= f64::from(1 + n) / f64::from(10 + n);
            let found = f64::from(average.weights()[0]);
            // Each update rounds a number of at most 1 twice.
            assert!((found - (1.0 - missing)).abs() < 2e-7 * f64::from(n + 1), "{found} {missing}");
        }
        // 9!·20!/29!: less than a ten-millionth is left.
        assert!(missing < 1e-7);
    }

    /// Later the decay itself counts: what is missing is multiplied by it in each step.
    #[test]
    fn later_the_decay_counts() {
        let mut average = Average::restore(&[0.0, 1.0], 0.75, 100);
        for n in 1..=5 {
            average.update(&[1.0, 1.0]);
            // Powers of 3/4 up to the fifth are exact in f32, and so is 1 less these.
            assert_eq!(average.weights(), [1.0 - 0.75f32.powi(n), 1.0]);
        }
        assert_eq!(average.updates(), 105);
    }

    #[test]
    fn a_saved_average_goes_on() {
        let mut whole = Average::new(&[0.5, -2.0], 0.9);
        let steps = [[1.0f32, 3.0], [0.0, 0.25], [-1.5, 2.0], [4.0, 4.0]];
        steps[..2].iter().for_each(|weights| whole.update(weights));
        let mut restored = Average::restore(whole.weights(), 0.9, whole.updates());
        for weights in &steps[2..] {
            whole.update(weights);
            restored.update(weights);
        }
        assert_eq!(whole.weights(), restored.weights());
    }
}
