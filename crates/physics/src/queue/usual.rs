//! What is usual at a time of the cycle nowadays: the mean over neighbouring cycles, and a little over
//! all of them.

use super::tally::Tally;

/// Weights of a cycle and of those one, two … away.
const CYCLES: [f64; 6] = [1.0, 0.9, 0.8, 0.7, 0.5, 0.3];
/// Weight of the mean over all cycles: decides where no neighbour has a vehicle of the fleet.
const ALWAYS: f64 = 0.1;
/// Weights of the slots before, at and after: vehicles do not keep to slots.
const SLOTS: [f64; 3] = [0.25, 0.5, 0.25];

/// Usual counts of all vehicles.
pub(super) struct Usual {
    /// Entering in a slot.
    pub entering: Vec<f64>,
    /// Leaving in a slot.
    pub leaving: Vec<f64>,
    /// On the link at the border of slots.
    pub present: Vec<f64>,
}

impl Usual {
    /// By a fleet of this rate.
    pub(super) fn of(tally: &Tally, rate: f64) -> Self {
        let of = |counts: &[f64]| usual(counts, tally.per_cycle, rate);
        Self { entering: of(&tally.entered), leaving: of(&tally.left), present: of(&tally.present) }
    }

    /// Brings the level of what enters and leaves to that of counts of all vehicles in the same slots,
    /// where there are such counts.
    pub(super) fn level_by(&mut self, tally: &Tally, all: &[Option<f64>], rate: f64) {
        let reach = (CYCLES.len() / 2 * tally.per_cycle) as isize;
        let slots = tally.left.len();
        // Sums over all slots before: the level of a stretch is a difference.
        let mut sums = vec![(0.0, 0.0); slots + 1];
        for at in 0..slots {
            let (counted, own) = sums[at];
            sums[at + 1] = match all.get(at).copied().flatten() {
                Some(count) => (counted + count, own + tally.left[at] / rate),
                None => (counted, own),
            };
        }
        for at in 0..slots {
            let from = (at as isize - reach).max(0) as usize;
            let to = (at + reach as usize + 1).min(slots);
            let counted = sums[to].0 - sums[from].0;
            let own = sums[to].1 - sums[from].1;
            // A few vehicles on both sides: a level from nearly nothing is no level.
            let level = (counted + 5.0) / (own + 5.0);
            self.entering[at] *= level;
            self.leaving[at] *= level;
        }
    }
}

fn usual(counts: &[f64], per_cycle: usize, rate: f64) -> Vec<f64> {
    let last = counts.len().saturating_sub(1);
    let smooth: Vec<f64> = (0..counts.len())
        .map(|at| {
            let [before, here, after] = [at.saturating_sub(1), at, (at + 1).min(last)];
            SLOTS[0] * counts[before] + SLOTS[1] * counts[here] + SLOTS[2] * counts[after]
        })
        .collect();
    let always: Vec<f64> = (0..per_cycle)
        .map(|phase| {
            let (sum, count) = smooth
                .iter()
                .skip(phase)
                .step_by(per_cycle)
                .fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            sum / f64::max(count, 1.0)
        })
        .collect();
    (0..counts.len())
        .map(|at| {
            let (mut sum, mut weights) = (ALWAYS * always[at % per_cycle], ALWAYS);
            for (away, weight) in CYCLES.iter().enumerate() {
                let earlier = at.checked_sub(away * per_cycle);
                let later = Some(at + away * per_cycle).filter(|_| away > 0);
                for place in [earlier, later].into_iter().flatten() {
                    if let Some(value) = smooth.get(place) {
                        sum += weight * value;
                        weights += weight;
                    }
                }
            }
            sum / weights / rate
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Span, Timing};

    #[test]
    fn what_is_always_the_same_is_usual() {
        for rate in [0.1, 0.5, 1.0] {
            let found = usual(&[3.0; 40], 10, rate);
            assert_eq!(found.len(), 40);
            assert!(found.iter().all(|value| (value * rate - 3.0).abs() < 1e-12), "{found:?}");
        }
        assert_eq!(usual(&[], 10, 0.5), [] as [f64; 0]);
    }

    /// A pattern that repeats with the cycle stays, but for the smoothing over neighbouring slots by ¼, ½, ¼.
    #[test]
    fn a_pattern_of_the_cycle_is_kept_and_smoothed() {
        let cycle = [0.0, 0.0, 8.0, 0.0, 0.0];
        let found = usual(&cycle.repeat(6), 5, 1.0);
        for (at, value) in found.iter().enumerate().skip(5).take(20) {
            let expected = [0.0, 2.0, 4.0, 2.0, 0.0][at % 5];
            assert!((value - expected).abs() < 1e-12, "{at}: {value}");
        }
        // Nothing is lost or added: each vehicle counts once in the sum.
        let (sum, before): (f64, f64) = (found.iter().sum(), 6.0 * 8.0);
        assert!((sum - before).abs() < 1e-9, "{sum}");
    }

    /// One vehicle in one cycle of eleven: its own cycle has weight 1 of 1 + 2·(0.9 + 0.8 + 0.7 + 0.5 + 0.3) + 0.1 = 7.5,
    /// and a tenth of an eleventh by the mean over all.
    #[test]
    fn a_single_cycle_counts_by_its_weight() {
        let mut counts = vec![0.0; 11 * 4];
        counts[5 * 4 + 1] = 4.0;
        let found = usual(&counts, 4, 1.0);
        let expected = (1.0 + 0.1 / 11.0) * 2.0 / 7.5;
        assert!((found[5 * 4 + 1] - expected).abs() < 1e-12, "{}", found[5 * 4 + 1]);
        // Five cycles away 0.3 of it; at the first cycle the weights of later ones alone are there.
        let first = (0.3 + 0.1 / 11.0) * 2.0 / (1.0 + 0.9 + 0.8 + 0.7 + 0.5 + 0.3 + 0.1);
        assert!((found[1] - first).abs() < 1e-12, "{}", found[1]);
    }

    #[test]
    fn levels_follow_counts_of_all_vehicles() {
        let timing = Timing::planned(60.0, 0.0).unwrap();
        let tally = Tally::count(Span { begin: 0.0, end: 600.0 }, &timing, &[]).unwrap();
        let slots = tally.left.len();
        let usual = || Usual {
            entering: vec![1.0; slots],
            leaving: vec![2.0; slots],
            present: vec![3.0; slots + 1],
        };
        // Without counts the level stays: (0 + 5)/(0 + 5).
        let mut same = usual();
        same.level_by(&tally, &[], 0.5);
        assert_eq!((same.entering[7], same.leaving[7], same.present[7]), (1.0, 2.0, 3.0));
        // Two vehicles a slot over the seven cycles around, none of them of the fleet: (2·n + 5)/5.
        let mut more = usual();
        more.level_by(&tally, &vec![Some(2.0); slots], 0.5);
        let around = (2 * 3 * tally.per_cycle + 1) as f64;
        let middle = slots / 2;
        assert!((more.entering[middle] - (2.0 * around + 5.0) / 5.0).abs() < 1e-9);
        assert_eq!(more.present[middle], 3.0, "who is there is not levelled");
    }
}
