//! A batch of measurements as each mode has it, and how close guesses come.

use anyhow::Result;
use attacks::least_squares::EACH;
use attacks::{Mode, Recovery};
use sealed::noise::NoisedVector;
use sealed::noise::accounting::least_ratio;
use sealed::{Grid, Randomness};

use super::products::Choices;
use super::report::AttackResult;
use super::scene::{Batch, MOST, QUANTITIES};

/// Levels of the grid that measurements are put on.
const LEVELS: i32 = 1 << 14;

/// Measurements of a batch as they are in each mode.
pub(super) struct Versions {
    pub truth: Batch,
    /// The guess without messages, of each value.
    pub trivial: Vec<f64>,
    pub sigma: f64,
    plain: NoisedVector,
    noised: NoisedVector,
    grids: [Grid; 2],
}

impl Versions {
    /// `means`: of each value of a sample.
    pub(super) fn of(truth: Batch, means: Vec<f64>, choices: &Choices) -> Result<Self> {
        // Density and speed of the link change together.
        let change = choices.change * f64::sqrt(EACH as f64);
        let ratio = least_ratio(choices.budget);
        // Values are put on the grid first, which changes each by up to a step. The step grows with σ and σ with the
        // step: this one is larger than the one that comes out.
        let step = (1.0 + 24.0 * ratio * change) / f64::from(2 * LEVELS);
        let sigma = ratio * (change + f64::sqrt(EACH as f64) * step);
        let plain = Grid::new(0.0, 1.0, LEVELS)?;
        let wide = NoisedVector::grid(0.0, 1.0, sigma, LEVELS)?;
        let mut random = Randomness::insecure_from_seed(choices.seed);
        let trivial = means.iter().copied().cycle().take(truth.values.len()).collect();
        Ok(Self {
            plain: NoisedVector::without_noise(&truth.values, plain)?,
            noised: NoisedVector::draw(&truth.values, (0.0, 1.0), wide, sigma, &mut random)?,
            grids: [plain, wide],
            trivial,
            truth,
            sigma,
        })
    }

    pub(super) fn of_mode(&self, mode: Mode) -> (&NoisedVector, Grid) {
        if mode.has_noise() { (&self.noised, self.grids[1]) } else { (&self.plain, self.grids[0]) }
    }
}

/// How close a guess of the first values of the batch is, for each quantity.
pub(super) fn outcomes(
    mode: Mode,
    rounds: usize,
    versions: &Versions,
    guess: &[f64],
    note: &str,
) -> Vec<AttackResult> {
    let each = QUANTITIES.iter().zip(MOST).enumerate();
    let each = each.map(|(kind, ((quantity, unit), most))| {
        let of = |values: &[f64]| -> Vec<f64> {
            let known = values.iter().take(guess.len()).zip(&versions.truth.known);
            let known = known.skip(kind).step_by(EACH).filter(|(_, known)| **known);
            known.map(|(value, _)| value * most).collect()
        };
        let truth = of(&versions.truth.values);
        AttackResult {
            mode,
            quantity: (*quantity).to_owned(),
            unit,
            rounds,
            recovery: Recovery::of(&truth, &of(guess), &of(&versions.trivial)),
            noise: mode.has_noise().then_some(versions.sigma * most),
            note: note.to_owned(),
        }
    });
    each.collect()
}
