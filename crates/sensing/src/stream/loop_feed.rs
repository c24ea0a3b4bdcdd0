//! Loop counts to steps.

use std::collections::BTreeMap;

use traffic::{Network, Seconds, Step, StepClock};

use super::{LoopRecord, RecordError};
use crate::features::LoopSums;
use crate::journey::{SampleError, is_time};

/// Makes steps of loop counts, see the [module](super).
///
/// A step is closed when the stream has reached its end and `lag` more; a loop that has not reported
/// for all of it by then has no count in it.
pub struct LoopFeed<'n> {
    network: &'n Network,
    clock: StepClock,
    lag: f64,
    gap: f64,
    open: BTreeMap<Step, LoopSums>,
    /// The first step that is not closed.
    next: Step,
    now: Option<f64>,
}

impl<'n> LoopFeed<'n> {
    /// Before the first record. A jump of time by more than `gap`, either way, begins anew.
    pub fn new(network: &'n Network, clock: StepClock, lag: Seconds, gap: Seconds) -> Self {
        let (lag, gap) = (lag.get().max(0.0), gap.get());
        Self { network, clock, lag, gap, open: BTreeMap::new(), next: Step(0), now: None }
    }

    /// The time that the stream has reached.
    pub fn now(&self) -> Option<f64> {
        self.now
    }

    /// Takes a record; hands out the steps that this closes, with what each loop has counted.
    pub fn take(
        &mut self,
        record: LoopRecord,
        on_step: &mut impl FnMut(Step, &[Option<u32>]),
    ) -> Result<(), RecordError> {
        match record {
            LoopRecord::Time(time) => self.reach(time, time, on_step),
            LoopRecord::Count { detector, begin, end, count } => {
                let step = LoopSums::step_of(self.clock, begin, end).ok_or_else(|| {
                    RecordError::Interval {
                        detector: self.network.loops()[detector].name.clone(),
                        begin,
                        end,
                        step: self.clock.length.get(),
                    }
                })?;
                if self.now.is_some_and(|now| (end - now).abs() <= self.gap) && step < self.next {
                    let now = self.clock.start_of(self.next).get();
                    return Err(RecordError::Late { found: begin, now });
                }
                self.reach(begin, end, on_step)?;
                if step >= self.next {
                    let loops = self.network.loops().len();
                    let sums = self.open.entry(step).or_insert_with(|| LoopSums::new(loops));
                    sums.add(detector, end - begin, count);
                }
                self.close(on_step);
                Ok(())
            }
        }
    }

    /// The stream has ended: closes the steps that it has reached the end of.
    pub fn finish(&mut self, on_step: &mut impl FnMut(Step, &[Option<u32>])) {
        self.lag = 0.0;
        self.close(on_step);
    }

    /// Lets time pass up to `time`; a stream that begins here has been there since `since`.
    fn reach(
        &mut self,
        since: f64,
        time: f64,
        on_step: &mut impl FnMut(Step, &[Option<u32>]),
    ) -> Result<(), RecordError> {
        for time in [since, time] {
            if !is_time(time) {
                return Err(SampleError::Time(time).into());
            }
        }
        match self.now {
            // Counts of several loops for one interval come one after the other.
            Some(now) if (time - now).abs() <= self.gap => self.now = Some(now.max(time)),
            _ => {
                self.open.clear();
                let whole = self.clock.step_at(Seconds::new(since));
                let begun = self.clock.start_of(whole).get() < since;
                self.next = Step(whole.0 + i64::from(begun));
                self.now = Some(time);
            }
        }
        self.close(on_step);
        Ok(())
    }

    fn close(&mut self, on_step: &mut impl FnMut(Step, &[Option<u32>])) {
        let Some(now) = self.now else { return };
        while self.clock.start_of(Step(self.next.0 + 1)).get() + self.lag <= now {
            let sums = self.open.remove(&self.next);
            let sums = sums.unwrap_or_else(|| LoopSums::new(self.network.loops().len()));
            on_step(self.next, &sums.counts(self.clock));
            self.next = Step(self.next.0 + 1);
        }
    }
}
