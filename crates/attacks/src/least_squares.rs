//! A host that collects products A·u over rounds, and solves for u.
//!
//! The gradient of a head's last layer y = W·h + b is, for output o and unit i of h (the last one is always 1, for
//! the bias), Σ_t h_{t,i}·Σ_e c_{t,e,o}·u_{t,e}: a product with u, with coefficients c that the host knows
//! (how the measurement e depends on the estimate o, over its variance). There are as many such products as the
//! layer has weights. Measurements of a link depend on the estimates of that link alone, so the equations fall
//! apart by links: as many unknowns as samples times measurements of a link, with (units × outputs of a link)
//! equations each round.
//!
//! No encryption changes that: the host gets the products, exactly. See docs/sealed.md.

use sealed::SealedError;
use thiserror::Error;

use crate::linear::{Equations, ShapeError};

/// Measurements and estimates of one link: density and speed, density and flow.
pub const EACH: usize = 2;
/// How much the guess counts where equations say next to nothing, beside their size: what is told to fewer than
/// eleven digits is left at the guess.
const GUESS_WEIGHT: f64 = 1e-11;

/// Why an attack could not be run.
#[derive(Debug, Error)]
pub enum LeastSquaresError {
    /// Numbers that do not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The products themselves.
    #[error(transparent)]
    Sealed(#[from] SealedError),
}

/// What a host knows of its own last layer in one exchange.
pub struct LastLayer {
    samples: usize,
    links: usize,
    units: usize,
    /// `[sample, unit]`, the last unit 1.
    hidden: Vec<f64>,
    /// `[sample, link, measurement, output]`
    slopes: Vec<f64>,
}

impl LastLayer {
    /// Of hidden units `[sample, unit]` (without the 1 of the bias), and coefficients
    /// `[sample, link, measurement, output]`.
    pub fn new(samples: usize, hidden: &[f64], slopes: Vec<f64>) -> Result<Self, ShapeError> {
        let count = samples.max(1);
        let (units, links) = (hidden.len() / count, slopes.len() / (count * EACH * EACH));
        check("hidden units", hidden.len(), units * samples)?;
        check("coefficients", slopes.len(), links * samples * EACH * EACH)?;
        // Also where there are no units at all: the bias is always there.
        let with_bias =
            (0..samples).flat_map(|sample| hidden[sample * units..][..units].iter().chain(&[1.0]));
        let hidden = with_bias.copied().collect();
        Ok(Self { samples, links, units: units + 1, hidden, slopes })
    }

    /// Products of one exchange, all links together.
    pub fn products(&self) -> usize {
        self.links * EACH * self.units
    }

    /// The rows of A that belong to one output, over all measurements of the batch.
    fn rows(&self, link: usize, output: usize) -> Vec<f64> {
        let columns = self.samples * self.links * EACH;
        let mut rows = vec![0.0; self.units * columns];
        for (unit, row) in rows.chunks_exact_mut(columns).enumerate() {
            for sample in 0..self.samples {
                for measurement in 0..EACH {
                    let place = (sample * self.links + link) * EACH + measurement;
                    row[place] = self.hidden[sample * self.units + unit]
                        * self.slopes[place * EACH + output];
                }
            }
        }
        rows
    }
}

/// Where a host has its products from.
pub trait Products {
    /// Products of rows with u − centre, and the rows that they were really taken with.
    fn ask(&mut self, rows: &[f64], count: usize) -> Result<Answered, LeastSquaresError>;
}

/// Products and what they are products of.
pub struct Answered {
    /// Rows as they were applied.
    pub applied: Vec<f64>,
    /// Products with u − centre.
    pub products: Vec<f64>,
}

/// What a host has collected of a batch so far.
pub struct Collected {
    samples: usize,
    links: usize,
    centre: f64,
    /// Of each link, `[sample, measurement]`.
    equations: Vec<Equations>,
    products: usize,
}

impl Collected {
    /// Nothing yet; `guess` is the trivial one, `[sample, link, measurement]`, and `size` about how large the
    /// coefficients of the equations are.
    pub fn nothing(samples: usize, guess: &[f64], centre: f64, size: f64) -> Self {
        let links = guess.len() / (samples.max(1) * EACH);
        let equations = (0..links).map(|link| {
            let of_link = |sample: usize| {
                let from = (sample * links + link) * EACH;
                guess[from..from + EACH].iter().map(|guess| guess - centre)
            };
            let guess: Vec<f64> = (0..samples).flat_map(of_link).collect();
            Equations::with_guess(&guess, GUESS_WEIGHT * size)
        });
        Self { samples, links, centre, equations: equations.collect(), products: 0 }
    }

    /// One exchange: every product of the last layer's gradient.
    pub fn exchange(
        &mut self,
        layer: &LastLayer,
        from: &mut dyn Products,
    ) -> Result<(), LeastSquaresError> {
        let batch = |samples, links| samples * links * EACH;
        check("batch", batch(layer.samples, layer.links), batch(self.samples, self.links))?;
        for link in 0..self.links {
            for output in 0..EACH {
                let rows = layer.rows(link, output);
                let Answered { applied, products } = from.ask(&rows, layer.units)?;
                let columns = self.samples * self.links * EACH;
                let own = applied.chunks_exact(columns).flat_map(|row| {
                    let each = row.chunks_exact(EACH).skip(link).step_by(self.links);
                    each.flatten().copied()
                });
                self.equations[link].add(&own.collect::<Vec<_>>(), &products)?;
                self.products += products.len();
            }
        }
        Ok(())
    }

    /// Products so far.
    pub fn products(&self) -> usize {
        self.products
    }

    /// The best guess of u, `[sample, link, measurement]`.
    pub fn guess(&self) -> Vec<f64> {
        let mut guess = vec![0.0; self.samples * self.links * EACH];
        for (link, equations) in self.equations.iter().enumerate() {
            let solved = equations.solve();
            for (sample, values) in solved.chunks_exact(EACH).enumerate() {
                let to = (sample * self.links + link) * EACH;
                for (to, value) in guess[to..to + EACH].iter_mut().zip(values) {
                    *to = value + self.centre;
                }
            }
        }
        guess
    }
}

fn check(what: &'static str, found: usize, expected: usize) -> Result<(), ShapeError> {
    if found == expected { Ok(()) } else { Err(ShapeError { what, found, expected }) }
}

#[cfg(test)]
mod tests;
