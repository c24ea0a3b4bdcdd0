//! What the host has collected, by architecture: equations that fall apart by links, or all at once.

use anyhow::Result;
use attacks::SealedBatch;
use attacks::least_squares::{Collected, LastLayer, Products};
use attacks::linear::Equations;
use estimator::Architecture;
use sealed::Grid;

/// Rows of one question.
const ROWS: usize = 2048;
/// About how large coefficients are: gradients of a mean loss over a batch.
const SIZE: f64 = 1e-3;
/// How much the guess counts beside the equations.
const GUESS: f64 = 1e-11;

/// Samples of a batch that is solved for all at once, in some seconds. The host chooses its batches.
pub(super) fn small_batch() -> usize {
    16
}

/// What the host asks about in an exchange.
pub(super) enum QueriedSums {
    /// The weights of the head's last layer.
    LastLayer(LastLayer),
    /// Every weight: rows of A, one for each.
    All(Vec<Vec<f64>>),
}

impl QueriedSums {
    pub(super) fn products(&self) -> usize {
        match self {
            Self::LastLayer(layer) => layer.products(),
            Self::All(rows) => rows.len(),
        }
    }
}

/// What was answered so far.
pub(super) enum Layer {
    ByLink(Collected),
    Whole { equations: Equations, centre: f64 },
}

impl Layer {
    pub(super) fn new(
        architecture: Architecture,
        samples: usize,
        guess: &[f64],
        grid: Grid,
    ) -> Self {
        let centre = grid.centre();
        if architecture == Architecture::Paper {
            return Self::ByLink(Collected::nothing(samples, guess, centre, SIZE));
        }
        let guess: Vec<f64> = guess.iter().map(|guess| guess - centre).collect();
        Self::Whole { equations: Equations::with_guess(&guess, GUESS * SIZE), centre }
    }

    pub(super) fn exchange(&mut self, asked: &QueriedSums, from: &mut SealedBatch) -> Result<()> {
        match (self, asked) {
            (Self::ByLink(collected), QueriedSums::LastLayer(layer)) => {
                collected.exchange(layer, from)?;
            }
            (Self::Whole { equations, .. }, QueriedSums::All(rows)) => {
                for rows in rows.chunks(ROWS) {
                    let answered = from.ask(&rows.concat(), rows.len())?;
                    equations.add(&answered.applied, &answered.products)?;
                }
            }
            _ => anyhow::bail!("products of another architecture"),
        }
        Ok(())
    }

    pub(super) fn guess(&self) -> Vec<f64> {
        match self {
            Self::ByLink(collected) => collected.guess(),
            Self::Whole { equations, centre } => {
                equations.solve().iter().map(|value| value + centre).collect()
            }
        }
    }
}
