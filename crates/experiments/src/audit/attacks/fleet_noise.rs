//! A fleet's features with noise drawn once, before anything else sees them.
//!
//! The unit of privacy is a vehicle in a step. In a step a vehicle spends at most the step's length on all links
//! together, and drives at most what [`FASTEST`] allows: as shares of these, its times add up to at most 1 and
//! so do its distances, which is at most √2 in the Euclidean norm.

use anyhow::Result;
use estimator::data::GuestScales;
use estimator::{Arrangement, FleetData, GuestInputs, WINDOW};
use sealed::noise::NoisedVector;
use sealed::noise::accounting::{Budget, concentrated_epsilon, least_ratio};
use sealed::{Grid, Randomness};
use traffic::{Metres, Network, Seconds, Step, Totals};

/// Speeds above this, in m/s, are cut off.
pub(super) const FASTEST: f64 = 20.0;
/// Vehicles on a metre of lane that stand in a queue: more are cut off.
const JAM: f64 = 0.15;
/// Levels of the grid.
const LEVELS: i32 = 1 << 14;
/// Boxes that a vehicle in a step is in, at most, for putting values on the grid: more make no difference of note.
const BOXES: f64 = 4.0;

/// How totals are noised.
#[derive(Clone, Copy)]
pub(super) struct FleetNoise {
    pub grid: Grid,
    pub sigma: f64,
    /// The largest total, in shares.
    pub most: f64,
    /// The most that a vehicle in a step changes, in the Euclidean norm, with what the grid adds.
    change: f64,
    delta: f64,
}

impl FleetNoise {
    pub(super) fn new(network: &Network, budget: Budget) -> Result<Self> {
        let lanes = network.links().iter().map(|link| link.lane_length().get());
        let most = JAM * lanes.fold(1.0, f64::max);
        let ratio = least_ratio(budget);
        // The grid's step grows with σ, and σ with the step: this step is larger than the one that comes out.
        let step = (most + 12.0 * ratio * 2.0 * f64::sqrt(2.0)) / f64::from(2 * LEVELS);
        let change = f64::sqrt(2.0) + (2.0 * BOXES).sqrt() * step;
        let sigma = ratio * change;
        let grid = NoisedVector::grid(0.0, most, sigma, LEVELS)?;
        Ok(Self { grid, sigma, most, change, delta: budget.delta() })
    }

    /// What is promised for a vehicle in so many steps.
    pub(super) fn epsilon(&self, steps: usize) -> Result<f64> {
        let ratio = self.sigma / (self.change * (steps as f64).sqrt());
        Ok(concentrated_epsilon(ratio, self.delta)?)
    }

    /// δ of the promise.
    pub(super) fn delta(&self) -> f64 {
        self.delta
    }

    /// Totals as shares of what one vehicle can add: of time, of distance.
    pub(super) fn shares(totals: Totals, step: Seconds) -> [f64; 2] {
        [totals.time / step, totals.distance.get() / (FASTEST * step.get())]
    }

    pub(super) fn draw(&self, shares: &[f64], random: &mut Randomness) -> Result<NoisedVector> {
        Ok(NoisedVector::draw(shares, (0.0, self.most), self.grid, self.sigma, random)?)
    }
}

/// A guest's inputs, made of noised totals.
pub(super) struct NoisedInputs {
    inputs: GuestInputs,
    arrangement: Arrangement,
    links: usize,
    /// What noise adds to the scaled density and flow, `[row, link, (density, flow)]`.
    added: Vec<f32>,
    steps: Vec<Step>,
}

impl NoisedInputs {
    pub(super) fn new(
        inputs: GuestInputs,
        arrangement: Arrangement,
        fleet: &FleetData,
        scales: &GuestScales,
        noise: &FleetNoise,
        random: &mut Randomness,
    ) -> Result<Self> {
        let timeline = std::sync::Arc::clone(fleet.timeline());
        let (network, step) = (timeline.network(), timeline.step());
        let mut shares = Vec::new();
        for at in timeline.steps() {
            for link in network.link_ids() {
                shares.extend(FleetNoise::shares(fleet.totals(at, link), step));
            }
        }
        let noised = noise.draw(&shares, random)?.values();
        // What one share adds to a link's scaled numbers.
        let whole = Totals { time: step, distance: Metres::new(FASTEST * step.get()) };
        let factors: Vec<f64> = network
            .links()
            .iter()
            .flat_map(|link| {
                let state = whole.state(link, step);
                let natural = [state.density.get(), state.flow.get()].map(|x| x / fleet.rate());
                let scaled =
                    natural.iter().zip(&scales.links).map(|(x, scale)| x / scale.deviation);
                scaled.collect::<Vec<f64>>()
            })
            .collect();
        let changes = noised.iter().zip(&shares).zip(factors.iter().cycle());
        let added = changes.map(|((noised, raw), factor)| ((noised - raw) * factor) as f32);
        let (added, links) = (added.collect(), network.links().len());
        let steps = timeline.steps().collect();
        Ok(Self { inputs, arrangement, links, added, steps })
    }

    /// Writes the sample of a window. Whether there was a vehicle at all is not told: it carries no noise.
    pub(super) fn write(&self, last: Step, to: &mut [f32]) {
        self.inputs.write(last, to);
        let by_link = self.arrangement == Arrangement::ByLink;
        let each = if by_link { 3 } else { 2 };
        for back in 0..WINDOW {
            let step = Step(last.0 + 1 - (WINDOW - back) as i64);
            let row = self.steps.partition_point(|held| *held < step);
            for link in 0..self.links {
                let place = match by_link {
                    true => (link * WINDOW + back) * each,
                    false => (back * self.links + link) * each,
                };
                let added = &self.added[(row * self.links + link) * 2..][..2];
                to[place] += added[0];
                to[place + 1] += added[1];
                if by_link {
                    to[place + 2] = 1.0;
                }
            }
        }
    }
}
