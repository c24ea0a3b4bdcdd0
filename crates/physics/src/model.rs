//! What every traffic model can do: step, and tell how its step depends on everything.
//!
//! ```text
//!  link densities, flows ──lift──► state ──step──► next state, flow of each link during the step
//!                                        ◄──vjp── cotangents of both
//! ```
//!
//! Numbers are f64: a step of a corridor costs a microsecond, far less than the network that it
//! trains, and the filter and conservation want the digits. Densities are veh/km/lane, flows
//! veh/min/lane; demand and vehicles are of a whole link.

use traffic::Seconds;

use crate::error::{ModelError, check_len};
use crate::exchange::{Offers, Transfers};
use crate::graph::RoadGraph;
use crate::signals::GreenPlan;

/// What acts on the network during a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    /// Vehicles a minute that want to enter at each link; waiting ones stay outside.
    pub demand: Vec<f64>,
    /// The share of each sub-step with green, for each movement, sub-step after sub-step.
    pub green: Vec<f64>,
}

impl Inputs {
    /// No demand, always green.
    pub fn free(model: &dyn TrafficModel) -> Self {
        let movements = model.graph().movements() * model.sub_steps();
        Self { demand: vec![0.0; model.links()], green: vec![1.0; movements] }
    }

    /// Sets the greens to those of the signals in the step that begins at a time.
    pub fn signals_from(
        &mut self,
        plan: &GreenPlan,
        model: &dyn TrafficModel,
        begin: Seconds,
    ) -> Result<(), ModelError> {
        plan.fill(begin, begin + model.step_length(), model.sub_steps(), &mut self.green)
    }

    pub(crate) fn check(
        &self,
        graph: &RoadGraph,
        links: usize,
        sub_steps: usize,
    ) -> Result<(), ModelError> {
        check_len("demand", self.demand.len(), links)?;
        check_len("green shares", self.green.len(), sub_steps * graph.movements())
    }
}

/// Vehicles that came and went during a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Wanted to enter: they are on the road or wait outside.
    pub arrived: f64,
    /// Left the network.
    pub left: f64,
}

/// Where a [`TrafficModel::vjp`] adds its results.
pub struct Gradient<'a> {
    /// Of the state before the step.
    pub state: &'a mut [f64],
    /// Of the parameters.
    pub parameters: Option<&'a mut [f64]>,
    /// Of the demand.
    pub demand: Option<&'a mut [f64]>,
}

/// Space for a step and its derivative, made once and used again.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The state at the start of every sub-step of the last step.
    pub(crate) tape: Vec<f64>,
    pub(crate) offers: Offers,
    pub(crate) d_offers: Offers,
    pub(crate) transfers: Transfers,
    /// Cotangents: of the state (two, taking turns) and of what passes at each place.
    pub(crate) d_state: [Vec<f64>; 2],
    pub(crate) d_inflow: Vec<f64>,
    pub(crate) d_outflow: Vec<f64>,
    pub(crate) d_entry: Vec<f64>,
}

impl Memory {
    pub(crate) fn new(graph: &RoadGraph, state_len: usize, sub_steps: usize) -> Self {
        let per_place = || vec![0.0; graph.places()];
        Self {
            tape: vec![0.0; state_len * sub_steps],
            offers: Offers::new(graph.places()),
            d_offers: Offers::new(graph.places()),
            transfers: Transfers::new(graph),
            d_state: [vec![0.0; state_len], vec![0.0; state_len]],
            d_inflow: per_place(),
            d_outflow: per_place(),
            d_entry: per_place(),
        }
    }
}

/// A recursive model of traffic on a network, y_{t+1} = g(y_t; ρ).
pub trait TrafficModel {
    /// The graph it runs on.
    fn graph(&self) -> &RoadGraph;
    /// How many links it describes.
    fn links(&self) -> usize;
    /// How many numbers its state has.
    fn state_len(&self) -> usize;
    /// How many sub-steps a step has.
    fn sub_steps(&self) -> usize;
    /// Length of a step.
    fn step_length(&self) -> Seconds;
    /// Its parameters as one vector.
    fn parameters(&self) -> &[f64];
    /// Other parameters; refused where they make no stable model, and the old ones stay.
    fn set_parameters(&mut self, values: Vec<f64>) -> Result<(), ModelError>;
    /// All vehicles: on the road and waiting outside.
    fn vehicles(&self, state: &[f64]) -> f64;

    /// [`Self::lift`] of slices whose lengths are right, as those of all that follow up to [`Self::memory`].
    fn fill_state(&self, densities: &[f64], flows: &[f64], state: &mut [f64]);
    /// [`Self::lift_vjp`].
    fn fill_state_vjp(
        &self,
        link_state: (&[f64], &[f64]),
        d_state: &[f64],
        d_densities: &mut [f64],
        d_flows: &mut [f64],
    );
    /// [`Self::densities`].
    fn read_densities(&self, state: &[f64], densities: &mut [f64]);
    /// [`Self::densities_vjp`].
    fn read_densities_vjp(&self, d_densities: &[f64], d_state: &mut [f64]);
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

    /// Space for one caller.
    fn memory(&self) -> Memory {
        Memory::new(self.graph(), self.state_len(), self.sub_steps())
    }

    /// The state that stands for densities and flows of all links, with nobody waiting outside.
    fn lift(&self, densities: &[f64], flows: &[f64], state: &mut [f64]) -> Result<(), ModelError> {
        check_len("densities", densities.len(), self.links())?;
        check_len("flows", flows.len(), self.links())?;
        check_len("state", state.len(), self.state_len())?;
        self.fill_state(densities, flows, state);
        Ok(())
    }

    /// Adds the cotangents of what [`Self::lift`] was given.
    fn lift_vjp(
        &self,
        (densities, flows): (&[f64], &[f64]),
        d_state: &[f64],
        d_densities: &mut [f64],
        d_flows: &mut [f64],
    ) -> Result<(), ModelError> {
        check_len("densities", densities.len(), self.links())?;
        check_len("flows", flows.len(), self.links())?;
        check_len("cotangent of the densities", d_densities.len(), self.links())?;
        check_len("cotangent of the flows", d_flows.len(), self.links())?;
        check_len("cotangent of the state", d_state.len(), self.state_len())?;
        self.fill_state_vjp((densities, flows), d_state, d_densities, d_flows);
        Ok(())
    }

    /// The density of each link.
    fn densities(&self, state: &[f64], densities: &mut [f64]) -> Result<(), ModelError> {
        check_len("densities", densities.len(), self.links())?;
        check_len("state", state.len(), self.state_len())?;
        self.read_densities(state, densities);
        Ok(())
    }

    /// Adds the cotangent of the state that [`Self::densities`] was given.
    fn densities_vjp(&self, d_densities: &[f64], d_state: &mut [f64]) -> Result<(), ModelError> {
        check_len("cotangent of the densities", d_densities.len(), self.links())?;
        check_len("cotangent of the state", d_state.len(), self.state_len())?;
        self.read_densities_vjp(d_densities, d_state);
        Ok(())
    }

    /// One step: a chain of sub-steps. `flows` are those of each link during the step. The state at the start of every
    /// sub-step stays on a tape, from which [`Self::vjp`] starts again.
    fn step(
        &self,
        state: &[f64],
        inputs: &Inputs,
        memory: &mut Memory,
        next: &mut [f64],
        flows: &mut [f64],
    ) -> Result<Throughput, ModelError> {
        let len = self.state_len();
        inputs.check(self.graph(), self.links(), self.sub_steps())?;
        check_len("state", state.len(), len)?;
        check_len("next state", next.len(), len)?;
        check_len("flows", flows.len(), self.links())?;
        check_len("memory", memory.tape.len(), len * self.sub_steps())?;
        flows.fill(0.0);
        let mut tape = std::mem::take(&mut memory.tape);
        tape[..len].copy_from_slice(state);
        let mut left = 0.0;
        for sub_step in 0..self.sub_steps() {
            let (past, future) = tape.split_at_mut((sub_step + 1) * len);
            let now = &past[sub_step * len..];
            let then = future.get_mut(..len).unwrap_or(&mut *next);
            left += self.advance((now, then), inputs, sub_step, memory, flows);
        }
        memory.tape = tape;
        let minutes = self.step_length().get() / 60.0;
        Ok(Throughput { arrived: inputs.demand.iter().sum::<f64>() * minutes, left })
    }

    /// Adds the cotangents of everything that the last [`Self::step`] with this memory was given.
    fn vjp(
        &self,
        inputs: &Inputs,
        memory: &mut Memory,
        d_next: &[f64],
        d_flows: &[f64],
        mut gradient: Gradient<'_>,
    ) -> Result<(), ModelError> {
        let len = self.state_len();
        inputs.check(self.graph(), self.links(), self.sub_steps())?;
        check_len("cotangent of the next state", d_next.len(), len)?;
        check_len("cotangent of the flows", d_flows.len(), self.links())?;
        check_len("cotangent of the state", gradient.state.len(), len)?;
        check_len("memory", memory.tape.len(), len * self.sub_steps())?;
        if let Some(parameters) = &gradient.parameters {
            check_len("gradient of the parameters", parameters.len(), self.parameters().len())?;
        }
        if let Some(demand) = &gradient.demand {
            check_len("gradient of the demand", demand.len(), self.links())?;
        }
        let tape = std::mem::take(&mut memory.tape);
        let [mut d_now, mut d_then] = std::mem::take(&mut memory.d_state);
        d_then.copy_from_slice(d_next);
        for sub_step in (0..self.sub_steps()).rev() {
            let state = &tape[sub_step * len..][..len];
            let cotangents = (state, &d_then[..], &mut d_now[..]);
            self.step_vjp(cotangents, inputs, sub_step, memory, d_flows, &mut gradient);
            std::mem::swap(&mut d_now, &mut d_then);
        }
        gradient.state.iter_mut().zip(&d_then).for_each(|(sum, d)| *sum += d);
        memory.tape = tape;
        memory.d_state = [d_now, d_then];
        Ok(())
    }
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
