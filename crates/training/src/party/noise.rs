//! Noise that a guest adds to its data once, before anything else sees them.
//!
//! Every number is counted in vehicles: time on a link over the step's length, distance over the most that a
//! vehicle drives in a step (`MaxDistance`), density by queue profiles times the link's lane-kilometres. All are clipped
//! to what the longest link can hold, put on one grid, and get discrete Gaussian noise of the same σ. The result is kept in a
//! file, and features, speeds, weights and whatever else leaves the guest is computed from that file alone: all of
//! it together is one (ε, δ) release of the *unit of privacy*:
//!
//! | unit | what it hides | Δ in vehicles |
//! |---|---|---|
//! | `vehicle-step` | one vehicle in one step | √2: its time and its distance are at most 1 each, over all links |
//! | `vehicle-trip` | one vehicle in up to `trip-steps` steps | √(2·steps) |
//! | `cell` | a change of one link in one step by up to `change` vehicles in each of its numbers | change·√numbers |
//!
//! How much one vehicle can change densities by queue profiles nobody has bounded: with them the unit is `cell`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use data_encoding::HEXLOWER;
use durable::PendingFile;
use estimator::{FleetData, MeasurementTable, QueueStates};
use sealed::fixed_point::MOST_LEVELS;
use sealed::noise::NoisedVector;
use sealed::noise::accounting::{Budget, least_ratio};
use sealed::{Grid, Randomness};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use traffic::{LinkId, Metres, Network, Seconds, Step, Totals};

use crate::error::{Context, Result, TrainingError, ensure};

/// No vehicle is faster, m/s: 144 km/h.
const FASTEST: f64 = 40.0;
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
    /// The fleet, with noise in its totals.
    pub fleet: FleetData,
    /// Densities by queue profiles, with noise.
    pub queues: Option<MeasurementTable>,
    /// Mean speeds, by totals with noise.
    pub speeds: MeasurementTable,
    /// Standard deviation of the noise, in vehicles.
    pub sigma: f64,
}

/// What a file of noised numbers says of itself, in its first line.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: u32,
    /// Of the numbers before they got noise.
    fingerprint: String,
    terms: NoiseTerms,
    /// Numbers of a link and step: time, distance, and density by queue profiles if that is there.
    numbers: usize,
    count: usize,
}

/// Format 1 counted distances by the fastest vehicle on all links alike.
const FORMAT: u32 = 2;
/// Bytes of a header, at most.
const MOST_HEADER: u64 = 4096;

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

/// Noise for a fleet and its queue profiles: read from the file if it is there, drawn and kept if not. A file with other
/// terms, or of other data, is refused: drawn again, noise would average out.
pub fn noised(
    fleet: &FleetData,
    queues: Option<&QueueStates>,
    terms: &NoiseTerms,
    folder: &Path,
) -> Result<Noised> {
    terms.check()?;
    ensure!(
        queues.is_none() || terms.unit == Unit::Cell,
        "unit: found {:?} with densities by queue profiles, expected cell: how much a vehicle changes these is not bounded; leave queues out for another unit",
        terms.unit
    );
    let timeline = fleet.timeline();
    let network = timeline.network();
    let step_s = timeline.step().get();
    let reach = MaxDistance::of(terms.unit, network, timeline.step());
    let lane_km = |link: LinkId| network.link(link).lane_length().get() / 1000.0;
    let mut values = Vec::new();
    let places: Vec<(Step, LinkId)> = timeline
        .steps()
        .flat_map(|step| network.link_ids().map(move |link| (step, link)))
        .collect();
    for &(step, link) in &places {
        let totals = fleet.totals(step, link);
        values.push(totals.time.get() / step_s);
        values.push(totals.distance / reach.on(link));
        if let Some(queues) = queues {
            values.push(queues.state(step, link).state.density.get() * lane_km(link));
        }
    }
    let numbers = if queues.is_some() { 3 } else { 2 };
    let longest = network.link_ids().map(lane_km).fold(0.0, f64::max);
    let most = (longest * 1000.0 / JAM_SPACE).max(1.0);
    let shortest = network.links().iter().map(|link| link.length.get()).fold(f64::MAX, f64::min);
    let links = (FASTEST * step_s / shortest.max(1.0)).ceil() as usize + 1;
    let (grid, sigma) = grid_and_sigma(terms, [numbers, links], most)?;
    let header = Header {
        format: FORMAT,
        fingerprint: fingerprint(fleet.name(), &values),
        terms: *terms,
        numbers,
        count: values.len(),
    };
    let path = folder.join(format!("{}.noise", fleet.name()));
    let vector = match read(&path, &header, grid, sigma)? {
        Some(vector) => vector,
        None => {
            let mut random = Randomness::from_os()?;
            let drawn = NoisedVector::draw(&values, (0.0, most), grid, sigma, &mut random)?;
            keep(&path, &header, &drawn)?;
            drawn
        }
    };
    let all = vector.values();
    let each = || all.chunks_exact(numbers);
    let totals = each().zip(&places).map(|(own, &(_, link))| Totals {
        time: Seconds::new(own[0].max(0.0) * step_s),
        distance: reach.on(link) * own[1].max(0.0),
    });
    let fleet = fleet.with_totals(totals.collect());
    let sigma = vector.variance().sqrt();
    let deviations = |link: LinkId| [sigma * step_s, sigma * reach.on(link).get()];
    let speeds = MeasurementTable::noised_speeds(&fleet, deviations, terms.least_probes);
    let queues = queues.map(|_| {
        let links = network.links().len();
        let rows: BTreeMap<Step, usize> = timeline.steps().zip(0..).collect();
        let variance = |link: LinkId| QUEUE_VARIANCE + (sigma / lane_km(link)).powi(2);
        MeasurementTable::densities(timeline, variance, |step, link| {
            let row = rows.get(&step).copied().unwrap_or_default();
            all[(row * links + link.index()) * numbers + 2] / lane_km(link)
        })
    });
    Ok(Noised { fleet, queues, speeds, sigma })
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
        let fastest = Metres::new(FASTEST * step.get());
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

fn fingerprint(name: &str, values: &[f64]) -> String {
    let mut hash = Sha256::new();
    hash.update(name.as_bytes());
    values.iter().for_each(|value| hash.update(value.to_le_bytes()));
    HEXLOWER.encode(&hash.finalize())
}

/// The terms that a file of noised numbers was drawn for.
pub fn terms_of(path: &Path) -> Result<NoiseTerms> {
    let mut line = String::new();
    let file = std::fs::File::open(path).map_err(|error| TrainingError::file(path, error))?;
    let read = BufReader::new(file).take(MOST_HEADER).read_line(&mut line);
    read.map_err(|error| TrainingError::file(path, error))?;
    let header: Header = serde_json::from_str(&line).with_context(|| path.display().to_string())?;
    Ok(header.terms)
}

fn read(path: &Path, expected: &Header, grid: Grid, sigma: f64) -> Result<Option<NoisedVector>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TrainingError::file(path, error)),
    };
    let shown = path.display();
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (header, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let header: Header = serde_json::from_slice(header)
        .with_context(|| format!("{shown}: expected a line that says what was noised"))?;
    ensure!(
        header.format == expected.format,
        "{shown}: found noise of format {}, expected {}; what was released stays released: noise drawn anew, in another folder, costs its ε besides",
        header.format,
        expected.format
    );
    ensure!(
        header.fingerprint == expected.fingerprint && header.count == expected.count,
        "{shown}: found noise of other data, expected that of this fleet; noise is never drawn again for the same data, so keep the file and choose another folder"
    );
    ensure!(
        header == *expected,
        "{shown}: found noise drawn for {:?}, expected {:?}; a second release of the same data would add to the first",
        header.terms,
        expected.terms
    );
    let vector = NoisedVector::decode(rest.get(1..).unwrap_or_default(), grid, sigma)
        .with_context(|| format!("{shown}"))?;
    ensure!(vector.levels().len() == expected.count, "{shown}: found too few numbers");
    Ok(Some(vector))
}

/// Whole or not at all, and never over another file.
fn keep(path: &Path, header: &Header, vector: &NoisedVector) -> Result<()> {
    let failed = |error| TrainingError::file(path, error);
    let folder = path.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut bytes = serde_json::to_vec(header)?;
    bytes.push(b'\n');
    bytes.extend(vector.encode());
    let mut file = PendingFile::create(path)?;
    file.write_all(&bytes).map_err(failed)?;
    Ok(file.commit_new()?)
}

#[cfg(test)]
mod tests;
