//! How vector–Jacobian products are tested: against central differences, away from kinks.
//!
//! A minimum has no derivative where its terms are equal. A place is taken to be at a kink when the
//! differences to its left and right do not agree; there only that the VJP lies between them (for a
//! single number moved) could be asked, and it is left out. Most places must not be kinks.

use proptest::prelude::{TestCaseError, prop_assert};

use crate::model::{Gradient, Inputs, TrafficModel};
use crate::test_networks::Draw;

/// A model at a place.
pub(crate) struct Subject<'a> {
    pub model: &'a dyn TrafficModel,
    pub state: Vec<f64>,
    pub inputs: Inputs,
}

/// Compares every derivative of a random weighting of next state and flows.
pub(crate) fn check_vjp(subject: Subject<'_>, draw: &mut Draw) -> Result<(), TestCaseError> {
    let Subject { model, state, inputs } = subject;
    let weights: Vec<f64> = (0..model.state_len()).map(|_| draw.between(-1.0, 1.0)).collect();
    let flow_weights: Vec<f64> = (0..model.links()).map(|_| draw.between(-1.0, 1.0)).collect();
    let mut memory = model.memory();
    let (mut next, mut flows) = (weights.clone(), flow_weights.clone());
    model.step(&state, &inputs, &mut memory, &mut next, &mut flows).expect("a step");
    let mut d_state = vec![0.0; state.len()];
    let mut d_demand = vec![0.0; model.links()];
    let gradient = Gradient { state: &mut d_state, parameters: None, demand: Some(&mut d_demand) };
    model.vjp(&inputs, &mut memory, &weights, &flow_weights, gradient).expect("a vjp");

    let mut value = |state: &[f64], inputs: &Inputs| {
        model.step(state, inputs, &mut memory, &mut next, &mut flows).expect("a step");
        let states = next.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>();
        states + flows.iter().zip(&flow_weights).map(|(x, w)| x * w).sum::<f64>()
    };
    let mut kinks = 0;
    let mut compare = |found: f64, value: &mut dyn FnMut(f64) -> f64| {
        kinks += usize::from(!agrees(found, value)?);
        Ok::<_, TestCaseError>(())
    };
    for (at, &found) in d_state.iter().enumerate() {
        compare(found, &mut |by| {
            let mut moved = state.clone();
            moved[at] += by;
            value(&moved, &inputs)
        })?;
    }
    for (at, &found) in d_demand.iter().enumerate() {
        compare(found, &mut |by| {
            let mut moved = inputs.clone();
            moved.demand[at] += by;
            value(&state, &moved)
        })?;
    }
    let places = state.len() + d_demand.len();
    prop_assert!(kinks * 4 <= places, "{kinks} kinks in {places} places");
    Ok(())
}

/// As [`check_vjp`], of the parameters. `remake` gives the value for other parameters.
pub(crate) fn check_parameters(
    gradient: &[f64],
    parameters: &[f64],
    mut value: impl FnMut(&[f64]) -> f64,
) -> Result<(), TestCaseError> {
    let mut kinks = 0;
    for (at, &found) in gradient.iter().enumerate() {
        let smooth = agrees(found, &mut |by| {
            let mut moved = parameters.to_vec();
            moved[at] += by;
            value(&moved)
        })?;
        kinks += usize::from(!smooth);
    }
    prop_assert!(kinks * 4 <= gradient.len(), "{kinks} kinks in {} places", gradient.len());
    Ok(())
}

/// Whether a derivative is that of the differences; `false` at a kink.
fn agrees(found: f64, value: &mut dyn FnMut(f64) -> f64) -> Result<bool, TestCaseError> {
    const STEP: f64 = 1e-6;
    let (below, here, above) = (value(-STEP), value(0.0), value(STEP));
    let (left, right) = ((here - below) / STEP, (above - here) / STEP);
    let scale = 1.0 + left.abs().max(right.abs());
    // Values of order 1e3 round at 1e-13, so that differences are off by about 1e-7; curvature adds
    // about STEP. Kinks change slopes by far more than 1e-5.
    if (left - right).abs() > 1e-5 * scale {
        return Ok(false);
    }
    let expected = (above - below) / (2.0 * STEP);
    prop_assert!((found - expected).abs() <= 1e-5 * scale, "found {found}, expected {expected}");
    Ok(true)
}

/// Runs a model with random inputs from a random start: vehicles are conserved, densities of links
/// stay between empty and `most`.
pub(crate) fn run_random(
    model: &dyn TrafficModel,
    most: &[f64],
    draw: &mut Draw,
) -> Result<(), TestCaseError> {
    let links = model.links();
    let densities: Vec<f64> =
        most.iter().map(|most| most * draw.between(-0.2, 1.2).clamp(0.0, 1.0)).collect();
    let mut state = vec![0.0; model.state_len()];
    model.lift(&densities, &vec![0.0; links], &mut state).expect("a lift");
    let (mut next, mut flows, mut found) = (state.clone(), vec![0.0; links], vec![0.0; links]);
    let mut memory = model.memory();
    let mut inputs = Inputs::free(model);
    for _ in 0..50 {
        inputs.demand.iter_mut().for_each(|demand| *demand = draw.between(-20.0, 40.0).max(0.0));
        inputs.green.iter_mut().for_each(|green| *green = draw.between(-0.3, 1.3).clamp(0.0, 1.0));
        let through =
            model.step(&state, &inputs, &mut memory, &mut next, &mut flows).expect("a step");
        let (before, after) = (model.vehicles(&state), model.vehicles(&next));
        let expected = before + through.arrived - through.left;
        // Each of some hundred additions rounds at 1e-16 of at most all vehicles.
        let rounding = 1e-13 * (1.0 + before + through.arrived);
        prop_assert!((after - expected).abs() <= rounding, "{after} {expected}");
        model.densities(&next, &mut found).expect("densities");
        for (density, most) in found.iter().zip(most) {
            // Means over cells and regions round.
            prop_assert!((0.0..=most * (1.0 + 1e-12)).contains(density), "{density} of {most}");
        }
        prop_assert!(flows.iter().all(|&flow| flow >= 0.0));
        std::mem::swap(&mut state, &mut next);
    }
    Ok(())
}
