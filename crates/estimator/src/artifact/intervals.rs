//! How far off an estimate may be: intervals by split-conformal prediction.
//!
//! What an estimator got wrong on windows that it did not learn from tells what it will get wrong on
//! others. For each link and quantity the errors of the validation part are sorted by the size of the
//! estimate into a few bins (a full road is harder to tell than an empty one); of each bin the
//! quantiles of the error are kept. An interval is the estimate plus its bin's lower and upper
//! quantile.
//!
//! For n errors that are exchangeable with the new one, the interval between the ranks
//! ⌊(n+1)·a/2⌋ and ⌈(n+1)·(1−a/2)⌉ covers the truth with probability of at least 1−a, whatever the
//! estimator. Traffic is not exchangeable in time, and the validation part has also chosen the epoch:
//! so coverage is measured ([`Coverage`]), not promised.

mod file;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::LinkState;

/// Levels that are kept, in percent.
pub(crate) const LEVELS: [u8; 4] = [50, 80, 90, 95];
/// Bins by the size of the estimate, where there are errors enough.
const BINS: usize = 3;
/// Least errors of a bin: with fewer the widest interval would need one more extreme than all.
const LEAST: usize = 2 * 100 / (100 - LEVELS[LEVELS.len() - 1] as usize) - 1;

/// Intervals of all links, for every level of `LEVELS`.
///
/// ```
/// use estimator::Intervals;
/// use traffic::{LinkState, VehPerKmLane, VehPerMinLane};
///
/// let state = |density| LinkState { density: VehPerKmLane::new(density), flow: VehPerMinLane::new(5.0) };
/// // One link, 99 windows: estimates of 20, truths of 10.2 to 29.8, evenly.
/// let truths: Vec<_> = (1..100).map(|n| state(10.0 + 0.2 * f64::from(n))).collect();
/// let intervals = Intervals::calibrate(&vec![state(20.0); 99], &truths, 1)?;
/// // 90 of 100 equally likely places for the next one lie between the 5th and the 95th.
/// let found = intervals.of(0, &state(20.0), Intervals::level(90)?).ok_or("one link")?;
/// assert!((found.density[0] - 11.0).abs() < 1e-9 && (found.density[1] - 29.0).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    /// Windows whose errors they come from.
    pub windows: usize,
    links: Vec<[Bins; 2]>,
}

/// Of one link and quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bins {
    /// Least estimate of each bin but the first.
    from: Vec<f64>,
    /// Of each bin and level: the error's lower and upper quantile.
    errors: Vec<[[f64; 2]; LEVELS.len()]>,
}

/// What the truth is likely to be between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkInterval {
    /// veh/km/lane.
    pub density: [f64; 2],
    /// veh/min/lane.
    pub flow: [f64; 2],
}

/// Why there are no intervals.
#[derive(Debug, Error, PartialEq)]
pub enum IntervalsError {
    /// Too few errors to tell.
    #[error("intervals: found {found} windows with known truth, expected {LEAST} or more")]
    TooFew {
        /// Windows.
        found: usize,
    },
    /// Not as many truths as estimates, or no whole windows.
    #[error("intervals: found {found} {what}, expected {expected}")]
    Shape {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many were needed.
        expected: String,
    },
    /// Something that cannot be compared.
    #[error(
        "intervals: window {window}, link number {link}: found no number, expected an estimate and a truth"
    )]
    NotANumber {
        /// Counted from 0.
        window: usize,
        /// Counted from 0.
        link: usize,
    },
    /// Not one of `LEVELS`.
    #[error("interval: found {found} %, expected one of 50, 80, 90, 95")]
    Level {
        /// In percent.
        found: u8,
    },
    /// A file whose parts do not fit together.
    #[error("intervals of link number {link}: found bins that are out of order or not finite")]
    Broken {
        /// Counted from 0.
        link: usize,
    },
}

impl Intervals {
    /// From estimates and truths of windows that were not learned from: `[window][link]` both.
    pub fn calibrate(
        estimates: &[LinkState],
        truths: &[LinkState],
        links: usize,
    ) -> Result<Self, IntervalsError> {
        check_shape(estimates, truths, links)?;
        let windows = estimates.len() / links.max(1);
        if windows < LEAST {
            return Err(IntervalsError::TooFew { found: windows });
        }
        let of_link = |link: usize| {
            let pairs = |value: fn(&LinkState) -> f64| {
                let of_window = |window| {
                    let at = window * links + link;
                    let (estimate, truth) = (value(&estimates[at]), value(&truths[at]));
                    let problem = IntervalsError::NotANumber { window, link };
                    let known = estimate.is_finite() && truth.is_finite();
                    known.then_some((estimate, truth - estimate)).ok_or(problem)
                };
                (0..windows).map(of_window).collect::<Result<Vec<_>, _>>()
            };
            Ok([Bins::of(pairs(density)?), Bins::of(pairs(flow)?)])
        };
        Ok(Self { windows, links: (0..links).map(of_link).collect::<Result<_, _>>()? })
    }

    /// Links that they are for.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// The place of a level in percent, for [`of`](Self::of).
    pub fn level(percent: u8) -> Result<Level, IntervalsError> {
        let place = LEVELS.iter().position(|&level| level == percent);
        place.map(Level).ok_or(IntervalsError::Level { found: percent })
    }

    /// The interval of an estimate of a link; none of a link that they are not for.
    pub fn of(&self, link: usize, estimate: &LinkState, level: Level) -> Option<LinkInterval> {
        let [densities, flows] = self.links.get(link)?;
        Some(LinkInterval {
            density: densities.around(density(estimate), level),
            flow: flows.around(flow(estimate), level),
        })
    }

    /// Refuses what a file cannot have meant.
    pub fn check(&self) -> Result<(), IntervalsError> {
        for (link, bins) in self.links.iter().enumerate() {
            if !bins.iter().all(Bins::is_sound) {
                return Err(IntervalsError::Broken { link });
            }
        }
        Ok(())
    }
}

/// One of `LEVELS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(usize);

impl Level {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Level> {
        (0..LEVELS.len()).map(Level)
    }

    /// In percent.
    pub fn percent(self) -> u8 {
        LEVELS[self.0]
    }
}

impl Bins {
    fn of(mut pairs: Vec<(f64, f64)>) -> Self {
        pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let bins = (pairs.len() / LEAST).clamp(1, BINS);
        let (mut from, mut errors) = (Vec::new(), Vec::new());
        let mut begin = 0;
        for bin in 1..=bins {
            let mut end = (pairs.len() * bin / bins).max(begin);
            // Equal estimates belong together, or the border between bins would mean nothing.
            while end > begin && end < pairs.len() && pairs[end].0 == pairs[end - 1].0 {
                end += 1;
            }
            if end - begin < LEAST {
                continue;
            }
            // What is left at the end is too little for a bin of its own.
            if pairs.len() - end < LEAST {
                end = pairs.len();
            }
            if begin > 0 {
                from.push(pairs[begin].0);
            }
            let mut own: Vec<f64> = pairs[begin..end].iter().map(|pair| pair.1).collect();
            own.sort_by(f64::total_cmp);
            errors.push(LEVELS.map(|level| quantiles(&own, level)));
            begin = end;
        }
        Self { from, errors }
    }

    fn around(&self, estimate: f64, level: Level) -> [f64; 2] {
        let bin = self.from.partition_point(|&least| least <= estimate);
        let [low, high] = self.errors[bin][level.0];
        // Negative traffic does not exist.
        [(estimate + low).max(0.0), (estimate + high).max(0.0)]
    }

    fn is_sound(&self) -> bool {
        let ordered = self.from.is_sorted() && self.from.iter().all(|least| least.is_finite());
        let sound = |[low, high]: &[f64; 2]| low.is_finite() && high.is_finite() && low <= high;
        ordered
            && self.errors.len() == self.from.len() + 1
            && self.errors.iter().flatten().all(sound)
    }
}

/// Lower and upper quantile of sorted errors, of at least [`LEAST`].
fn quantiles(sorted: &[f64], level: u8) -> [f64; 2] {
    let (count, tail) = (sorted.len(), f64::from(100 - level) / 200.0);
    let next = (count + 1) as f64;
    // Ranks count from 1. The product may miss a whole number by rounding.
    let low = (next * tail + 1e-9).floor() as usize;
    let high = (next * (1.0 - tail) - 1e-9).ceil() as usize;
    [sorted[low.clamp(1, count) - 1], sorted[high.clamp(1, count) - 1]]
}

/// How often intervals of one level hold the truth, and how wide they are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// Nominal, in percent.
    pub level: u8,
    /// Shares of true values within the interval, of density and flow.
    pub within: [f64; 2],
    /// Mean width: veh/km/lane, veh/min/lane.
    pub width: [f64; 2],
}

impl Coverage {
    /// Of every level, on windows with known truth: `[window][link]` of those links. Not a number
    /// without windows.
    pub fn measure(
        intervals: &Intervals,
        links: &[usize],
        estimates: &[LinkState],
        truths: &[LinkState],
    ) -> Result<Vec<Self>, IntervalsError> {
        check_shape(estimates, truths, links.len())?;
        let measure = |level: Level| {
            let (mut within, mut width) = ([0.0; 2], [0.0; 2]);
            for (at, (estimate, truth)) in estimates.iter().zip(truths).enumerate() {
                let link = links[at % links.len()];
                let (found, expected) = (link, format!("less than {}", intervals.links()));
                let shape = IntervalsError::Shape { what: "as number of a link", found, expected };
                let interval = intervals.of(link, estimate, level).ok_or(shape)?;
                let pairs = [(interval.density, density(truth)), (interval.flow, flow(truth))];
                for (quantity, ([low, high], truth)) in pairs.into_iter().enumerate() {
                    within[quantity] += f64::from(u8::from((low..=high).contains(&truth)));
                    width[quantity] += high - low;
                }
            }
            let mean = |sum: [f64; 2]| sum.map(|sum| sum / estimates.len() as f64);
            Ok(Coverage { level: level.percent(), within: mean(within), width: mean(width) })
        };
        Level::all().map(measure).collect()
    }
}

fn check_shape(
    estimates: &[LinkState],
    truths: &[LinkState],
    links: usize,
) -> Result<(), IntervalsError> {
    if truths.len() != estimates.len() {
        let (found, expected) = (truths.len(), estimates.len().to_string());
        return Err(IntervalsError::Shape { what: "truths", found, expected });
    }
    if links == 0 || !estimates.len().is_multiple_of(links) {
        let (found, expected) = (estimates.len(), format!("whole windows of {links} links"));
        return Err(IntervalsError::Shape { what: "estimates", found, expected });
    }
    Ok(())
}

fn density(state: &LinkState) -> f64 {
    state.density.get()
}

fn flow(state: &LinkState) -> f64 {
    state.flow.get()
}

#[cfg(test)]
mod tests;
