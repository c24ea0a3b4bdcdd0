//! How uncertain the model and the measurements are, and how that is learnt on the way.
//!
//! For a measurement with innovation ν, of which the model's part has variance s, E[ν²] = s + r. So a
//! running mean of ν² − s, over the stated variance, is the factor by which r should be taken. For
//! the model, the correction c that a measurement made has E[c²] ≤ q in the steady state: the running
//! mean of c² moves q. Both stay within a factor of `limit` of what was stated, so that a filter that
//! is wrong for a while neither becomes deaf nor believes everything; and no sensor is taken to be
//! better than it says, since errors that sensors share (all speeds of a queue) would look like that. (Ours: the paper cites an
//! adaptive filter whose text was not to be had.)

use traffic::Seconds;

use super::error::{FilterError, check_positive};

/// Standard deviations of the model's errors per step, and of the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterNoise {
    /// Of density, veh/km/lane.
    pub density: f64,
    /// Of flow, veh/min/lane.
    pub flow: f64,
    /// Of the demand at an entry about its usual value in the long run, veh/min/lane.
    pub demand: f64,
    /// Of density at the start.
    pub first_density: f64,
    /// How long the demand at an entry stays away from its usual value.
    pub demand_memory: Seconds,
}

impl Default for FilterNoise {
    /// Of the order of what the CTM misses of the corridor in a step of 10 s, with a margin.
    fn default() -> Self {
        Self {
            density: 6.0,
            flow: 2.5,
            demand: 3.0,
            first_density: 30.0,
            demand_memory: Seconds::new(900.0),
        }
    }
}

impl FilterNoise {
    pub(super) fn check(&self) -> Result<(), FilterError> {
        let fields = [
            ("noise of density", self.density),
            ("noise of flow", self.flow),
            ("noise of demand", self.demand),
            ("noise of the first density", self.first_density),
            ("memory of demand", self.demand_memory.get()),
        ];
        fields.iter().try_for_each(|&(name, value)| check_positive(|| name.into(), value))
    }
}

/// How noise adapts to innovations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptation {
    /// The share of each new step in the running means; 0 for noise that stays as it is.
    pub rate: f64,
    /// How far a variance may move from what was stated, as a factor.
    pub limit: f64,
    /// Innovations of more standard deviations are given less weight, down to this many.
    pub gate: f64,
}

impl Default for Adaptation {
    /// A memory of 50 steps, a factor of 10, five standard deviations.
    fn default() -> Self {
        Self { rate: 0.02, limit: 10.0, gate: 5.0 }
    }
}

impl Adaptation {
    pub(super) fn check(&self) -> Result<(), FilterError> {
        let fail = |place: &str, found, expected| {
            Err(FilterError::Number { place: place.into(), found, expected })
        };
        if !(0.0..1.0).contains(&self.rate) {
            return fail("adaptation rate", self.rate, "0 or more and less than 1");
        }
        if !(self.limit >= 1.0 && self.limit.is_finite()) {
            return fail("adaptation limit", self.limit, "1 or more");
        }
        check_positive(|| "gate".into(), self.gate)
    }

    /// The factor of a sensor's variance, given what this step says it should be.
    pub(super) fn of_sensor(&self, factor: f64, suggested: f64) -> f64 {
        (factor + self.rate * (suggested - factor)).clamp(1.0, self.limit)
    }

    /// The factor of the model's variance, likewise.
    pub(super) fn of_model(&self, factor: f64, suggested: f64) -> f64 {
        (factor + self.rate * (suggested - factor)).clamp(1.0 / self.limit, self.limit)
    }
}
