//! The sums of steps that are not yet closed.

use std::collections::{BTreeMap, VecDeque};

use traffic::{
    Boxes, LinkId, Metres, Motion, Network, Seconds, Step, StepClock, Totals, TurnId, cut,
    cut_cells,
};

use super::under_way::{CellSpan, Stretch, UnderWay};
use super::{ExtractReport, FeaturePlan};
use crate::journey::furthest;

/// Sums of one open step.
pub(super) struct OpenStep {
    /// `[band][link][sub-step][cell]`
    pub boxes: Vec<Totals>,
    /// `[band][link]`: vehicles that were in the box.
    pub vehicles: Vec<u32>,
    /// `[link]`: Σ over vehicles of their own time² and distance² in the box.
    pub squares: Vec<[f64; 2]>,
    /// `[band][turn]`
    pub turns: Vec<u32>,
    /// `[band]`: trips that ended, by origin and destination.
    pub trips: Vec<BTreeMap<(LinkId, LinkId), u32>>,
    /// `[loop]`
    pub loops: Vec<u32>,
}

/// The open steps, one after the other, and what is needed to add to them.
pub(super) struct Sums<'n> {
    network: &'n Network,
    clock: StepClock,
    cells: usize,
    sub_steps: usize,
    bands: usize,
    /// `[link]`
    cuts: Vec<Boxes>,
    /// `[link]`: its loops and their positions.
    loops_on: Vec<Vec<(usize, f64)>>,
    sub_step: SubStep,
    open: VecDeque<OpenStep>,
    spare: Vec<OpenStep>,
    first: i64,
    pub report: ExtractReport,
}

impl<'n> Sums<'n> {
    pub(super) fn new(network: &'n Network, plan: &FeaturePlan) -> Self {
        let sub_step = plan.clock.length.get() / plan.sub_steps as f64;
        let cut_of =
            |length: f64| Boxes { cell: length / plan.cells as f64, cells: plan.cells, sub_step };
        let mut loops_on = vec![Vec::new(); network.links().len()];
        for (index, detector) in network.loops().iter().enumerate() {
            loops_on[detector.link.index()].push((index, detector.position.get()));
        }
        Self {
            network,
            clock: plan.clock,
            cells: plan.cells,
            sub_steps: plan.sub_steps,
            bands: plan.fleets.bands(),
            cuts: network.links().iter().map(|link| cut_of(link.length.get())).collect(),
            loops_on,
            sub_step: SubStep::default(),
            open: VecDeque::new(),
            spare: Vec::new(),
            first: 0,
            report: ExtractReport::default(),
        }
    }

    /// The first step that is open.
    pub(super) fn first(&self) -> Step {
        Step(self.first)
    }

    /// When the first open step ends.
    pub(super) fn first_end(&self) -> f64 {
        (self.first + 1) as f64 * self.clock.length.get()
    }

    /// Whether nothing was added to any open step.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Goes on with another step; all before are closed.
    pub(super) fn begin(&mut self, first: Step) {
        self.first = first.0;
    }

    /// Closes the first step; give it back with [`Sums::reuse`].
    pub(super) fn close_first(&mut self) -> Option<OpenStep> {
        self.step(self.first);
        self.first += 1;
        self.open.pop_front()
    }

    /// Takes the span of a closed step for a later one.
    pub(super) fn reuse(&mut self, mut closed: OpenStep) {
        closed.clear();
        self.spare.push(closed);
    }

    /// The time between two moments, if it lies in one sub-step.
    pub(super) fn stretch(&self, begin: f64, end: f64) -> Option<Stretch> {
        // Sub-steps are the same on all links.
        let (number, until) = self.cuts.first()?.sub_step_at(begin);
        let SubStep { step, within, .. } = SubStep::new(number, self.sub_steps);
        let sub_step = within * self.cells;
        let stretch = Stretch { begin, end, step, sub_step, furthest: furthest(end - begin) };
        (begin < end && end <= until).then_some(stretch)
    }

    /// The span that a vehicle has where it was last seen.
    pub(super) fn span(&self, vehicle: &UnderWay) -> CellSpan {
        let (link, x) = (vehicle.seen.link, f64::from(vehicle.seen.metres));
        if vehicle.in_box.1 != link {
            return CellSpan::NONE;
        }
        let (cell, _) = self.cuts[link.index()].cell_at(x);
        self.span_from(x, link, CellSpan { row: self.row(vehicle.band, link), cell, end: x })
    }

    /// The span in a cell, from a position on.
    #[inline]
    fn span_from(&self, x: f64, link: LinkId, span: CellSpan) -> CellSpan {
        let Boxes { cell, cells, .. } = self.cuts[link.index()];
        let last = span.cell + 1 == cells;
        let end = if last { self.length(link) } else { (span.cell as i64 + 1) as f64 * cell };
        let loops = self.loops_on[link.index()].iter();
        let ahead = loops.map(|&(_, position)| position).filter(|&position| position > x);
        CellSpan { end: ahead.fold(end, f64::min), ..span }
    }

    /// The length of a link.
    #[inline]
    pub(super) fn length(&self, link: LinkId) -> f64 {
        self.network.link(link).length.get()
    }

    /// Where the boxes of a band and link begin.
    #[inline]
    fn row(&self, band: u8, link: LinkId) -> usize {
        let links = self.network.links().len();
        (usize::from(band) * links + link.index()) * self.cells * self.sub_steps
    }

    /// Adds a motion along one link to the boxes, and counts the loops it crosses.
    // The compiler would not: two places call it. But a motion handed over in memory costs more
    // than adding it up.
    #[inline(always)]
    pub(super) fn add(&mut self, vehicle: &mut UnderWay, link: LinkId, motion: Motion) {
        self.report.trajectory_time += Seconds::new(motion.t1 - motion.t0);
        self.report.trajectory_distance += Metres::new(motion.x1 - motion.x0);
        let row = self.row(vehicle.band, link);
        cut(motion, self.cuts[link.index()], |sub_step, cell, seconds, metres| {
            if sub_step != self.sub_step.number {
                self.sub_step = SubStep::new(sub_step, self.sub_steps);
            }
            let SubStep { step, within, .. } = self.sub_step;
            if (step, link) != vehicle.in_box {
                self.leave_box(vehicle);
                vehicle.in_box = (step, link);
            }
            let piece = Totals { time: Seconds::new(seconds), distance: Metres::new(metres) };
            vehicle.own += piece;
            let index = row + within * self.cells + cell;
            self.step(step).boxes[index] += piece;
        });
        self.cross_loops(link, motion);
    }

    /// Adds the motion of a vehicle along its link, all of it within a stretch.
    pub(super) fn add_along(&mut self, vehicle: &mut UnderWay, stretch: &Stretch, metres: f64) {
        let x0 = f64::from(vehicle.seen.metres);
        let motion = Motion { t0: stretch.begin, x0, t1: stretch.end, x1: x0 + metres };
        let time = Seconds::new(motion.t1 - motion.t0);
        let whole = Totals { time, distance: Metres::new(metres) };
        self.report.trajectory_time += whole.time;
        self.report.trajectory_distance += whole.distance;
        vehicle.own += whole;
        let (link, span) = (vehicle.seen.link, vehicle.span);
        let cuts = self.cuts[link.index()];
        let boxes = &mut self.step(stretch.step).boxes[span.row + stretch.sub_step..][..cuts.cells];
        let cell = cut_cells(motion, cuts, span.cell, |cell, seconds, metres| {
            boxes[cell] += Totals { time: Seconds::new(seconds), distance: Metres::new(metres) };
        });
        self.cross_loops(link, motion);
        vehicle.span = self.span_from(motion.x1, link, CellSpan { cell, ..span });
    }

    /// Counts a vehicle at the loops that it crosses.
    #[inline]
    fn cross_loops(&mut self, link: LinkId, motion: Motion) {
        for at in 0..self.loops_on[link.index()].len() {
            let (detector, position) = self.loops_on[link.index()][at];
            if motion.x0 < position && position <= motion.x1 {
                let share = (position - motion.x0) / (motion.x1 - motion.x0);
                let time = motion.t0 + share * (motion.t1 - motion.t0);
                self.step_at(time).loops[detector] += 1;
            }
        }
    }

    /// A vehicle turned onto a link.
    pub(super) fn turned(&mut self, vehicle: &UnderWay, onto: LinkId, time: f64) {
        let Some(TurnId(turn)) = self.network.turn_between(vehicle.seen.link, onto) else { return };
        let turns = self.network.turns().len();
        let index = usize::from(vehicle.band) * turns + turn as usize;
        self.step_at(time).turns[index] += 1;
    }

    /// A trip ended where the vehicle was last seen.
    pub(super) fn arrive(&mut self, vehicle: &UnderWay) {
        let trip = (vehicle.origin, vehicle.seen.link);
        let step = self.step_at(vehicle.seen.time);
        *step.trips[usize::from(vehicle.band)].entry(trip).or_default() += 1;
    }

    /// Notes what a vehicle did in the box that it leaves.
    pub(super) fn leave_box(&mut self, vehicle: &mut UnderWay) {
        let own = std::mem::take(&mut vehicle.own);
        if own == Totals::default() {
            return;
        }
        let (step, link) = vehicle.in_box;
        let links = self.network.links().len();
        let open = self.step(step);
        open.vehicles[usize::from(vehicle.band) * links + link.index()] += 1;
        open.squares[link.index()][0] += own.time.get() * own.time.get();
        open.squares[link.index()][1] += own.distance.get() * own.distance.get();
    }

    fn step_at(&mut self, time: f64) -> &mut OpenStep {
        self.step(self.clock.step_at(Seconds::new(time)).0)
    }

    /// The sums of a step that is still open. A time that rounding puts a hair into a closed step
    /// counts for the first open one.
    #[inline]
    pub(super) fn step(&mut self, step: i64) -> &mut OpenStep {
        let offset = (step - self.first).max(0) as usize;
        while self.open.len() <= offset {
            let fresh = self.spare.pop().unwrap_or_else(|| self.fresh());
            self.open.push_back(fresh);
        }
        &mut self.open[offset]
    }

    #[cold]
    fn fresh(&self) -> OpenStep {
        let (network, links) = (self.network, self.network.links().len());
        OpenStep {
            boxes: vec![Totals::default(); self.bands * links * self.cells * self.sub_steps],
            vehicles: vec![0; self.bands * links],
            squares: vec![[0.0; 2]; links],
            turns: vec![0; self.bands * network.turns().len()],
            trips: vec![BTreeMap::new(); self.bands],
            loops: vec![0; network.loops().len()],
        }
    }
}

impl OpenStep {
    fn clear(&mut self) {
        self.boxes.fill(Totals::default());
        self.vehicles.fill(0);
        self.squares.fill([0.0; 2]);
        self.turns.fill(0);
        self.trips.iter_mut().for_each(BTreeMap::clear);
        self.loops.fill(0);
    }
}

/// A sub-step and its place in its step. The last one is kept: nearly all pieces of a moment lie in
/// the same.
#[derive(Clone, Copy, Default)]
struct SubStep {
    number: i64,
    step: i64,
    within: usize,
}

impl SubStep {
    fn new(number: i64, per_step: usize) -> Self {
        let per_step = per_step as i64;
        let (step, within) = (number.div_euclid(per_step), number.rem_euclid(per_step) as usize);
        Self { number, step, within }
    }
}
