//! Loop counts of sensors, laid on steps.

use std::collections::BTreeMap;

use traffic::{LoopCount, Seconds, Step, StepClock};

use super::FeaturesError;
use crate::dataset::Dataset;

/// Counts per step and loop; a loop that did not report for all of a step has none.
pub(super) type LoopSteps = BTreeMap<Step, Vec<Option<u32>>>;

/// Intervals may miss a step's border by this much through rounding.
const BORDER_TOLERANCE: f64 = 1e-6;

/// Adds up intervals that lie within steps. An interval across a step's border cannot be divided
/// honestly and is refused.
pub(super) fn per_step(
    dataset: &Dataset,
    counts: &[LoopCount],
    clock: StepClock,
) -> Result<LoopSteps, FeaturesError> {
    let detectors = dataset.network().loops().len();
    let mut covered: BTreeMap<(Step, usize), (f64, u32)> = BTreeMap::new();
    for count in counts {
        let step = clock.step_at(count.begin + Seconds::new(BORDER_TOLERANCE));
        let step_end = clock.start_of(step) + clock.length;
        if count.end > step_end + Seconds::new(BORDER_TOLERANCE) {
            return Err(FeaturesError::LoopInterval {
                path: dataset.folder().join("loops.parquet"),
                detector: dataset.network().loops()[count.detector].name.clone(),
                begin: count.begin,
                end: count.end,
                step: clock.length,
            });
        }
        let entry = covered.entry((step, count.detector)).or_default();
        entry.0 += (count.end - count.begin).get();
        entry.1 = entry.1.saturating_add(count.count);
    }
    let mut steps = LoopSteps::new();
    for ((step, detector), (seconds, count)) in covered {
        if seconds >= clock.length.get() - BORDER_TOLERANCE {
            steps.entry(step).or_insert_with(|| vec![None; detectors])[detector] = Some(count);
        }
    }
    Ok(steps)
}
