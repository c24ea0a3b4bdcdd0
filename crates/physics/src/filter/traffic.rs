//! The filter on the CTM of a whole network.
//!
//! State: density of every cell, demand at every entry (the boundary is not known: it wanders about a
//! usual value, `d ← usual + φ·(d − usual) + noise`, since without that the unseen ones would wander off),
//! then the flow of every link, which the next step does not depend on. The paper's state is the
//! first and the last of these. Flow is measured by loops as it is, density by queue profiles as it is, speed by fleets
//! as flow over density. Cost grows with the cube of the state: for networks of up to some hundred links.

use traffic::Network;

use super::error::{FilterError, check_len};
use super::measurement::{Measurements, Quantity, Softened};
use super::noise::{Adaptation, FilterNoise};
use super::square_root::{SigmaPointSpread, SquareRootFilter};
use crate::ctm::Ctm;
use crate::model::{Inputs, Memory, TrafficModel};
use crate::parameters::KM_PER_MIN;

/// Below this density (veh/km/lane) a link counts as empty and its speed as free.
const EMPTY: f64 = 0.5;

/// How to filter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilterPlan {
    /// How uncertain the model is.
    pub noise: FilterNoise,
    /// How noise adapts.
    pub adaptation: Adaptation,
    /// Where the points lie.
    pub spread: SigmaPointSpread,
}

/// What a step of the filter did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterReport {
    /// Measurements taken in.
    pub used: usize,
    /// Those that contradicted what was known, and got less weight.
    pub softened: Vec<Softened>,
    /// Estimates that were moved back to what is possible (density from empty to jam, flow from
    /// zero to capacity, demand from zero).
    pub projected: usize,
    /// The squared innovation over its covariance: about `used` for a filter that knows its errors.
    pub squared_innovation: f64,
    /// The logarithm of the determinant of that covariance: with the square above it tells how likely the measurements
    /// were, `−½·(squared_innovation + log_determinant)` but for a constant.
    pub log_determinant: f64,
}

/// An unscented filter on the cell transmission model.
#[derive(Clone, Debug)]
pub struct TrafficFilter {
    model: Ctm,
    plan: FilterPlan,
    filter: SquareRootFilter,
    entries: Vec<usize>,
    /// Usual demand of each entry, veh/min, and the share of a departure that lasts a step.
    usual: Vec<f64>,
    lasting: f64,
    /// Density per cell, demand per entry, flow per link: the most that is possible.
    most: Vec<f64>,
    process: Vec<f64>,
    /// Factors of the variances: per link of flow, then of speed, then of density; per number of the state.
    measured: Vec<f64>,
    drift: Vec<f64>,
    memory: Memory,
    inputs: Inputs,
    state: Vec<f64>,
    next: Vec<f64>,
    noise: Vec<f64>,
    present: Vec<(Quantity, usize)>,
    values: Vec<f64>,
    variances: Vec<f64>,
    deviations: Vec<f64>,
    report: FilterReport,
}

impl TrafficFilter {
    /// Starts from densities per link and the usual demand per link (veh/min; of entries only).
    pub fn new(
        network: &Network,
        model: Ctm,
        densities: &[f64],
        demand: &[f64],
        plan: FilterPlan,
    ) -> Result<Self, FilterError> {
        plan.noise.check()?;
        plan.adaptation.check()?;
        check_len("links of the model", model.links(), network.links().len())?;
        check_len("first densities", densities.len(), model.links())?;
        check_len("usual demand", demand.len(), model.links())?;
        let bad = |value: &&f64| !(**value >= 0.0 && value.is_finite());
        if let Some(&found) = densities.iter().chain(demand).find(bad) {
            let (place, expected) = ("first densities and usual demand".into(), "0 or more");
            return Err(FilterError::Number { place, found, expected });
        }
        let entries: Vec<usize> = network.entries().map(|link| link.index()).collect();
        let (cells, links) = (model.cell_count(), model.links());
        let mut state = vec![0.0; model.state_len()];
        model.lift(densities, &vec![0.0; links], &mut state)?;
        let mut most = model.most_densities();
        most.extend(entries.iter().map(|_| f64::INFINITY));
        most.extend((0..links).map(|link| model.diagram(link).capacity));
        let usual: Vec<f64> = entries.iter().map(|&link| demand[link]).collect();
        let mut mean = state[..cells].to_vec();
        mean.extend_from_slice(&usual);
        mean.resize(most.len(), 0.0);
        let FilterNoise { density, flow, demand, first_density, demand_memory } = plan.noise;
        let lasting = (-(model.step_length() / demand_memory)).exp();
        let lanes = |link: usize| f64::from(network.links()[link].lanes);
        let per_state = |cell: f64, entry: f64| -> Vec<f64> {
            let cells = std::iter::repeat_n(cell, cells);
            let entries = entries.iter().map(|&link| entry * lanes(link));
            cells.chain(entries).chain(std::iter::repeat_n(flow, links)).collect()
        };
        // In the long run the variance is that of `demand`.
        let process = per_state(density, demand * (1.0 - lasting * lasting).sqrt());
        let filter = SquareRootFilter::new(mean, &per_state(first_density, demand), plan.spread)?;
        Ok(Self {
            plan,
            filter,
            measured: vec![1.0; 3 * links],
            drift: vec![1.0; most.len()],
            memory: model.memory(),
            inputs: Inputs::free(&model),
            next: state.clone(),
            noise: vec![0.0; most.len()],
            present: Vec::new(),
            values: Vec::new(),
            variances: Vec::new(),
            deviations: Vec::new(),
            report: FilterReport::default(),
            state,
            process,
            most,
            usual,
            lasting,
            entries,
            model,
        })
    }

    /// One step: the model with these green shares, then the measurements made during it.
    pub fn step(
        &mut self,
        green: &[f64],
        measurements: &Measurements,
    ) -> Result<&FilterReport, FilterError> {
        check_len("green shares", green.len(), self.inputs.green.len())?;
        measurements.check(self.model.links())?;
        self.inputs.green.copy_from_slice(green);
        self.report.softened.clear();
        self.report.projected = 0;
        self.report.squared_innovation = 0.0;
        self.report.log_determinant = 0.0;
        self.predict()?;
        self.project();
        self.update(measurements)?;
        self.project();
        Ok(&self.report)
    }

    /// Densities of all links, veh/km/lane.
    pub fn densities(&self, densities: &mut [f64]) -> Result<(), FilterError> {
        check_len("densities", densities.len(), self.model.links())?;
        for (link, density) in densities.iter_mut().enumerate() {
            *density = mean(&self.filter.mean()[self.model.cells(link)]);
        }
        Ok(())
    }

    /// Flow of all links during the last step, veh/min/lane.
    pub fn flows(&self) -> &[f64] {
        &self.filter.mean()[self.model.cell_count() + self.entries.len()..]
    }

    /// The standard deviation of a link's flow.
    #[cfg(test)]
    pub(crate) fn flow_deviation(&self, link: usize) -> f64 {
        self.filter.deviation(self.model.cell_count() + self.entries.len() + link)
    }

    /// The standard deviation of a link's density.
    #[cfg(test)]
    pub(crate) fn density_deviation(&self, link: usize) -> f64 {
        let cells = self.model.cells(link);
        let count = cells.len() as f64;
        let sum: f64 = cells
            .clone()
            .flat_map(|i| cells.clone().map(move |j| (i, j)))
            .map(|(i, j)| self.filter.covariance(i, j))
            .sum();
        sum.max(0.0).sqrt() / count
    }

    /// Above zero as long as the covariance is positive definite.
    pub fn smallest_pivot(&self) -> f64 {
        self.filter.smallest_pivot()
    }

    fn predict(&mut self) -> Result<(), FilterError> {
        let (model, entries, most) = (&self.model, &self.entries, &self.most);
        let (inputs, memory) = (&mut self.inputs, &mut self.memory);
        let (state, next) = (&mut self.state, &mut self.next);
        let (usual, lasting) = (&self.usual, self.lasting);
        let cells = model.cell_count();
        let active = cells + entries.len();
        let stated = self.process.iter().zip(&self.drift);
        self.noise.iter_mut().zip(stated).for_each(|(n, (&stated, f))| *n = stated * f.sqrt());
        self.filter.predict::<FilterError>(active, &self.noise, |from, to| {
            for cell in 0..cells {
                state[cell] = from[cell].clamp(0.0, most[cell]);
            }
            state[cells..].fill(0.0);
            for (at, &link) in entries.iter().enumerate() {
                inputs.demand[link] = from[cells + at].max(0.0);
            }
            model.step(state, inputs, memory, next, &mut to[active..])?;
            to[..cells].copy_from_slice(&next[..cells]);
            for (at, usual) in usual.iter().enumerate() {
                to[cells + at] = usual + lasting * (from[cells + at] - usual);
            }
            Ok(())
        })
    }

    fn update(&mut self, measurements: &Measurements) -> Result<(), FilterError> {
        for list in [&mut self.values, &mut self.variances, &mut self.deviations] {
            list.clear();
        }
        self.present.clear();
        for (quantity, link, reading) in measurements.present() {
            self.present.push((quantity, link));
            self.values.push(reading.value);
            self.variances.push(reading.variance);
        }
        self.report.used = self.present.len();
        if self.present.is_empty() {
            return Ok(());
        }
        let (present, model) = (&self.present, &self.model);
        let flows = model.cell_count() + self.entries.len();
        let (innovations, known) =
            self.filter.compare::<FilterError>(&self.values, |state, z| {
                for (z, &(quantity, link)) in z.iter_mut().zip(present) {
                    let flow = state[flows + link];
                    *z = match quantity {
                        Quantity::Flow => flow,
                        Quantity::Speed => {
                            let density = mean(&state[model.cells(link)]).max(EMPTY);
                            flow.max(0.0) / density / KM_PER_MIN
                        }
                        Quantity::Density => mean(&state[model.cells(link)]),
                    };
                }
                Ok(())
            })?;
        let Adaptation { gate, .. } = self.plan.adaptation;
        for (i, &(quantity, link)) in present.iter().enumerate() {
            let factor = match quantity {
                Quantity::Flow => &mut self.measured[link],
                Quantity::Speed => &mut self.measured[model.links() + link],
                Quantity::Density => &mut self.measured[2 * model.links() + link],
            };
            let (stated, spread) = (self.variances[i], known[i]);
            let square = innovations[i] * innovations[i];
            let mut noise = stated * *factor;
            let allowed = gate * gate * (spread + noise);
            if square > allowed {
                self.report.softened.push(Softened {
                    quantity,
                    link,
                    value: self.values[i],
                    expected: self.values[i] - innovations[i],
                    deviations: (square / (spread + noise)).sqrt(),
                });
                noise = square / (gate * gate) - spread;
            }
            *factor =
                self.plan.adaptation.of_sensor(*factor, (square.min(allowed) - spread) / stated);
            self.deviations.push(noise.sqrt());
        }
        let taken = self.filter.take(&self.deviations)?;
        self.report.squared_innovation = taken.squared_innovation;
        self.report.log_determinant = taken.log_determinant;
        let (correction, variance) = self.filter.correction();
        for (i, factor) in self.drift.iter_mut().enumerate() {
            // A consistent filter corrects by as much as it thinks: E[c²] = var c.
            let surprise = correction[i] * correction[i] - variance[i];
            let stated = self.process[i] * self.process[i];
            *factor = self.plan.adaptation.of_model(*factor, *factor + surprise / stated);
        }
        Ok(())
    }

    /// Moves the mean back to what is possible.
    fn project(&mut self) {
        for (value, &most) in self.filter.mean_mut().iter_mut().zip(&self.most) {
            let possible = value.clamp(0.0, most);
            self.report.projected += usize::from(possible != *value);
            *value = possible;
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;
