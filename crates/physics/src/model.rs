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
    /// Space for one caller.
    fn memory(&self) -> Memory;

    /// The state that stands for densities and flows of all links, with nobody waiting outside.
    fn lift(&self, densities: &[f64], flows: &[f64], state: &mut [f64]) -> Result<(), ModelError>;
    /// Adds the cotangents of what [`Self::lift`] was given.
    fn lift_vjp(
        &self,
        link_state: (&[f64], &[f64]),
        d_state: &[f64],
        d_densities: &mut [f64],
        d_flows: &mut [f64],
    ) -> Result<(), ModelError>;
    /// The density of each link.
    fn densities(&self, state: &[f64], densities: &mut [f64]) -> Result<(), ModelError>;
    /// Adds the cotangent of the state that [`Self::densities`] was given.
    fn densities_vjp(&self, d_densities: &[f64], d_state: &mut [f64]) -> Result<(), ModelError>;

    /// One step. `flows` are those of each link during the step.
    fn step(
        &self,
        state: &[f64],
        inputs: &Inputs,
        memory: &mut Memory,
        next: &mut [f64],
        flows: &mut [f64],
    ) -> Result<Throughput, ModelError>;

    /// Adds the cotangents of everything that the last [`Self::step`] with this memory was given.
    fn vjp(
        &self,
        inputs: &Inputs,
        memory: &mut Memory,
        d_next: &[f64],
        d_flows: &[f64],
        gradient: Gradient<'_>,
    ) -> Result<(), ModelError>;

    /// All vehicles: on the road and waiting outside.
    fn vehicles(&self, state: &[f64]) -> f64;
}
