//! Noise that a guest adds to its data once, before anything else sees them.
//!
//! Every number is counted in vehicles: time on a link over the step's length, distance over the most that a
//! vehicle drives in a step (`MaxDistance`), density by queue profiles times the link's lane-kilometres. All are clipped
//! to what the longest link can hold, put on one grid, and get discrete Gaussian noise of the same σ. The result is kept in a
//! file (`noise_store`), step by step, and features, speeds, weights, live embeddings and whatever else leaves the guest
//! is computed from that file alone: all of it together is one (ε, δ) release of the *unit of privacy*, however many days
//! there are, since a unit lies in one step or trip:
//!
//! | unit | what it hides | Δ in vehicles |
//! |---|---|---|
//! | `vehicle-step` | one vehicle in one step | √2: its time and its distance are at most 1 each, over all links |
//! | `vehicle-trip` | one vehicle in up to `trip-steps` steps | √(2·steps) |
//! | `cell` | a change of one link in one step by up to `change` vehicles in each of its numbers | change·√numbers |
//!
//! How much one vehicle can change densities by queue profiles nobody has bounded: with them the unit is `cell`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use estimator::{FleetData, MeasurementTable, QueueStates};
use sealed::Grid;
use sealed::fixed_point::MOST_LEVELS;
use sealed::noise::NoisedVector;
use sealed::noise::accounting::{Budget, least_ratio};
use sensing::{FleetFeatures, MAX_SPEED};
use serde::{Deserialize, Serialize};
use traffic::{LinkId, Metres, Network, Seconds, Step, Totals};

use super::noise_store::{NoiseHeader, NoiseShape, NoiseStore, NoisedKind};
use crate::error::{Result, bail, ensure};

/// Metres of lane that a vehicle in a jam takes, at least.
const JAM_SPACE: f64 = 5.0;
/// Variance of densities by queue profiles where all must have the same, (veh/km/lane)². What profiles tell of their
/// own variance depends on the data.
const QUEUE_VARIANCE: f64 = 64.0;

/// What is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One vehicle in one step
    VehicleStep,
    /// One vehicle in so many steps
    VehicleTrip,
    /// A change of one link in one step
    Cell,
}

/// How much noise, and what it hides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct NoiseTerms {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// What is hidden.
    pub unit: Unit,
    /// Of the unit `cell`: by how many vehicles.
    pub change: f64,
    /// Of the unit `vehicle-trip`: steps.
    pub trip_steps: u32,
    /// Speeds of fewer vehicles, by the noised time, are not told.
    pub least_probes: f64,
}

impl Default for NoiseTerms {
    fn default() -> Self {
        let (epsilon, delta, unit) = (8.0, 1e-6, Unit::Cell);
        Self { epsilon, delta, unit, change: 1.0, trip_steps: 60, least_probes: 1.0 }
    }
}

/// What a guest works with instead of its data.
pub struct Noised {
    /// The fleet, with noise in its totals, none below 0.
    pub fleet: FleetData,
    /// The same as it was drawn: noise whose mean is 0, to be summed.
    pub(crate) unclipped: FleetData,
    /// Densities by queue profiles, with noise.
    pub queues: Option<MeasurementTable>,
    /// Mean speeds, by totals with noise.
    pub speeds: MeasurementTable,
    /// Standard deviation of the noise, in vehicles.
    pub sigma: f64,
}

impl NoiseTerms {
    /// Refuses terms that make no noise.
    pub fn check(&self) -> Result<()> {
        Budget::new(self.epsilon, self.delta)?;
        let positive = |x: f64| x.is_finite() && x > 0.0;
        ensure!(positive(self.change), "change: found {}, expected more than 0", self.change);
        ensure!(self.trip_steps > 0, "trip-steps: found 0, expected 1 or more");
        ensure!(
            self.least_probes.is_finite() && self.least_probes >= 0.0,
            "least-probes: found {}, expected 0 or more",
            self.least_probes
        );
        Ok(())
    }

    /// Δ: what the unit can change all numbers by, in the Euclidean norm, after they were put on a grid of this step.
    fn sensitivity(&self, [numbers, links]: [usize; 2], step: f64) -> f64 {
        // Time and distance of each link that a vehicle can be on within a step.
        let places = 2.0 * links as f64;
        let changed = match self.unit {
            Unit::VehicleStep => (2.0_f64, places),
            Unit::VehicleTrip => {
                let steps = f64::from(self.trip_steps);
                (2.0 * steps, places * steps)
            }
            Unit::Cell => (self.change.powi(2) * numbers as f64, numbers as f64),
        };
        changed.0.sqrt() + changed.1.sqrt() * step
    }
}

impl fmt::Display for NoiseTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epsilon, delta, unit, change, trip_steps, least_probes } = self;
        write!(f, "ε = {epsilon}, δ = {delta} for {unit}")?;
        match unit {
            Unit::VehicleStep => {}
            Unit::VehicleTrip => write!(f, " of {trip_steps} steps")?,
            Unit::Cell => write!(f, " with a change of {change} vehicles")?,
        }
        write!(f, ", least-probes = {least_probes}")
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::VehicleStep => "vehicle-step",
            Unit::VehicleTrip => "vehicle-trip",
            Unit::Cell => "cell",
        })
    }
}

/// Noise for a fleet and its queue profiles: of a step whose noise is in the file as it is there, and drawn and kept of
/// others. A file with other terms, or of other data, is refused: drawn again, noise would average out.
pub fn noised(
    fleet: &FleetData,
    queues: Option<&QueueStates>,
    terms: &NoiseTerms,
    folder: &Path,
) -> Result<Noised> {
    terms.check()?;
    ensure!(
        queues.is_none() || terms.unit == Unit::Cell,
        "unit: found {} with densities by queue profiles, expected cell: how much a vehicle changes these is not bounded; leave queues out for another unit",
        terms.unit
    );
    let timeline = fleet.timeline();
    let network = timeline.network();
    let counts = VehicleCounts::of(terms.unit, network, timeline.step());
    let numbers = if queues.is_some() { 3 } else { 2 };
    let header = NoiseHeader::new(
        (fleet.name(), timeline.network_hash()),
        (timeline.step().get(), network.links().len(), numbers),
        *terms,
    )?;
    let mut store = NoiseStore::open(folder, header, |header| shape(header, network))?;
    let totals = |step| {
        let of_link = |link| counts.count(link, fleet.totals(step, link));
        (step, NoisedKind::Totals, network.link_ids().flat_map(of_link).collect())
    };
    let densities = |queues: &QueueStates, step| {
        let of_link = |link| queues.state(step, link).state.density.get() * lane_km(network, link);
        (step, NoisedKind::Queues, network.link_ids().map(of_link).collect())
    };
    store.draw_missing(timeline.steps().map(totals))?;
    let Some(queues) = queues else {
        return Noised::of(fleet, None, &counts, &mut store);
    };
    store.draw_missing(timeline.steps().map(|step| densities(queues, step)))?;
    Noised::of(fleet, Some(queues), &counts, &mut store)
}

impl Noised {
    fn of(
        fleet: &FleetData,
        queues: Option<&QueueStates>,
        counts: &VehicleCounts,
        store: &mut NoiseStore,
    ) -> Result<Self> {
        let timeline = fleet.timeline();
        let network = timeline.network();
        let (mut totals, mut as_drawn) = (Vec::new(), Vec::new());
        for step in timeline.steps() {
            let noised = drawn(store, step, NoisedKind::Totals)?;
            totals.extend(counts.totals(&noised));
            as_drawn.extend(counts.unclipped(&noised));
        }
        let (unclipped, fleet) = (fleet.with_totals(as_drawn), fleet.with_totals(totals));
        let sigma = store.deviation()?;
        let deviations = |link: LinkId| counts.deviations(link, sigma);
        let least_probes = store.header().terms.least_probes;
        let speeds = MeasurementTable::noised_speeds(&fleet, deviations, least_probes);
        if queues.is_none() {
            return Ok(Noised { fleet, unclipped, queues: None, speeds, sigma });
        }
        let mut densities = BTreeMap::new();
        for step in timeline.steps() {
            densities.insert(step, drawn(store, step, NoisedKind::Queues)?);
        }
        let variance = |link: LinkId| QUEUE_VARIANCE + (sigma / lane_km(network, link)).powi(2);
        let queues = MeasurementTable::densities(timeline, variance, |step, link| {
            let of_step = densities.get(&step).and_then(|values| values.get(link.index()));
            of_step.copied().unwrap_or_default() / lane_km(network, link)
        });
        Ok(Noised { fleet, unclipped, queues: Some(queues), speeds, sigma })
    }
}

fn drawn(store: &mut NoiseStore, step: Step, kind: NoisedKind) -> Result<Vec<f64>> {
    match store.values(step, kind)? {
        Some(values) => Ok(values),
        None => bail!("noise of step {}: found none, expected it to be drawn", step.0),
    }
}

fn lane_km(network: &Network, link: LinkId) -> f64 {
    network.link(link).lane_length().get() / 1000.0
}

/// Noise of steps as they come in: of a step whose noise was drawn in training as it is there, and drawn and kept of others.
pub struct LiveNoise {
    counts: VehicleCounts,
    store: NoiseStore,
    clipping: Clipping,
}

/// Whether noised totals below 0 count as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clipping {
    /// Each guest's own.
    AtZero,
    /// Not before they are summed, so that noise has mean 0 in the sum.
    InTheSum,
}

impl LiveNoise {
    /// For the fleet of a trained guest, with the file that its training left; refuses another.
    pub(super) fn open(
        folder: &Path,
        (fleet, network_hash): (&str, &str),
        (network, step): (&Network, Seconds),
        (terms, clipping): (&NoiseTerms, Clipping),
    ) -> Result<Self> {
        let expected = NoiseHeader::new(
            (fleet, network_hash),
            (step.get(), network.links().len(), 2),
            *terms,
        )?;
        let store = NoiseStore::existing(folder, &expected, |header| shape(header, network))?;
        Ok(Self { counts: VehicleCounts::of(terms.unit, network, step), store, clipping })
    }

    /// That of a fleet, to be looked at.
    pub(super) fn of_fleet(folder: &Path, fleet: &FleetData, terms: &NoiseTerms) -> Result<Self> {
        let timeline = fleet.timeline();
        let of = (fleet.name(), timeline.network_hash());
        let place = (timeline.network(), timeline.step());
        Self::open(folder, of, place, (terms, Clipping::InTheSum))
    }

    /// A step's totals with the noise that was drawn for them; none if none was.
    pub(super) fn drawn_before(&mut self, step: Step) -> Result<Option<Vec<Totals>>> {
        let noised = self.store.values(step, NoisedKind::Totals)?;
        Ok(noised.map(|noised| self.counts.unclipped(&noised).collect()))
    }

    /// A step's totals with their noise, all of a link's in its first cell; nothing else of it.
    pub(super) fn of_step(
        &mut self,
        step: Step,
        features: &FleetFeatures,
    ) -> Result<FleetFeatures> {
        let links = (0..features.vehicles.len() as u32).map(LinkId);
        let raw =
            links.flat_map(|link| self.counts.count(link, features.link_totals(link))).collect();
        self.store.draw_missing([(step, NoisedKind::Totals, raw)])?;
        let noised = drawn(&mut self.store, step, NoisedKind::Totals)?;
        Ok(match self.clipping {
            Clipping::AtZero => features.with_totals(self.counts.totals(&noised)),
            Clipping::InTheSum => features.with_totals(self.counts.unclipped(&noised)),
        })
    }
}

/// Totals of a link in a step, counted in vehicles.
struct VehicleCounts {
    step_s: f64,
    distance: MaxDistance,
}

impl VehicleCounts {
    fn of(unit: Unit, network: &Network, step: Seconds) -> Self {
        Self { step_s: step.get(), distance: MaxDistance::of(unit, network, step) }
    }

    fn count(&self, link: LinkId, totals: Totals) -> [f64; 2] {
        [totals.time.get() / self.step_s, totals.distance / self.distance.on(link)]
    }

    /// Of all links, from their numbers with noise.
    fn totals<'a>(&'a self, counts: &'a [f64]) -> impl Iterator<Item = Totals> + 'a {
        let clip = |totals: Totals| Totals {
            time: totals.time.max(Seconds::ZERO),
            distance: totals.distance.max(Metres::ZERO),
        };
        self.unclipped(counts).map(clip)
    }

    /// The same, below 0 too.
    fn unclipped<'a>(&'a self, counts: &'a [f64]) -> impl Iterator<Item = Totals> + 'a {
        let own = counts.as_chunks::<2>().0;
        own.iter().zip(&self.distance.of_link).map(|(own, &most)| Totals {
            time: Seconds::new(own[0] * self.step_s),
            distance: most * own[1],
        })
    }

    /// Standard deviations of time and distance.
    fn deviations(&self, link: LinkId, sigma: f64) -> [f64; 2] {
        [sigma * self.step_s, sigma * self.distance.on(link).get()]
    }
}

/// The most that a vehicle drives in a step, which is what counts as one vehicle among distances.
///
/// On a link it drives no farther than the link is long, and so a change of one link by a vehicle is no larger. A
/// vehicle in a step may pass several links, and is bounded by its speed alone: what it drives on all of them together.
struct MaxDistance {
    /// By link.
    of_link: Vec<Metres>,
}

impl MaxDistance {
    fn of(unit: Unit, network: &Network, step: Seconds) -> Self {
        let fastest = Metres::new(MAX_SPEED.get() * step.get());
        let most = |length: Metres| match unit {
            Unit::Cell => length.min(fastest),
            Unit::VehicleStep | Unit::VehicleTrip => fastest,
        };
        Self { of_link: network.links().iter().map(|link| most(link.length)).collect() }
    }

    fn on(&self, link: LinkId) -> Metres {
        self.of_link[link.index()]
    }
}

/// A grid with room for six σ, and σ for it, which depends on the grid's step: a few rounds agree.
fn grid_and_sigma(terms: &NoiseTerms, numbers: [usize; 2], most: f64) -> Result<(Grid, f64)> {
    let ratio = least_ratio(Budget::new(terms.epsilon, terms.delta)?);
    let mut sigma = ratio * terms.sensitivity(numbers, 0.0);
    let mut grid = NoisedVector::grid(0.0, most, sigma, MOST_LEVELS)?;
    for _ in 0..8 {
        sigma = ratio * terms.sensitivity(numbers, grid.step() * 1.01);
        grid = NoisedVector::grid(0.0, most, sigma, MOST_LEVELS)?;
    }
    let needed = ratio * terms.sensitivity(numbers, grid.step());
    ensure!(sigma >= needed, "noise: found σ = {sigma}, expected {needed} or more");
    Ok((grid, sigma))
}

/// Grid and σ for the numbers that a file says, and room for what the longest link can hold.
fn shape(header: &NoiseHeader, network: &Network) -> Result<NoiseShape> {
    let longest = network.link_ids().map(|link| lane_km(network, link)).fold(0.0, f64::max);
    let most = (longest * 1000.0 / JAM_SPACE).max(1.0);
    let shortest = network.links().iter().map(|link| link.length.get()).fold(f64::MAX, f64::min);
    let links = (MAX_SPEED.get() * header.step_s / shortest.max(1.0)).ceil() as usize + 1;
    let (grid, sigma) = grid_and_sigma(&header.terms, [header.numbers, links], most)?;
    Ok(NoiseShape { grid, sigma, most })
}

/// The terms that a file of noised numbers was drawn for.
pub fn terms_of(path: &Path) -> Result<NoiseTerms> {
    Ok(NoiseHeader::read(path)?.terms)
}

#[cfg(test)]
mod tests;
