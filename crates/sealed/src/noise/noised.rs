//! A vector with its noise: clipped, noised once, stored, and used for everything from then on.

use zeroize::Zeroize;

use super::accounting::LEAST_STEPS;
use super::{DiscreteGaussian, NoiseError};
use crate::fixed_point::{FixedPointError, Grid};
use crate::random::Randomness;
use crate::wire::{DecodeError, HEADER, MessageKind, Reader, Writer, out_of_range};

/// Levels of a grid with noise of σ steps: one release, however often it is used.
///
/// ```
/// use sealed::Randomness;
/// use sealed::noise::NoisedVector;
/// use sealed::noise::accounting::{Budget, least_ratio};
///
/// // Densities up to 150, of which nobody's change by 10 or less shall show: ε = 4, δ = 10⁻⁶.
/// let sigma = 10.0 * least_ratio(Budget::new(4.0, 1e-6)?);
/// let grid = NoisedVector::grid(0.0, 150.0, sigma, 16384)?;
/// let noised = NoisedVector::draw(&[30.0, 45.0], (0.0, 150.0), grid, sigma, &mut Randomness::from_os()?)?;
/// // Stored, and used from now on wherever the values would be: all of it costs one release.
/// assert_eq!(noised.values().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// There is no way to draw the noise of the same data again through this type but by starting from the raw
/// values; whoever holds those must store this and use it instead.
#[derive(Clone, PartialEq)]
pub struct NoisedVector {
    levels: Vec<i32>,
    sigma: f64,
    grid: Grid,
}

/// The most values of one vector.
pub(crate) const MOST_VALUES: usize = 1 << 24;

impl NoisedVector {
    /// Clips values to `low..=high`, puts them on the grid, adds noise of σ (in the values' own unit) and clips
    /// to the grid, which should reach six σ beyond the limits ([`NoisedVector::grid`] makes such a one).
    ///
    /// σ must be four steps or more: below, noise is no longer near its continuous curve. Putting values on the grid moves each by up to half
    /// a step: if the unit of privacy can change k values by Δ in the Euclidean norm, count with Δ + √k·step.
    pub fn draw(
        values: &[f64],
        (low, high): (f64, f64),
        grid: Grid,
        sigma: f64,
        random: &mut Randomness,
    ) -> Result<Self, NoisedError> {
        if low.is_nan() || high.is_nan() || low > high {
            return Err(FixedPointError::Range { low, high }.into());
        }
        check_count(values.len())?;
        let steps = sigma / grid.step();
        if steps < LEAST_STEPS {
            return Err(NoisedError::Coarse { steps });
        }
        let noise = DiscreteGaussian::new(steps)?;
        let most = i64::from(grid.levels());
        let levels = values.iter().map(|&value| {
            // Not a number stays so, and the grid refuses it.
            let level = i64::from(grid.level(value.clamp(low, high))?);
            Ok((level + noise.draw(random)).clamp(-most, most) as i32)
        });
        let levels = levels.collect::<Result<_, FixedPointError>>()?;
        Ok(Self { levels, sigma: noise.sigma() * grid.step(), grid })
    }

    /// Values on the grid without noise, as the modes without noise use them.
    pub fn without_noise(values: &[f64], grid: Grid) -> Result<Self, NoisedError> {
        check_count(values.len())?;
        Ok(Self { levels: grid.levels_of(values)?, sigma: 0.0, grid })
    }

    /// The grid for values in `low..=high` with noise of σ: six σ beyond either limit.
    pub fn grid(low: f64, high: f64, sigma: f64, levels: i32) -> Result<Grid, FixedPointError> {
        Grid::new(low - 6.0 * sigma, high + 6.0 * sigma, levels)
    }

    /// The noised levels.
    pub fn levels(&self) -> &[i32] {
        &self.levels
    }

    /// The noised values.
    pub fn values(&self) -> Vec<f64> {
        self.levels.iter().map(|&level| self.grid.value(level)).collect()
    }

    /// The variance of the noise, in the square of the values' unit: what to add to their covariance.
    pub fn variance(&self) -> f64 {
        self.sigma * self.sigma
    }

    /// Bytes that [`encode`](Self::encode) makes of so many values.
    pub fn encoded_len(values: usize) -> usize {
        HEADER + 3 * 8 + 2 * 4 + 4 * values
    }

    /// As bytes, for the guest's own store.
    pub fn encode(&self) -> Vec<u8> {
        let length = Self::encoded_len(self.levels.len());
        let mut writer = Writer::new(MessageKind::NoisedVector, length);
        writer.f64(self.sigma);
        writer.f64(self.grid.centre());
        writer.f64(self.grid.step());
        writer.u32(self.grid.levels() as u32);
        writer.u32(self.levels.len() as u32);
        for level in &self.levels {
            writer.u32(*level as u32);
        }
        writer.finish()
    }

    /// From bytes; grid and σ must be those that are agreed now: σ as given to [`NoisedVector::draw`], 0 for a
    /// vector without noise.
    pub fn decode(bytes: &[u8], grid: Grid, expected_sigma: f64) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("noised vector", MessageKind::NoisedVector, bytes)?;
        let sigma = reader.f64()?;
        // What is drawn is σ rounded up, so that is what was stored.
        let drawn = DiscreteGaussian::new(expected_sigma / grid.step());
        let expected = drawn.map_or(expected_sigma, |noise| noise.sigma() * grid.step());
        if sigma.to_bits() != expected.to_bits() || !sigma.is_finite() {
            return Err(out_of_range("sigma", sigma, expected));
        }
        let found = (reader.f64()?, reader.f64()?, reader.u32()?);
        let expected = (grid.centre(), grid.step(), grid.levels() as u32);
        if found != expected {
            let [found, expected] = [found, expected].map(|grid| format!("{grid:?}"));
            return Err(out_of_range("grid (centre, step, levels)", found, expected));
        }
        let count = reader.count("values", MOST_VALUES)?;
        let levels = reader.bytes(4 * count)?.as_chunks::<4>().0;
        let levels: Vec<i32> = levels.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect();
        reader.finish()?;
        let most = grid.levels();
        if let Some(found) = levels.iter().find(|level| level.unsigned_abs() > most.unsigned_abs())
        {
            return Err(out_of_range("level", found, format!("−{most} to {most}")));
        }
        Ok(Self { levels, sigma, grid })
    }
}

crate::debug_sizes!(
    NoisedVector,
    |it| "NoisedVector({} values, σ = {}, …)",
    it.levels.len(),
    it.sigma
);

impl Drop for NoisedVector {
    fn drop(&mut self) {
        self.levels.zeroize();
    }
}

fn check_count(found: usize) -> Result<(), NoisedError> {
    if (1..=MOST_VALUES).contains(&found) { Ok(()) } else { Err(NoisedError::Count { found }) }
}

/// Why a vector got no noise.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
pub enum NoisedError {
    /// Its numbers cannot be represented.
    #[error(transparent)]
    FixedPoint(#[from] FixedPointError),
    /// Too few or too many values.
    #[error("values: found {found}, expected 1 to {MOST_VALUES}")]
    Count {
        /// Values found.
        found: usize,
    },
    /// A grid that is too coarse for the noise.
    #[error("noise: found σ of {steps} steps of the grid, expected {LEAST_STEPS} or more")]
    Coarse {
        /// σ in steps.
        steps: f64,
    },
    /// The noise cannot be drawn.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

#[cfg(test)]
mod tests;
