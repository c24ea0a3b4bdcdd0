//! The measurement part of the loss, split into what the host can compute alone and what it needs a
//! party's values for.
//!
//! With h(y) what a measurement should be, u what it is and w = 1/σ²:
//!
//! ```text
//! L     = ½ Σ w·(u − h)²
//! ∂L/∂y = Σ w·h·h'  −  Σ (w·h')·u
//!         host alone    linear in u, with coefficients that the host knows
//! ```
//!
//! [`without_values`] gives the first sum and the coefficients, [`add_values`] the second.

use traffic::{MeasurementEntry, Quantity};

/// m/s of a vehicle a minute per vehicle a kilometre.
const METRES_PER_SECOND: f64 = 1000.0 / 60.0;
/// Below this density (veh/km/lane), where a speed has no meaning, it is that of this density: one
/// vehicle on 100 m of a five-lane street.
const LEAST_DENSITY: f64 = 2.0;

/// Estimates in natural units or gradients of them, `[sample, link]` each.
pub(super) struct States<T> {
    pub density: T,
    pub flow: T,
}

/// w·h'(y) of each entry, `[sample, entry]`: by density and by flow.
#[derive(Default)]
pub(super) struct Coefficients(Vec<[f64; 2]>);

impl Coefficients {
    /// w·h' of each entry.
    pub(super) fn weighted(&self) -> impl Iterator<Item = [f64; 2]> + '_ {
        self.0.iter().copied()
    }

    /// h of each entry.
    pub(super) fn expected(
        &self,
        entries: &[MeasurementEntry],
        states: &States<&[f64]>,
        links: usize,
    ) -> Vec<f64> {
        let each = entries.len().max(1);
        let h = |at: usize| {
            let entry = entries[at % each];
            let place = at / each * links + entry.link.index();
            predicted(entry.quantity, states.density[place], states.flow[place]).0
        };
        (0..self.0.len()).map(h).collect()
    }
}

/// h and its derivatives by density and flow.
fn predicted(quantity: Quantity, density: f64, flow: f64) -> (f64, [f64; 2]) {
    match quantity {
        Quantity::Density => (density, [1.0, 0.0]),
        Quantity::Flow => (flow, [0.0, 1.0]),
        Quantity::Speed => {
            let by_flow = METRES_PER_SECOND / density.max(LEAST_DENSITY);
            let speed = flow * by_flow;
            let by_density = if density > LEAST_DENSITY { -speed / density } else { 0.0 };
            (speed, [by_density, by_flow])
        }
    }
}

/// What needs no values: ½ Σ w·h² for each sample into `losses`, its gradient, and the coefficients of
/// the values. `weights` are a party's, `[sample, entry]`.
pub(super) fn without_values(
    entries: &[MeasurementEntry],
    weights: &[f32],
    states: &States<&[f64]>,
    gradient: &mut States<&mut [f64]>,
    coefficients: &mut Coefficients,
    losses: &mut [f64],
) {
    let links = states.density.len() / losses.len().max(1);
    coefficients.0.clear();
    for (sample, (weights, loss)) in
        weights.chunks_exact(entries.len().max(1)).zip(losses).enumerate()
    {
        for (entry, &weight) in entries.iter().zip(weights) {
            let at = sample * links + entry.link.index();
            let (h, slopes) = predicted(entry.quantity, states.density[at], states.flow[at]);
            let weighted = slopes.map(|slope| f64::from(weight) * slope);
            gradient.density[at] += weighted[0] * h;
            gradient.flow[at] += weighted[1] * h;
            *loss += 0.5 * f64::from(weight) * h * h;
            coefficients.0.push(weighted);
        }
    }
}

/// What is linear in the values: −Σ (w·h')·u into the gradient.
pub(super) fn add_values(
    entries: &[MeasurementEntry],
    values: &[f32],
    coefficients: &Coefficients,
    links: usize,
    gradient: &mut States<&mut [f64]>,
) {
    let each = entries.len().max(1);
    for (at, (&value, coefficients)) in values.iter().zip(&coefficients.0).enumerate() {
        let place = at / each * links + entries[at % each].link.index();
        gradient.density[place] -= coefficients[0] * f64::from(value);
        gradient.flow[place] -= coefficients[1] * f64::from(value);
    }
}

/// The rest of the losses, ½ Σ w·(u² − 2·h·u) for each sample.
pub(super) fn add_value_losses(
    entries: &[MeasurementEntry],
    (values, weights): (&[f32], &[f32]),
    states: &States<&[f64]>,
    losses: &mut [f64],
) {
    let links = states.density.len() / losses.len().max(1);
    let each = entries.len().max(1);
    for (at, (&value, &weight)) in values.iter().zip(weights).enumerate() {
        let entry = entries[at % each];
        let place = at / each * links + entry.link.index();
        let (h, _) = predicted(entry.quantity, states.density[place], states.flow[place]);
        let value = f64::from(value);
        losses[at / each] += 0.5 * f64::from(weight) * value * (value - 2.0 * h);
    }
}

#[cfg(test)]
mod tests {
    use traffic::LinkId;

    use super::*;

    #[test]
    fn derivatives_are_those_of_differences() {
        let step = 1e-5;
        for quantity in [Quantity::Density, Quantity::Flow, Quantity::Speed] {
            for (density, flow) in [(30.0, 8.0), (2.5, 1.0), (1.0, 3.0), (-4.0, -1.0)] {
                let (_, [by_density, by_flow]) = predicted(quantity, density, flow);
                let at = |k, q| predicted(quantity, k, q).0;
                let k = (at(density + step, flow) - at(density - step, flow)) / (2.0 * step);
                let q = (at(density, flow + step) - at(density, flow - step)) / (2.0 * step);
                // Third derivatives below 10 times the step's square, and rounding of 1e-15/step.
                assert!((k - by_density).abs() < 1e-8, "{quantity:?}: {k} {by_density}");
                assert!((q - by_flow).abs() < 1e-8, "{quantity:?}: {q} {by_flow}");
            }
        }
        // 60 veh/km that move at 10 m/s pass 36 a minute.
        assert!((predicted(Quantity::Speed, 60.0, 36.0).0 - 10.0).abs() < 1e-12);
    }

    #[test]
    fn both_parts_together_are_the_whole() {
        let entry = |link, quantity| MeasurementEntry { link: LinkId(link), quantity };
        let entries = [entry(1, Quantity::Speed), entry(0, Quantity::Flow)];
        let (density, flow) = ([20.0, 40.0, 60.0, 10.0], [3.0, 9.0, 2.0, 7.0]);
        let states = States { density: &density[..], flow: &flow[..] };
        let (values, weights) = ([5.0, 2.0, 9.0, 0.0], [0.5, 2.0, 0.25, 0.0]);
        let (mut d_density, mut d_flow) = ([0.0; 4], [0.0; 4]);
        let mut gradient = States { density: &mut d_density[..], flow: &mut d_flow[..] };
        let mut coefficients = Coefficients::default();
        let mut losses = [0.0; 2];
        without_values(&entries, &weights, &states, &mut gradient, &mut coefficients, &mut losses);
        add_values(&entries, &values, &coefficients, 2, &mut gradient);
        add_value_losses(&entries, (&values, &weights), &states, &mut losses);
        let speed = |k: f64, q: f64| q / k * METRES_PER_SECOND;
        let miss = [speed(40.0, 9.0) - 5.0, 3.0 - 2.0, speed(10.0, 7.0) - 9.0];
        let expected =
            [0.5 * (0.5 * miss[0].powi(2) + 2.0 * miss[1].powi(2)), 0.5 * 0.25 * miss[2].powi(2)];
        for (found, expected) in losses.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        let by_flow = [
            2.0 * miss[1],
            0.5 * miss[0] * speed(40.0, 1.0),
            0.0,
            0.25 * miss[2] * speed(10.0, 1.0),
        ];
        let by_density = [
            0.0,
            -0.5 * miss[0] * speed(40.0, 9.0) / 40.0,
            0.0,
            -0.25 * miss[2] * speed(10.0, 7.0) / 10.0,
        ];
        // Rounding of a few products of numbers below 100.
        for (found, expected) in d_flow.iter().zip(by_flow).chain(d_density.iter().zip(by_density))
        {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
