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

/// Cycles of plans that profiles are made of, in seconds. A plan that turns once a day is none.
pub const CYCLES: std::ops::RangeInclusive<f64> = 1.0..=3600.0;

impl Timing {
    /// From a plan.
    pub fn planned(cycle: f64, green: f64) -> Result<Self, QueueError> {
        let cycle = positive("cycle", cycle)?;
        if !CYCLES.contains(&cycle) {
            let expected = "1 s to 3600 s";
            return Err(QueueError::Number { what: "cycle", found: cycle, expected });
        }
        if !green.is_finite() {
            let expected = "a number of seconds";
            return Err(QueueError::Number { what: "start of green", found: green, expected });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_are_none_are_refused() {
        let refusal = |cycle, green| Timing::planned(cycle, green).unwrap_err().to_string();
        for cycle in [0.0, -90.0, f64::NAN, f64::INFINITY] {
            let expected = format!("queue: cycle: found {cycle}, expected more than 0");
            assert_eq!(refusal(cycle, 0.0), expected);
        }
        for cycle in [0.9, 3600.1] {
            let expected = format!("queue: cycle: found {cycle}, expected 1 s to 3600 s");
            assert_eq!(refusal(cycle, 0.0), expected);
        }
        let expected = "queue: start of green: found NaN, expected a number of seconds";
        assert_eq!(refusal(90.0, f64::NAN), expected);
        let timing = Timing::planned(90.0, -30.0).unwrap();
        assert_eq!((timing.cycle, timing.green, timing.source), (90.0, -30.0, TimingSource::Plan));
    }

    #[test]
    fn slots_are_about_five_seconds_but_neither_few_nor_many() {
        let slots = |cycle| Timing::planned(cycle, 0.0).unwrap().slots();
        assert_eq!([90.0, 92.0, 93.0, 120.0].map(slots), [18, 18, 19, 24]);
        assert_eq!([1.0, 30.0, 33.0].map(slots), [6, 6, 7]);
        assert_eq!([300.0, 305.0, 3600.0].map(slots), [60, 60, 60]);
    }

    #[test]
    fn directions_are_means_on_the_circle() {
        let (length, angle) = direction(&[100.0, 190.0, -80.0], 90.0);
        // All at 10 s of a cycle of 90 s.
        assert!((length - 1.0).abs() < 1e-12 && (angle - TAU / 9.0).abs() < 1e-12);
        // Opposite ones cancel; a right angle leaves √½ in the middle.
        assert!(direction(&[0.0, 45.0], 90.0).0 < 1e-12);
        let (length, angle) = direction(&[0.0, 22.5], 90.0);
        assert!((length - 0.5f64.sqrt()).abs() < 1e-12 && (angle - TAU / 8.0).abs() < 1e-12);
        // Around zero the mean is zero, not half a cycle.
        let (_, angle) = direction(&[89.0, 1.0], 90.0);
        assert!(angle.min(TAU - angle) < 1e-12, "{angle}");
        assert_eq!(direction(&[], 90.0).0, 0.0);
    }

    #[test]
    fn a_rhythm_is_found_where_there_is_one() {
        // One at the same second of each cycle, over two hours: neighbouring cycles tried differ by C²/4T = 0.3 s.
        for cycle in [45.0, 90.0, 111.0] {
            let times: Vec<f64> =
                (0..(7200.0 / cycle) as u32).map(|n| f64::from(n) * cycle).collect();
            let found = rhythm(&times).unwrap();
            // Half the cycle fits as well where it is long enough to be tried.
            let multiple = cycle / found;
            assert!((multiple - multiple.round()).abs() < 0.02, "{found} for {cycle}");
        }
        // Evenly spread over all cycles, too short, or too few: none.
        let even: Vec<f64> = (0..2000).map(|n| f64::from(n) * 7.131).collect();
        assert_eq!(rhythm(&even), None);
        assert_eq!(rhythm(&even[..60]), None, "427 s are less than three of the longest cycle");
        let few: Vec<f64> = (0..49).map(|n| 90.0 * f64::from(n)).collect();
        assert_eq!(rhythm(&few), None);
        assert_eq!(rhythm(&[]), None);
        assert_eq!(rhythm(&[f64::NAN; 100]), None);
    }
}
