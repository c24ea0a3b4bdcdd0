//! Steps of which the host has its own data, in order, until they are settled.

use std::collections::VecDeque;
use std::time::Duration;

use traffic::Step;

use super::MAX_OPEN;

/// A step that waits for guests.
pub(super) struct OpenStep<O> {
    pub step: Step,
    pub own: O,
    pub since: Duration,
}

/// See the [module](self).
pub(super) struct OpenSteps<O> {
    open: VecDeque<OpenStep<O>>,
    /// The last settled step.
    settled: Option<Step>,
    /// When the last settled steps had opened.
    opened: VecDeque<(Step, Duration)>,
    /// Whether the host's own data are before what is settled.
    back: bool,
}

/// Own data that go back: the newest step, the first time.
pub(super) struct WentBack(pub Option<Step>);

impl<O> OpenSteps<O> {
    pub(super) fn new() -> Self {
        let (open, opened) = (VecDeque::new(), VecDeque::new());
        Self { open, settled: None, opened, back: false }
    }

    /// Opens a step. Steps come in order; others are left out.
    pub(super) fn push(&mut self, step: Step, own: O, since: Duration) -> Result<(), WentBack> {
        let newest = self.open.back().map(|open| open.step).or(self.settled);
        if let Some(newest) = newest.filter(|newest| step <= *newest) {
            let first = !std::mem::replace(&mut self.back, true);
            return Err(WentBack(first.then_some(newest)));
        }
        self.back = false;
        self.open.push_back(OpenStep { step, own, since });
        Ok(())
    }

    /// The step that is settled next, and since when it is open.
    pub(super) fn front(&self) -> Option<(Step, Duration)> {
        self.open.front().map(|open| (open.step, open.since))
    }

    /// Takes that step: it is settled.
    pub(super) fn settle(&mut self) -> Option<OpenStep<O>> {
        let open = self.open.pop_front()?;
        self.settled = Some(open.step);
        self.opened.push_back((open.step, open.since));
        if self.opened.len() > MAX_OPEN {
            self.opened.pop_front();
        }
        Some(open)
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.open.len() > MAX_OPEN
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The last settled step.
    pub(super) fn settled(&self) -> Option<Step> {
        self.settled
    }

    /// When a step that was settled not long ago had opened.
    pub(super) fn opened(&self, step: Step) -> Option<Duration> {
        self.opened.iter().find(|(opened, _)| *opened == step).map(|(_, since)| *since)
    }
}
