//! Losses: what is to be made small, and its gradient.
//!
//! [`Squared`] is the paper's data loss (its equation 312) over a batch:
//!
//! ```text
//! L = 1/B Σ_b Σ_j w_j·(ŷ_bj − y_bj)²
//! ```
//!
//! with one weight `w_j` for each output. For densities and flows of N links, `w = 1/N` for
//! densities and `α/N` for flows.
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
}

impl<'a> Huber<'a> {
    /// As [`Squared::new`], with the threshold δ.
    ///
    /// # Panics
    /// As [`Squared::new`].
    pub fn new(targets: &'a [f32], weights: &'a [f32], threshold: f32) -> Self {
        Huber { errors: Errors::new(targets, weights), threshold }
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
        Errors { targets, weights, samples: targets.len() / weights.len() }
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
            let weight = self.weights[i % width] / self.samples as f32;
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
        let weights = [1.0, 0.5, 2.0];
        let outputs = [0.75, 3.0, 2.5, -4.0, 0.125, 1.5];
        let squared = Squared::new(&targets, &weights);
        let huber = Huber::new(&targets, &weights, 1.0);
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
        let mut gradient = [0.0; 6];
        squared.evaluate(0, &outputs, &mut gradient);
        // 2·(3 + 1)·w, w = 0.5, over two samples.
        assert_eq!(gradient[1], 8.0 * 0.5 / 2.0);
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
