//! What the filter is given each step.

use super::error::{FilterError, check_len, check_positive};

/// A measured number and the variance of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The number.
    pub value: f64,
    /// Its error's variance, in the square of its unit.
    pub variance: f64,
}

/// Which quantity of a link was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Flow, by a loop: veh/min/lane.
    Flow,
    /// Speed, by a fleet: m/s.
    Speed,
    /// Density, by queue profiles: veh/km/lane.
    Density,
}

/// Measurements of a step, per link; what is missing is `None`, never zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// Loop flow, veh/min/lane.
    pub flows: Vec<Option<Reading>>,
    /// Fleet speed, m/s.
    pub speeds: Vec<Option<Reading>>,
    /// Density by queue profiles, veh/km/lane.
    pub densities: Vec<Option<Reading>>,
}

impl Measurements {
    /// Nothing measured on so many links.
    pub fn none(links: usize) -> Self {
        let none = || vec![None; links];
        Self { flows: none(), speeds: none(), densities: none() }
    }

    /// Numbers must be numbers, and variances above zero.
    pub(super) fn check(&self, links: usize) -> Result<(), FilterError> {
        check_len("flow measurements", self.flows.len(), links)?;
        check_len("speed measurements", self.speeds.len(), links)?;
        check_len("density measurements", self.densities.len(), links)?;
        let lists = [("flow", &self.flows), ("speed", &self.speeds), ("density", &self.densities)];
        for (what, list) in lists {
            for (link, reading) in list.iter().enumerate() {
                let Some(reading) = reading else { continue };
                if !(reading.value >= 0.0 && reading.value.is_finite()) {
                    return Err(FilterError::Number {
                        place: format!("{what} of link number {link}"),
                        found: reading.value,
                        expected: "0 or more",
                    });
                }
                check_positive(
                    || format!("variance of the {what} of link number {link}"),
                    reading.variance,
                )?;
            }
        }
        Ok(())
    }

    /// All that was measured, flows first.
    pub(super) fn present(&self) -> impl Iterator<Item = (Quantity, usize, Reading)> + '_ {
        let flows = self.flows.iter().map(|reading| (Quantity::Flow, reading)).enumerate();
        let speeds = self.speeds.iter().map(|reading| (Quantity::Speed, reading)).enumerate();
        let densities = self.densities.iter().map(|reading| (Quantity::Density, reading));
        flows
            .chain(speeds)
            .chain(densities.enumerate())
            .filter_map(|(link, (quantity, reading))| Some((quantity, link, (*reading)?)))
    }
}

/// A measurement that contradicted all else that is known, and was given less weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softened {
    /// Which quantity.
    pub quantity: Quantity,
    /// Of which link.
    pub link: usize,
    /// What was measured.
    pub value: f64,
    /// What was expected.
    pub expected: f64,
    /// How many standard deviations apart.
    pub deviations: f64,
}
