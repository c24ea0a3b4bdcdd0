//! METANET as a [`TrafficModel`].

use super::*;

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

    fn memory(&self) -> Memory {
        Memory::new(&self.graph, self.state_len(), self.sub_steps())
    }

    /// Speeds are flow over density, at most free; an empty link is free.
    fn lift(&self, densities: &[f64], flows: &[f64], state: &mut [f64]) -> Result<(), ModelError> {
        check_len("densities", densities.len(), self.links())?;
        check_len("flows", flows.len(), self.links())?;
        check_len("state", state.len(), self.state_len())?;
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
        Ok(())
    }

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
        Ok(())
    }

    fn densities(&self, state: &[f64], densities: &mut [f64]) -> Result<(), ModelError> {
        check_len("densities", densities.len(), self.links())?;
        check_len("state", state.len(), self.state_len())?;
        for (link, density) in densities.iter_mut().enumerate() {
            let cells = &state[self.range(link)];
            *density = cells.iter().sum::<f64>() / cells.len() as f64;
        }
        Ok(())
    }

    fn densities_vjp(&self, d_densities: &[f64], d_state: &mut [f64]) -> Result<(), ModelError> {
        check_len("cotangent of the densities", d_densities.len(), self.links())?;
        check_len("cotangent of the state", d_state.len(), self.state_len())?;
        for (link, d_density) in d_densities.iter().enumerate() {
            let range = self.range(link);
            let share = d_density / range.len() as f64;
            d_state[range].iter_mut().for_each(|d| *d += share);
        }
        Ok(())
    }

    fn step(
        &self,
        state: &[f64],
        inputs: &Inputs,
        memory: &mut Memory,
        next: &mut [f64],
        flows: &mut [f64],
    ) -> Result<Throughput, ModelError> {
        sub_steps::step(self, state, inputs, memory, next, flows)
    }

    fn vjp(
        &self,
        inputs: &Inputs,
        memory: &mut Memory,
        d_next: &[f64],
        d_flows: &[f64],
        gradient: Gradient<'_>,
    ) -> Result<(), ModelError> {
        sub_steps::vjp(self, inputs, memory, d_next, d_flows, gradient)
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
}
