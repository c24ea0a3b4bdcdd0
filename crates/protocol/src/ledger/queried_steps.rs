//! What a party was queries about: how many products it has given of the numbers of each step.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use traffic::Window;

use super::entry::LedgerEntry;
use crate::message::parts::MAX_STEP;

/// Most ranges of steps in a line, which is not to grow without end.
const MOST_RANGES: usize = 1024;
/// What one product of a number counts: fractions are rounded up to a millionth.
const ONE: i128 = 1 << 20;

/// The steps that the products of a message are of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueriedSteps {
    /// How many numbers the party holds of each step.
    entries: u32,
    /// Products with single numbers of each step, all of its numbers together.
    each: u64,
    /// The steps, by the first and the last of each range; of more ranges than a line has, some between them are charged,
    /// too.
    steps: Vec<[i64; 2]>,
}

impl QueriedSteps {
    /// So many products with single numbers, of all samples alike; none if there are none.
    pub fn of(samples: &[Window], entries: usize, products: u64) -> Option<Self> {
        let mut steps: Vec<i64> = samples.iter().map(|sample| sample.last.0).collect();
        steps.sort_unstable();
        steps.dedup();
        let each = products.div_ceil(steps.len().max(1) as u64);
        let mut gap = 1;
        let mut ranges = joined(&steps, gap);
        while ranges.len() > MOST_RANGES {
            gap *= 2;
            ranges = joined(&steps, gap);
        }
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        (each > 0).then_some(Self { entries, each, steps: ranges })
    }

    /// Whether a ledger writes such a thing.
    pub(super) fn is_valid(&self) -> bool {
        let within = |step: &i64| (-MAX_STEP..=MAX_STEP).contains(step);
        self.steps.len() <= MOST_RANGES
            && self.steps.iter().all(|[first, last]| first <= last && within(first) && within(last))
    }

    /// What it counts for each number of a step, in the mean over them.
    fn charge(&self) -> i128 {
        let entries = i128::from(self.entries.max(1));
        (i128::from(self.each) * ONE + entries - 1) / entries
    }
}

/// Ranges of steps, in order, that are no farther apart than this.
fn joined(steps: &[i64], gap: i64) -> Vec<[i64; 2]> {
    let mut ranges: Vec<[i64; 2]> = Vec::new();
    for &step in steps {
        match ranges.last_mut() {
            Some([_, last]) if step - *last <= gap => *last = step,
            _ => ranges.push([step, step]),
        }
    }
    ranges
}

/// All products that have left, by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryBudget {
    /// By how much the count of a step is more than that of the step before; 0 before the first.
    changes: BTreeMap<i64, i128>,
    /// Products with single numbers of steps that are not known: ledgers once did not say.
    unplaced: u64,
}

impl QueryBudget {
    /// Counts a line.
    pub(super) fn count(&mut self, line: &LedgerEntry) {
        match &line.steps {
            Some(about) => self.add(about),
            None if line.is_of_products() => {
                self.unplaced = self.unplaced.saturating_add(line.numbers());
            }
            None => {}
        }
    }

    pub(super) fn add(&mut self, about: &QueriedSteps) {
        for [first, last] in &about.steps {
            *self.changes.entry(*first).or_default() += about.charge();
            *self.changes.entry(last + 1).or_default() -= about.charge();
        }
    }

    /// Whether nothing has left.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.unplaced == 0
    }

    /// Products with single numbers of steps that are not known.
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Steps from the one named on, and the count of each.
    fn pieces(&self) -> impl Iterator<Item = (i64, i128)> {
        self.changes.iter().scan(0, |sum, (&step, &change)| {
            *sum += change;
            Some((step, *sum))
        })
    }

    /// The products of each number of that of these steps which has the most, with those of one more message.
    pub fn most_with(&self, samples: &[Window], more: Option<&QueriedSteps>) -> f64 {
        let mut steps: Vec<i64> = samples.iter().map(|sample| sample.last.0).collect();
        steps.sort_unstable();
        let mut pieces = self.pieces().peekable();
        let (mut now, mut most) = (0, 0);
        for step in steps {
            while let Some((_, count)) = pieces.next_if(|(from, _)| *from <= step) {
                now = count;
            }
            most = most.max(now);
        }
        in_products(most + more.map_or(0, QueriedSteps::charge))
    }

    /// The step that was queries about the most, and the products that were given of each of its numbers, in the mean
    /// over them.
    pub fn most(&self) -> Option<(i64, f64)> {
        let (step, count) = self.pieces().max_by_key(|(step, count)| (*count, Reverse(*step)))?;
        Some((step, in_products(count)))
    }
}

fn in_products(count: i128) -> f64 {
    count as f64 / ONE as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use traffic::{FleetView, Step, Window};

    use super::*;

    fn samples(steps: &[i64]) -> Vec<Window> {
        steps.iter().map(|&step| Window { last: Step(step), view: FleetView(0) }).collect()
    }

    #[test]
    fn scattered_steps_are_charged_with_those_between() {
        let together = QueriedSteps::of(&samples(&[5, 3, 4, 9, 9]), 34, 400).unwrap();
        assert_eq!((together.each, &together.steps[..]), (100, &[[3, 5], [9, 9]][..]));
        assert_eq!(QueriedSteps::of(&samples(&[5]), 34, 0), None);
        let far: Vec<i64> = (0..2000).map(|i| i * 3).collect();
        let about = QueriedSteps::of(&samples(&far[..1024]), 34, 1024).unwrap();
        assert_eq!((about.each, about.steps.len(), about.steps[1]), (1, 1024, [3, 3]));
        let about = QueriedSteps::of(&samples(&far), 34, 2000).unwrap();
        assert_eq!((about.each, &about.steps[..]), (1, &[[0, 5997]][..]));
        // The longest that there can be fits a line.
        let far: Vec<i64> = (0..1024).map(|i| MAX_STEP - 2048 + 2 * i).collect();
        let about = QueriedSteps::of(&samples(&far), 34, u64::MAX).unwrap();
        assert!(about.is_valid());
        assert!(
            serde_json::to_string(&about).unwrap().len() < super::super::entry::MAX_LINE / 2 + 4096
        );
    }

    proptest! {
        /// The same as counting step by step.
        #[test]
        fn products_are_counted_by_step(
            batches in prop::collection::vec((prop::collection::vec(-20i64..20, 1..6), 1u64..50), 0..8),
            about in prop::collection::vec(-25i64..25, 1..6),
        ) {
            let (mut queries, mut counted) = (QueryBudget::default(), BTreeMap::<i64, u64>::new());
            for (steps, products) in &batches {
                let one = QueriedSteps::of(&samples(steps), 2, *products).unwrap();
                let each = steps.iter().collect::<std::collections::BTreeSet<_>>();
                for step in &each {
                    *counted.entry(**step).or_default() += products.div_ceil(each.len() as u64);
                }
                queries.add(&one);
            }
            let of = |step: &i64| counted.get(step).copied().unwrap_or(0);
            // Halves are no fractions that are rounded.
            let expected = about.iter().map(of).max().unwrap() as f64 / 2.0;
            let more = QueriedSteps::of(&samples(&about[..1]), 2, 7);
            prop_assert_eq!(queries.most_with(&samples(&about), None), expected);
            prop_assert_eq!(queries.most_with(&samples(&about), more.as_ref()), expected + 3.5);
            let most = counted.values().max().copied().unwrap_or(0);
            let found = queries.most();
            prop_assert_eq!(found.map_or(0.0, |(_, each)| each), most as f64 / 2.0);
            prop_assert!(found.is_none_or(|(step, _)| of(&step) == most));
        }
    }
}
