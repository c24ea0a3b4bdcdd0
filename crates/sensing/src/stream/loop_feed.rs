//! Loop counts to steps.

use std::collections::BTreeMap;

use traffic::{Network, Seconds, Step, StepClock};

use super::jumps::{Jumps, Word};
use super::{LoopRecord, RecordError};
use crate::features::{BORDER_TOLERANCE, LoopSums};
use crate::journey::{PositionError, is_time};

/// Makes steps of loop counts, see the [module](super).
///
/// A step is closed when the stream has reached its end and `lag` more; a loop that has not reported
/// for all of it by then has no count in it.
pub struct LoopFeed<'n> {
    network: &'n Network,
    clock: StepClock,
    lag: f64,
    jumps: Jumps,
    open: BTreeMap<Step, LoopSums>,
    /// The first step that is not closed.
    next: Step,
    now: Option<f64>,
    /// `[loop]`: up to when it has reported.
    reached: Vec<f64>,
}

impl<'n> LoopFeed<'n> {
    /// Before the first record. A jump of time by more than `gap` may begin anew, see the [module](super).
    pub fn new(network: &'n Network, clock: StepClock, lag: Seconds, gap: Seconds) -> Self {
        let (lag, jumps) = (lag.get().max(0.0), Jumps::new(gap.get()));
        let (open, next) = (BTreeMap::new(), Step(0));
        let reached = vec![f64::NEG_INFINITY; network.loops().len()];
        Self { network, clock, lag, jumps, open, next, now: None, reached }
    }

    /// The time that the stream has reached.
    pub fn now(&self) -> Option<f64> {
        self.now
    }

    /// The most that time may jump within a recording, in seconds.
    pub fn gap(&self) -> f64 {
        self.jumps.gap()
    }

    /// Takes a record; hands out the steps that this closes, with what each loop has counted.
    pub fn take(
        &mut self,
        record: LoopRecord,
        on_step: &mut impl FnMut(Step, &[Option<u32>]),
    ) -> Result<(), RecordError> {
        match record {
            LoopRecord::Time(time) => {
                let begins = self.jumps.begins(self.now, time, Word::Sender)?;
                self.reach(begins, time, time);
            }
            LoopRecord::Count { detector, begin, end, count } => {
                if !is_time(begin) {
                    return Err(PositionError::Time(begin).into());
                }
                let name = || self.network.loops()[detector].name.clone();
                let Some(step) = LoopSums::step_of(self.clock, begin, end) else {
                    let (detector, step) = (name(), self.clock.length.get());
                    return Err(RecordError::Interval { detector, begin, end, step });
                };
                let begins = self.jumps.begins(self.now, end, Word::Single)?;
                if !begins && step < self.next {
                    let now = self.clock.start_of(self.next).get();
                    return Err(RecordError::Late { found: begin, now });
                }
                // A sender that comes back may repeat what it has sent.
                let reached = self.reached[detector];
                if !begins && begin < reached - BORDER_TOLERANCE {
                    return Err(RecordError::Counted { detector: name(), begin, reached });
                }
                self.reach(begins, begin, end);
                self.reached[detector] = end;
                if step >= self.next {
                    let loops = self.network.loops().len();
                    let sums = self.open.entry(step).or_insert_with(|| LoopSums::new(loops));
                    sums.add(detector, end - begin, count);
                }
            }
        }
        self.close(on_step);
        Ok(())
    }

    /// The stream has ended: closes the steps that it has reached the end of.
    pub fn finish(&mut self, on_step: &mut impl FnMut(Step, &[Option<u32>])) {
        self.lag = 0.0;
        self.close(on_step);
    }

    /// Lets time pass up to `time`; a recording that begins here has been there since `since`.
    fn reach(&mut self, begins: bool, since: f64, time: f64) {
        if begins {
            self.open.clear();
            self.reached.fill(f64::NEG_INFINITY);
            let whole = self.clock.step_at(Seconds::new(since));
            let begun = self.clock.start_of(whole).get() < since;
            self.next = Step(whole.0 + i64::from(begun));
            self.now = Some(time);
        } else {
            // Counts of several loops for one interval come one after the other.
            self.now = self.now.map(|now| now.max(time));
        }
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
