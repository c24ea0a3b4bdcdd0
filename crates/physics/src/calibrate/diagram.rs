//! A fundamental diagram from densities and flows.
//!
//! The curve q(k) = min(v_f·k, q_c, w·(k_jam − k)) is fitted as a quantile τ of flow given density: the
//! curve minimises Σ ρ_τ(q − q(k)), ρ_τ(x) = x·(τ − [x < 0]). That is robust (an outlier pulls by its
//! side, not by its size), and right for signalled links, where red makes flows fall below the
//! curve at any density: there the diagram is the upper edge of the cloud, τ near 1, while on
//! an open road it is the middle, τ = 0.5. A prior that weighs as much as ten samples keeps numbers
//! that the data leave open from running off. (The estimator is ours; the paper assumes calibrated
//! parameters.)
//!
//! The congested branch can only be seen where there was congestion. Without, w and k_jam are those
//! of the prior, and the fit says so.

use traffic::{FundamentalDiagram, Metres, MetresPerSecond, VehPerKmLane, VehPerMinLane};

use super::error::CalibrationError;
use super::jackknife::standard_errors;
use super::search::minimum;
use crate::parameters::KM_PER_MIN;

/// Fewer samples say nothing about a curve of four numbers with a margin.
const LEAST_SAMPLES: usize = 50;
/// Fewer congested samples do not fix a line.
const LEAST_CONGESTED: usize = 25;
const ROUNDS: usize = 300;

/// Density and flow of a link in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiagramSample {
    /// veh/km/lane.
    pub density: f64,
    /// veh/min/lane.
    pub flow: f64,
}

/// How to fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiagramOptions {
    /// The quantile of flow that the diagram is: 0.5 on an open road, about 0.95 at a signal.
    pub quantile: f64,
    /// What is taken where the data say nothing, and where the search starts.
    pub prior: FundamentalDiagram,
}

/// Which branches the data showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitted {
    /// Free and congested: all numbers are from the data.
    Both,
    /// Only the free one: wave speed and jam density are the prior's, and capacity is at least the
    /// largest flow seen.
    FreeOnly,
}

/// A fitted diagram with the standard errors of its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiagramFit {
    /// The diagram.
    pub diagram: FundamentalDiagram,
    /// What it rests on.
    pub fitted: Fitted,
    /// How many samples were used.
    pub samples: usize,
    /// Standard error of the free speed.
    pub free_speed_error: MetresPerSecond,
    /// Of the wave speed; none where it is the prior's.
    pub wave_speed_error: Option<MetresPerSecond>,
    /// Of the jam density; none where it is the prior's.
    pub jam_density_error: Option<VehPerKmLane>,
    /// Of the capacity.
    pub capacity_error: VehPerMinLane,
}

/// Density from a loop's occupancy: the share of time that it is covered, over the length that a
/// vehicle and the loop take together.
pub fn density_of_occupancy(
    occupancy: f64,
    vehicle: Metres,
    detector: Metres,
) -> Result<VehPerKmLane, CalibrationError> {
    let refuse = |what: &str, found, expected| {
        Err(CalibrationError::Number { what: what.into(), found, expected })
    };
    if !(0.0..=1.0).contains(&occupancy) {
        return refuse("occupancy", occupancy, "0 to 1");
    }
    let length = (vehicle + detector).get();
    if !(length > 0.0 && length.is_finite()) {
        return refuse("length of vehicle and detector", length, "more than 0 m");
    }
    Ok(VehPerKmLane::new(occupancy / length * 1000.0))
}

/// Fits a link's diagram. Samples in order of time: standard errors leave out a block at a time.
pub fn fit_diagram(
    link: &str,
    samples: &[DiagramSample],
    options: DiagramOptions,
) -> Result<DiagramFit, CalibrationError> {
    let what = || format!("diagram of link `{link}`");
    if !(options.quantile > 0.0 && options.quantile < 1.0) {
        let found = options.quantile;
        return Err(CalibrationError::Number {
            what: what(),
            found,
            expected: "a quantile between 0 and 1",
        });
    }
    for sample in samples {
        for number in [sample.density, sample.flow] {
            if !(number >= 0.0 && number.is_finite()) {
                let expected = "densities and flows of 0 or more";
                return Err(CalibrationError::Number { what: what(), found: number, expected });
            }
        }
    }
    // An empty road lies on every curve.
    let used: Vec<DiagramSample> = samples.iter().copied().filter(|s| s.density > 0.0).collect();
    if used.len() < LEAST_SAMPLES {
        let (found, needed) = (used.len(), LEAST_SAMPLES);
        return Err(CalibrationError::TooLittle { what: what() + ", samples", found, needed });
    }
    let all = |_: usize| true;
    let start = Curve::first(&used, &options)
        .ok_or(CalibrationError::Unidentified { what: what(), why: "no flow in the data" })?;
    let congested = used.iter().filter(|s| s.density > 1.3 * start.critical()).count();
    let fitted = if congested >= LEAST_CONGESTED { Fitted::Both } else { Fitted::FreeOnly };
    let curve = fit(&used, &all, start, fitted, &options);
    let errors = standard_errors(used.len(), |keep| {
        Some(fit(&used, keep, curve, fitted, &options).numbers().to_vec())
    })
    .unwrap_or_else(|| vec![f64::INFINITY; 4]);
    let diagram = curve.diagram().ok_or(CalibrationError::Unidentified {
        what: what(),
        why: "the best curve is no diagram",
    })?;
    let seen = fitted == Fitted::Both;
    Ok(DiagramFit {
        diagram,
        fitted,
        samples: used.len(),
        free_speed_error: MetresPerSecond::new(errors[0] / KM_PER_MIN),
        wave_speed_error: seen.then(|| MetresPerSecond::new(errors[1] / KM_PER_MIN)),
        jam_density_error: seen.then(|| VehPerKmLane::new(errors[2])),
        capacity_error: VehPerMinLane::new(errors[3]),
    })
}

/// A trapezoid: km/min, km/min, veh/km, veh/min.
#[derive(Clone, Copy, Debug)]
struct Curve {
    free: f64,
    wave: f64,
    jam: f64,
    capacity: f64,
}

impl Curve {
    /// Free speed: a quantile of the speeds in light traffic. Capacity: the highest of the quantiles
    /// of flow in bins of density. Congested branch: the line through the bins beyond that.
    fn first(samples: &[DiagramSample], options: &DiagramOptions) -> Option<Self> {
        let prior = options.prior;
        let light = quantile(samples.iter().map(|s| s.density).collect(), 0.3)?;
        let in_light = samples.iter().filter(|s| s.density <= light && s.flow > 0.0);
        let free = quantile(in_light.map(|s| s.flow / s.density).collect(), options.quantile)?;
        let bins = flow_in_bins(samples, options.quantile);
        let highest = bins.iter().copied().max_by(|a, b| a.flow.total_cmp(&b.flow))?;
        let beyond: Vec<DiagramSample> =
            bins.into_iter().filter(|bin| bin.density > highest.density).collect();
        let (wave, jam) = falling_line(&beyond)
            .unwrap_or_else(|| (prior.wave_speed().get() * KM_PER_MIN, prior.jam_density().get()));
        (highest.flow > 0.0).then_some(Self { free, wave, jam, capacity: highest.flow })
    }

    fn critical(&self) -> f64 {
        self.capacity / self.free
    }

    fn flow(&self, density: f64) -> f64 {
        let falling = self.wave * (self.jam - density).max(0.0);
        (self.free * density).min(self.capacity).min(falling)
    }

    fn sound(&self) -> bool {
        self.numbers().iter().all(|&number| number > 0.0 && number.is_finite())
    }

    /// With capacity cut to the triangle's top, beyond which it has no meaning.
    fn numbers(&self) -> [f64; 4] {
        [self.free, self.wave, self.jam, self.capacity.min(self.top())]
    }

    fn top(&self) -> f64 {
        self.free * self.wave * self.jam / (self.free + self.wave)
    }

    /// What keeps a number that the data leave open near the prior's: its relative distance, in units
    /// of a third, squared, as if this many samples missed the curve by a tenth of capacity.
    fn far_from(&self, prior: &FundamentalDiagram) -> f64 {
        const SAMPLES: f64 = 10.0;
        let distance = |found: f64, prior: f64| ((found / prior).ln() / 0.33).powi(2);
        let (free, wave) = (prior.free_speed().get(), prior.wave_speed().get());
        let all = distance(self.free, free * KM_PER_MIN)
            + distance(self.wave, wave * KM_PER_MIN)
            + distance(self.jam, prior.jam_density().get());
        SAMPLES * 0.1 * prior.capacity().get() * all / 3.0
    }

    fn diagram(&self) -> Option<FundamentalDiagram> {
        let speed = |value: f64| MetresPerSecond::new(value / KM_PER_MIN);
        let (free, wave, jam) = (speed(self.free), speed(self.wave), VehPerKmLane::new(self.jam));
        let triangle = FundamentalDiagram::triangular(free, wave, jam).ok()?;
        let capacity = VehPerMinLane::new(self.capacity).min(triangle.capacity());
        FundamentalDiagram::new(free, wave, jam, capacity).ok()
    }
}

/// The best curve near another.
fn fit(
    samples: &[DiagramSample],
    keep: &dyn Fn(usize) -> bool,
    start: Curve,
    fitted: Fitted,
    options: &DiagramOptions,
) -> Curve {
    let loss = |curve: &Curve| {
        if !curve.sound() {
            return f64::INFINITY;
        }
        let tau = options.quantile;
        let cost = |sample: &DiagramSample| {
            let above = sample.flow - curve.flow(sample.density);
            if above >= 0.0 { tau * above } else { (tau - 1.0) * above }
        };
        let kept = samples.iter().enumerate().filter(|&(i, _)| keep(i));
        kept.map(|(_, sample)| cost(sample)).sum::<f64>() + curve.far_from(&options.prior)
    };
    match fitted {
        Fitted::Both => {
            let curve = |x: &[f64; 4]| Curve { free: x[0], wave: x[1], jam: x[2], capacity: x[3] };
            let from = [start.free, start.wave, start.jam, start.capacity];
            // Fresh, smaller simplices: one may have collapsed onto a kink.
            let again = |from: [f64; 4], share: f64| {
                minimum(from, from.map(|x| share * x), ROUNDS, |x| loss(&curve(x)))
            };
            curve(&[0.15, -0.1, 0.05].into_iter().fold(from, again))
        }
        Fitted::FreeOnly => {
            let curve = |x: &[f64; 1]| Curve { free: x[0], ..start };
            let from = [start.free];
            let mut best = curve(&minimum(from, [0.1 * from[0]], ROUNDS, |x| loss(&curve(x))));
            best.wave = options.prior.wave_speed().get() * KM_PER_MIN;
            best.jam = options.prior.jam_density().get();
            let kept = samples.iter().enumerate().filter(|&(i, _)| keep(i));
            let kept: Vec<DiagramSample> = kept.map(|(_, &sample)| sample).collect();
            let bins = flow_in_bins(&kept, options.quantile);
            let seen = bins.iter().map(|bin| bin.flow).fold(0.0, f64::max);
            // At least what was seen; how much more cannot be told.
            best.capacity = if seen > 0.0 { seen.min(best.top()) } else { best.top() };
            best
        }
    }
}

/// The quantile of flow in each of some bins of density that hold enough samples.
fn flow_in_bins(samples: &[DiagramSample], share: f64) -> Vec<DiagramSample> {
    const BINS: usize = 20;
    let Some(widest) = quantile(samples.iter().map(|s| s.density).collect(), 0.98) else {
        return Vec::new();
    };
    let mut flows = vec![Vec::new(); BINS];
    for sample in samples.iter().filter(|sample| sample.density < widest) {
        flows[(sample.density / widest * BINS as f64) as usize].push(sample.flow);
    }
    let bins = flows.into_iter().enumerate().filter(|(_, flows)| flows.len() >= 10);
    bins.filter_map(|(bin, flows)| {
        let density = (bin as f64 + 0.5) / BINS as f64 * widest;
        Some(DiagramSample { density, flow: quantile(flows, share)? })
    })
    .collect()
}

/// Slope (positive) and zero of the line of least squares through falling flows.
fn falling_line(bins: &[DiagramSample]) -> Option<(f64, f64)> {
    let many = bins.len() as f64;
    let mean = |of: fn(&DiagramSample) -> f64| bins.iter().map(of).sum::<f64>() / many;
    let (k, q) = (mean(|b| b.density), mean(|b| b.flow));
    let cross: f64 = bins.iter().map(|b| (b.density - k) * (b.flow - q)).sum();
    let square: f64 = bins.iter().map(|b| (b.density - k).powi(2)).sum();
    let slope = -cross / square;
    (bins.len() >= 3 && slope > 0.0 && slope.is_finite()).then(|| (slope, k + q / slope))
}

/// The value that a share of the values does not exceed.
fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let at = (share * (values.len() - 1) as f64).round() as usize;
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}

#[cfg(test)]
mod tests;
