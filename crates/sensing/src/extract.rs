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

use serde::Serialize;
use thiserror::Error;
use traffic::{Metres, Network, Seconds, StepClock, VehicleId, VehicleSample};

use crate::fleet::Fleets;
use crate::journey::{
    BreakReason, Breaks, Progress, SampleError, check_sample, is_time, over_turns, progress,
};
use crate::vehicles::VehicleTable;

mod step_features;
mod sums;
mod under_way;

pub use step_features::{FleetFeatures, StepFeatures};
use sums::Sums;
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

/// Turns moments into steps: see the file's head for how.
pub struct FeatureExtractor<'n> {
    network: &'n Network,
    plan: FeaturePlan,
    traffic: Traffic,
    sums: Sums<'n>,
    recording: Option<f64>,
    now: f64,
    closed: StepFeatures,
}

impl<'n> FeatureExtractor<'n> {
    /// Ready for the first recording.
    pub fn new(network: &'n Network, plan: FeaturePlan) -> Result<Self, ExtractError> {
        check_plan(&plan)?;
        Ok(Self {
            network,
            traffic: Traffic::default(),
            sums: Sums::new(network, &plan),
            recording: None,
            now: f64::NEG_INFINITY,
            closed: StepFeatures::empty(network, &plan),
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
        while self.sums.first_end() + self.plan.patience.get() <= t {
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
        self.sums.report.samples += samples.len() as u64;
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
    pub fn report(&self) -> &ExtractReport {
        &self.sums.report
    }

    fn take(&mut self, sample: &VehicleSample, vehicles: &VehicleTable) -> Result<(), SampleError> {
        check_sample(self.network, sample)?;
        if sample.time != self.now {
            return Err(SampleError::OtherMoment { found: sample.time, moment: self.now });
        }
        let length = self.network.link(sample.link).length.get() as f32;
        let sample = VehicleSample { position: sample.position.min(length), ..*sample };
        let Some(vehicle) = self.traffic.find(sample.vehicle) else {
            let name = vehicles.get(sample.vehicle).map_or("", |vehicle| &vehicle.name);
            let band = self.plan.fleets.band_of(name) as u8;
            if self.traffic.add(UnderWay::new(&sample, band)) {
                self.sums.report.breaks.count(BreakReason::Gap);
            }
            return Ok(());
        };
        if sample.time <= vehicle.seen.time {
            return Err(SampleError::Duplicate { time: sample.time });
        }
        let sums = &mut self.sums;
        match progress(self.network, &vehicle.seen, &sample, self.plan.patience) {
            Progress::Along(motion) => {
                sums.add(vehicle, sample.link, motion);
                vehicle.seen.position = sample.position.max(vehicle.seen.position);
            }
            Progress::Over { path, metres } => {
                let seen = vehicle.seen;
                over_turns(self.network, &seen, &sample, &path, metres, |link, motion| {
                    if link != vehicle.seen.link {
                        sums.turned(vehicle, link, motion.t0);
                        vehicle.seen.link = link;
                    }
                    sums.add(vehicle, link, motion);
                });
                if vehicle.seen.link != sample.link {
                    sums.turned(vehicle, sample.link, sample.time);
                }
                vehicle.seen.link = sample.link;
                vehicle.seen.position = sample.position;
            }
            Progress::Broken(reason) => {
                sums.report.breaks.count(reason);
                sums.leave_box(vehicle);
                // After any other break the vehicle is still on its trip.
                if let BreakReason::Gap = reason {
                    sums.arrive(vehicle);
                }
                let origin = vehicle.seen.origin;
                *vehicle = UnderWay::new(&sample, vehicle.band);
                if !matches!(reason, BreakReason::Gap) {
                    vehicle.seen.origin = origin;
                }
            }
        }
        vehicle.seen.time = sample.time;
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
