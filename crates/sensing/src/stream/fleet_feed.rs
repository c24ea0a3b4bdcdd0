//! A fleet's records to steps.

use traffic::{Network, Seconds, VehicleClass, VehicleId, VehiclePosition};

use super::jumps::{Jumps, Word};
use super::{FleetRecord, RecordError};
use crate::extract::{FeatureExtractor, FeaturePlan, StepFeatures};
use crate::journey::{PositionError, check_position};
use crate::vehicles::VehicleTable;

/// Most vehicles that are remembered at a time.
const MOST_VEHICLES: usize = 1 << 20;

/// Makes steps of a fleet's records, see the [module](super).
pub struct FleetFeed<'n> {
    network: &'n Network,
    extractor: FeatureExtractor<'n>,
    vehicles: VehicleTable,
    /// `[vehicle]`: when it was last seen; forgotten ones are at minus infinity.
    seen: Vec<f64>,
    moment: Vec<VehiclePosition>,
    /// The time that the stream has reached.
    now: Option<f64>,
    jumps: Jumps,
    /// A vehicle unseen for this long has left the extractor too.
    forget_after: f64,
    swept: f64,
}

impl<'n> FleetFeed<'n> {
    /// Before the first record. A jump of time by more than `gap` may begin a new recording, see the
    /// [module](super).
    pub fn new(network: &'n Network, plan: FeaturePlan, gap: Seconds) -> Result<Self, RecordError> {
        let forget_after = 2.0 * (plan.patience.get() + plan.clock.length.get()) + gap.get();
        Ok(Self {
            network,
            extractor: FeatureExtractor::new(network, plan)?,
            vehicles: VehicleTable::default(),
            seen: Vec::new(),
            moment: Vec::new(),
            now: None,
            jumps: Jumps::new(gap.get()),
            forget_after,
            swept: f64::NEG_INFINITY,
        })
    }

    /// The most that time may jump within a recording, in seconds.
    pub fn gap(&self) -> f64 {
        self.jumps.gap()
    }

    /// Takes a record; hands out the steps that this closes. A record that is refused has changed
    /// nothing but, perhaps, the time.
    pub fn take(
        &mut self,
        record: FleetRecord<'_>,
        on_step: &mut impl FnMut(&StepFeatures),
    ) -> Result<(), RecordError> {
        match record {
            FleetRecord::Time(time) => {
                self.reach(time, Word::Sender, on_step)?;
                // Nothing more of this moment will come.
                self.flush(on_step)
            }
            FleetRecord::Seen { time, vehicle, link, position } => {
                let mut sample = VehiclePosition {
                    time,
                    vehicle: VehicleId(0),
                    link,
                    position,
                    lane: 0,
                    speed: 0.0,
                };
                check_position(self.network, &sample)?;
                self.reach(time, Word::Single, on_step)?;
                sample.vehicle = self.number(&vehicle)?;
                let seen = &mut self.seen[sample.vehicle.index()];
                if *seen == time {
                    return Err(PositionError::Duplicate { time }.into());
                }
                *seen = time;
                self.moment.push(sample);
                Ok(())
            }
        }
    }

    /// The stream has ended.
    pub fn finish(&mut self, on_step: &mut impl FnMut(&StepFeatures)) -> Result<(), RecordError> {
        self.flush(on_step)?;
        if let Some(now) = self.now.take() {
            self.extractor.end(Seconds::new(now), on_step);
        }
        Ok(())
    }

    /// Lets time pass up to the one of a record.
    fn reach(
        &mut self,
        time: f64,
        word: Word,
        on_step: &mut impl FnMut(&StepFeatures),
    ) -> Result<(), RecordError> {
        if self.jumps.begins(self.now, time, word)? {
            self.flush(on_step)?;
            if let Some(before) = self.now {
                self.extractor.end(Seconds::new(before), on_step);
            }
            self.extractor.begin(Seconds::new(time), on_step);
            self.swept = time;
            // After a jump back, times of before would be in the future.
            self.seen.fill(f64::NEG_INFINITY);
        } else if let Some(now) = self.now {
            if time < now {
                return Err(RecordError::Late { found: time, now });
            }
            if time > now {
                self.flush(on_step)?;
            }
        }
        self.now = Some(time);
        self.sweep(time);
        Ok(())
    }

    /// Hands the moment to the extractor, which closes what it can.
    fn flush(&mut self, on_step: &mut impl FnMut(&StepFeatures)) -> Result<(), RecordError> {
        let Some(now) = self.now else { return Ok(()) };
        let moment = std::mem::take(&mut self.moment);
        let taken = self.extractor.moment(Seconds::new(now), &moment, &self.vehicles, on_step);
        self.moment = moment;
        self.moment.clear();
        Ok(taken?)
    }

    fn number(&mut self, name: &str) -> Result<VehicleId, RecordError> {
        let id = self.vehicles.number(name, VehicleClass::Car);
        if self.seen.len() <= id.index() {
            if self.seen.len() >= MOST_VEHICLES {
                self.vehicles.forget(id);
                return Err(RecordError::Vehicles { most: MOST_VEHICLES });
            }
            self.seen.resize(id.index() + 1, f64::NEG_INFINITY);
        }
        Ok(id)
    }

    /// Forgets vehicles that have left, now and then.
    fn sweep(&mut self, now: f64) {
        if now - self.swept < self.forget_after {
            return;
        }
        self.swept = now;
        for (index, seen) in self.seen.iter().enumerate() {
            if now - *seen > self.forget_after {
                self.vehicles.forget(VehicleId(index as u32));
            }
        }
    }

    /// The most vehicles that were remembered at a time.
    pub fn room(&self) -> usize {
        self.seen.len().max(self.vehicles.all().len())
    }
}
