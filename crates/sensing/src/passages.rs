//! Ways over links: when vehicles entered, queued and left.
//!
//! What the features of a step add up is kept here vehicle by vehicle, but only a few numbers for each
//! link that one passes: memory grows with passages, not with samples.

use std::collections::BTreeMap;

use thiserror::Error;
use traffic::{
    LinkId, Mark, Network, Passage, PositionSource, Queued, Seconds, VehicleId, VehiclePosition,
};

use crate::concentration::FirstSight;
use crate::dataset::{Dataset, DatasetError};
use crate::features::FeaturesManifest;
use crate::fleet::FleetError;
use crate::journey::{Progress, Sighting, over_turns, progress};

/// Slower than this, in m/s, a vehicle stands.
const STANDS: f32 = 1.0;

/// Why passages could not be read.
#[derive(Debug, Error)]
pub enum PassagesError {
    /// The dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The fleets of the features.
    #[error(transparent)]
    Fleets(#[from] FleetError),
    /// A fleet is not there.
    #[error("fleet `{found}`: not found among the features, expected one of: {expected}")]
    NoFleet {
        /// The name asked for.
        found: String,
        /// The names there are.
        expected: String,
    },
}

/// The passages of some fleets of a dataset together, by link, in order of entering: what their provider
/// knows. Fleets are those of the features' manifest.
pub fn read_passages(
    dataset: &Dataset,
    features: &FeaturesManifest,
    wanted: &[&str],
) -> Result<Vec<Vec<Passage>>, PassagesError> {
    let fleets = features.fleets_of()?;
    let place = |name: &&str| {
        let place = fleets.all().iter().position(|one| one.name == *name);
        place.ok_or_else(|| {
            let names: Vec<&str> = fleets.all().iter().map(|one| one.name.as_str()).collect();
            PassagesError::NoFleet { found: (*name).to_owned(), expected: names.join(", ") }
        })
    };
    let wanted = wanted.iter().map(place).collect::<Result<Vec<usize>, _>>()?;
    let network = dataset.network();
    let belongs = |sample: &VehiclePosition| {
        dataset.vehicles().get(sample.vehicle).is_some_and(|vehicle| {
            let seen = FirstSight {
                name: &vehicle.name,
                class: vehicle.class,
                link: &network.link(sample.link).name,
                time: Seconds::new(sample.time),
            };
            let band = fleets.band_of(&seen);
            wanted.iter().any(|&fleet| fleets.contains(fleet, band))
        })
    };
    let mut chosen: Vec<Option<bool>> = vec![None; dataset.vehicles().all().len()];
    let mut collector = PassageCollector::new(network, features.patience_s);
    let mut samples = dataset.samples()?;
    let mut moment = Vec::new();
    let mut recordings = dataset.manifest().recordings.iter().peekable();
    while let Some(time) = samples.next_moment(&mut moment)? {
        while recordings.peek().is_some_and(|recording| recording.end < time) {
            recordings.next();
            collector.end();
        }
        moment.retain(|sample| match chosen.get_mut(sample.vehicle.index()) {
            Some(chosen) => *chosen.get_or_insert_with(|| belongs(sample)),
            None => false,
        });
        collector.moment(time, &moment);
    }
    Ok(collector.into_passages())
}

/// Follows vehicles and notes their passages.
pub struct PassageCollector<'n> {
    network: &'n Network,
    patience: Seconds,
    now: f64,
    /// When vehicles were last looked through for those who are gone.
    looked: f64,
    under_way: BTreeMap<VehicleId, UnderWay>,
    passages: Vec<Vec<Passage>>,
}

/// A vehicle on a link.
struct UnderWay {
    seen: Sighting,
    speed: f32,
    entered: f64,
    joined: Option<Mark>,
    /// Where it stands, or stood last.
    stood: Option<Mark>,
    /// When it started after that; none while it stands.
    released: Option<Mark>,
}

impl<'n> PassageCollector<'n> {
    /// Vehicles unseen for longer than the patience are gone.
    pub fn new(network: &'n Network, patience: Seconds) -> Self {
        Self {
            network,
            patience,
            now: f64::NEG_INFINITY,
            looked: f64::NEG_INFINITY,
            under_way: BTreeMap::new(),
            passages: vec![Vec::new(); network.links().len()],
        }
    }

    /// Takes in all samples of a moment, later than all before, that were checked.
    pub fn moment(&mut self, time: Seconds, samples: &[VehiclePosition]) {
        self.now = time.get();
        for sample in samples {
            self.take(sample);
        }
        if self.now - self.looked > self.patience.get() {
            self.looked = self.now;
            self.let_go(self.now - self.patience.get());
        }
    }

    /// The recording ends: whoever is still there has not left.
    pub fn end(&mut self) {
        self.let_go(self.now - self.patience.get());
        for (_, vehicle) in std::mem::take(&mut self.under_way) {
            let passage = vehicle.passage(None);
            self.passages[vehicle.seen.link.index()].push(passage);
        }
        self.looked = f64::NEG_INFINITY;
    }

    /// The passages by link, in order of entering. Ends the recording.
    pub fn into_passages(mut self) -> Vec<Vec<Passage>> {
        self.end();
        for passages in &mut self.passages {
            passages.sort_by(|a, b| a.entered.total_cmp(&b.entered));
        }
        self.passages
    }

    fn take(&mut self, sample: &VehiclePosition) {
        let link = sample.link;
        let length = self.network.link(link).length.get();
        let metres = sample.position.min(length as f32);
        let next = Sighting { time: sample.time, link, metres };
        let Some(vehicle) = self.under_way.get_mut(&sample.vehicle) else {
            let vehicle = UnderWay::new(next, sample, length, sample.time);
            self.under_way.insert(sample.vehicle, vehicle);
            return;
        };
        if next.time <= vehicle.seen.time {
            return;
        }
        match progress(self.network, &vehicle.seen, &next, self.patience) {
            Progress::Along(_) => vehicle.advance(next, sample, length),
            Progress::Over { path, metres } => {
                let first = vehicle.seen.link;
                let mut entered = next.time;
                let seen = vehicle.seen;
                over_turns(self.network, &seen, &next, path.links(), metres, |on, motion| {
                    if on == link {
                        entered = motion.t0;
                    } else if on != first {
                        let queued = None;
                        let (entered, left) = (motion.t0, Some(motion.t1));
                        self.passages[on.index()].push(Passage { entered, left, queued });
                    } else {
                        self.passages[on.index()].push(vehicle.passage(Some(motion.t1)));
                    }
                });
                // It stood on the border: nothing of the motion was on the first link.
                if metres <= 0.0 {
                    self.passages[first.index()].push(vehicle.passage(Some(seen.time)));
                }
                *vehicle = UnderWay::new(next, sample, length, entered);
            }
            Progress::Broken(_) => {
                let left = Some(vehicle.seen.time);
                self.passages[vehicle.seen.link.index()].push(vehicle.passage(left));
                *vehicle = UnderWay::new(next, sample, length, next.time);
            }
        }
    }

    /// Ends the trips of vehicles not seen since a time.
    fn let_go(&mut self, since: f64) {
        let gone: Vec<VehicleId> = self
            .under_way
            .iter()
            .filter(|(_, vehicle)| vehicle.seen.time < since)
            .map(|(&id, _)| id)
            .collect();
        for id in gone {
            let Some(vehicle) = self.under_way.remove(&id) else { continue };
            let link = vehicle.seen.link;
            let left = vehicle.seen.time + self.rest(link, &vehicle);
            self.passages[link.index()].push(vehicle.passage(Some(left)));
        }
    }

    /// How long a vehicle that is gone went on along its last link.
    fn rest(&self, link: LinkId, vehicle: &UnderWay) -> f64 {
        let way = self.network.link(link).length.get() - f64::from(vehicle.seen.metres);
        let seconds = way.max(0.0) / f64::from(vehicle.speed.max(STANDS));
        // Who left the network was on the way to its border; who ended a trip within a link was not.
        if self.network.outgoing(link).is_empty() { seconds.min(self.patience.get()) } else { 0.0 }
    }
}

impl UnderWay {
    fn new(seen: Sighting, sample: &VehiclePosition, length: f64, entered: f64) -> Self {
        let mut vehicle =
            Self { seen, speed: sample.speed, entered, joined: None, stood: None, released: None };
        vehicle.advance(seen, sample, length);
        vehicle
    }

    fn advance(&mut self, seen: Sighting, sample: &VehiclePosition, length: f64) {
        self.seen = Sighting { metres: seen.metres.max(self.seen.metres), ..seen };
        self.speed = sample.speed;
        let here = Mark { time: seen.time, distance: length - f64::from(self.seen.metres) };
        if sample.speed < STANDS {
            self.joined.get_or_insert(here);
            self.stood = Some(here);
            self.released = None;
        } else if let (Some(stood), None) = (self.stood, self.released) {
            self.released = Some(Mark { time: seen.time, distance: stood.distance });
        }
    }

    fn passage(&self, left: Option<f64>) -> Passage {
        let queued = self.joined.zip(self.stood).map(|(joined, stood)| {
            // Standing to the last: released when it left, or was last seen.
            let end = left.unwrap_or(stood.time).max(stood.time);
            let released = self.released.unwrap_or(Mark { time: end, distance: stood.distance });
            Queued { joined, released }
        });
        // Rounding may put a border a hair before what was seen.
        let left = left.map(|left| left.max(self.entered));
        Passage { entered: self.entered, left, queued }
    }
}

#[cfg(test)]
mod tests;
