//! The paper's label-free loss L^PI: a traffic model between consecutive steps, and measurements.
//!
//! ```text
//! L = ½ Σ_t Σ_n (k_{n,t+1} − g^k_n(y_t))²/σ²_k + (q_{n,t} − g^q_n(y_t))²/σ²_q      physics
//!   + ½ Σ_t Σ_parties Σ_entries w·(u − h(y_t))²                                    measurements
//!   + labels, where there are some
//! ```
//!
//! per sample and link. σ² is the larger of what is stated and what the residuals of a batch show, by link. A pair of neighbours in a batch counts in the physics part if one
//! [leads to](Window::leads_to) the other. Estimated densities are Edie's, means over a step and so of its
//! middle: what leads from one to the next are the signals from the middle of the first step to that
//! of the second. The flow of a step is made by the signals of that step.

use std::collections::BTreeMap;

use neural::{Checkpoint, CheckpointError};
use physics::{
    GreenPlan, Inputs, ModelError, PhysicsLoss, ResidualWeights, Segment, SegmentGradient,
    TrafficModel,
};
use traffic::{MeasurementEntry, Network, Seconds};

mod labels;
mod learned_physics;
mod linear_part;
mod measurement;
#[cfg(test)]
mod tests;

use crate::data::measurements::MeasuredBatch;
use crate::data::scales::Scale;
use crate::loss::objective::{MeasurementWeights, Objective, PartialLoss};
use crate::model::sub_model::{PassError, check_len};
use measurement::{Coefficients, States, add_value_losses, add_values, without_values};
use traffic::Window;

pub use labels::SomeLabels;
pub use learned_physics::LearnedPhysics;

/// A traffic model with its signals and how far it is trusted.
pub struct Physics {
    /// The model.
    pub model: Box<dyn TrafficModel + Send + Sync>,
    /// The host's signal plan.
    pub signals: GreenPlan,
    /// 1/σ² of its density one step on and of its flow, for each link: the most that it is trusted.
    pub weights: ResidualWeights,
    /// Vehicles a minute that start on each link.
    pub demand: Vec<f64>,
    /// Learns the model's parameters as training goes.
    pub learned: Option<LearnedPhysics>,
}

/// The paper's label-free loss L^PI: a traffic model between consecutive steps, measurements, and labels where
/// there are some.
pub struct PhysicsInformed {
    physics: Option<Physics>,
    scales: Vec<[Scale; 2]>,
    parties: BTreeMap<String, Vec<MeasurementEntry>>,
    labels: Option<SomeLabels>,
    inputs: Vec<Inputs>,
    density: Vec<f64>,
    flow: Vec<f64>,
    d_density: Vec<f64>,
    d_flow: Vec<f64>,
    losses: Vec<f64>,
    coefficients: Coefficients,
}

/// How far a traffic model can be trusted, where nobody has compared it with the truth: standard
/// deviations of density and flow one step on.
///
/// On the built-in world, a simulator that a host may run of its own streets, the CTM with usual
/// parameters errs by 5.9 veh/km/lane and 3.05 veh/min/lane (on SUMO by 5.4 and 3.1). Its flow errs alike
/// whenever the same signal shows, which averages out over no number of samples: it is trusted half as far.
/// That doubling was chosen with the truth of the validation part of SUMO's demand seed 1 at 20 %.
pub const CTM_DEVIATIONS: [f64; 2] = [6.0, 6.0];

/// How much what errs alike whenever the same signal shows (a traffic model, queue profiles, loops)
/// counts beside a held-out fold, whose noise averages out over samples. Chosen with the truth of the
/// validation part of SUMO's demand seed 1 at 20 %.
pub const SYSTEMATIC: f64 = 0.05;

impl Physics {
    /// The same, as if its errors were `1/√share` times as large.
    pub fn trusted(mut self, share: f64) -> Self {
        let ResidualWeights { density, flow } = &mut self.weights;
        density.iter_mut().chain(flow).for_each(|weight| *weight *= share);
        self
    }

    /// With the same trust in all links but entries, of whose demand nothing is known.
    pub fn new(
        network: &Network,
        model: Box<dyn TrafficModel + Send + Sync>,
        [density, flow]: [f64; 2],
    ) -> Result<Self, ModelError> {
        let mut variances = [density, flow].map(|d| vec![d * d; network.links().len()]);
        for entry in network.entries() {
            variances.iter_mut().for_each(|v| v[entry.index()] = f64::INFINITY);
        }
        let weights = ResidualWeights::from_variances(&variances[0], &variances[1])?;
        let demand = vec![0.0; network.links().len()];
        Ok(Self { model, signals: GreenPlan::of(network), weights, demand, learned: None })
    }
}

impl PhysicsInformed {
    /// On estimates of these scales, for each link. Without physics, measurements alone.
    pub fn new(
        physics: Option<Physics>,
        scales: Vec<[Scale; 2]>,
        parties: BTreeMap<String, Vec<MeasurementEntry>>,
    ) -> Result<Self, PassError> {
        if let Some(physics) = &physics {
            check_len("links of the traffic model", physics.model.links(), scales.len())?;
        }
        for entry in parties.values().flatten() {
            if entry.link.index() >= scales.len() {
                let (found, expected) = (entry.link.index(), format!("below {}", scales.len()));
                return Err(PassError::Length { what: "link of an entry", found, expected });
            }
        }
        let [density, flow, d_density, d_flow, losses] = [const { Vec::new() }; 5];
        Ok(Self {
            physics,
            scales,
            parties,
            labels: None,
            inputs: Vec::new(),
            density,
            flow,
            d_density,
            d_flow,
            losses,
            coefficients: Coefficients::default(),
        })
    }

    /// With labels of some samples besides.
    pub(crate) fn with_labels(mut self, labels: SomeLabels) -> Result<Self, PassError> {
        check_len("links of the labels", labels.links(), self.scales.len())?;
        self.labels = Some(labels);
        Ok(self)
    }

    /// Losses of all samples, not divided by anything, and the gradient in natural units. The loss of a
    /// pair counts for its first sample.
    fn evaluate(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        y: &[f32],
    ) -> Result<(), PassError> {
        let links = self.scales.len();
        check_len("estimates", y.len(), samples.len() * 2 * links)?;
        self.density.clear();
        self.flow.clear();
        for (at, pair) in y.chunks_exact(2).enumerate() {
            let [density, flow] = &self.scales[at % links];
            self.density.push(density.undo(pair[0]));
            self.flow.push(flow.undo(pair[1]));
        }
        for gradient in [&mut self.d_density, &mut self.d_flow] {
            gradient.clear();
            gradient.resize(samples.len() * links, 0.0);
        }
        self.losses.clear();
        self.losses.resize(samples.len(), 0.0);
        self.add_measurements(samples.len(), measured)?;
        if let Some(labels) = &self.labels {
            let states = States { density: &self.density[..], flow: &self.flow[..] };
            let mut gradient =
                States { density: &mut self.d_density[..], flow: &mut self.d_flow[..] };
            labels.add(samples, &states, &mut gradient, &mut self.losses);
        }
        self.add_physics(samples).map_err(|error| PassError::Physics(error.to_string()))
    }

    fn add_measurements(
        &mut self,
        samples: usize,
        measured: &MeasuredBatch<'_>,
    ) -> Result<(), PassError> {
        let states = States { density: &self.density[..], flow: &self.flow[..] };
        let mut gradient = States { density: &mut self.d_density[..], flow: &mut self.d_flow[..] };
        for (party, readings) in measured {
            let entries = check_party(&self.parties, party)?;
            readings.check(samples, entries.len())?;
            let (coefficients, losses) = (&mut self.coefficients, &mut self.losses);
            let weights = readings.weights;
            without_values(entries, weights, &states, &mut gradient, coefficients, losses);
            add_values(entries, readings.values, coefficients, self.scales.len(), &mut gradient);
            add_value_losses(entries, (readings.values, weights), &states, losses);
        }
        Ok(())
    }

    /// The physics part, pair by pair of consecutive samples: of density with the signals of half a step
    /// later, of flow with those of the step.
    fn add_physics(&mut self, samples: &[Window]) -> Result<(), ModelError> {
        let Some(physics) = &mut self.physics else { return Ok(()) };
        let links = self.scales.len();
        let pairs: Vec<usize> =
            (1..samples.len()).filter(|&at| samples[at - 1].leads_to(samples[at])).collect();
        if pairs.is_empty() {
            return Ok(());
        }
        let none = vec![0.0; links];
        let half = physics.model.step_length().get() / 2.0;
        let ResidualWeights { density, flow } = physics.weights.clone();
        let parts = [
            (ResidualWeights { density, flow: none.clone() }, half),
            (ResidualWeights { density: none, flow }, 0.0),
        ];
        let mut d_parameters =
            physics.learned.as_ref().map(|_| vec![0.0; physics.model.parameters().len()]);
        if self.inputs.is_empty() {
            self.inputs
                .push(Inputs { demand: physics.demand.clone(), ..Inputs::free(&*physics.model) });
        }
        for (weights, later) in parts {
            let mut loss = PhysicsLoss::new(&*physics.model, weights)?;
            let range = |pair: usize| (pair - 1) * links..(pair + 1) * links;
            let signals = |pair: usize, inputs: &mut Inputs| {
                let begin = samples[pair - 1].last.0 as f64 * 2.0 * half + later;
                inputs.signals_from(&physics.signals, &*physics.model, Seconds::new(begin))
            };
            let mut squares = [vec![0.0; links], vec![0.0; links]];
            let [density, flow] = &mut squares;
            for &pair in &pairs {
                signals(pair, &mut self.inputs[0])?;
                let segment = Segment {
                    densities: &self.density[range(pair)],
                    flows: &self.flow[range(pair)],
                    inputs: &self.inputs,
                };
                loss.add_squares(segment, density, flow)?;
            }
            let ResidualWeights { density: of_density, flow: of_flow } = loss.weights_mut();
            let count = pairs.len() as f64;
            let unlikely = doubt(of_density, density, count) + doubt(of_flow, flow, count);
            for &pair in &pairs {
                signals(pair, &mut self.inputs[0])?;
                let segment = Segment {
                    densities: &self.density[range(pair)],
                    flows: &self.flow[range(pair)],
                    inputs: &self.inputs,
                };
                let gradient = SegmentGradient {
                    densities: &mut self.d_density[range(pair)],
                    flows: &mut self.d_flow[range(pair)],
                    parameters: d_parameters.as_deref_mut(),
                };
                self.losses[pair - 1] += loss.add(segment, 1.0, Some(gradient))? + unlikely;
            }
        }
        if let (Some(learned), Some(gradient)) = (&mut physics.learned, d_parameters) {
            learned.take(&gradient);
        }
        Ok(())
    }
}

/// Trusts the model less where its residuals are larger than stated: the variance of a link is at least the mean
/// square of its residuals in a batch. Returns the part of the loss of a pair that stands for that.
///
/// With a variance v of its own for each link, of which is known that it is v₀ or more, the likeliest v for the residuals
/// r is max(v₀, mean r²), and minus the logarithm of the likelihood is ½·Σ(r²/v + ln(v/v₀)): its gradient is that of ½·Σ r²/v,
/// since v is where the sum is least.
fn doubt(weights: &mut [f64], squares: &[f64], count: f64) -> f64 {
    let mut sum = 0.0;
    for (weight, square) in weights.iter_mut().zip(squares) {
        let excess = *weight * square / count;
        if excess > 1.0 {
            sum += 0.5 * excess.ln();
            *weight /= excess;
        }
    }
    sum
}

impl PhysicsInformed {
    /// Writes the gradient in the model's own scale. Gives the share of a sample and link.
    fn write_gradient(&self, samples: usize, dy: &mut [f32]) -> f64 {
        let links = self.scales.len();
        let share = 1.0 / (samples * links).max(1) as f64;
        let gradients = self.d_density.iter().zip(&self.d_flow);
        for (at, (pair, (density, flow))) in dy.chunks_exact_mut(2).zip(gradients).enumerate() {
            let scales = &self.scales[at % links];
            pair[0] = (share * density * scales[0].deviation) as f32;
            pair[1] = (share * flow * scales[1].deviation) as f32;
        }
        share
    }
}

/// The entries of a party that the objective knows.
fn check_party<'a>(
    parties: &'a BTreeMap<String, Vec<MeasurementEntry>>,
    party: &str,
) -> Result<&'a [MeasurementEntry], PassError> {
    parties.get(party).map(Vec::as_slice).ok_or_else(|| {
        let names: Vec<&str> = parties.keys().map(String::as_str).collect();
        PassError::UnknownGuest { found: party.to_owned(), expected: names.join(", ") }
    })
}

impl Objective for PhysicsInformed {
    fn train(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        y: &[f32],
        dy: &mut [f32],
    ) -> Result<f64, PassError> {
        check_len("gradient of the estimates", dy.len(), y.len())?;
        self.evaluate(samples, measured, y)?;
        let share = self.write_gradient(samples.len(), dy);
        Ok(share * self.losses.iter().sum::<f64>())
    }

    fn train_without_values(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        weights: &MeasurementWeights<'_>,
        y: &[f32],
        dy: &mut [f32],
    ) -> Result<PartialLoss, PassError> {
        check_len("gradient of the estimates", dy.len(), y.len())?;
        let apart = self.evaluate_apart(samples, measured, weights, y)?;
        let share = self.write_gradient(samples.len(), dy);
        Ok(apart.times(share))
    }

    fn validate_without_values(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        weights: &MeasurementWeights<'_>,
        y: &[f32],
    ) -> Result<PartialLoss, PassError> {
        let share = 1.0 / self.scales.len().max(1) as f64;
        Ok(self.evaluate_apart(samples, measured, weights, y)?.times(share))
    }

    fn validate(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        y: &[f32],
        total: f64,
    ) -> Result<f64, PassError> {
        self.evaluate(samples, measured, y)?;
        let share = 1.0 / self.scales.len().max(1) as f64;
        Ok(self.losses.iter().fold(total, |total, loss| total + share * loss))
    }

    fn update(&mut self) {
        if let Some(physics) = &mut self.physics
            && let Some(learned) = &mut physics.learned
        {
            learned.step(&mut *physics.model);
        }
    }

    fn save(&self, to: &mut Checkpoint) {
        if let Some(learned) = self.physics.as_ref().and_then(|physics| physics.learned.as_ref()) {
            learned.save(to);
        }
    }

    fn restore(&mut self, from: &Checkpoint) -> Result<(), CheckpointError> {
        if let Some(physics) = &mut self.physics
            && let Some(learned) = &mut physics.learned
        {
            learned.restore(from, &mut *physics.model)?;
        }
        Ok(())
    }

    fn has_terms(&self, measured: &MeasuredBatch<'_>) -> bool {
        let mut weights = measured.values().flat_map(|readings| readings.weights);
        self.physics.is_some() || self.labels.is_some() || weights.any(|weight| *weight > 0.0)
    }
}
