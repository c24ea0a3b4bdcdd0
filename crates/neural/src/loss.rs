//! Losses: what is to be made small, and its gradient.
//!
//! [`Squared`] is the paper's data loss (its equation 312) over a batch:
//!
//! ```text
//! L = 1/B Σ_b Σ_j w_j·m_bj·(ŷ_bj − y_bj)²
//! ```
//!
//! with one weight `w_j` for each output and an optional mask `m`. For densities and flows of N
//! links, `w = 1/N` for densities and `α/N` for flows. A masked value counts neither in the loss
//! nor in the gradient, and may be NaN.
//!
//! ```
//! use neural::{Loss, Squared};
//! let loss = Squared::new(&[1.0, 10.0], &[1.0, 0.5]); // one sample, two outputs
//! let mut gradient = [0.0; 2];
//! assert_eq!(loss.evaluate(0, &[3.0, 14.0], &mut gradient), 4.0 + 0.5 * 16.0);
//! assert_eq!(gradient, [4.0, 4.0]);
//! ```

/// A loss over a batch, evaluated chunk by chunk.
pub trait Loss: Sync {
    /// Adds up the loss of a chunk whose first sample has this number in the batch, and writes the
    /// gradient of its outputs.
    fn evaluate(&self, first_sample: usize, outputs: &[f32], gradient: &mut [f32]) -> f64;
}

/// Weighted squared error, see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Squared<'a>(Errors<'a>);

/// Huber's loss: squared up to a threshold, linear beyond, so that outliers pull less.
///
/// `ρ(e) = e²` for `|e| ≤ δ`, else `2δ·|e| − δ²`: equal to [`Squared`] for small errors.
#[derive(Clone, Copy, Debug)]
pub struct Huber<'a> {
    errors: Errors<'a>,
    threshold: f32,
}

#[derive(Clone, Copy, Debug)]
struct Errors<'a> {
    targets: &'a [f32],
    weights: &'a [f32],
    mask: Option<&'a [f32]>,
    samples: usize,
}

impl<'a> Squared<'a> {
    /// `targets`: `[sample, output]`; `weights`: one for each output.
    ///
    /// # Panics
    /// If the targets are not a whole number of samples.
    pub fn new(targets: &'a [f32], weights: &'a [f32]) -> Self {
        Squared(Errors::new(targets, weights))
    }

    /// The same with a mask, `[sample, output]`, 0 for what does not count.
    ///
    /// # Panics
    /// If the mask has another length than the targets.
    pub fn masked(mut self, mask: &'a [f32]) -> Self {
        self.0 = self.0.masked(mask);
        self
    }
}

impl<'a> Huber<'a> {
    /// As [`Squared::new`], with the threshold δ.
    ///
    /// # Panics
    /// As [`Squared::new`].
    pub fn new(targets: &'a [f32], weights: &'a [f32], threshold: f32) -> Self {
        Huber { errors: Errors::new(targets, weights), threshold }
    }

    /// As [`Squared::masked`].
    ///
    /// # Panics
    /// As [`Squared::masked`].
    pub fn masked(mut self, mask: &'a [f32]) -> Self {
        self.errors = self.errors.masked(mask);
        self
    }
}

impl Loss for Squared<'_> {
    fn evaluate(&self, first_sample: usize, outputs: &[f32], gradient: &mut [f32]) -> f64 {
        self.0.add_up(first_sample, outputs, gradient, |error| (error * error, 2.0 * error))
    }
}

impl Loss for Huber<'_> {
    fn evaluate(&self, first_sample: usize, outputs: &[f32], gradient: &mut [f32]) -> f64 {
        let threshold = self.threshold;
        self.errors.add_up(first_sample, outputs, gradient, |error| {
            if error.abs() <= threshold {
                (error * error, 2.0 * error)
            } else {
                let slope = 2.0 * threshold;
                (slope * error.abs() - threshold * threshold, slope * error.signum())
            }
        })
    }
}

impl<'a> Errors<'a> {
    fn new(targets: &'a [f32], weights: &'a [f32]) -> Self {
        assert!(
            !weights.is_empty() && targets.len().is_multiple_of(weights.len()),
            "{} targets are not a whole number of samples of {} outputs",
            targets.len(),
            weights.len()
        );
        Errors { targets, weights, mask: None, samples: targets.len() / weights.len() }
    }

    fn masked(self, mask: &'a [f32]) -> Self {
        assert_eq!(mask.len(), self.targets.len(), "mask and targets differ in length");
        Errors { mask: Some(mask), ..self }
    }

    fn add_up(
        &self,
        first_sample: usize,
        outputs: &[f32],
        gradient: &mut [f32],
        loss_and_slope: impl Fn(f32) -> (f32, f32),
    ) -> f64 {
        let width = self.weights.len();
        let first = first_sample * width;
        let mut total = 0.0f64;
        for (i, (output, slope)) in outputs.iter().zip(gradient).enumerate() {
            let counts = self.mask.map_or(1.0, |mask| mask[first + i]);
            // Multiplying by zero would keep the NaN of a missing target.
            if counts == 0.0 {
                *slope = 0.0;
                continue;
            }
            let weight = counts * self.weights[i % width] / self.samples as f32;
            let (loss, d_loss) = loss_and_slope(output - self.targets[first + i]);
            total += f64::from(weight) * f64::from(loss);
            *slope = weight * d_loss;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_targets_may_be_missing() {
        let targets = [1.0, f32::NAN, 3.0, 4.0];
        let loss = Squared::new(&targets, &[1.0, 1.0]);
        let loss = loss.masked(&[1.0, 0.0, 1.0, 1.0]);
        let mut gradient = [9.0; 4];
        // Two samples: each term has weight ½.
        assert_eq!(loss.evaluate(0, &[2.0, 5.0, 3.0, 6.0], &mut gradient), 0.5 * (1.0 + 4.0));
        assert_eq!(gradient, [1.0, 0.0, 0.0, 2.0]);
    }

    #[test]
    fn chunks_add_up_to_the_whole() {
        let targets = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let loss = Squared::new(&targets, &[1.0, 2.0]);
        let outputs = [0.0, 2.5, 3.0, 8.0, -1.0, 6.0];
        let (mut whole, mut parts) = ([0.0; 6], [0.0; 6]);
        let total = loss.evaluate(0, &outputs, &mut whole);
        let first = loss.evaluate(0, &outputs[..2], &mut parts[..2]);
        let rest = loss.evaluate(1, &outputs[2..], &mut parts[2..]);
        assert_eq!(whole, parts);
        assert!((total - first - rest).abs() < 1e-12);
    }

    /// Gradients are the slopes of the values: central differences in f32 of numbers of order 1, with a step of 2^-6,
    /// whose squares are exact enough for three digits.
    #[test]
    fn gradients_are_the_slopes_of_the_values() {
        let targets = [0.5, -1.0, 2.0, 0.25, 0.0, 1.0];
        let (weights, mask) = ([1.0, 0.5, 2.0], [1.0, 0.5, 0.0, 1.0, 1.0, 0.25]);
        let outputs = [0.75, 3.0, 9.0, -4.0, 0.125, 1.5];
        let squared = Squared::new(&targets, &weights).masked(&mask);
        let huber = Huber::new(&targets, &weights, 1.0).masked(&mask);
        for loss in [&squared as &dyn Loss, &huber] {
            let mut gradient = [0.0; 6];
            loss.evaluate(0, &outputs, &mut gradient);
            for place in 0..6 {
                let at = |by: f32| {
                    let mut moved = outputs;
                    moved[place] += by;
                    loss.evaluate(0, &moved, &mut [0.0; 6])
                };
                let step = 1.0 / 64.0;
                let slope = (at(step) - at(-step)) / f64::from(2.0 * step);
                assert!((slope - f64::from(gradient[place])).abs() < 1e-3, "{place}: {slope}");
            }
        }
        // The masked output has neither value nor slope; a part of a mask is a weight.
        let mut gradient = [0.0; 6];
        squared.evaluate(0, &outputs, &mut gradient);
        assert_eq!(gradient[2], 0.0);
        // 2·(3 + 1)·w = 0.5·m = 0.5 over two samples.
        assert_eq!(gradient[1], 8.0 * 0.25 / 2.0);
    }

    #[test]
    fn huber_is_squared_below_its_threshold() {
        let (targets, weights) = ([0.0; 4], [1.0, 2.0]);
        let outputs = [0.5, -0.25, 0.99, -0.75];
        let (mut a, mut b) = ([0.0; 4], [0.0; 4]);
        let squared = Squared::new(&targets, &weights).evaluate(0, &outputs, &mut a);
        let huber = Huber::new(&targets, &weights, 1.0).evaluate(0, &outputs, &mut b);
        assert_eq!((squared, a), (huber, b));
    }

    #[test]
    #[should_panic(expected = "3 targets are not a whole number of samples of 2 outputs")]
    fn targets_are_whole_samples() {
        let _ = Squared::new(&[0.0; 3], &[1.0; 2]);
    }

    #[test]
    #[should_panic(expected = "mask and targets differ in length")]
    fn a_mask_has_a_value_for_each_target() {
        let _ = Huber::new(&[0.0; 4], &[1.0; 2], 1.0).masked(&[1.0; 2]);
    }

    /// Value and slope meet at the threshold; beyond it the slope stays.
    #[test]
    fn huber_is_linear_beyond_its_threshold() {
        let loss = Huber::new(&[0.0], &[1.0], 2.0);
        let mut slope = [0.0];
        assert_eq!(loss.evaluate(0, &[2.0], &mut slope), 4.0);
        assert_eq!(slope, [4.0]);
        assert_eq!(loss.evaluate(0, &[5.0], &mut slope), 16.0);
        assert_eq!(slope, [4.0]);
        assert_eq!(loss.evaluate(0, &[-5.0], &mut slope), 16.0);
        assert_eq!(slope, [-4.0]);
    }
}
