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
    pub fn of(tally: &Tally, rate: f64) -> Self {
        let of = |counts: &[f64]| usual(counts, tally.per_cycle, rate);
        Self { entering: of(&tally.entered), leaving: of(&tally.left), present: of(&tally.present) }
    }

    /// Brings the level of what enters and leaves to that of counts of all vehicles in the same slots,
    /// where there are such counts.
    pub fn level_by(&mut self, tally: &Tally, all: &[Option<f64>], rate: f64) {
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
