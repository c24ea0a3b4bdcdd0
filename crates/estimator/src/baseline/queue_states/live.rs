//! Queue profiles without hindsight: a step's state from what was seen by its end.
//!
//! Time is cut into cycles anew for each step, the last of which ends with the step. Passages that go on
//! are cut there: who has not left yet has not, who will stand does not yet. What is usual is the mean
//! over the last cycles. Rate, relations and rhythm are constants of the place, as they are for profiles
//! with hindsight: found once, from all of the recording.

use std::collections::BTreeMap;
use std::path::Path;

use physics::queue::{
    CycleReport, Knowledge, LinkQueues, QueueError, Relations, Span, Tally, Timing,
};
use rayon::prelude::*;
use sensing::StepRange;
use traffic::{LinkId, LinkState, Passage, Step};

use super::plans::open_from;
use super::{
    FleetShare, Link, PartyData, QueueKnowledge, QueueReport, QueueState, QueueStatesError, links,
    of_link,
};
use crate::baseline::scale_up::{averaged, averaged_steps};
use crate::data::observed::Asked;
use crate::metrics::Estimates;

/// Cycles that are looked back at, the present one too: older ones have no weight in what is usual.
const CYCLES: usize = 6;
/// Less than any time that matters, more than times of day are rounded by.
const INSTANT: f64 = 1e-3;

/// A fleet's passages on all links, from which the state of any step can be told as of its end.
pub struct LiveQueues {
    told: PartyData,
    links: Vec<Link>,
    /// Of each link.
    relations: Vec<Relations>,
    share: FleetShare,
}

impl LiveQueues {
    /// Reads the trajectories of a dataset's fleets, which have no vehicle in common, as one, and loops if the host helps.
    pub(crate) fn read_union(
        folder: &Path,
        fleets: &[&str],
        knowledge: QueueKnowledge,
    ) -> Result<Self, QueueStatesError> {
        let told = PartyData::read(folder, fleets, knowledge)?;
        let (links, share) = links(&told.fleet, &told.passages, told.loops.as_ref())?;
        let relations =
            links.iter().map(|link| Relations::fit(&link.road, share.used, &link.found)).collect();
        Ok(Self { told, links, relations, share })
    }

    /// Estimates of windows, and how their cycles came out; smooth targets by the mean over the last 60 s, each step of it
    /// by what was known at its own end.
    pub(crate) fn estimate(
        &self,
        asked: &Asked<'_>,
    ) -> Result<(Estimates, QueueReport), QueueStatesError> {
        let length = self.told.fleet.timeline().step();
        let averaged_over = averaged_steps(asked.target, length);
        let of_window = |last: &Step| (last.0 + 1 - averaged_over..=last.0).map(Step);
        let mut steps: Vec<Step> = asked.windows.iter().flat_map(of_window).collect();
        steps.sort_unstable();
        steps.dedup();
        let of_links: Result<Vec<Vec<_>>, QueueStatesError> = asked
            .links
            .par_iter()
            .map(|&link| steps.iter().map(|&step| self.state(step, link)).collect())
            .collect();
        let of_links = of_links?;
        let mut report = QueueReport { share: self.share, ..QueueReport::default() };
        of_links.iter().flatten().for_each(|(_, cycle)| report.count(cycle));
        let places = asked.links.iter().zip(&of_links);
        let places = places.flat_map(|(&link, states)| {
            steps.iter().zip(states).map(move |(&step, (state, _))| ((step, link), state.state))
        });
        let states: BTreeMap<(Step, LinkId), LinkState> = places.collect();
        let estimates = averaged(length, asked, |step, link| states[&(step, link)]);
        Ok((estimates, report))
    }

    /// The state of a link in a step that is held.
    pub fn state(
        &self,
        step: Step,
        link: LinkId,
    ) -> Result<(QueueState, CycleReport), QueueStatesError> {
        let found = self.solve(step, &self.links[link.index()]);
        found.map_err(|source| of_link(self.told.fleet.timeline(), link, source))
    }

    /// Everything seen after a step is lost.
    #[cfg(test)]
    pub(super) fn forget_after(&mut self, step: Step) {
        let end = (step.0 + 1) as f64 * self.told.fleet.timeline().step().get();
        for (_, passages) in self.links.iter_mut().flat_map(|link| &mut link.spans) {
            *passages = known_by(end, f64::NEG_INFINITY, passages);
        }
    }

    fn solve(&self, step: Step, link: &Link) -> Result<(QueueState, CycleReport), QueueError> {
        let timeline = self.told.fleet.timeline();
        let length = timeline.step().get();
        let end = (step.0 + 1) as f64 * length;
        let held = timeline.held();
        let range =
            held.ranges().iter().position(|range| range.first <= step && step <= range.last);
        let Some(range) = range else {
            let (what, expected) = ("step", "one that is held");
            return Err(QueueError::Number { what, found: step.0 as f64, expected });
        };
        let first = held.ranges()[range].first;
        let seen = end - first.0 as f64 * length;
        let cycle = link.timing.cycle;
        let cycles = ((seen / cycle) as usize).clamp(1, CYCLES);
        let begin = end - cycles as f64 * cycle;
        let passages = known_by(end, begin, &link.spans[range].1);
        let timing = Timing { green: end, ..link.timing };
        let span = Span { begin: begin + INSTANT, end: end - INSTANT };
        let tally = Tally::count(span, &timing, &passages)?;
        let recent = Step((begin / length) as i64);
        let past = StepRange { first: first.max(recent), last: step };
        let relations = self.relations[link.id.index()];
        let known = link.knowledge(self.share.used, relations, self.told.loops.as_ref(), past)?;
        let network = timeline.network();
        let open = link.open.as_ref().map(|_| open_from(network, link.id, &timing, begin));
        let known = Knowledge { open, ..known };
        let queues = LinkQueues::new(link.road, &tally, &passages, &known)?;
        let (queue, report) = queues.last(length);
        Ok((link.state(&queue, &self.told.fleet, step, self.share.used), report))
    }
}

/// Passages as they looked at a time, of those that matter from a begin on; in order of entering.
fn known_by(end: f64, begin: f64, passages: &[Passage]) -> Vec<Passage> {
    let entered = passages.partition_point(|passage| passage.entered < end);
    let there = |passage: &&Passage| passage.left.is_none_or(|left| left > begin);
    let cut = |passage: &Passage| Passage {
        left: passage.left.filter(|&left| left <= end),
        queued: passage.queued.filter(|queued| queued.joined.time <= end),
        ..*passage
    };
    passages[..entered].iter().filter(there).map(cut).collect()
}
