//! How far off an estimate may be: intervals by split-conformal prediction.
//!
//! What an estimator got wrong on windows that it did not learn from tells what it will get wrong on others. A full road
//! is harder to tell than an empty one: so errors of all links together, sorted by the size of the estimate into bins,
//! tell how large errors of that size are, `σ(estimate)`. What is left, `error / σ`, is ranked for each link, with the
//! same of all other links beside it as if they were 50 more: a link of which little is known leans on the others. An
//! interval is the estimate plus σ times the lower and the upper quantile. It contains its estimate: where both tails
//! leave errors of one sign alone, it begins at the estimate and goes as far to that side as the level asks for.
//!
//! For n errors that are exchangeable with the new one, the interval between the ranks ⌊(n+1)·a/2⌋ and ⌈(n+1)·(1−a/2)⌉
//! covers the truth with probability of at least 1−a, whatever the estimator. Traffic is not exchangeable in time, and
//! the validation part has also chosen the epoch: so coverage is measured ([`Coverage`]), not promised. A level is there
//! if n is large enough for its ranks.
//!
//! Where the truth itself is noisy (what a held-out part of a fleet tells), the noise's variance is taken off σ². What is left of a bin is then
//! known badly, the part of noise in all bins together well: σ² of a bin is drawn to that part of its mean square, the more the less
//! bins differ beyond chance. The ranks show the shape of
//! the noise more than that of the errors: the larger the noise's part in the mean square, the more the quantiles are those of the
//! logistic distribution instead, between those of normal errors and of Laplace's, which normal errors have whose variance differs exponentially
//! from one box to the next.

mod file;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::LinkState;

/// Levels that are kept, in percent.
pub(crate) const LEVELS: [u8; 4] = [50, 80, 90, 95];
/// Most bins by the size of the estimate, over all links, and least errors of each.
const BINS: usize = 10;
const IN_A_BIN: usize = 100;
/// The upper quantiles of the logistic distribution with variance 1 for each level, √3/π·ln((1 + level)/(1 − level)).
const LOGISTIC: [f64; 4] = [0.6057, 1.2114, 1.6234, 2.0198];
/// As how many errors of a link those of all others count, at most.
const POOLED: usize = 50;
/// As how many they are ranked.
const RANKED: usize = 1000;
/// Least part of the mean square error that is not noise: less cannot be told.
const LEAST_TRUE: f64 = 0.05;

/// Least errors of a level in percent: with fewer, an interval would need one more extreme than all.
fn least(level: u8) -> usize {
    (2 * 100usize).div_ceil(100 - usize::from(level)) - 1
}

/// Intervals of all links, for every level of `LEVELS` that the errors allow.
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
    /// How large errors are, of density and flow.
    sizes: [ErrorSizes; 2],
    /// Of each link, of density and flow: of each level that there is, from the first of `LEVELS` on, the lower and upper
    /// quantile of errors over their size.
    links: Vec<[Vec<[f64; 2]>; 2]>,
}

/// How large errors are, by the size of the estimate, over all links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorSizes {
    /// Least estimate of each bin but the first.
    from: Vec<f64>,
    /// Root mean square error of each bin, without noise of the truth.
    error: Vec<f64>,
}

/// What an estimator got wrong once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownError {
    /// What it said.
    pub estimate: f64,
    /// The truth less that.
    pub error: f64,
    /// What the noise of what is taken for the truth adds to the square of the error, in the mean; 0 of ground truth. Below zero where it
    /// is itself told by chance.
    pub noise: f64,
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
    #[error("intervals: found {found} known errors of a link, expected {} or more", least(LEVELS[0]))]
    TooFew {
        /// Errors.
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
    /// A level for which there were too few errors.
    #[error("interval: found {found} %, expected one that the model has: {has}")]
    NoLevel {
        /// In percent.
        found: u8,
        /// Those that there are.
        has: String,
    },
    /// A file whose parts do not fit together.
    #[error("intervals of link number {link}: found quantiles that are out of order or not finite")]
    Broken {
        /// Counted from 0.
        link: usize,
    },
    /// The same.
    #[error("intervals: found sizes of errors that are out of order or not finite")]
    BrokenSizes,
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
        let of_link = |link: usize| {
            let known = |value: fn(&LinkState) -> f64| {
                let of_window = |window| {
                    let at = window * links + link;
                    let (estimate, truth) = (value(&estimates[at]), value(&truths[at]));
                    let problem = IntervalsError::NotANumber { window, link };
                    let known = KnownError { estimate, error: truth - estimate, noise: 0.0 };
                    (estimate.is_finite() && truth.is_finite()).then_some(known).ok_or(problem)
                };
                (0..windows).map(of_window).collect::<Result<Vec<_>, _>>()
            };
            Ok([known(density)?, known(flow)?])
        };
        Self::of_errors(&(0..links).map(of_link).collect::<Result<Vec<_>, _>>()?)
    }

    /// From errors of density and flow of each link on windows that were not learned from, as many as are known of each.
    pub fn of_errors(links: &[[Vec<KnownError>; 2]]) -> Result<Self, IntervalsError> {
        for (link, known) in links.iter().enumerate() {
            for known in known {
                let sound = |one: &KnownError| {
                    [one.estimate, one.error, one.noise].iter().all(|value| value.is_finite())
                };
                if let Some(window) = known.iter().position(|one| !sound(one)) {
                    return Err(IntervalsError::NotANumber { window, link });
                }
            }
        }
        let mut fewest = usize::MAX;
        let scored: [(ErrorSizes, Vec<Vec<[f64; 2]>>); 2] = std::array::from_fn(|quantity| {
            let of_links: Vec<&[KnownError]> =
                links.iter().map(|known| known[quantity].as_slice()).collect();
            let sizes = ErrorSizes::of(&of_links);
            let scores = Scores::of(&of_links, &sizes);
            let counts = (0..links.len()).map(|link| scores.count(link));
            fewest = fewest.min(counts.min().unwrap_or(0));
            let quantiles = (0..links.len()).into_par_iter().map(|link| scores.quantiles(link));
            let quantiles = quantiles.collect();
            (sizes.without_noise, quantiles)
        });
        let levels = LEVELS.iter().take_while(|&&level| fewest >= least(level)).count();
        if levels == 0 {
            return Err(IntervalsError::TooFew {
                found: if links.is_empty() { 0 } else { fewest },
            });
        }
        let [(density, densities), (flow, flows)] = scored;
        let pairs = densities.into_iter().zip(flows).map(|(mut density, mut flow)| {
            density.truncate(levels);
            flow.truncate(levels);
            [density, flow]
        });
        let windows = links.iter().flatten().map(Vec::len).max().unwrap_or(0);
        Ok(Self { windows, sizes: [density, flow], links: pairs.collect() })
    }

    /// Links that they are for.
    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// The place of a level in percent, for [`of`](Self::of).
    pub fn level(percent: u8) -> Result<Level, IntervalsError> {
        let place = LEVELS.iter().position(|&level| level == percent);
        place.map(Level).ok_or(IntervalsError::Level { found: percent })
    }

    /// The same, if there were errors enough for it.
    pub fn known_level(&self, percent: u8) -> Result<Level, IntervalsError> {
        let level = Self::level(percent)?;
        if self.levels().any(|known| known == level) {
            return Ok(level);
        }
        let has: Vec<String> = self.levels().map(|level| level.percent().to_string()).collect();
        Err(IntervalsError::NoLevel { found: percent, has: has.join(", ") })
    }

    /// The levels that there are.
    pub fn levels(&self) -> impl Iterator<Item = Level> + use<> {
        let levels = self.links.first().map_or(0, |[density, _]| density.len());
        (0..levels).map(Level)
    }

    /// The interval of an estimate of a link, which contains the estimate; none of a link that they are not for, or of a
    /// level that there is not.
    pub fn of(&self, link: usize, estimate: &LinkState, level: Level) -> Option<LinkInterval> {
        let quantiles = self.links.get(link)?;
        let around = |quantity: usize, estimate: f64| {
            let [low, high] = *quantiles[quantity].get(level.0)?;
            let size = self.sizes[quantity].at(estimate);
            // Negative traffic does not exist.
            Some([(estimate + size * low).max(0.0), estimate + size * high])
        };
        Some(LinkInterval {
            density: around(0, density(estimate))?,
            flow: around(1, flow(estimate))?,
        })
    }

    /// Refuses what a file cannot have meant.
    pub fn check(&self) -> Result<(), IntervalsError> {
        if !self.sizes.iter().all(ErrorSizes::is_sound) {
            return Err(IntervalsError::BrokenSizes);
        }
        let levels = self.levels().count();
        for (link, quantiles) in self.links.iter().enumerate() {
            let sound = |[low, high]: &[f64; 2]| {
                low.is_finite() && high.is_finite() && *low <= 0.0 && *high >= 0.0
            };
            let whole = |of: &Vec<[f64; 2]>| {
                of.len() == levels && (1..=LEVELS.len()).contains(&levels) && of.iter().all(sound)
            };
            if !quantiles.iter().all(whole) {
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
    /// In percent.
    pub fn percent(self) -> u8 {
        LEVELS[self.0]
    }
}

/// Bins with and without the noise of the truth.
struct Sizes {
    /// Root mean square error as it was seen, by which errors are divided.
    seen: Vec<f64>,
    without_noise: ErrorSizes,
    /// The part of the mean square error, 0 to 1, that is noise of the truth.
    noise: f64,
}

impl ErrorSizes {
    fn of(links: &[&[KnownError]]) -> Sizes {
        let mut all: Vec<&KnownError> = links.iter().copied().flatten().collect();
        all.sort_by(|one, other| one.estimate.total_cmp(&other.estimate));
        let bins = (all.len() / IN_A_BIN).clamp(1, BINS);
        // Equal estimates belong together, or the border between bins would mean nothing.
        let mut from: Vec<f64> = (1..bins)
            .map(|bin| all[bin * all.len() / bins].estimate)
            .filter(|&least| all.first().is_some_and(|first| first.estimate < least))
            .collect();
        from.dedup();
        let mut sums = vec![BinSums::default(); from.len() + 1];
        for one in all {
            sums[from.partition_point(|&least| least <= one.estimate)].add(one);
        }
        let total = BinSums::together(&sums);
        let known = total.true_part().max(LEAST_TRUE);
        let spread = BinSums::spread_beyond_chance(&sums, known);
        let seen = sums.iter().map(|bin| bin.mean_square().sqrt()).collect();
        let error = sums
            .iter()
            .map(|bin| {
                let chance = bin.chance();
                let own = if chance > 0.0 { spread / (spread + chance) } else { 1.0 };
                let part = own * bin.true_part() + (1.0 - own) * known;
                (part.max(LEAST_TRUE) * bin.mean_square()).sqrt()
            })
            .collect();
        Sizes { seen, without_noise: ErrorSizes { from, error }, noise: 1.0 - known.min(1.0) }
    }

    fn bin(&self, estimate: f64) -> usize {
        self.from.partition_point(|&least| least <= estimate)
    }

    fn at(&self, estimate: f64) -> f64 {
        self.error.get(self.bin(estimate)).copied().unwrap_or(0.0)
    }

    fn is_sound(&self) -> bool {
        let ordered = self.from.is_sorted() && self.from.iter().all(|least| least.is_finite());
        let sizes = self.error.iter().all(|size| size.is_finite() && *size >= 0.0);
        ordered && sizes && self.error.len() == self.from.len() + 1
    }
}

/// Of the errors in a bin.
#[derive(Clone, Default)]
struct BinSums {
    count: f64,
    /// Of squares of errors.
    squares: f64,
    /// Of what is noise in these.
    noise: f64,
    /// Of squares of what is not, error by error.
    fourth: f64,
}

impl BinSums {
    fn add(&mut self, one: &KnownError) {
        let square = one.error.powi(2);
        self.count += 1.0;
        self.squares += square;
        self.noise += one.noise;
        self.fourth += (square - one.noise).powi(2);
    }

    fn together(bins: &[Self]) -> Self {
        bins.iter().fold(Self::default(), |sum, bin| Self {
            count: sum.count + bin.count,
            squares: sum.squares + bin.squares,
            noise: sum.noise + bin.noise,
            fourth: sum.fourth + bin.fourth,
        })
    }

    fn mean_square(&self) -> f64 {
        if self.count > 0.0 { self.squares / self.count } else { 0.0 }
    }

    /// The part of the mean square that is not noise; all of it where there are no errors.
    fn true_part(&self) -> f64 {
        if self.squares > 0.0 { 1.0 - self.noise / self.squares } else { 1.0 }
    }

    /// The variance of this part by chance: none without noise.
    fn chance(&self) -> f64 {
        if self.noise == 0.0 || self.squares <= 0.0 {
            return 0.0;
        }
        let mean = (self.squares - self.noise) / self.count;
        let variance = (self.fourth / self.count - mean * mean).max(0.0);
        variance / self.count / self.mean_square().powi(2)
    }

    /// By how much bins differ in this part beyond chance: a variance.
    fn spread_beyond_chance(bins: &[Self], known: f64) -> f64 {
        let count: f64 = bins.iter().map(|bin| bin.count).sum();
        let beyond = |bin: &Self| bin.count * ((bin.true_part() - known).powi(2) - bin.chance());
        (bins.iter().map(beyond).sum::<f64>() / count.max(1.0)).max(0.0)
    }
}

/// Errors over their size.
struct Scores {
    of_links: Vec<Vec<f64>>,
    /// Of all links, at equal distances in rank where there are too many.
    pooled: Vec<f64>,
    all: usize,
    /// The part of the mean square that is noise.
    noise: f64,
}

impl Scores {
    fn of(links: &[&[KnownError]], sizes: &Sizes) -> Self {
        let score = |one: &KnownError| {
            let size = sizes.seen[sizes.without_noise.bin(one.estimate)];
            if size > 0.0 { one.error / size } else { 0.0 }
        };
        let of_links: Vec<Vec<f64>> =
            links.iter().map(|known| known.iter().map(score).collect()).collect();
        let mut pooled: Vec<f64> = of_links.iter().flatten().copied().collect();
        pooled.sort_by(f64::total_cmp);
        let all = pooled.len();
        if all > RANKED {
            let middle = |rank: usize| pooled[(2 * rank + 1) * all / (2 * RANKED)];
            pooled = (0..RANKED).map(middle).collect();
        }
        Self { of_links, pooled, all, noise: sizes.noise }
    }

    /// As how many errors those of other links count beside a link's own.
    fn pooled(&self, link: usize) -> usize {
        POOLED.min(self.all - self.of_links[link].len())
    }

    fn count(&self, link: usize) -> usize {
        self.of_links[link].len() + self.pooled(link)
    }

    /// Of a link, at all levels.
    fn quantiles(&self, link: usize) -> Vec<[f64; 2]> {
        let mut weighted: Vec<(f64, f64)> =
            self.of_links[link].iter().map(|&score| (score, 1.0)).collect();
        let pooled = self.pooled(link) as f64;
        if pooled > 0.0 {
            let each = pooled / self.pooled.len() as f64;
            weighted.extend(self.pooled.iter().map(|&score| (score, each)));
        }
        weighted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let of_level = |(&level, usual): (&u8, f64)| {
            let [low, high] = around_zero(&weighted, self.count(link), level);
            let mixed = |seen: f64, usual: f64| (1.0 - self.noise) * seen + self.noise * usual;
            [mixed(low, -usual), mixed(high, usual)]
        };
        LEVELS.iter().zip(LOGISTIC).map(of_level).collect()
    }
}

/// Lower and upper quantile of sorted errors with weights that add up to `count`, 0 between them: where both tails leave
/// errors of one sign alone, the interval begins at 0 and goes as far to that side as the level asks for.
fn around_zero(sorted: &[(f64, f64)], count: usize, level: u8) -> [f64; 2] {
    // The new one is as likely at any place among them: ranks are those of one more.
    let (places, level) = ((count + 1) as f64, f64::from(level) / 100.0);
    let tails = places * (1.0 + level) / 2.0;
    let beyond = |sorted: &mut dyn Iterator<Item = &(f64, f64)>| -> f64 {
        sorted.map(|(_, weight)| weight).sum()
    };
    let (from_below, from_above) = (|| sorted.iter(), || sorted.iter().rev());
    let low = at_rank(&mut from_above(), tails, count);
    let high = at_rank(&mut from_below(), tails, count);
    if low > 0.0 {
        let below = beyond(&mut from_below().take_while(|(value, _)| *value < 0.0));
        [0.0, at_rank(&mut from_below(), below + places * level, count)]
    } else if high < 0.0 {
        let above = beyond(&mut from_above().take_while(|(value, _)| *value > 0.0));
        [at_rank(&mut from_above(), above + places * level, count), 0.0]
    } else {
        [low, high]
    }
}

/// The first value with whose weight a rank is reached; the last if it is not, 0 without any.
fn at_rank(ordered: &mut dyn Iterator<Item = &(f64, f64)>, rank: f64, count: usize) -> f64 {
    // Sums of weights miss whole numbers by rounding.
    let rank = rank.min(count as f64) * (1.0 - 1e-9);
    let (mut sum, mut last) = (0.0, 0.0);
    for (value, weight) in ordered {
        (sum, last) = (sum + weight, *value);
        if sum >= rank {
            break;
        }
    }
    last
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
        intervals.levels().map(measure).collect()
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
