//! The numbers of the model, with their defaults.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{Metres, MetresPerSecond, Seconds};

/// How tracks are matched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MatchParameters {
    /// σ: standard deviation of a place's distance from its road's edge. Newson and Krumm measured
    /// 4.07 m for satellite positions in cars.
    pub sigma: Metres,
    /// β: mean difference between the way by road and the straight line, from one decision to the
    /// next.
    pub beta: Metres,
    /// Links farther than this from a place are not considered.
    pub radius: Metres,
    /// Width of a lane: places within a road's lanes are at distance zero of it, and the lane is
    /// estimated from it.
    pub lane_width: Metres,
    /// At most so many links are considered for one place, the nearest ones.
    pub max_candidates: usize,
    /// Places are decided upon when they are this far apart, 2σ as in the paper: nearer ones tell
    /// more of noise than of motion.
    pub spacing: Metres,
    /// A vehicle may seem to fall back this far on a link, by noise, and count as standing.
    pub backward: Metres,
    /// A vehicle that stays within this distance beyond a stop line for longer than it takes to
    /// walk there is taken to wait before it: nobody waits inside a junction's first metres, but a
    /// place that is off by a little would move a whole red time to the next link. 0 to disable.
    pub stop_line: Metres,
    /// Ways longer than the straight line by more than this are not considered.
    pub max_detour: Metres,
    /// A longer time without a record cuts the track.
    pub max_gap: Seconds,
    /// A faster jump from one record to the next cuts the track.
    pub max_speed: MetresPerSecond,
    /// A part that extends over less is not used.
    pub min_extent: Metres,
    /// A part that is too small and lasts longer than this is called standing, not short.
    pub standing: Seconds,
    /// States less likely than the best by more than this (in natural logarithms) are given up.
    pub beam: f64,
}

impl Default for MatchParameters {
    fn default() -> Self {
        Self {
            sigma: Metres::new(4.0),
            beta: Metres::new(4.0),
            radius: Metres::new(35.0),
            lane_width: Metres::new(3.2),
            max_candidates: 12,
            spacing: Metres::new(8.0),
            backward: Metres::new(15.0),
            stop_line: Metres::new(4.0),
            max_detour: Metres::new(300.0),
            max_gap: Seconds::new(60.0),
            max_speed: MetresPerSecond::new(70.0),
            min_extent: Metres::new(20.0),
            standing: Seconds::new(30.0),
            beam: 50.0,
        }
    }
}

/// A parameter outside its range.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("matching: {field}: found {found}, expected {expected}")]
pub struct ParameterError {
    field: &'static str,
    found: String,
    expected: &'static str,
}

/// Lengths above this (m) would search whole cities for every place.
const MAX_LENGTH: f64 = 100_000.0;
/// More candidates than this would make one decision cost a million steps.
const MAX_CANDIDATES: usize = 1000;

impl MatchParameters {
    /// Defaults scaled to another standard deviation of the places.
    pub fn with_sigma(sigma: Metres) -> Self {
        let default = Self::default();
        let scale = sigma / default.sigma;
        Self {
            sigma,
            beta: default.beta * scale,
            radius: default.radius * scale.max(1.0),
            spacing: default.spacing * scale,
            backward: default.backward * scale.max(1.0),
            min_extent: default.min_extent * scale.max(1.0),
            ..default
        }
    }

    pub(super) fn check(&self) -> Result<(), ParameterError> {
        let lengths = [
            ("sigma", self.sigma, true),
            ("beta", self.beta, true),
            ("radius", self.radius, true),
            ("lane_width", self.lane_width, true),
            ("spacing", self.spacing, false),
            ("backward", self.backward, false),
            ("stop_line", self.stop_line, false),
            ("max_detour", self.max_detour, false),
            ("min_extent", self.min_extent, false),
        ];
        for (field, length, positive) in lengths {
            let least = if positive { f64::MIN_POSITIVE } else { 0.0 };
            if !(least..=MAX_LENGTH).contains(&length.get()) {
                let expected =
                    if positive { "more than 0 m, at most 100 km" } else { "0 m to 100 km" };
                return Err(ParameterError { field, found: length.to_string(), expected });
            }
        }
        let others = [
            ("max_gap", self.max_gap.get()),
            ("max_speed", self.max_speed.get()),
            ("standing", self.standing.get()),
            ("beam", self.beam),
        ];
        for (field, value) in others {
            if value.is_nan() || value <= 0.0 {
                let expected = "more than 0";
                return Err(ParameterError { field, found: value.to_string(), expected });
            }
        }
        if !(1..=MAX_CANDIDATES).contains(&self.max_candidates) {
            return Err(ParameterError {
                field: "max_candidates",
                found: self.max_candidates.to_string(),
                expected: "1 to 1000",
            });
        }
        Ok(())
    }
}
