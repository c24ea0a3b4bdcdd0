//! Models whose places are stores without inner space: links with queues at their stop line, or
//! whole regions.
//!
//! ```text
//!  N_p ← N_p + δt·(inflow_p − outflow_p)         N: vehicles; flows by the module `exchange`
//! ```
//!
//! Only what a store offers differs: [`StoreAndForward`](crate::StoreAndForward) and
//! [`RegionModel`](crate::RegionModel) say how.

use traffic::Seconds;

use crate::error::ModelError;
use crate::exchange::{Rules, TransferCotangents};
use crate::graph::RoadGraph;
use crate::model::{Gradient, Inputs, Memory, TrafficModel};
use crate::parameters::{Diagram, DiagramCotangent, Parameters};
use crate::rounding::snap;

/// What a store offers, given its mean density (veh/km/lane); all in vehicles a minute.
pub trait Law {
    /// Leaving flow, capacity and room.
    #[doc(hidden)]
    fn offers(&self, store: &Store, density: f64) -> [f64; 3];
    /// The cotangent of the density, given those of the offers.
    #[doc(hidden)]
    fn offers_vjp(&self, store: &Store, density: f64, given: [f64; 3], d: &mut Cotangent) -> f64;
    /// Refuses parameters that are unstable with this sub-step (min).
    #[doc(hidden)]
    fn check(&self, store: &Store, name: &str, sub_step: f64) -> Result<(), ModelError>;
}

/// A store's size and diagram.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) diagram: Diagram,
    /// Lane-kilometres.
    pub(crate) size: f64,
    /// Flow of its links, veh/min/lane, per vehicle a minute that leaves it.
    pub(crate) flow_share: f64,
}

/// Cotangents of a store's diagram.
#[doc(hidden)]
pub struct Cotangent(pub(crate) DiagramCotangent);

/// A model of stores.
#[derive(Clone, Debug)]
pub struct StoreModel<L> {
    graph: RoadGraph,
    parameters: Parameters,
    stores: Vec<Store>,
    law: L,
    /// The store of every link, and the link's lane-kilometres.
    links: Vec<(usize, f64)>,
    step: Seconds,
    sub_steps: usize,
}

pub(crate) struct StorePlan<L> {
    pub graph: RoadGraph,
    pub parameters: Parameters,
    pub stores: Vec<Store>,
    pub law: L,
    pub links: Vec<(usize, f64)>,
    pub step: Seconds,
    pub sub_steps: usize,
}

impl<L: Law> StoreModel<L> {
    pub(crate) fn build(plan: StorePlan<L>) -> Result<Self, ModelError> {
        let StorePlan { graph, parameters, stores, law, links, step, sub_steps } = plan;
        let model = Self { graph, parameters, stores, law, links, step, sub_steps };
        model.check_stable(&model.stores)?;
        Ok(model)
    }

    fn check_stable(&self, stores: &[Store]) -> Result<(), ModelError> {
        let check = |(place, store)| self.law.check(store, self.graph.name(place), self.sub_step());
        stores.iter().enumerate().try_for_each(check)
    }

    /// Minutes.
    fn sub_step(&self) -> f64 {
        self.step.get() / 60.0 / self.sub_steps as f64
    }

    fn rules<'a>(&'a self, inputs: &'a Inputs, sub_step: usize) -> Rules<'a> {
        Rules::of(&self.graph, self.parameters.ratios(), &inputs.green, sub_step)
    }

    fn fill_offers(&self, state: &[f64], inputs: &Inputs, memory: &mut Memory) {
        let (contents, waiting) = state.split_at(self.stores.len());
        let offers = &mut memory.offers;
        for (p, store) in self.stores.iter().enumerate() {
            let [leaving, capacity, room] = self.law.offers(store, contents[p] / store.size);
            offers.leaving[p] = leaving;
            offers.capacity[p] = capacity;
            offers.room[p] = room;
            offers.entry_demand[p] = waiting[p] / self.sub_step();
        }
        for (&(place, _), demand) in self.links.iter().zip(&inputs.demand) {
            offers.entry_demand[place] += demand;
        }
    }
}

impl<L: Law> TrafficModel for StoreModel<L> {
    fn graph(&self) -> &RoadGraph {
        &self.graph
    }

    fn links(&self) -> usize {
        self.links.len()
    }

    fn state_len(&self) -> usize {
        2 * self.stores.len()
    }

    fn sub_steps(&self) -> usize {
        self.sub_steps
    }

    fn step_length(&self) -> Seconds {
        self.step
    }

    fn parameters(&self) -> &[f64] {
        self.parameters.values()
    }

    fn set_parameters(&mut self, values: Vec<f64>) -> Result<(), ModelError> {
        let parameters = Parameters::from_values(&self.graph, values)?;
        let mut stores = self.stores.clone();
        for (place, store) in stores.iter_mut().enumerate() {
            store.diagram = parameters.diagram(place);
        }
        self.check_stable(&stores)?;
        (self.stores, self.parameters) = (stores, parameters);
        Ok(())
    }

    fn fill_state(&self, densities: &[f64], _flows: &[f64], state: &mut [f64]) {
        state.fill(0.0);
        for (&(place, size), density) in self.links.iter().zip(densities) {
            state[place] += size * density;
        }
    }

    fn fill_state_vjp(
        &self,
        _link_state: (&[f64], &[f64]),
        d_state: &[f64],
        d_densities: &mut [f64],
        _d_flows: &mut [f64],
    ) {
        for (&(place, size), d_density) in self.links.iter().zip(d_densities) {
            *d_density += size * d_state[place];
        }
    }

    fn read_densities(&self, state: &[f64], densities: &mut [f64]) {
        for (&(place, _), density) in self.links.iter().zip(densities) {
            *density = state[place] / self.stores[place].size;
        }
    }

    fn read_densities_vjp(&self, d_densities: &[f64], d_state: &mut [f64]) {
        for (&(place, _), d_density) in self.links.iter().zip(d_densities) {
            d_state[place] += d_density / self.stores[place].size;
        }
    }

    fn vehicles(&self, state: &[f64]) -> f64 {
        state.iter().sum()
    }

    fn advance(
        &self,
        (state, next): (&[f64], &mut [f64]),
        inputs: &Inputs,
        sub_step: usize,
        memory: &mut Memory,
        flows: &mut [f64],
    ) -> f64 {
        self.fill_offers(state, inputs, memory);
        memory.transfers.fill(self.rules(inputs, sub_step), &memory.offers);
        let (places, delta, transfers) = (self.stores.len(), self.sub_step(), &memory.transfers);
        let mut left = 0.0;
        for (p, store) in self.stores.iter().enumerate() {
            let change = delta * (transfers.inflow[p] - transfers.outflow[p]);
            let most = store.size * store.diagram.jam;
            next[p] = snap(state[p], state[p] + change, most);
            // entry_demand = waiting/δt + demand, so that what does not enter waits.
            let waiting = delta * (memory.offers.entry_demand[p] - transfers.entry[p]);
            next[places + p] = snap(state[places + p], waiting, f64::INFINITY);
            left += delta * transfers.exit[p];
        }
        for (&(place, _), flow) in self.links.iter().zip(flows.iter_mut()) {
            let share = self.stores[place].flow_share / self.sub_steps as f64;
            *flow += share * transfers.outflow[place];
        }
        left
    }

    fn step_vjp(
        &self,
        (state, d_next, d_state): (&[f64], &[f64], &mut [f64]),
        inputs: &Inputs,
        sub_step: usize,
        memory: &mut Memory,
        d_flows: &[f64],
        gradient: &mut Gradient<'_>,
    ) {
        let (places, delta) = (self.stores.len(), self.sub_step());
        self.fill_offers(state, inputs, memory);
        let rules = self.rules(inputs, sub_step);
        memory.transfers.fill(rules, &memory.offers);
        memory.d_offers.clear();
        for p in 0..places {
            memory.d_inflow[p] = delta * d_next[p];
            memory.d_outflow[p] = -delta * d_next[p];
            memory.d_entry[p] = -delta * d_next[places + p];
            memory.d_offers.entry_demand[p] = delta * d_next[places + p];
        }
        for (&(place, _), d_flow) in self.links.iter().zip(d_flows) {
            let share = self.stores[place].flow_share / self.sub_steps as f64;
            memory.d_outflow[place] += share * d_flow;
        }
        let given = TransferCotangents {
            inflow: &memory.d_inflow,
            outflow: &memory.d_outflow,
            entry: &memory.d_entry,
        };
        let ratio = self.parameters.layout().ratio();
        let d_ratios = gradient.parameters.as_deref_mut().map(|all| &mut all[ratio]);
        memory.transfers.vjp(rules, &memory.offers, &given, &mut memory.d_offers, d_ratios);
        let d = &memory.d_offers;
        for (p, store) in self.stores.iter().enumerate() {
            let given = [d.leaving[p], d.capacity[p], d.room[p]];
            let mut own = Cotangent(DiagramCotangent::default());
            let d_density = self.law.offers_vjp(store, state[p] / store.size, given, &mut own);
            d_state[p] = d_next[p] + d_density / store.size;
            d_state[places + p] = d.entry_demand[p] / delta;
            if let Some(parameters) = &mut gradient.parameters {
                own.0.add_to(self.parameters.layout(), p, parameters);
            }
        }
        if let Some(demand) = &mut gradient.demand {
            for (&(place, _), demand) in self.links.iter().zip(demand.iter_mut()) {
                *demand += d.entry_demand[place];
            }
        }
    }
}
