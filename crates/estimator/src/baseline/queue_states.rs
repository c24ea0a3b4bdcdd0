//! States of links by queue profiles: what a fleet says of density and flow without ground truth.
//!
//! QEST knows the fleet's trajectories and the roads; QEST-f also the host's loop counts and signal
//! plans. A cycle's profile is known when the cycle and a third of the next are over: these are
//! measurements of what was, not forecasts. [`LiveQueues`] says what could be known by a step's end.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use physics::queue::{
    CycleReport, Found, Knowledge, LinkQueues, QueueError, Relations, Road, SolveOutcome, Span,
    StepQueue, Tally, Timing, TimingSource, penetration,
};
use physics::{ModelError, Parameters};
use rayon::prelude::*;
use sensing::{Dataset, DatasetError, FeaturesError, PassagesError, StepRange, read_passages};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use traffic::{LinkId, LinkState, Passage, Step, VehPerKmLane, VehPerMinLane};

use crate::baseline::scale_up::averaged;
use crate::data::observed::Asked;
use crate::data::sources::{FleetData, LoopData};
use crate::data::timeline::Timeline;
use crate::metrics::Estimates;

mod live;
mod plans;
mod share;

pub use live::LiveQueues;
use plans::{LinkPlan, loop_curves, planned};
pub use share::FleetShare;

/// Whose knowledge profiles are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKnowledge {
    /// The fleet's trajectories and the roads (QEST).
    Fleet,
    /// Also the host's loop counts and signal plans (QEST-f).
    FleetAndHost,
}

/// How a state was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By vehicles of the fleet on the link in that cycle.
    MeasurementSource,
    /// No vehicle of the fleet was there, or what they say could not be: usual values.
    Fallback,
}

/// A link's state in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueState {
    /// Density and flow.
    pub state: LinkState,
    /// Variance of the density, (veh/km/lane)².
    pub density_variance: f64,
    /// Variance of the flow, (veh/min/lane)².
    pub flow_variance: f64,
    /// How it was found.
    pub origin: Origin,
}

/// What was found on the way, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueReport {
    /// The fleet's share of all vehicles.
    pub share: FleetShare,
    /// Cycles of all links.
    pub cycles: usize,
    /// Those without a vehicle of the fleet: usual values.
    pub unseen: usize,
    /// Those that could not be solved: usual values.
    pub failed: usize,
    /// Queue positions that contradict all else, left out.
    pub set_aside: usize,
    /// Cycles in which the loop contradicts the fleet, and was left out.
    pub without_loop: usize,
    /// Links on which no cycle was found.
    pub without_rhythm: usize,
}

/// The states of all links in all steps held.
#[derive(Clone, Debug)]
pub struct QueueStates {
    timeline: Arc<Timeline>,
    /// `[link][row of the step]`
    states: Vec<Vec<QueueState>>,
    report: QueueReport,
}

/// Why there are no states by queue profiles.
#[derive(Debug, Error)]
pub enum QueueStatesError {
    /// The dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The features.
    #[error(transparent)]
    Features(#[from] FeaturesError),
    /// Nothing to read.
    #[error("fleets: found none, expected at least one")]
    NoFleet,
    /// The trajectories.
    #[error(transparent)]
    Passages(#[from] PassagesError),
    /// The roads.
    #[error(transparent)]
    Roads(#[from] ModelError),
    /// The queues of a link.
    #[error("link `{link}`: {source}")]
    Link {
        /// The link.
        link: String,
        /// What is wrong.
        source: QueueError,
    },
    /// The queues of all links.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl QueueStates {
    /// Reads the trajectories of a dataset's fleet, and loops if the host helps, and solves all cycles
    /// of all links.
    pub fn read(
        folder: &Path,
        fleet: &str,
        knowledge: QueueKnowledge,
    ) -> Result<Self, QueueStatesError> {
        Self::read_union(folder, &[fleet], knowledge)
    }

    /// The same of several fleets that have no vehicle in common, as one: the folds of a provider's fleet.
    pub fn read_union(
        folder: &Path,
        fleets: &[&str],
        knowledge: QueueKnowledge,
    ) -> Result<Self, QueueStatesError> {
        let PartyData { fleet, passages, loops } = PartyData::read(folder, fleets, knowledge)?;
        Self::solve(&fleet, &passages, loops.as_ref())
    }

    /// From a fleet's passages by link, its totals, and the host's loops and plans if it helps.
    pub(crate) fn solve(
        fleet: &FleetData,
        passages: &[Vec<Passage>],
        loops: Option<&LoopData>,
    ) -> Result<Self, QueueStatesError> {
        let timeline = Arc::clone(fleet.timeline());
        let (links, share) = links(fleet, passages, loops)?;
        let rate = share.used;
        let solved: Result<Vec<_>, QueueStatesError> = links
            .par_iter()
            .map(|link| {
                let solved = link.solve(&timeline, fleet, rate, loops);
                solved.map_err(|source| of_link(&timeline, link.id, source))
            })
            .collect();
        let mut report = QueueReport { share, ..QueueReport::default() };
        let mut states = Vec::with_capacity(links.len());
        for ((of_link, cycles), link) in solved?.into_iter().zip(&links) {
            states.push(of_link);
            report.without_rhythm += usize::from(link.timing.source == TimingSource::Assumed);
            cycles.iter().for_each(|cycle| report.count(cycle));
        }
        Ok(Self { timeline, states, report })
    }

    /// The state of a link in a step that is held.
    pub fn state(&self, step: Step, link: LinkId) -> QueueState {
        self.states[link.index()][self.timeline.row(step)]
    }

    /// The steps held, and the network.
    pub(crate) fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// What was found on the way.
    pub fn report(&self) -> &QueueReport {
        &self.report
    }

    /// Estimates of windows; smooth targets by the mean over the last 60 s.
    pub(crate) fn estimate(&self, asked: &Asked<'_>) -> Estimates {
        averaged(self.timeline.step(), asked, |step, link| self.state(step, link).state)
    }
}

impl fmt::Display for QueueReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; {} cycles of queues, {} without the fleet (usual values)",
            self.share, self.cycles, self.unseen
        )?;
        let odd = [
            (self.failed, "cycles unsolved (usual values)"),
            (self.set_aside, "queue positions set aside as contradictions"),
            (self.without_loop, "cycles without their loop, which contradicts the fleet"),
            (self.without_rhythm, "links without a rhythm (usual cycle)"),
        ];
        for (count, what) in odd.into_iter().filter(|&(count, _)| count > 0) {
            write!(f, "; {count} {what}")?;
        }
        Ok(())
    }
}

impl QueueReport {
    fn count(&mut self, cycle: &CycleReport) {
        self.cycles += 1;
        self.unseen += usize::from(cycle.fleet == 0);
        match cycle.outcome {
            SolveOutcome::Solved => {}
            SolveOutcome::SetAside(positions) => self.set_aside += positions,
            SolveOutcome::WithoutLoop => self.without_loop += 1,
            SolveOutcome::Failed => self.failed += 1,
        }
    }
}

/// What the parties tell.
struct PartyData {
    fleet: FleetData,
    /// By link.
    passages: Vec<Vec<Passage>>,
    loops: Option<LoopData>,
}

impl PartyData {
    fn read(
        folder: &Path,
        fleets: &[&str],
        knowledge: QueueKnowledge,
    ) -> Result<Self, QueueStatesError> {
        let (timeline, features) = Timeline::read(folder)?;
        let timeline = Arc::new(timeline);
        let dataset = Dataset::open(folder)?;
        let passages = read_passages(&dataset, features.manifest(), fleets)?;
        let read = |fleet: &&str| FleetData::read(Arc::clone(&timeline), &features, fleet);
        let parts = fleets.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let rate = parts.iter().map(FleetData::rate).sum();
        let parts: Vec<&FleetData> = parts.iter().collect();
        let fleet = FleetData::together(&parts, &fleets.join(", "), rate);
        let fleet = fleet.ok_or(QueueStatesError::NoFleet)?;
        let loops = match knowledge {
            QueueKnowledge::Fleet => None,
            QueueKnowledge::FleetAndHost => Some(LoopData::read(Arc::clone(&timeline), &features)?),
        };
        Ok(Self { fleet, passages, loops })
    }
}

/// All links with what the fleet did on them, and its share of all vehicles.
fn links(
    fleet: &FleetData,
    passages: &[Vec<Passage>],
    loops: Option<&LoopData>,
) -> Result<(Vec<Link>, FleetShare), QueueStatesError> {
    let timeline = fleet.timeline();
    let network = timeline.network();
    let roads = Parameters::typical(network)?;
    let links: Result<Vec<Link>, QueueStatesError> = network
        .link_ids()
        .collect::<Vec<_>>()
        .par_iter()
        .map(|&id| {
            let failed = |source| of_link(timeline, id, source);
            let link = network.link(id);
            let diagram = roads.fundamental_diagram(id.index())?;
            let road = Road::new(link.length, link.lanes, &diagram).map_err(failed)?;
            let no_passages = Vec::new();
            let own = passages.get(id.index()).unwrap_or(&no_passages);
            Link::new(id, road, timeline, own, loops.is_some()).map_err(failed)
        })
        .collect();
    let links = links?;
    let by_loops = loops.and_then(|loops| rate_by_loops(&links, loops));
    let found: Vec<Found> = links.iter().map(|link| link.found.clone()).collect();
    let share = FleetShare::of(by_loops, penetration(&found), fleet.rate())?;
    Ok((links, share))
}

fn of_link(timeline: &Timeline, id: LinkId, source: QueueError) -> QueueStatesError {
    QueueStatesError::Link { link: timeline.network().link(id).name.clone(), source }
}

/// A link, its signal and what the fleet did on it.
struct Link {
    id: LinkId,
    road: Road,
    timing: Timing,
    /// By slot of the cycle, if the plan is known.
    open: Option<Vec<f64>>,
    /// For each stretch of steps held.
    spans: Vec<(Tally, Vec<Passage>)>,
    found: Found,
}

impl Link {
    fn new(
        id: LinkId,
        road: Road,
        timeline: &Timeline,
        passages: &[Passage],
        by_plan: bool,
    ) -> Result<Self, QueueError> {
        let plan = if by_plan { planned(timeline.network(), id)? } else { None };
        let (timing, open) = match plan {
            Some(LinkPlan { timing, open }) => (timing, open),
            None => (Timing::found(&road, passages), None),
        };
        let length = timeline.step().get();
        let mut found = Found::default();
        let mut spans = Vec::new();
        for range in timeline.held().ranges() {
            let (begin, end) = (range.first.0 as f64 * length, (range.last.0 + 1) as f64 * length);
            // Who was there at the end of an earlier recording has gone since.
            let inside = |passage: &&Passage| {
                passage.entered < end
                    && passage.left.map_or(passage.entered >= begin, |l| l > begin)
            };
            let own: Vec<Passage> = passages.iter().filter(inside).copied().collect();
            let tally = Tally::count(Span { begin, end }, &timing, &own)?;
            found.extend(tally.found(&road, &own));
            spans.push((tally, own));
        }
        Ok(Self { id, road, timing, open, spans, found })
    }

    fn solve(
        &self,
        timeline: &Timeline,
        fleet: &FleetData,
        rate: f64,
        loops: Option<&LoopData>,
    ) -> Result<(Vec<QueueState>, Vec<CycleReport>), QueueError> {
        let length = timeline.step().get();
        let mut states = Vec::with_capacity(timeline.held().len());
        let mut reports = Vec::new();
        let relations = Relations::fit(&self.road, rate, &self.found);
        for ((tally, passages), range) in self.spans.iter().zip(timeline.held().ranges()) {
            let knowledge = self.knowledge(rate, relations, loops, *range)?;
            let queues = LinkQueues::new(self.road, tally, passages, &knowledge)?;
            let count = (range.last.0 - range.first.0 + 1) as usize;
            let (steps, cycles) = queues.steps(range.first.0, count, length);
            for (at, queue) in steps.iter().enumerate() {
                let step = Step(range.first.0 + at as i64);
                states.push(self.state(queue, fleet, step, rate));
            }
            reports.extend(cycles);
        }
        Ok((states, reports))
    }

    /// What is known of it besides the fleet's passages, in a stretch of steps.
    fn knowledge(
        &self,
        rate: f64,
        relations: Relations,
        loops: Option<&LoopData>,
        range: StepRange,
    ) -> Result<Knowledge, QueueError> {
        let curves = loops.map(|loops| loop_curves(loops, self.id, range)).unwrap_or_default();
        let knowledge = Knowledge {
            rate,
            relations,
            open: self.open.clone(),
            // One loop counts all lanes: a second one on the link would say the same.
            loop_curve: curves.into_iter().next(),
        };
        if let Some(curve) = &knowledge.loop_curve {
            curve.check()?;
        }
        Ok(knowledge)
    }

    /// In the units of states. What the fleet itself drove is known; others drove as the profile says.
    fn state(&self, queue: &StepQueue, fleet: &FleetData, step: Step, rate: f64) -> QueueState {
        let network = fleet.timeline().network();
        let link = network.link(self.id);
        let own = fleet.totals(step, self.id).state(link, fleet.timeline().step());
        let lane_km = link.lane_length().get() / 1000.0;
        let lanes = f64::from(link.lanes);
        let per_minute = 60.0 / lanes;
        let room = self.road.room() / lane_km;
        let others = 1.0 - rate;
        let density = (queue.vehicles / lane_km).clamp(own.density.get().min(room), room);
        let flow = own.flow.get() + others * queue.flow * per_minute;
        let scale = others * per_minute;
        QueueState {
            state: LinkState {
                density: VehPerKmLane::new(density),
                flow: VehPerMinLane::new(flow),
            },
            density_variance: queue.vehicles_variance / (lane_km * lane_km) + LEAST_VARIANCE,
            flow_variance: queue.flow_variance * scale * scale + LEAST_VARIANCE,
            origin: if queue.measured { Origin::MeasurementSource } else { Origin::Fallback },
        }
    }
}

/// Of density and flow, whatever the program says: no profile is exact.
const LEAST_VARIANCE: f64 = 0.25;

/// The fleet's rate: its vehicles that left links with a loop, over those that the loops counted.
fn rate_by_loops(links: &[Link], loops: &LoopData) -> Option<f64> {
    let timeline = loops.timeline();
    let network = timeline.network();
    let length = timeline.step().get();
    let (mut own, mut all) = (0.0, 0.0);
    for (at, detector) in network.loops().iter().enumerate() {
        let link = links.iter().find(|link| link.id == detector.link)?;
        let spans = link.spans.iter().zip(timeline.held().ranges());
        for ((_, passages), range) in spans {
            let mut left: Vec<f64> = passages.iter().filter_map(|passage| passage.left).collect();
            left.sort_by(f64::total_cmp);
            for step in (range.first.0..=range.last.0).map(Step) {
                let Some(count) = loops.counts(step)[at] else { continue };
                let begin = step.0 as f64 * length;
                let before = |time: f64| left.partition_point(|&other| other < time) as f64;
                own += before(begin + length) - before(begin);
                all += count;
            }
        }
    }
    // A hundred vehicles give a rate of 20 % with an error of 4 %.
    (all >= 100.0 && own > 0.0).then(|| (own / all).min(1.0))
}

#[cfg(test)]
mod tests;
