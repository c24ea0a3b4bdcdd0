//! The host's loop counts to its own numbers of each window.

use std::collections::BTreeMap;
use std::time::Instant;

use estimator::data::LiveLoops;
use sensing::stream::{LoopColumns, LoopFeed, RecordError};
use tokio::sync::mpsc;
use tracing::error;
use traffic::{Network, Seconds, Step, StepClock};

use super::records::Taker;

/// The host's own numbers of a step.
pub(super) struct Own<X> {
    pub x: X,
    /// When the records had reached the end of the step.
    pub ended: Instant,
}

/// What the host makes of the counts of a step.
pub(super) trait OfLoops: Send + 'static {
    type Own: Send + 'static;
    /// None if the step does not open.
    fn of_step(&mut self, step: Step, counts: &[Option<u32>]) -> Option<(Step, Self::Own)>;
}

/// Numbers of each step that has a whole window.
impl OfLoops for LiveLoops {
    type Own = Vec<f32>;

    fn of_step(&mut self, step: Step, counts: &[Option<u32>]) -> Option<(Step, Vec<f32>)> {
        self.push(step, counts);
        self.sample().map_err(|problem| error!("{problem}")).ok()?
    }
}

/// All counts as they are: windows are filled where sums are known.
pub(super) struct AsCounted;

impl OfLoops for AsCounted {
    type Own = Vec<Option<u32>>;

    fn of_step(&mut self, step: Step, counts: &[Option<u32>]) -> Option<(Step, Self::Own)> {
        Some((step, counts.to_vec()))
    }
}

/// Takes lines of loop counts and opens steps.
pub(super) struct LoopTaker<'n, W: OfLoops> {
    pub network: &'n Network,
    pub columns: Option<LoopColumns>,
    pub feed: LoopFeed<'n>,
    pub window: W,
    pub ends: Ends,
    pub to: mpsc::Sender<(Step, Own<W::Own>)>,
    /// Steps on their way.
    pub ready: Vec<(Step, Own<W::Own>)>,
}

/// When steps ended, by the clock of the wall.
pub(super) struct Ends {
    clock: StepClock,
    /// The step that the records have reached.
    current: Option<Step>,
    ended: BTreeMap<Step, Instant>,
}

impl Ends {
    /// Steps whose ends are remembered: more than the lag of any feed.
    const MOST: usize = 1024;

    pub(super) fn new(clock: StepClock) -> Self {
        Ends { clock, current: None, ended: BTreeMap::new() }
    }

    /// The records have reached a time. Where that is not a while after the time before, another
    /// recording has begun, and ends of the one before mean nothing.
    fn reach(&mut self, time: f64) {
        let now = self.clock.step_at(Seconds::new(time));
        let before = self.current.replace(now).unwrap_or(now);
        if !(0..=Self::MOST as i64).contains(&(now.0 - before.0)) {
            self.ended.clear();
            return;
        }
        for step in before.0..now.0 {
            self.ended.insert(Step(step), Instant::now());
        }
        while self.ended.len() > Self::MOST {
            self.ended.pop_first();
        }
    }

    fn take(&mut self, step: Step) -> Instant {
        self.ended.remove(&step).unwrap_or_else(Instant::now)
    }
}

fn open<W: OfLoops>(
    window: &mut W,
    ends: &mut Ends,
    step: Step,
    counts: &[Option<u32>],
) -> Option<(Step, Own<W::Own>)> {
    let ended = ends.take(step);
    let (step, x) = window.of_step(step, counts)?;
    Some((step, Own { x, ended }))
}

impl<W: OfLoops> Taker for LoopTaker<'_, W> {
    fn header(&mut self, line: &str) -> Result<(), RecordError> {
        self.columns = Some(LoopColumns::of(line)?);
        Ok(())
    }

    fn time(&self, line: &str) -> Option<f64> {
        self.columns.as_ref()?.time(line)
    }

    fn gap(&self) -> f64 {
        self.feed.gap()
    }

    fn record(&mut self, line: &str) -> Result<bool, RecordError> {
        let Some(columns) = &self.columns else { return Ok(true) };
        let record = columns.parse(line, self.network)?;
        let Self { feed, window, ends, ready, .. } = self;
        let taken = feed.take(record, &mut |step, counts| {
            ready.extend(open(window, ends, step, counts));
        });
        if let (Ok(()), Some(now)) = (&taken, feed.now()) {
            ends.reach(now);
        }
        let wanted = self.send();
        taken.map(|()| wanted)
    }

    fn finish(&mut self) -> Result<(), RecordError> {
        let Self { feed, window, ends, ready, .. } = self;
        feed.finish(&mut |step, counts| ready.extend(open(window, ends, step, counts)));
        self.send();
        Ok(())
    }
}

impl<W: OfLoops> LoopTaker<'_, W> {
    /// Sends what is ready; false if nobody listens any more.
    fn send(&mut self) -> bool {
        self.ready.drain(..).all(|own| self.to.blocking_send(own).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_one_recording_are_not_those_of_another() {
        let mut ends = Ends::new(StepClock { length: Seconds::new(10.0) });
        for time in [600.0, 611.0, 615.0, 625.0] {
            ends.reach(time);
        }
        assert_eq!(ends.ended.keys().copied().collect::<Vec<_>>(), [Step(60), Step(61)]);
        let ended = ends.ended[&Step(60)];
        assert_eq!(ends.take(Step(60)), ended);
        // Far ahead and back again: steps are remembered from there on.
        ends.reach(9e10);
        assert!(ends.ended.is_empty());
        ends.reach(630.0);
        assert!(ends.ended.is_empty());
        ends.reach(640.0);
        assert_eq!(ends.ended.keys().copied().collect::<Vec<_>>(), [Step(63)]);
        // However long a recording is, only so many.
        for step in 64..3000 {
            ends.reach(10.0 * f64::from(step));
        }
        assert_eq!(ends.ended.len(), Ends::MOST);
    }
}
