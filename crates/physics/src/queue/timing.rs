//! When a link's signal turns green, from a fleet that knows nothing of the plan.

use std::f64::consts::TAU;

use traffic::Passage;

use super::road::{QueueError, Road, positive};

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingSource {
    /// The plan.
    Plan,
    /// The rhythm in which the fleet leaves the link, or enters one without a signal.
    Rhythm,
    /// Nobody: there is no rhythm, and time is cut into usual cycles.
    Assumed,
}

/// Cycle and start of green.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Length of the cycle in seconds.
    pub cycle: f64,
    /// A time at which green begins, modulo the cycle.
    pub green: f64,
    /// Who says so.
    pub source: TimingSource,
}

/// Slots are about this long: half a step, so that curves bend within a step.
const SLOT: f64 = 5.0;
/// Of a signal that nobody knows.
const USUAL_CYCLE: f64 = 90.0;
/// Cycles are sought between these.
const SHORTEST: f64 = 30.0;
const LONGEST: f64 = 240.0;
/// With fewer vehicles no rhythm is sought.
const LEAST: usize = 50;
/// More vehicles than this say nothing new.
const MOST: usize = 1000;
/// Nor does more time than this: the cycle is known to a fifth of a second then, and only neighbouring
/// cycles are compared.
const LONG_ENOUGH: f64 = 3.0 * 3600.0;
/// The mean of `n` random directions is longer than this over √n once in e²⁰ cycles tried.
const CLEAR: f64 = 4.5;

impl Timing {
    /// From a plan.
    pub fn planned(cycle: f64, green: f64) -> Result<Self, QueueError> {
        let cycle = positive("cycle", cycle)?;
        if !((1.0..=3600.0).contains(&cycle) && green.is_finite()) {
            let expected = "1 s to 3600 s";
            return Err(QueueError::Number { what: "cycle", found: cycle, expected });
        }
        Ok(Self { cycle, green, source: TimingSource::Plan })
    }

    /// From a fleet: the cycle by the strongest rhythm of leaving, or else of entering; green by the
    /// vehicles that were released, each t − y/w, or by those that left.
    pub fn found(road: &Road, passages: &[Passage]) -> Self {
        let left: Vec<f64> = passages.iter().filter_map(|passage| passage.left).collect();
        let entered: Vec<f64> = passages.iter().map(|passage| passage.entered).collect();
        let Some(cycle) = rhythm(&left).or_else(|| rhythm(&entered)) else {
            return Self { cycle: USUAL_CYCLE, green: 0.0, source: TimingSource::Assumed };
        };
        let queued = passages.iter().filter_map(|passage| passage.queued);
        let starts: Vec<f64> = queued
            .map(|queued| queued.released.time - queued.released.distance / road.wave_speed)
            .collect();
        let times = if starts.len() >= LEAST { &starts } else { &left };
        let (_, angle) = direction(times, cycle);
        Self { cycle, green: angle / TAU * cycle, source: TimingSource::Rhythm }
    }

    /// How many slots a cycle is cut into.
    pub fn slots(&self) -> usize {
        ((self.cycle / SLOT).round() as usize).clamp(6, 60)
    }
}

/// The cycle in which times come, if there is one.
fn rhythm(times: &[f64]) -> Option<f64> {
    let mut times: Vec<f64> = times.iter().copied().filter(|time| time.is_finite()).collect();
    times.sort_by(f64::total_cmp);
    let begin = *times.first()?;
    times.truncate(times.partition_point(|&time| time <= begin + LONG_ENOUGH));
    let times: Vec<f64> = times.iter().copied().step_by(times.len().div_ceil(MOST)).collect();
    let (first, last) = (*times.first()?, *times.last()?);
    if times.len() < LEAST || last - first < 3.0 * LONGEST {
        return None;
    }
    // Neighbouring frequencies differ by a quarter of a turn over the whole time.
    let step = 0.25 / (last - first);
    let count = ((1.0 / SHORTEST - 1.0 / LONGEST) / step) as usize;
    let strengths = (0..=count).map(|at| {
        let cycle = 1.0 / (1.0 / LONGEST + at as f64 * step);
        (cycle, direction(&times, cycle).0)
    });
    let (cycle, strength) =
        strengths.fold((0.0, 0.0), |best, next| if next.1 > best.1 { next } else { best });
    (strength * (times.len() as f64).sqrt() > CLEAR).then_some(cycle)
}

/// Length and angle of the mean direction of times on the circle of a cycle.
fn direction(times: &[f64], cycle: f64) -> (f64, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    for time in times {
        let (sin, cos) = (time.rem_euclid(cycle) / cycle * TAU).sin_cos();
        x += cos;
        y += sin;
    }
    let count = times.len().max(1) as f64;
    ((x * x + y * y).sqrt() / count, y.atan2(x).rem_euclid(TAU))
}
