//! METANET: a second-order model, in which speed has a memory of its own.
//!
//! For a cell of a link, with density ρ, speed v and a sub-step T (Papageorgiou and others, 1990):
//!
//! ```text
//!  ρ ← ρ + T/(Δx·lanes) · (inflow − outflow)                  outflow = lanes·ρ·v
//!  v ← v + T/τ·(V(ρ) − v)  +  T/Δx·v·(v_up − v)  −  ν·T/(τ·Δx)·(ρ_down − ρ)/(ρ + κ)
//!  V(ρ) = v_f·exp(−(1/a)·(ρ/ρ_cr)^a)
//! ```
//!
//! ρ_cr follows from capacity: V's largest flow is v_f·ρ_cr·e^(−1/a). At junctions v_up is the mean of
//! the upstream speeds weighted by what they send, ρ_down the mean of downstream densities weighted
//! by ratio·density. Ours: flows pass by the module `exchange` (so that signals, ratios and sources
//! are those of the other models), no cell takes more than it has room for, and speeds stay between
//! 0 and v_f; the original can exceed jam and needs care to stay positive.
//!
//! Stable, besides no wave crossing a cell, where T ≤ τ and T ≤ Δx²·(k_jam + κ)/(4·ν·k_jam): the
//! pair of density and speed steps forward with an amplification of `1 − T/τ + 4·T²·ν·ρ/(τ·Δx²·(ρ+κ))`
//! for the shortest waves, at most 1 under that condition. For 500 m that is 16 s, for 100 m 0.7 s.
//!
//! State: density of every cell, speed of every cell (m/s), vehicles waiting outside each link.

use traffic::{Network, Seconds};

use crate::cells::{Cells, Discretisation, SubSteps};
use crate::error::{ModelError, check_len};
use crate::exchange::{Rules, TransferCotangents};
use crate::graph::RoadGraph;
use crate::model::{Gradient, Inputs, Memory, TrafficModel};
use crate::parameters::{Diagram, DiagramCotangent, KM_PER_MIN, Parameters};
use crate::rounding::snap;

mod speed;

use speed::{Around, AroundCotangent, CellStep, SpeedLaw};

/// The four constants of the speed equation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetanetConstants {
    /// Relaxation time τ.
    pub relaxation: Seconds,
    /// Anticipation ν, km²/h.
    pub anticipation: f64,
    /// Density κ that keeps anticipation finite on an empty road, veh/km/lane.
    pub kappa: f64,
    /// Exponent a of the equilibrium speed.
    pub exponent: f64,
}

impl Default for MetanetConstants {
    /// Usual values of the literature: 18 s, 60 km²/h, 40 veh/km/lane, 1.867.
    fn default() -> Self {
        Self { relaxation: Seconds::new(18.0), anticipation: 60.0, kappa: 40.0, exponent: 1.867 }
    }
}

/// Sub-steps of a step that anticipation may cost.
const MOST_FOR_ANTICIPATION: f64 = 20.0;

impl MetanetConstants {
    /// The same with as much anticipation as the shortest link allows in a step: a driver looks ahead by some
    /// distance, and over a link that is shorter the term has no stable form.
    pub fn for_network(self, network: &Network, parameters: &Parameters, step: Seconds) -> Self {
        let sub_step = step.get() / 3600.0 / MOST_FOR_ANTICIPATION;
        let most = |(n, link): (usize, &traffic::Link)| {
            let jam = parameters.diagram(n).jam;
            (link.length.get() / 1000.0).powi(2) * (jam + self.kappa) / (4.0 * sub_step * jam)
        };
        let most = network.links().iter().enumerate().map(most).fold(f64::INFINITY, f64::min);
        Self { anticipation: self.anticipation.min(most), ..self }
    }
}

/// The METANET model of a network.
#[derive(Clone, Debug)]
pub struct Metanet {
    graph: RoadGraph,
    cells: Cells,
    parameters: Parameters,
    lanes: Vec<f64>,
    law: SpeedLaw,
    /// Turns into each link: CSR, as (turn, link that it leaves).
    into: Vec<Vec<(usize, usize)>>,
    /// Turns out of each link, as (turn, link that it enters).
    out_of: Vec<Vec<(usize, usize)>>,
}

impl Metanet {
    /// Of a network; refused where unstable. Short cells need many sub-steps: see the file's head.
    pub fn new(
        network: &Network,
        parameters: Parameters,
        plan: Discretisation,
        constants: MetanetConstants,
    ) -> Result<Self, ModelError> {
        let graph = RoadGraph::of(network);
        check_len("turns of the parameters", parameters.ratios().len(), graph.movements())?;
        let law = SpeedLaw::new(constants)?;
        let mut cells = Cells::new(network, &parameters, plan)?;
        if plan.sub_steps == SubSteps::Fewest {
            let longest = (0..graph.places())
                .map(|n| law.longest_step(&parameters.diagram(n), cells.length[n]))
                .fold(f64::INFINITY, f64::min);
            let count = (plan.step.get() / 60.0 / longest).ceil() as usize;
            let sub_steps = SubSteps::Exactly(count.max(cells.sub_steps));
            cells = Cells::new(network, &parameters, Discretisation { sub_steps, ..plan })?;
        }
        law.check_stable(&cells, &parameters, &graph)?;
        let mut into = vec![Vec::new(); graph.places()];
        let mut out_of = vec![Vec::new(); graph.places()];
        for (e, (&m, &n)) in graph.origins().iter().zip(graph.destinations()).enumerate() {
            into[n as usize].push((e, m as usize));
            out_of[m as usize].push((e, n as usize));
        }
        let lanes = network.links().iter().map(|link| f64::from(link.lanes)).collect();
        Ok(Self { graph, cells, parameters, lanes, law, into, out_of })
    }

    fn range(&self, link: usize) -> std::ops::Range<usize> {
        self.cells.start[link]..self.cells.start[link + 1]
    }

    fn rules<'a>(&'a self, inputs: &'a Inputs, sub_step: usize) -> Rules<'a> {
        Rules::of(&self.graph, self.parameters.ratios(), &inputs.green, sub_step)
    }

    /// What a cell could take in, all lanes: its free space within a sub-step.
    fn space(&self, link: usize, diagram: &Diagram, density: f64) -> f64 {
        let gain = self.cells.length[link] * self.lanes[link] / self.cells.sub_step;
        gain * (diagram.jam - density).max(0.0)
    }

    fn fill_offers(&self, state: &[f64], inputs: &Inputs, memory: &mut Memory) {
        let count = self.cells.count();
        let offers = &mut memory.offers;
        for link in 0..self.lanes.len() {
            let (diagram, lanes) = (self.parameters.diagram(link), self.lanes[link]);
            let (first, last) = (self.range(link).start, self.range(link).end - 1);
            offers.leaving[link] = lanes * sent(state, count, last);
            offers.capacity[link] = lanes * diagram.capacity;
            let space = self.space(link, &diagram, state[first]);
            offers.room[link] = space.min(lanes * diagram.capacity);
            offers.entry_demand[link] =
                inputs.demand[link] + state[2 * count + link] / self.cells.sub_step;
        }
    }

    /// Speed upstream of a link's first cell and density downstream of its last.
    fn ends(&self, state: &[f64], link: usize) -> (Option<f64>, Option<f64>) {
        let count = self.cells.count();
        let ratios = self.parameters.ratios();
        let (mut weight, mut sum) = (0.0, 0.0);
        for &(e, m) in &self.into[link] {
            let last = self.range(m).end - 1;
            let sends = ratios[e] * self.lanes[m] * sent(state, count, last);
            weight += sends;
            sum += sends * state[count + last] * KM_PER_MIN;
        }
        let up = (weight > 0.0).then(|| sum / weight);
        let (mut weight, mut sum) = (0.0, 0.0);
        for &(e, n) in &self.out_of[link] {
            let first = self.range(n).start;
            weight += ratios[e] * state[first];
            sum += ratios[e] * state[first] * state[first];
        }
        (up, (weight > 0.0).then(|| sum / weight))
    }

    /// What a cell's speed depends on.
    fn around(
        &self,
        state: &[f64],
        link: usize,
        cell: usize,
        ends: (Option<f64>, Option<f64>),
    ) -> Around {
        let count = self.cells.count();
        let range = self.range(link);
        let (density, speed) = (state[cell], state[count + cell] * KM_PER_MIN);
        let up =
            if cell == range.start { ends.0 } else { Some(state[count + cell - 1] * KM_PER_MIN) };
        let down = if cell + 1 == range.end { ends.1 } else { Some(state[cell + 1]) };
        // With nothing upstream nothing is carried in; with nothing downstream nothing is seen ahead.
        Around { density, speed, up: up.unwrap_or(speed), down: down.unwrap_or(density) }
    }

    /// The transpose of [`Self::ends`].
    fn ends_vjp(
        &self,
        state: &[f64],
        link: usize,
        ends: (Option<f64>, Option<f64>),
        (d_up, d_down): (f64, f64),
        d_state: &mut [f64],
        gradient: &mut Gradient<'_>,
    ) {
        let count = self.cells.count();
        let ratios = self.parameters.ratios();
        let first_ratio = self.parameters.layout().ratio().start;
        if let Some(up) = ends.0 {
            let sends = |e: usize, m: usize| {
                ratios[e] * self.lanes[m] * sent(state, count, self.range(m).end - 1)
            };
            let weight: f64 = self.into[link].iter().map(|&(e, m)| sends(e, m)).sum();
            for &(e, m) in &self.into[link] {
                let last = self.range(m).end - 1;
                let speed = state[count + last] * KM_PER_MIN;
                // mean = Σ s·v/Σ s: by v the share of s, by s the distance from the mean.
                d_state[count + last] += d_up * sends(e, m) / weight * KM_PER_MIN;
                let d_sends = d_up * (speed - up) / weight;
                add_sent(state, count, last, d_sends * ratios[e] * self.lanes[m], d_state);
                if let Some(parameters) = &mut gradient.parameters {
                    parameters[first_ratio + e] +=
                        d_sends * self.lanes[m] * sent(state, count, last);
                }
            }
        }
        if let Some(down) = ends.1 {
            let density = |n: usize| state[self.range(n).start];
            let weight: f64 = self.out_of[link].iter().map(|&(e, n)| ratios[e] * density(n)).sum();
            for &(e, n) in &self.out_of[link] {
                let slope = d_down * (2.0 * density(n) - down) / weight;
                d_state[self.range(n).start] += ratios[e] * slope;
                if let Some(parameters) = &mut gradient.parameters {
                    parameters[first_ratio + e] +=
                        d_down * density(n) * (density(n) - down) / weight;
                }
            }
        }
    }
}

impl TrafficModel for Metanet {
    fn graph(&self) -> &RoadGraph {
        &self.graph
    }

    fn links(&self) -> usize {
        self.lanes.len()
    }

    fn state_len(&self) -> usize {
        2 * self.cells.count() + self.lanes.len()
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
        self.law.check_stable(&self.cells, &parameters, &self.graph)?;
        self.parameters = parameters;
        Ok(())
    }

    /// Speeds are flow over density, at most free; an empty link is free.
    fn fill_state(&self, densities: &[f64], flows: &[f64], state: &mut [f64]) {
        let count = self.cells.count();
        for link in 0..self.links() {
            let free = self.parameters.diagram(link).free;
            let (density, flow) = (densities[link], flows[link]);
            let speed = if density > 0.0 { (flow / density).clamp(0.0, free) } else { free };
            for cell in self.range(link) {
                state[cell] = density;
                state[count + cell] = speed / KM_PER_MIN;
            }
        }
        state[2 * count..].fill(0.0);
    }

    fn fill_state_vjp(
        &self,
        (densities, flows): (&[f64], &[f64]),
        d_state: &[f64],
        d_densities: &mut [f64],
        d_flows: &mut [f64],
    ) {
        let count = self.cells.count();
        for link in 0..self.links() {
            let free = self.parameters.diagram(link).free;
            let (density, flow) = (densities[link], flows[link]);
            let moves = density > 0.0 && flow > 0.0 && flow < free * density;
            for cell in self.range(link) {
                d_densities[link] += d_state[cell];
                if moves {
                    let d_speed = d_state[count + cell] / KM_PER_MIN;
                    d_flows[link] += d_speed / density;
                    d_densities[link] -= d_speed * flow / (density * density);
                }
            }
        }
    }

    fn read_densities(&self, state: &[f64], densities: &mut [f64]) {
        for (link, density) in densities.iter_mut().enumerate() {
            let cells = &state[self.range(link)];
            *density = cells.iter().sum::<f64>() / cells.len() as f64;
        }
    }

    fn read_densities_vjp(&self, d_densities: &[f64], d_state: &mut [f64]) {
        for (link, d_density) in d_densities.iter().enumerate() {
            let range = self.range(link);
            let share = d_density / range.len() as f64;
            d_state[range].iter_mut().for_each(|d| *d += share);
        }
    }

    fn vehicles(&self, state: &[f64]) -> f64 {
        let on_road: f64 = (0..self.links())
            .map(|link| {
                let cells: f64 = state[self.range(link)].iter().sum();
                cells * self.cells.length[link] * self.lanes[link]
            })
            .sum();
        on_road + state[2 * self.cells.count()..].iter().sum::<f64>()
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
        let (count, delta) = (self.cells.count(), self.cells.sub_step);
        let mut left = 0.0;
        for link in 0..self.lanes.len() {
            let (diagram, lanes) = (self.parameters.diagram(link), self.lanes[link]);
            let (range, length) = (self.range(link), self.cells.length[link]);
            let ends = self.ends(state, link);
            let mut flow_in = transfers.inflow[link];
            let mut sum = 0.5 * (transfers.inflow[link] + transfers.outflow[link]);
            for cell in range.clone() {
                let flow_out = if cell + 1 == range.end {
                    transfers.outflow[link]
                } else {
                    let space = self.space(link, &diagram, state[cell + 1]);
                    let flow = (lanes * sent(state, count, cell)).min(space);
                    sum += flow;
                    flow
                };
                let density = state[cell] + delta / (length * lanes) * (flow_in - flow_out);
                next[cell] = snap(state[cell], density, diagram.jam);
                let around = self.around(state, link, cell, ends);
                next[count + cell] =
                    self.law.next(&diagram, CellStep { length, step: delta }, around) / KM_PER_MIN;
                flow_in = flow_out;
            }
            flows[link] += sum / (range.len() as f64 * lanes * self.cells.sub_steps as f64);
            let waiting = state[2 * count + link];
            let change = delta * (inputs.demand[link] - transfers.entry[link]);
            next[2 * count + link] = snap(waiting, waiting + change, f64::INFINITY);
            left += delta * transfers.exit[link];
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
        let (count, delta) = (self.cells.count(), self.cells.sub_step);
        let layout = self.parameters.layout();
        d_state.fill(0.0);
        memory.d_offers.clear();
        for link in 0..self.lanes.len() {
            let (diagram, lanes) = (self.parameters.diagram(link), self.lanes[link]);
            let (range, length) = (self.range(link), self.cells.length[link]);
            let gain = delta / (length * lanes);
            let border = d_flows[link] / (range.len() as f64 * lanes * self.cells.sub_steps as f64);
            let ends = self.ends(state, link);
            let (mut d_up, mut d_down) = (0.0, 0.0);
            let mut d_diagram = DiagramCotangent::default();
            for cell in range.clone() {
                d_state[cell] += d_next[cell];
                if cell + 1 < range.end {
                    let given = gain * (d_next[cell + 1] - d_next[cell]) + border;
                    let space = self.space(link, &diagram, state[cell + 1]);
                    if lanes * sent(state, count, cell) <= space {
                        add_sent(state, count, cell, lanes * given, d_state);
                    } else if state[cell + 1] < diagram.jam {
                        d_state[cell + 1] -= given / gain;
                        d_diagram.jam += given / gain;
                    }
                }
                let around = self.around(state, link, cell, ends);
                let given = d_next[count + cell] / KM_PER_MIN;
                let d = self.law.vjp(
                    &diagram,
                    CellStep { length, step: delta },
                    around,
                    given,
                    &mut d_diagram,
                );
                let AroundCotangent { density, speed, up, down } = d;
                d_state[cell] += density;
                d_state[count + cell] += speed * KM_PER_MIN;
                match (cell == range.start, ends.0) {
                    (false, _) => d_state[count + cell - 1] += up * KM_PER_MIN,
                    (true, Some(_)) => d_up = up,
                    (true, None) => d_state[count + cell] += up * KM_PER_MIN,
                }
                match (cell + 1 == range.end, ends.1) {
                    (false, _) => d_state[cell + 1] += down,
                    (true, Some(_)) => d_down = down,
                    (true, None) => d_state[cell] += down,
                }
            }
            self.ends_vjp(state, link, ends, (d_up, d_down), d_state, gradient);
            memory.d_inflow[link] = gain * d_next[range.start] + 0.5 * border;
            memory.d_outflow[link] = -gain * d_next[range.end - 1] + 0.5 * border;
            memory.d_entry[link] = -delta * d_next[2 * count + link];
            if let Some(parameters) = &mut gradient.parameters {
                d_diagram.add_to(layout, link, parameters);
            }
        }
        let given = TransferCotangents {
            inflow: &memory.d_inflow,
            outflow: &memory.d_outflow,
            entry: &memory.d_entry,
        };
        let d_ratios = gradient.parameters.as_deref_mut().map(|all| &mut all[layout.ratio()]);
        memory.transfers.vjp(rules, &memory.offers, &given, &mut memory.d_offers, d_ratios);
        for link in 0..self.lanes.len() {
            let d = &memory.d_offers;
            let (diagram, lanes) = (self.parameters.diagram(link), self.lanes[link]);
            let (first, last) = (self.range(link).start, self.range(link).end - 1);
            let mut d_diagram =
                DiagramCotangent { capacity: lanes * d.capacity[link], ..Default::default() };
            add_sent(state, count, last, lanes * d.leaving[link], d_state);
            let space = self.space(link, &diagram, state[first]);
            if space > lanes * diagram.capacity {
                d_diagram.capacity += lanes * d.room[link];
            } else if state[first] < diagram.jam {
                let per_density = self.cells.length[link] * lanes / delta;
                d_state[first] -= per_density * d.room[link];
                d_diagram.jam += per_density * d.room[link];
            }
            d_state[2 * count + link] = d_next[2 * count + link] + d.entry_demand[link] / delta;
            if let Some(demand) = &mut gradient.demand {
                demand[link] += delta * d_next[2 * count + link] + d.entry_demand[link];
            }
            if let Some(parameters) = &mut gradient.parameters {
                d_diagram.add_to(layout, link, parameters);
            }
        }
    }
}

/// ρ·v of a cell, one lane, veh/min.
fn sent(state: &[f64], count: usize, cell: usize) -> f64 {
    state[cell].max(0.0) * state[count + cell].max(0.0) * KM_PER_MIN
}

/// The transpose of [`sent`].
fn add_sent(state: &[f64], count: usize, cell: usize, given: f64, d_state: &mut [f64]) {
    if state[cell] > 0.0 && state[count + cell] > 0.0 {
        d_state[cell] += given * state[count + cell] * KM_PER_MIN;
        d_state[count + cell] += given * state[cell] * KM_PER_MIN;
    }
}

#[cfg(test)]
mod tests;
