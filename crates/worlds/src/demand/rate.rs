//! The arrivals of one entry: a rate that changes each minute, and when the next vehicle is due.

use super::random::{Purpose, exponential, normal, uniform};
use super::{Demand, Headways, Noise, Peaks};

/// The rate is constant within pieces of this many seconds.
const PIECE: f64 = 60.0;

/// Mean of sin⁴.
const MEAN_SHAPE: f64 = 3.0 / 8.0;

/// The times at which vehicles arrive at one entry.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    seed: u64,
    entry: usize,
    /// Vehicles per second.
    mean: f64,
    headways: Headways,
    peaks: Option<Peaks>,
    noise: Option<Noise>,
    /// The AR(1) process, at the current piece.
    wander: f64,
    piece: u64,
    rate: f64,
    time: f64,
    /// How much of ∫λ is left until the next vehicle.
    left: f64,
    drawn: u64,
}

impl Arrivals {
    pub(super) fn new(demand: &Demand, entry: usize, seed: u64) -> Self {
        let mut arrivals = Self {
            seed,
            entry,
            mean: demand.entries[entry].flow.get() / 3600.0,
            headways: demand.headways,
            peaks: demand.peaks,
            noise: demand.noise,
            wander: normal(seed, Purpose::Noise, entry, 0),
            piece: 0,
            rate: 0.0,
            time: 0.0,
            left: match demand.headways {
                Headways::Even => uniform(seed, Purpose::FirstHeadway, entry, 0),
                Headways::Poisson => exponential(seed, Purpose::FirstHeadway, entry, 0),
            },
            drawn: 0,
        };
        arrivals.rate = arrivals.rate_of_piece();
        arrivals
    }

    /// The time of the next vehicle in seconds, if it comes before `until`.
    pub(super) fn next_before(&mut self, until: f64) -> Option<f64> {
        if self.mean <= 0.0 {
            return None;
        }
        while self.time < until {
            let end = (self.piece + 1) as f64 * PIECE;
            let in_piece = self.rate * (end - self.time);
            if self.left < in_piece {
                self.time += self.left / self.rate;
                self.drawn += 1;
                self.left = match self.headways {
                    Headways::Even => 1.0,
                    Headways::Poisson => {
                        exponential(self.seed, Purpose::Headway, self.entry, self.drawn)
                    }
                };
                return Some(self.time).filter(|&time| time < until);
            }
            self.left -= in_piece;
            self.time = end;
            self.piece += 1;
            if let Some(noise) = self.noise {
                let kept = (-PIECE / noise.memory.get()).exp();
                let shock = normal(self.seed, Purpose::Noise, self.entry, self.piece);
                self.wander = kept * self.wander + (1.0 - kept * kept).sqrt() * shock;
            }
            self.rate = self.rate_of_piece();
        }
        None
    }

    fn rate_of_piece(&self) -> f64 {
        let middle = (self.piece as f64 + 0.5) * PIECE;
        let peak = self.peaks.map_or(1.0, |peaks| {
            let shape = (std::f64::consts::PI * middle / peaks.period.get()).sin().powi(4);
            1.0 + peaks.height * (shape - MEAN_SHAPE)
        });
        let noise = self.noise.map_or(1.0, |noise| {
            (noise.spread * self.wander - noise.spread * noise.spread / 2.0).exp()
        });
        self.mean * peak * noise
    }
}
