//! Link-time features, one step at a time, from samples as they come.
//!
//! The same code serves a stored dataset and a live stream: feed it moment after moment, and it
//! hands out each step as soon as nothing more can be added to it. A step is closed when the
//! *patience* has passed since its end: a vehicle may go unseen for that long and still be taken
//! to have moved straight on.
//!
//! 1. [`journey`](crate::check_sample) turns two sightings into motion along links.
//! 2. [`traffic::cut`] divides the motion exactly at cells and sub-steps.
//! 3. Pieces are added up per band of fleets; a step's fleets are sums of bands.

use std::collections::VecDeque;

use serde::Serialize;
use thiserror::Error;
use traffic::{
    Boxes, LinkId, Metres, Motion, Network, Seconds, Step, StepClock, Totals, TurnId, VehicleId,
    VehicleSample, cut,
};

use crate::fleet::Fleets;
use crate::journey::{
    BreakReason, Breaks, Progress, SampleError, check_sample, is_time, over_turns, progress,
};
use crate::vehicles::VehicleTable;

mod open_step;
mod step_features;
mod under_way;

use open_step::OpenStep;
pub use step_features::{FleetFeatures, StepFeatures};
use under_way::{Traffic, UnderWay};

/// What to extract.
#[derive(Clone, Debug, PartialEq)]
pub struct FeaturePlan {
    /// The steps.
    pub clock: StepClock,
    /// Cells that each link is cut into.
    pub cells: usize,
    /// Sub-steps that each step is cut into.
    pub sub_steps: usize,
    /// How long a vehicle may go unseen and still be on its way.
    pub patience: Seconds,
    /// Who sees what.
    pub fleets: Fleets,
}

impl FeaturePlan {
    /// The paper's: steps of 10 s, 6 cells, 2 sub-steps.
    pub fn paper(fleets: Fleets) -> Self {
        Self {
            clock: StepClock { length: Seconds::new(10.0) },
            cells: 6,
            sub_steps: 2,
            patience: Seconds::new(5.0),
            fleets,
        }
    }
}

/// Why extraction stopped.
#[derive(Debug, Error)]
pub enum ExtractError {
    /// A number of the plan makes no sense.
    #[error("features: {field}: found {found}, expected {expected}")]
    Plan {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A sample that cannot be true.
    #[error("vehicle `{vehicle}` at {time} s: {error}")]
    Sample {
        /// The vehicle's name.
        vehicle: String,
        /// The sample's time.
        time: f64,
        /// What is wrong.
        error: SampleError,
    },
    /// Moments out of order.
    #[error("moment: {0}")]
    Moment(SampleError),
}

/// Totals for a check that nothing was lost, and what was odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ExtractReport {
    /// Samples read.
    pub samples: u64,
    /// Time on the road, summed over the trajectories themselves.
    pub trajectory_time: Seconds,
    /// Distance, likewise.
    pub trajectory_distance: Metres,
    /// Time summed over all boxes, those of steps cut off by a recording's ends included.
    pub box_time: Seconds,
    /// Distance, likewise.
    pub box_distance: Metres,
    /// Where tracks were broken.
    pub breaks: Breaks,
}

/// See the [module](self).
pub struct FeatureExtractor<'n> {
    network: &'n Network,
    plan: FeaturePlan,
    cuts: Vec<Boxes>,
    loops_on: Vec<Vec<(usize, f64)>>,
    traffic: Traffic,
    sub_step: SubStep,
    open: VecDeque<OpenStep>,
    spare: Vec<OpenStep>,
    first_open: i64,
    recording: Option<f64>,
    now: f64,
    report: ExtractReport,
    closed: StepFeatures,
}

impl<'n> FeatureExtractor<'n> {
    /// Ready for the first recording.
    pub fn new(network: &'n Network, plan: FeaturePlan) -> Result<Self, ExtractError> {
        check_plan(&plan)?;
        let sub_step = plan.clock.length.get() / plan.sub_steps as f64;
        let cut_of =
            |length: f64| Boxes { cell: length / plan.cells as f64, cells: plan.cells, sub_step };
        let cuts = network.links().iter().map(|link| cut_of(link.length.get())).collect();
        let mut loops_on = vec![Vec::new(); network.links().len()];
        for (index, detector) in network.loops().iter().enumerate() {
            loops_on[detector.link.index()].push((index, detector.position.get()));
        }
        let closed = StepFeatures::empty(network, &plan);
        Ok(Self {
            network,
            plan,
            cuts,
            loops_on,
            traffic: Traffic::default(),
            sub_step: SubStep::default(),
            open: VecDeque::new(),
            spare: Vec::new(),
            first_open: 0,
            recording: None,
            now: f64::NEG_INFINITY,
            report: ExtractReport::default(),
            closed,
        })
    }

    /// A recording begins: everything from now on is seen. Closes the one before at its last moment.
    pub fn begin(&mut self, time: Seconds, on_step: &mut impl FnMut(&StepFeatures)) {
        if self.recording.is_some() {
            self.end(Seconds::new(self.now), on_step);
        }
        self.recording = Some(time.get());
        self.first_open = self.plan.clock.step_at(time).0;
        self.now = time.get();
    }

    /// Takes in all samples of one moment; hands out the steps that this closes.
    pub fn moment(
        &mut self,
        time: Seconds,
        samples: &[VehicleSample],
        vehicles: &VehicleTable,
        on_step: &mut impl FnMut(&StepFeatures),
    ) -> Result<(), ExtractError> {
        let t = time.get();
        if !is_time(t) {
            return Err(ExtractError::Moment(SampleError::Time(t)));
        }
        if self.recording.is_none() {
            self.begin(time, on_step);
        }
        if t < self.now {
            let error = SampleError::Backwards { found: t, last: self.now };
            return Err(ExtractError::Moment(error));
        }
        self.now = t;
        let length = self.plan.clock.length.get();
        while (self.first_open + 1) as f64 * length + self.plan.patience.get() <= t {
            self.close_first(true, on_step);
        }
        for sample in samples {
            self.take(sample, vehicles).map_err(|error| ExtractError::Sample {
                vehicle: vehicles.get(sample.vehicle).map_or_else(
                    || format!("number {}", sample.vehicle.0),
                    |vehicle| vehicle.name.to_string(),
                ),
                time: sample.time,
                error,
            })?;
        }
        self.report.samples += samples.len() as u64;
        Ok(())
    }

    /// The recording ends: hands out all steps that are left. Those cut off by the ends of the
    /// recording are marked incomplete.
    pub fn end(&mut self, time: Seconds, on_step: &mut impl FnMut(&StepFeatures)) {
        let Some(_) = self.recording else { return };
        let length = self.plan.clock.length.get();
        let end = time.get().max(self.now);
        self.now = end;
        while !self.open.is_empty() || (self.first_open + 1) as f64 * length <= end {
            let complete = (self.first_open + 1) as f64 * length <= end;
            self.close_first(complete, on_step);
        }
        // Trips that are still under way have no known destination.
        self.traffic.clear();
        self.recording = None;
    }

    /// Totals so far.
    pub fn report(&self) -> &ExtractReport {
        &self.report
    }

    fn take(&mut self, sample: &VehicleSample, vehicles: &VehicleTable) -> Result<(), SampleError> {
        check_sample(self.network, sample)?;
        if sample.time != self.now {
            return Err(SampleError::OtherMoment { found: sample.time, moment: self.now });
        }
        let length = self.network.link(sample.link).length.get() as f32;
        let sample = VehicleSample { position: sample.position.min(length), ..*sample };
        let Some(place) = self.traffic.find(sample.vehicle) else {
            let name = vehicles.get(sample.vehicle).map_or("", |vehicle| &vehicle.name);
            let band = self.plan.fleets.band_of(name) as u8;
            if self.traffic.add(UnderWay::new(&sample, band)) {
                self.report.breaks.count(BreakReason::Gap);
            }
            return Ok(());
        };
        let mut vehicle = *self.traffic.get(place);
        if sample.time <= vehicle.seen.time {
            return Err(SampleError::Duplicate { vehicle: sample.vehicle.0, time: sample.time });
        }
        match progress(self.network, &vehicle.seen, &sample, self.plan.patience) {
            Progress::Along(motion) => {
                self.add(&mut vehicle, sample.link, motion);
                vehicle.seen.position = sample.position.max(vehicle.seen.position);
            }
            Progress::Over { path, metres } => {
                let seen = vehicle.seen;
                over_turns(self.network, &seen, &sample, &path, metres, |link, motion| {
                    if link != vehicle.seen.link {
                        self.turned(&vehicle, link, motion.t0);
                        vehicle.seen.link = link;
                    }
                    self.add(&mut vehicle, link, motion);
                });
                if vehicle.seen.link != sample.link {
                    self.turned(&vehicle, sample.link, sample.time);
                }
                vehicle.seen.link = sample.link;
                vehicle.seen.position = sample.position;
            }
            Progress::Broken(reason) => {
                self.report.breaks.count(reason);
                self.leave_box(&mut vehicle);
                // After any other break the vehicle is still on its trip.
                if let BreakReason::Gap = reason {
                    self.arrive(&vehicle);
                }
                let origin = vehicle.seen.origin;
                vehicle = UnderWay::new(&sample, vehicle.band);
                if !matches!(reason, BreakReason::Gap) {
                    vehicle.seen.origin = origin;
                }
            }
        }
        vehicle.seen.time = sample.time;
        self.traffic.set(place, vehicle);
        Ok(())
    }

    /// Adds a motion along one link to the boxes, and counts the loops it crosses.
    #[inline]
    fn add(&mut self, vehicle: &mut UnderWay, link: LinkId, motion: Motion) {
        self.report.trajectory_time += Seconds::new(motion.t1 - motion.t0);
        self.report.trajectory_distance += Metres::new(motion.x1 - motion.x0);
        let per_link = self.plan.cells * self.plan.sub_steps;
        let row =
            (usize::from(vehicle.band) * self.network.links().len() + link.index()) * per_link;
        let cells = self.plan.cells;
        cut(motion, self.cuts[link.index()], |sub_step, cell, seconds, metres| {
            if sub_step != self.sub_step.number {
                self.sub_step = SubStep::new(sub_step, self.plan.sub_steps);
            }
            let SubStep { step, within, .. } = self.sub_step;
            if (step, link) != vehicle.in_box {
                self.leave_box(vehicle);
                vehicle.in_box = (step, link);
            }
            let piece = Totals { time: Seconds::new(seconds), distance: Metres::new(metres) };
            vehicle.own += piece;
            let index = row + within * cells + cell;
            self.step(step).boxes[index] += piece;
        });
        for at in 0..self.loops_on[link.index()].len() {
            let (detector, position) = self.loops_on[link.index()][at];
            if motion.x0 < position && position <= motion.x1 {
                let share = (position - motion.x0) / (motion.x1 - motion.x0);
                let time = motion.t0 + share * (motion.t1 - motion.t0);
                let step = self.step_at(time);
                self.step(step).loops[detector] += 1;
            }
        }
    }

    fn turned(&mut self, vehicle: &UnderWay, onto: LinkId, time: f64) {
        let Some(TurnId(turn)) = self.network.turn_between(vehicle.seen.link, onto) else { return };
        let turns = self.network.turns().len();
        let index = usize::from(vehicle.band) * turns + turn as usize;
        let step = self.step_at(time);
        self.step(step).turns[index] += 1;
    }

    /// A trip ended where the vehicle was last seen.
    fn arrive(&mut self, vehicle: &UnderWay) {
        let step = self.step_at(vehicle.seen.time);
        let trip = (vehicle.seen.origin, vehicle.seen.link);
        *self.step(step).trips[usize::from(vehicle.band)].entry(trip).or_default() += 1;
    }

    /// Notes what a vehicle did in the box that it leaves.
    fn leave_box(&mut self, vehicle: &mut UnderWay) {
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

    fn step_at(&self, time: f64) -> i64 {
        self.plan.clock.step_at(Seconds::new(time)).0
    }

    /// The sums of a step that is still open. A time that rounding puts a hair into a closed step
    /// counts for the first open one.
    fn step(&mut self, step: i64) -> &mut OpenStep {
        let offset = (step - self.first_open).max(0) as usize;
        while self.open.len() <= offset {
            let fresh = self.spare.pop().unwrap_or_else(|| OpenStep::new(self.network, &self.plan));
            self.open.push_back(fresh);
        }
        &mut self.open[offset]
    }

    fn close_first(&mut self, ended: bool, on_step: &mut impl FnMut(&StepFeatures)) {
        let step = self.first_open;
        let end = (step + 1) as f64 * self.plan.clock.length.get();
        let patience = self.plan.patience.get();
        // Vehicles leave in order of number, whatever order they are kept in.
        let mut leaving: Vec<VehicleId> = self
            .traffic
            .iter()
            .filter(|vehicle| vehicle.in_box.0 <= step || vehicle.seen.time < end)
            .map(|vehicle| vehicle.vehicle)
            .collect();
        leaving.sort_unstable();
        for id in leaving {
            let Some(place) = self.traffic.find(id) else { continue };
            let mut vehicle = *self.traffic.get(place);
            if vehicle.in_box.0 <= step {
                self.leave_box(&mut vehicle);
            }
            if vehicle.seen.time < end && self.now - vehicle.seen.time > patience {
                self.arrive(&vehicle);
                self.traffic.remove(id);
            } else {
                self.traffic.set(place, vehicle);
            }
        }
        self.step(step);
        let Some(mut open) = self.open.pop_front() else { return };
        self.first_open += 1;
        let start = step as f64 * self.plan.clock.length.get();
        let begun = self.recording.is_some_and(|begin| begin <= start);
        self.closed.gather(&open, self.network, &self.plan);
        self.closed.step = Step(step);
        self.closed.complete = begun && ended;
        for totals in &self.closed.all.boxes {
            self.report.box_time += totals.time;
            self.report.box_distance += totals.distance;
        }
        on_step(&self.closed);
        open.clear();
        self.spare.push(open);
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

/// Shorter steps could not be counted through all of time.
const MIN_STEP: Seconds = Seconds::new(0.001);
/// The most cells or sub-steps: more is a mistake, and would fill the memory.
pub(crate) const MAX_PARTS: usize = 100;

fn check_plan(plan: &FeaturePlan) -> Result<(), ExtractError> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let fail = |field, found: String, expected| Err(ExtractError::Plan { field, found, expected });
    if !(positive(plan.clock.length.get()) && plan.clock.length >= MIN_STEP) {
        return fail("step", plan.clock.length.to_string(), "0.001 s or more");
    }
    if !positive(plan.patience.get()) {
        return fail("patience", plan.patience.to_string(), "more than 0 s");
    }
    if plan.cells == 0 || plan.cells > MAX_PARTS {
        return fail("cells", plan.cells.to_string(), "1 to 100");
    }
    if plan.sub_steps == 0 || plan.sub_steps > MAX_PARTS {
        return fail("sub-steps", plan.sub_steps.to_string(), "1 to 100");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
