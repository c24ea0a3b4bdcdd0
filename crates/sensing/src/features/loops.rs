//! Loop counts of sensors, laid on steps.

use std::collections::BTreeMap;

use traffic::{LoopCount, Seconds, Step, StepClock};

use super::FeaturesError;
use crate::dataset::Dataset;

/// Counts per step and loop; a loop that did not report for all of a step has none.
pub(super) type LoopSteps = BTreeMap<Step, Vec<Option<u32>>>;

/// Intervals may miss a step's border by this much through rounding.
pub(crate) const BORDER_TOLERANCE: f64 = 1e-6;

/// What the loops have reported of one step: `[loop]`, seconds covered and vehicles.
pub(crate) struct LoopSums(Vec<(f64, u32)>);

impl LoopSums {
    pub(crate) fn new(loops: usize) -> Self {
        Self(vec![(0.0, 0); loops])
    }

    /// The step that an interval lies in. One across a border cannot be divided honestly: none.
    pub(crate) fn step_of(clock: StepClock, begin: f64, end: f64) -> Option<Step> {
        let step = clock.step_at(Seconds::new(begin + BORDER_TOLERANCE));
        let step_end = clock.start_of(step) + clock.length;
        (end <= step_end.get() + BORDER_TOLERANCE).then_some(step)
    }

    /// Adds an interval.
    pub(crate) fn add(&mut self, detector: usize, seconds: f64, count: u32) {
        let sum = &mut self.0[detector];
        sum.0 += seconds;
        sum.1 = sum.1.saturating_add(count);
    }

    /// What each loop counted, where it has reported for all of the step.
    pub(crate) fn counts(&self, clock: StepClock) -> Vec<Option<u32>> {
        let whole = clock.length.get() - BORDER_TOLERANCE;
        self.0.iter().map(|&(seconds, count)| (seconds >= whole).then_some(count)).collect()
    }
}

/// Adds up intervals that lie within steps; one across a step's border is refused.
pub(super) fn per_step(
    dataset: &Dataset,
    counts: &[LoopCount],
    clock: StepClock,
) -> Result<LoopSteps, FeaturesError> {
    let detectors = dataset.network().loops().len();
    let mut sums: BTreeMap<Step, LoopSums> = BTreeMap::new();
    for count in counts {
        let Some(step) = LoopSums::step_of(clock, count.begin.get(), count.end.get()) else {
            return Err(FeaturesError::LoopInterval {
                path: dataset.folder().join("loops.parquet"),
                detector: dataset.network().loops()[count.detector].name.clone(),
                begin: count.begin,
                end: count.end,
                step: clock.length,
            });
        };
        let sum = sums.entry(step).or_insert_with(|| LoopSums::new(detectors));
        sum.add(count.detector, (count.end - count.begin).get(), count.count);
    }
    let steps = sums.into_iter().map(|(step, sums)| (step, sums.counts(clock)));
    Ok(steps.filter(|(_, counts)| counts.iter().any(Option::is_some)).collect())
}
