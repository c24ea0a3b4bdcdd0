//! A step as a chain of sub-steps, and the way back through it.
//!
//! The state at the start of every sub-step stays on a tape, from which the derivative starts again.

use crate::error::{ModelError, check_len};
use crate::model::{Gradient, Inputs, Memory, Throughput, TrafficModel};

/// A model that knows a single sub-step. Shapes have been checked when it is asked.
pub(crate) trait SubStepped: TrafficModel {
    /// One sub-step from a state to the next; adds to the flows. Returns the vehicles that left.
    fn advance(
        &self,
        states: (&[f64], &mut [f64]),
        inputs: &Inputs,
        sub_step: usize,
        memory: &mut Memory,
        flows: &mut [f64],
    ) -> f64;

    /// The transpose of [`Self::advance`]: given a state and the cotangent of the next, replaces the
    /// cotangent of the state and adds the others to the gradient.
    fn step_vjp(
        &self,
        cotangents: (&[f64], &[f64], &mut [f64]),
        inputs: &Inputs,
        sub_step: usize,
        memory: &mut Memory,
        d_flows: &[f64],
        gradient: &mut Gradient<'_>,
    );
}

/// [`TrafficModel::step`] of a model.
pub(crate) fn step(
    model: &impl SubStepped,
    state: &[f64],
    inputs: &Inputs,
    memory: &mut Memory,
    next: &mut [f64],
    flows: &mut [f64],
) -> Result<Throughput, ModelError> {
    let len = model.state_len();
    inputs.check(model.graph(), model.links(), model.sub_steps())?;
    check_len("state", state.len(), len)?;
    check_len("next state", next.len(), len)?;
    check_len("flows", flows.len(), model.links())?;
    check_len("memory", memory.tape.len(), len * model.sub_steps())?;
    flows.fill(0.0);
    let mut tape = std::mem::take(&mut memory.tape);
    tape[..len].copy_from_slice(state);
    let mut left = 0.0;
    for sub_step in 0..model.sub_steps() {
        let (past, future) = tape.split_at_mut((sub_step + 1) * len);
        let now = &past[sub_step * len..];
        let then = future.get_mut(..len).unwrap_or(&mut *next);
        left += model.advance((now, then), inputs, sub_step, memory, flows);
    }
    memory.tape = tape;
    let minutes = model.step_length().get() / 60.0;
    Ok(Throughput { arrived: inputs.demand.iter().sum::<f64>() * minutes, left })
}

/// [`TrafficModel::vjp`] of a model.
pub(crate) fn vjp(
    model: &impl SubStepped,
    inputs: &Inputs,
    memory: &mut Memory,
    d_next: &[f64],
    d_flows: &[f64],
    mut gradient: Gradient<'_>,
) -> Result<(), ModelError> {
    let len = model.state_len();
    inputs.check(model.graph(), model.links(), model.sub_steps())?;
    check_len("cotangent of the next state", d_next.len(), len)?;
    check_len("cotangent of the flows", d_flows.len(), model.links())?;
    check_len("cotangent of the state", gradient.state.len(), len)?;
    check_len("memory", memory.tape.len(), len * model.sub_steps())?;
    if let Some(parameters) = &gradient.parameters {
        check_len("gradient of the parameters", parameters.len(), model.parameters().len())?;
    }
    if let Some(demand) = &gradient.demand {
        check_len("gradient of the demand", demand.len(), model.links())?;
    }
    let tape = std::mem::take(&mut memory.tape);
    let [mut d_now, mut d_then] = std::mem::take(&mut memory.d_state);
    d_then.copy_from_slice(d_next);
    for sub_step in (0..model.sub_steps()).rev() {
        let state = &tape[sub_step * len..][..len];
        let cotangents = (state, &d_then[..], &mut d_now[..]);
        model.step_vjp(cotangents, inputs, sub_step, memory, d_flows, &mut gradient);
        std::mem::swap(&mut d_now, &mut d_then);
    }
    gradient.state.iter_mut().zip(&d_then).for_each(|(sum, d)| *sum += d);
    memory.tape = tape;
    memory.d_state = [d_now, d_then];
    Ok(())
}

#[cfg(test)]
mod tests {
    use traffic::Seconds;

    use super::*;
    use crate::cells::Discretisation;
    use crate::parameters::Parameters;
    use crate::test_networks::network;
    use crate::{Ctm, Metanet, MetanetConstants, StoreAndForward};

    #[test]
    fn gradients_of_another_length_are_refused_by_every_model() {
        let network = network(&[(500.0, 1, 14.0), (500.0, 1, 14.0)], &[(0, 1)]);
        let parameters = Parameters::typical(&network).unwrap();
        let plan = Discretisation::of_step(Seconds::new(10.0));
        let constants = MetanetConstants::default();
        let models: [Box<dyn TrafficModel>; 3] = [
            Box::new(Ctm::new(&network, parameters.clone(), plan).unwrap()),
            Box::new(Metanet::new(&network, parameters.clone(), plan, constants).unwrap()),
            Box::new(StoreAndForward::new(&network, parameters, plan.step).unwrap()),
        ];
        for model in &models {
            let (inputs, mut memory) = (Inputs::free(&**model), model.memory());
            let (d_next, d_flows) = (vec![1.0; model.state_len()], vec![1.0; model.links()]);
            let mut refused = |parameters: usize, demand: usize| {
                let mut state = vec![0.0; model.state_len()];
                let [mut parameters, mut demand] = [vec![0.0; parameters], vec![0.0; demand]];
                let gradient = Gradient {
                    state: &mut state,
                    parameters: Some(&mut parameters),
                    demand: Some(&mut demand),
                };
                let done = model.vjp(&inputs, &mut memory, &d_next, &d_flows, gradient);
                done.err().map(|error| error.to_string())
            };
            let (parameters, links) = (model.parameters().len(), model.links());
            assert_eq!(refused(parameters, links), None);
            assert!(refused(parameters - 1, links).unwrap().contains("parameters"));
            assert!(refused(parameters, links + 1).unwrap().contains("demand"));
        }
    }
}
