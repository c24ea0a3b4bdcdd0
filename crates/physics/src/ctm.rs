//! The cell transmission model, by the paper's equations, on cells of links.
//!
//! ```text
//!  k_c ← k_c + δt/(Δx·lanes) · (inflow − outflow)              conservation
//!  inside a link:   flow = lanes · min( min{q_c, v_f·k_c}, min{w·(k_jam − k_d), q_c} )
//!  between links:   see the module `exchange`
//! ```
//!
//! State: density of every cell (veh/km/lane), link after link from upstream, then the vehicles
//! that wait outside each link. Flows of a link are means over the step.

use traffic::{Network, Seconds};

use crate::cells::{Cells, Discretisation};
use crate::error::{ModelError, check_len};
use crate::exchange::{Rules, TransferCotangents};
use crate::graph::RoadGraph;
use crate::model::{Gradient, Inputs, Memory, TrafficModel};
use crate::parameters::{Diagram, DiagramCotangent, Parameters};
use crate::rounding::snap;

mod cells_of_link;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod theory_tests;

use cells_of_link::LinkCells;

/// The cell transmission model of a network.
///
/// ```
/// use physics::{Ctm, Discretisation, Inputs, Parameters, TrafficModel};
/// use traffic::Seconds;
/// let network = traffic::corridor()?;
/// let plan = Discretisation::of_step(Seconds::new(10.0));
/// let model = Ctm::new(&network, Parameters::typical(&network)?, plan)?;
/// // 12.5 m/s for 10 s is 125 m, more than the shortest link of 90 m: two sub-steps.
/// assert_eq!(model.sub_steps(), 2);
/// let mut memory = model.memory();
/// let (mut state, mut next) = (vec![0.0; model.state_len()], vec![0.0; model.state_len()]);
/// model.lift(&[20.0; 17], &[0.0; 17], &mut state)?;
/// let mut flows = vec![0.0; 17];
/// let inputs = Inputs::free(&model);
/// let through = model.step(&state, &inputs, &mut memory, &mut next, &mut flows)?;
/// let change = model.vehicles(&next) - model.vehicles(&state);
/// assert!((change + through.left).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ctm {
    graph: RoadGraph,
    cells: Cells,
    parameters: Parameters,
    links: Vec<LinkCells>,
}

impl Ctm {
    /// A model of a network; refused where the parameters or the discretisation make none.
    pub fn new(
        network: &Network,
        parameters: Parameters,
        plan: Discretisation,
    ) -> Result<Self, ModelError> {
        let graph = RoadGraph::of(network);
        check_len("parameters", parameters.values().len(), parameters.layout().len())?;
        check_len(
            "links of the parameters",
            parameters.layout().free_speed().len(),
            graph.places(),
        )?;
        check_len("turns of the parameters", parameters.ratios().len(), graph.movements())?;
        let cells = Cells::new(network, &parameters, plan)?;
        let links = LinkCells::all(network, &cells, &parameters);
        Ok(Self { graph, cells, parameters, links })
    }

    /// All cells.
    pub(crate) fn cell_count(&self) -> usize {
        self.cells.count()
    }

    /// Where a link's cells are in the state.
    pub(crate) fn cells(&self, link: usize) -> std::ops::Range<usize> {
        self.links[link].cells.clone()
    }

    pub(crate) fn diagram(&self, link: usize) -> Diagram {
        self.links[link].diagram
    }

    /// The jam density of every cell.
    pub(crate) fn most_densities(&self) -> Vec<f64> {
        let of = |link: &LinkCells| std::iter::repeat_n(link.diagram.jam, link.cells.len());
        self.links.iter().flat_map(of).collect()
    }

    fn rules<'a>(&'a self, inputs: &'a Inputs, sub_step: usize) -> Rules<'a> {
        Rules::of(&self.graph, self.parameters.ratios(), &inputs.green, sub_step)
    }

    fn fill_offers(&self, state: &[f64], inputs: &Inputs, memory: &mut Memory) {
        let waiting = &state[self.cells.count()..];
        let offers = &mut memory.offers;
        for (n, link) in self.links.iter().enumerate() {
            let Diagram { capacity, .. } = link.diagram;
            offers.leaving[n] = link.lanes * link.diagram.leaving(state[link.last()]);
            offers.capacity[n] = link.lanes * capacity;
            offers.room[n] = link.lanes * link.diagram.receiving(state[link.cells.start]);
            offers.entry_demand[n] = inputs.demand[n] + waiting[n] / self.cells.sub_step;
        }
    }
}

impl TrafficModel for Ctm {
    fn graph(&self) -> &RoadGraph {
        &self.graph
    }

    fn links(&self) -> usize {
        self.links.len()
    }

    fn state_len(&self) -> usize {
        self.cells.count() + self.links.len()
    }

    fn sub_steps(&self) -> usize {
        self.cells.sub_steps
    }

    fn step_length(&self) -> Seconds {
        self.cells.step
    }

    fn parameters(&self) -> &[f64] {
        self.parameters.values()
    }

    fn set_parameters(&mut self, values: Vec<f64>) -> Result<(), ModelError> {
        let parameters = Parameters::from_values(&self.graph, values)?;
        self.cells.check_stable(&parameters, |n| self.graph.name(n).into())?;
        for (n, link) in self.links.iter_mut().enumerate() {
            link.diagram = parameters.diagram(n);
        }
        self.parameters = parameters;
        Ok(())
    }

    fn fill_state(&self, densities: &[f64], _flows: &[f64], state: &mut [f64]) {
        for (link, &density) in self.links.iter().zip(densities) {
            state[link.cells.clone()].fill(density);
        }
        state[self.cells.count()..].fill(0.0);
    }

    fn fill_state_vjp(
        &self,
        _link_state: (&[f64], &[f64]),
        d_state: &[f64],
        d_densities: &mut [f64],
        _d_flows: &mut [f64],
    ) {
        for (link, d_density) in self.links.iter().zip(d_densities) {
            *d_density += d_state[link.cells.clone()].iter().sum::<f64>();
        }
    }

    fn read_densities(&self, state: &[f64], densities: &mut [f64]) {
        for (link, density) in self.links.iter().zip(densities) {
            *density = state[link.cells.clone()].iter().sum::<f64>() / link.cells.len() as f64;
        }
    }

    fn read_densities_vjp(&self, d_densities: &[f64], d_state: &mut [f64]) {
        for (link, d_density) in self.links.iter().zip(d_densities) {
            for d in &mut d_state[link.cells.clone()] {
                *d += d_density / link.cells.len() as f64;
            }
        }
    }

    fn vehicles(&self, state: &[f64]) -> f64 {
        let on_road: f64 = self
            .links
            .iter()
            .map(|link| state[link.cells.clone()].iter().sum::<f64>() * link.length * link.lanes)
            .sum();
        on_road + state[self.cells.count()..].iter().sum::<f64>()
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
        let transfers = &memory.transfers;
        let (cells, delta) = (self.cells.count(), self.cells.sub_step);
        let mut left = 0.0;
        for (n, link) in self.links.iter().enumerate() {
            let (inflow, outflow) = (transfers.inflow[n], transfers.outflow[n]);
            let mean = link.advance(state, next, inflow, outflow);
            flows[n] += mean / (link.lanes * self.cells.sub_steps as f64);
            let waiting = state[cells + n] + delta * (inputs.demand[n] - transfers.entry[n]);
            next[cells + n] = snap(state[cells + n], waiting, f64::INFINITY);
            left += delta * transfers.exit[n];
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
        self.fill_offers(state, inputs, memory);
        let rules = self.rules(inputs, sub_step);
        memory.transfers.fill(rules, &memory.offers);
        let (cells, delta) = (self.cells.count(), self.cells.sub_step);
        let layout = self.parameters.layout();
        for (n, link) in self.links.iter().enumerate() {
            let d_flow = d_flows[n] / (link.lanes * self.cells.sub_steps as f64);
            let mut d_diagram = DiagramCotangent::default();
            let (d_inflow, d_outflow) =
                link.step_vjp(state, d_next, d_flow, d_state, &mut d_diagram);
            memory.d_inflow[n] = d_inflow;
            memory.d_outflow[n] = d_outflow;
            memory.d_entry[n] = -delta * d_next[cells + n];
            if let Some(parameters) = &mut gradient.parameters {
                d_diagram.add_to(layout, n, parameters);
            }
        }
        memory.d_offers.clear();
        let given = TransferCotangents {
            inflow: &memory.d_inflow,
            outflow: &memory.d_outflow,
            entry: &memory.d_entry,
        };
        let d_ratios = gradient.parameters.as_deref_mut().map(|all| &mut all[layout.ratio()]);
        memory.transfers.vjp(rules, &memory.offers, &given, &mut memory.d_offers, d_ratios);
        for (n, link) in self.links.iter().enumerate() {
            let d = &memory.d_offers;
            let mut d_diagram =
                DiagramCotangent { capacity: link.lanes * d.capacity[n], ..Default::default() };
            let (first, last) = (link.cells.start, link.last());
            let diagram = link.diagram;
            d_state[last] +=
                diagram.leaving_vjp(state[last], link.lanes * d.leaving[n], &mut d_diagram);
            d_state[first] +=
                diagram.receiving_vjp(state[first], link.lanes * d.room[n], &mut d_diagram);
            d_state[cells + n] = d_next[cells + n] + d.entry_demand[n] / delta;
            if let Some(demand) = &mut gradient.demand {
                demand[n] += delta * d_next[cells + n] + d.entry_demand[n];
            }
            if let Some(parameters) = &mut gradient.parameters {
                d_diagram.add_to(layout, n, parameters);
            }
        }
    }
}
