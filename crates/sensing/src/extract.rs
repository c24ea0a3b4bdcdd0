//! Link-time features, one step at a time, from samples as they come.
//!
//! The same code serves a stored dataset and a live stream: feed it moment after moment, and it
//! hands out each step as soon as nothing more can be added to it. A step is closed when the
//! *patience* has passed since its end: a vehicle may go unseen for that long and still be taken
//! to have moved straight on.
//!
//! 1. [`journey`](crate::check_position) turns two sightings into motion along links.
//! 2. [`traffic::cut`] divides the motion exactly at cells and sub-steps.
//! 3. Pieces are added up per band of fleets; a step's fleets are sums of bands.
//!
//! Most of the time a vehicle just goes on within its cell: such motion is added up first, in a
//! short loop. Most of the others go on to the next cell of their link.

use serde::Serialize;
use thiserror::Error;
use traffic::{Metres, Network, Seconds, Totals, VehicleId, VehiclePosition};

use crate::concentration::FirstSight;
use crate::journey::{
    BreakReason, Breaks, Position, PositionError, Progress, Sighting, check_place, check_position,
    is_time, over_turns, progress,
};
use crate::vehicles::VehicleTable;

mod plan;
mod step_features;
mod sums;
mod under_way;

pub use plan::FeaturePlan;
pub(crate) use plan::MAX_PARTS;
pub use step_features::{FleetFeatures, StepFeatures};
use sums::Sums;
use under_way::{Stretch, Traffic, UnderWay};

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
        error: PositionError,
    },
    /// Moments out of order.
    #[error("moment: {0}")]
    Moment(PositionError),
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

/// Turns moments into steps: see the file's head for how.
///
/// ```
/// use sensing::{FeatureExtractor, FeaturePlan, Fleets, VehicleTable};
/// use traffic::{Seconds, VehicleClass, VehiclePosition};
///
/// let network = traffic::corridor()?;
/// let link = network.link_named("E1").ok_or("no link E1")?;
/// let plan = FeaturePlan::paper(Fleets::nested(&[1.0], 1)?);
/// let mut extractor = FeatureExtractor::new(&network, plan)?;
/// let mut vehicles = VehicleTable::default();
/// let vehicle = vehicles.number("taxi-1", VehicleClass::Taxi);
/// // 5 m/s for 20 seconds, seen every second.
/// let mut metres = Vec::new();
/// let mut note = |step: &sensing::StepFeatures| {
///     metres.push(step.all.link_totals(link).distance.get());
/// };
/// for second in 0..=20u8 {
///     let (time, position) = (f64::from(second), 5.0 * f32::from(second));
///     let sample = VehiclePosition { time, vehicle, link, position, lane: 0, speed: 5.0 };
///     extractor.moment(Seconds::new(time), &[sample], &vehicles, &mut note)?;
/// }
/// extractor.end(Seconds::new(20.0), &mut note);
/// assert_eq!(metres, [50.0, 50.0]); // two steps of ten seconds
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FeatureExtractor<'n> {
    network: &'n Network,
    plan: FeaturePlan,
    traffic: Traffic,
    sums: Sums<'n>,
    recording: Option<f64>,
    now: f64,
    closed: StepFeatures,
    /// The step that vehicles go on in.
    current: i64,
    /// Positions of the moment that need a closer look.
    others: Vec<usize>,
}

/// A position that cannot be true.
pub(crate) struct BadPosition {
    /// Its place in its moment.
    pub at: usize,
    /// What is wrong.
    pub error: PositionError,
}

impl<'n> FeatureExtractor<'n> {
    /// Ready for the first recording.
    pub fn new(network: &'n Network, plan: FeaturePlan) -> Result<Self, ExtractError> {
        plan.check()?;
        Ok(Self {
            network,
            traffic: Traffic::default(),
            sums: Sums::new(network, &plan),
            recording: None,
            now: f64::NEG_INFINITY,
            closed: StepFeatures::empty(network, &plan),
            current: i64::MIN,
            others: Vec::new(),
            plan,
        })
    }

    /// A recording begins: everything from now on is seen. Closes the one before at its last moment.
    pub fn begin(&mut self, time: Seconds, on_step: &mut impl FnMut(&StepFeatures)) {
        if self.recording.is_some() {
            self.end(Seconds::new(self.now), on_step);
        }
        self.recording = Some(time.get());
        self.sums.begin(self.plan.clock.step_at(time));
        self.now = time.get();
    }

    /// Takes in all samples of one moment; hands out the steps that this closes.
    pub fn moment(
        &mut self,
        time: Seconds,
        samples: &[VehiclePosition],
        vehicles: &VehicleTable,
        on_step: &mut impl FnMut(&StepFeatures),
    ) -> Result<(), ExtractError> {
        let t = time.get();
        if !is_time(t) {
            return Err(ExtractError::Moment(PositionError::Time(t)));
        }
        if self.recording.is_some() && t < self.now {
            let error = PositionError::Backwards { found: t, last: self.now };
            return Err(ExtractError::Moment(error));
        }
        let failed = |sample: &VehiclePosition, error| ExtractError::Sample {
            vehicle: vehicles.get(sample.vehicle).map_or_else(
                || format!("number {}", sample.vehicle.0),
                |vehicle| vehicle.name.to_string(),
            ),
            time: sample.time,
            error,
        };
        let mut positions = Vec::with_capacity(samples.len());
        for sample in samples {
            check_position(self.network, sample).map_err(|error| failed(sample, error))?;
            if sample.time != t {
                let error = PositionError::OtherMoment { found: sample.time, moment: t };
                return Err(failed(sample, error));
            }
            let &VehiclePosition { vehicle, link, position: metres, .. } = sample;
            positions.push(Position { vehicle, link, metres });
        }
        self.positions(time, &positions, vehicles, on_step)
            .map_err(|BadPosition { at, error }| failed(&samples[at], error))
    }

    /// Takes in all positions of one moment, not earlier than the last.
    pub(crate) fn positions(
        &mut self,
        time: Seconds,
        positions: &[Position],
        vehicles: &VehicleTable,
        on_step: &mut impl FnMut(&StepFeatures),
    ) -> Result<(), BadPosition> {
        if self.recording.is_none() {
            self.begin(time, on_step);
        }
        let before = std::mem::replace(&mut self.now, time.get());
        while self.sums.first_end() + self.plan.patience.get() <= self.now {
            self.close_first(true, on_step);
        }
        let patient = self.now - before <= self.plan.patience.get();
        let stretch = self.sums.stretch(before, self.now).filter(|_| patient);
        let mut others = std::mem::take(&mut self.others);
        others.clear();
        match &stretch {
            Some(stretch) => self.advance_within_spans(stretch, positions, &mut others),
            None => others.extend(0..positions.len()),
        }
        for &at in &others {
            if stretch.as_ref().is_some_and(|stretch| self.go_along(stretch, positions[at])) {
                continue;
            }
            let taken = self.take(positions[at], vehicles);
            taken.map_err(|error| BadPosition { at, error })?;
        }
        self.others = others;
        self.sums.report.samples += positions.len() as u64;
        Ok(())
    }

    /// The recording ends: hands out all steps that are left. Those cut off by the ends of the
    /// recording are marked incomplete.
    pub fn end(&mut self, time: Seconds, on_step: &mut impl FnMut(&StepFeatures)) {
        let Some(_) = self.recording else { return };
        let end = time.get().max(self.now);
        self.now = end;
        while !self.sums.is_empty() || self.sums.first_end() <= end {
            let complete = self.sums.first_end() <= end;
            self.close_first(complete, on_step);
        }
        // Trips that are still under way have no known destination.
        self.traffic.clear();
        self.recording = None;
    }

    /// Totals so far.
    pub(crate) fn report(&self) -> &ExtractReport {
        &self.sums.report
    }

    /// Adds up the motion of all vehicles that go on within their room; notes the `others`.
    fn advance_within_spans(
        &mut self,
        stretch: &Stretch,
        positions: &[Position],
        others: &mut Vec<usize>,
    ) {
        if self.current != stretch.step {
            self.current = stretch.step;
            self.enter_step(stretch, positions);
        }
        let seconds = Seconds::new(stretch.end - stretch.begin);
        let boxes = &mut self.sums.step(stretch.step).boxes[..];
        let mut sum = Totals::default();
        for (at, &position) in positions.iter().enumerate() {
            let vehicle = self.traffic.find(position.vehicle);
            if let Some(vehicle) = vehicle
                && let Some(metres) = vehicle.continues_within_span(stretch, position)
            {
                let piece = Totals { time: seconds, distance: Metres::new(metres) };
                boxes[vehicle.span.row + stretch.sub_step + vehicle.span.cell] += piece;
                vehicle.own += piece;
                vehicle.seen.time = stretch.end;
                vehicle.seen.metres = position.metres;
                sum += piece;
            } else {
                others.push(at);
            }
        }
        self.sums.report.trajectory_time += sum.time;
        self.sums.report.trajectory_distance += sum.distance;
    }

    /// Adds up the motion of a vehicle that goes on along its link; false for one that does not.
    fn go_along(&mut self, stretch: &Stretch, position: Position) -> bool {
        let Some(vehicle) = self.traffic.find(position.vehicle) else { return false };
        let length = self.sums.length(vehicle.seen.link);
        let Some(metres) = vehicle.goes_along(stretch, position, length) else { return false };
        self.sums.add_along(vehicle, stretch, metres);
        vehicle.seen.time = stretch.end;
        vehicle.seen.metres = position.metres;
        true
    }

    /// Brings vehicles that are seen at the ends of a stretch into the boxes of its step.
    fn enter_step(&mut self, stretch: &Stretch, positions: &[Position]) {
        for position in positions {
            if let Some(vehicle) = self.traffic.find(position.vehicle)
                && vehicle.seen.time == stretch.begin
                && vehicle.in_box.0 < stretch.step
            {
                self.sums.leave_box(vehicle);
                vehicle.in_box.0 = stretch.step;
            }
        }
    }

    /// Takes in one position, whatever the vehicle did.
    fn take(&mut self, position: Position, vehicles: &VehicleTable) -> Result<(), PositionError> {
        let Position { vehicle: id, link, metres } = position;
        check_place(self.network, link, metres)?;
        let length = self.network.link(link).length.get() as f32;
        let next = Sighting { time: self.now, link, metres: metres.min(length) };
        let Some(vehicle) = self.traffic.find(id) else {
            let Some(known) = vehicles.get(id) else {
                return Err(PositionError::Vehicle { found: id.0, vehicles: vehicles.all().len() });
            };
            let seen = FirstSight {
                name: &known.name,
                class: known.class,
                link: &self.network.link(link).name,
                time: Seconds::new(self.now),
            };
            let band = self.plan.fleets.band_of(&seen) as u8;
            if self.traffic.add(UnderWay::new(id, next, band)) {
                self.sums.report.breaks.count(BreakReason::Gap);
            }
            return Ok(());
        };
        if next.time <= vehicle.seen.time {
            return Err(PositionError::Duplicate { time: next.time });
        }
        let sums = &mut self.sums;
        match progress(self.network, &vehicle.seen, &next, self.plan.patience) {
            Progress::Along(motion) => {
                sums.add(vehicle, link, motion);
                vehicle.seen.metres = next.metres.max(vehicle.seen.metres);
            }
            Progress::Over { path, metres } => {
                let seen = vehicle.seen;
                over_turns(self.network, &seen, &next, path.links(), metres, |link, motion| {
                    if link != vehicle.seen.link {
                        sums.turned(vehicle, link, motion.t0);
                        vehicle.seen.link = link;
                    }
                    sums.add(vehicle, link, motion);
                });
                if vehicle.seen.link != link {
                    sums.turned(vehicle, link, next.time);
                }
                vehicle.seen.link = link;
                vehicle.seen.metres = next.metres;
            }
            Progress::Broken(reason) => {
                sums.report.breaks.count(reason);
                sums.leave_box(vehicle);
                // After any other break the vehicle is still on its trip.
                if let BreakReason::Gap = reason {
                    sums.arrive(vehicle);
                }
                let origin = vehicle.origin;
                *vehicle = UnderWay::new(id, next, vehicle.band);
                if !matches!(reason, BreakReason::Gap) {
                    vehicle.origin = origin;
                }
            }
        }
        vehicle.seen.time = next.time;
        vehicle.span = sums.span(vehicle);
        Ok(())
    }

    fn close_first(&mut self, ended: bool, on_step: &mut impl FnMut(&StepFeatures)) {
        let (step, end) = (self.sums.first(), self.sums.first_end());
        let patience = self.plan.patience.get();
        // Vehicles leave in order of number, whatever order they are kept in.
        let mut leaving: Vec<VehicleId> = self
            .traffic
            .iter()
            .filter(|vehicle| vehicle.in_box.0 <= step.0 || vehicle.seen.time < end)
            .map(|vehicle| vehicle.vehicle)
            .collect();
        leaving.sort_unstable();
        for id in leaving {
            let Some(vehicle) = self.traffic.find(id) else { continue };
            if vehicle.in_box.0 <= step.0 {
                self.sums.leave_box(vehicle);
            }
            if vehicle.seen.time < end && self.now - vehicle.seen.time > patience {
                self.sums.arrive(vehicle);
                self.traffic.remove(id);
            }
        }
        let Some(open) = self.sums.close_first() else { return };
        let start = self.plan.clock.start_of(step).get();
        let begun = self.recording.is_some_and(|begin| begin <= start);
        self.closed.gather(&open, self.network, &self.plan);
        self.closed.step = step;
        self.closed.complete = begun && ended;
        for totals in &self.closed.all.boxes {
            self.sums.report.box_time += totals.time;
            self.sums.report.box_distance += totals.distance;
        }
        on_step(&self.closed);
        self.sums.reuse(open);
    }
}

#[cfg(test)]
mod tests;
