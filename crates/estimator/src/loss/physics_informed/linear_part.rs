//! The loss with some parties' values elsewhere.

use super::measurement::{Coefficients, States, without_values};
use super::{PhysicsInformed, check_party};
use crate::data::measurements::{MeasuredBatch, Readings};
use crate::loss::objective::{LinearPart, MeasurementWeights, PartialLoss};
use crate::model::sub_model::PassError;
use traffic::Window;

impl PhysicsInformed {
    /// All that needs none of these values into losses and gradients, and how the rest depends on them, not
    /// divided by anything.
    pub(super) fn evaluate_apart(
        &mut self,
        samples: &[Window],
        measured: &MeasuredBatch<'_>,
        weights: &MeasurementWeights<'_>,
        y: &[f32],
    ) -> Result<PartialLoss, PassError> {
        self.evaluate(samples, measured, y)?;
        let links = self.scales.len();
        let states = States { density: &self.density[..], flow: &self.flow[..] };
        let mut gradient = States { density: &mut self.d_density[..], flow: &mut self.d_flow[..] };
        let mut apart = PartialLoss::default();
        for (&party, &weights) in weights {
            let entries = check_party(&self.parties, party)?;
            let values = vec![0.0; weights.len()];
            Readings { values: &values, weights }.check(samples.len(), entries.len())?;
            let mut coefficients = Coefficients::default();
            let losses = &mut self.losses;
            without_values(entries, weights, &states, &mut gradient, &mut coefficients, losses);
            let expected = coefficients.expected(entries, &states, links);
            let loss = expected.iter().zip(weights).map(|(h, w)| -f64::from(*w) * h).collect();
            let scales = &self.scales;
            let link = |at: usize| entries[at % entries.len()].link.index();
            let slopes = coefficients.weighted().enumerate().map(|(at, [density, flow])| {
                let [of_density, of_flow] = &scales[link(at)];
                [-(density * of_density.deviation) as f32, -(flow * of_flow.deviation) as f32]
            });
            let slopes = slopes.collect();
            let links = entries.iter().map(|entry| entry.link.index()).collect();
            apart.parties.insert(party.to_owned(), LinearPart { loss, slopes, links });
        }
        apart.known = self.losses.iter().sum();
        Ok(apart)
    }
}

impl PartialLoss {
    /// All of it times a factor.
    pub(super) fn times(mut self, factor: f64) -> Self {
        self.known *= factor;
        for part in self.parties.values_mut() {
            part.loss.iter_mut().for_each(|c| *c *= factor);
            let slopes = part.slopes.iter_mut().flatten();
            slopes.for_each(|slope| *slope = (f64::from(*slope) * factor) as f32);
        }
        self
    }
}
