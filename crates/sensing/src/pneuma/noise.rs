//! Errors of positions as a receiver of satellites has them: white, and a slowly wandering bias.

use seeded::SplitMix64;
use traffic::{Metres, Seconds};

/// How large the errors are, in each of the two directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PositionNoise {
    /// Standard deviation of the part that is new in every frame.
    pub white: Metres,
    /// Standard deviation of the part that wanders.
    pub bias: Metres,
    /// In what time the wandering part forgets where it was (by a factor e).
    pub bias_time: Seconds,
}

impl Default for PositionNoise {
    fn default() -> Self {
        Self { white: Metres::new(1.0), bias: Metres::new(1.0), bias_time: Seconds::new(60.0) }
    }
}

impl PositionNoise {
    /// No errors at all.
    pub const NONE: Self =
        Self { white: Metres::ZERO, bias: Metres::ZERO, bias_time: Seconds::new(1.0) };
}

/// The errors of one track, frame by frame; equal seeds give equal errors.
pub(super) struct NoiseStream {
    noise: PositionNoise,
    random: Gaussian,
    bias: [f64; 2],
    keep: f64,
}

impl NoiseStream {
    pub(super) fn new(noise: PositionNoise, frame: f64, seed: u64) -> Self {
        let mut random = Gaussian(SplitMix64::new(seed));
        let bias = [random.draw(), random.draw()].map(|value| value * noise.bias.get());
        Self { noise, random, bias, keep: (-frame / noise.bias_time.get()).exp() }
    }

    /// Metres east and north.
    pub(super) fn draw(&mut self) -> [f64; 2] {
        // Ornstein–Uhlenbeck: the innovation keeps the variance of the bias constant.
        let innovation = self.noise.bias.get() * (1.0 - self.keep * self.keep).max(0.0).sqrt();
        let mut error = [0.0; 2];
        for (axis, error) in error.iter_mut().enumerate() {
            self.bias[axis] = self.keep * self.bias[axis] + innovation * self.random.draw();
            *error = self.bias[axis] + self.noise.white.get() * self.random.draw();
        }
        error
    }
}

/// Normal numbers from SplitMix64 by Box and Muller's transform.
struct Gaussian(SplitMix64);

impl Gaussian {
    fn uniform(&mut self) -> f64 {
        // 53 bits, and half a step above zero: its logarithm is finite.
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn draw(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stated variances hold: 1² + 2² in all, and frames a bias time apart share 4/e of it.
    #[test]
    fn errors_have_the_stated_size_and_memory() {
        let noise = PositionNoise {
            white: Metres::new(1.0),
            bias: Metres::new(2.0),
            bias_time: Seconds::new(10.0),
        };
        let mut stream = NoiseStream::new(noise, 1.0, 7);
        let errors: Vec<f64> = (0..200_000).map(|_| stream.draw()[0]).collect();
        let mean_of = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) =
                values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            sum / count
        };
        let variance = mean_of(&mut errors.iter().map(|error| error * error));
        let covariance = mean_of(&mut errors.windows(11).map(|w| w[0] * w[10]));
        // 200,000 frames hold about 10,000 independent biases: 1.4 % of 5 is 0.07; four of those.
        assert!((variance - 5.0).abs() < 0.3, "{variance}");
        assert!((covariance - 4.0 / std::f64::consts::E).abs() < 0.3, "{covariance}");
    }
}
