//! The physics part of the paper's loss L^PI, over a segment of consecutive steps.
//!
//! ```text
//!  L = ½ Σ_t Σ_n  w^k_n·(k_{n,t+1} − g^k_n(y_t))²  +  w^q_n·(q_{n,t} − g^q_n(y_t))²
//! ```
//!
//! with weights w = 1/σ²_ω (zero where the model has nothing to say, as at entries with unknown
//! demand). g^k is the density one step on, g^q the flow during the step that starts from k_t: the
//! paper's equations give the transfer flow of step t from the densities of step t. Densities are
//! those of links; models with more cells start from even ones.
//!
//! The measurement part, Σ (u − h(y))²/σ², is linear in what guests hold and lies with the training.

use crate::error::{ModelError, check_len};
use crate::model::{Gradient, Inputs, Memory, TrafficModel};

/// Estimated states of consecutive steps, step after step, a number per link each.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Densities, veh/km/lane.
    pub densities: &'a [f64],
    /// Flows, veh/min/lane.
    pub flows: &'a [f64],
    /// What acted during each step but the last (more are allowed, and not used).
    pub inputs: &'a [Inputs],
}

/// How much each link's residuals count: 1/σ²_ω.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidualWeights {
    /// Of density, per link, (veh/km/lane)⁻².
    pub density: Vec<f64>,
    /// Of flow, per link, (veh/min/lane)⁻².
    pub flow: Vec<f64>,
}

impl ResidualWeights {
    /// From variances; a link with infinite variance does not count.
    pub fn from_variances(density: &[f64], flow: &[f64]) -> Result<Self, ModelError> {
        let weights = |field: &'static str, variances: &[f64]| {
            let weight = |(link, &variance): (usize, &f64)| {
                if variance > 0.0 {
                    return Ok(1.0 / variance);
                }
                let place = format!("link number {link}");
                Err(ModelError::Number { place, field, found: variance, expected: "more than 0" })
            };
            variances.iter().enumerate().map(weight).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            density: weights("variance of density", density)?,
            flow: weights("variance of flow", flow)?,
        })
    }
}

/// Where [`PhysicsLoss::add`] adds gradients; in the layout of the segment.
pub struct SegmentGradient<'a> {
    /// Of the densities.
    pub densities: &'a mut [f64],
    /// Of the flows.
    pub flows: &'a mut [f64],
    /// Of the model's parameters, for learning them jointly.
    pub parameters: Option<&'a mut [f64]>,
}

/// The loss, with its space.
pub struct PhysicsLoss<'m> {
    model: &'m dyn TrafficModel,
    weights: ResidualWeights,
    memory: Memory,
    state: Vec<f64>,
    next: Vec<f64>,
    d_state: Vec<f64>,
    d_next: Vec<f64>,
    densities: Vec<f64>,
    flows: Vec<f64>,
    d_densities: Vec<f64>,
    d_flows: Vec<f64>,
}

impl<'m> PhysicsLoss<'m> {
    /// Of a model.
    pub fn new(model: &'m dyn TrafficModel, weights: ResidualWeights) -> Result<Self, ModelError> {
        let (links, len) = (model.links(), model.state_len());
        check_len("weights of density", weights.density.len(), links)?;
        check_len("weights of flow", weights.flow.len(), links)?;
        let of = |len: usize| vec![0.0; len];
        Ok(Self {
            model,
            weights,
            memory: model.memory(),
            state: of(len),
            next: of(len),
            d_state: of(len),
            d_next: of(len),
            densities: of(links),
            flows: of(links),
            d_densities: of(links),
            d_flows: of(links),
        })
    }

    /// Adds the squares of a segment's residuals, link by link: of density, then of flow. Nothing is added for links that
    /// do not count.
    pub fn add_squares(
        &mut self,
        segment: Segment<'_>,
        density: &mut [f64],
        flow: &mut [f64],
    ) -> Result<(), ModelError> {
        let links = self.model.links();
        check_len("squares of density", density.len(), links)?;
        check_len("squares of flow", flow.len(), links)?;
        for t in 1..self.steps_of(&segment)? {
            self.predict(&segment, t)?;
            for (n, (density, flow)) in density.iter_mut().zip(flow.iter_mut()).enumerate() {
                let (now, then) = ((t - 1) * links + n, t * links + n);
                if self.weights.density[n] > 0.0 {
                    *density += (segment.densities[then] - self.densities[n]).powi(2);
                }
                if self.weights.flow[n] > 0.0 {
                    *flow += (segment.flows[now] - self.flows[n]).powi(2);
                }
            }
        }
        Ok(())
    }

    /// How much residuals count from now on.
    pub fn weights_mut(&mut self) -> &mut ResidualWeights {
        &mut self.weights
    }

    /// Steps of a segment of the right shape.
    fn steps_of(&self, segment: &Segment<'_>) -> Result<usize, ModelError> {
        let links = self.model.links();
        let steps = segment.densities.len() / links.max(1);
        check_len("densities of the segment", segment.densities.len(), steps * links)?;
        check_len("flows of the segment", segment.flows.len(), steps * links)?;
        if segment.inputs.len() + 1 < steps {
            let (found, expected) = (segment.inputs.len(), steps - 1);
            return Err(ModelError::Shape { what: "inputs of the segment", found, expected });
        }
        Ok(steps)
    }

    /// What the model makes of step t − 1: densities of step t, flows of step t − 1.
    fn predict(&mut self, segment: &Segment<'_>, t: usize) -> Result<(), ModelError> {
        let links = self.model.links();
        let now = (t - 1) * links..t * links;
        let (k, q) = (&segment.densities[now.clone()], &segment.flows[now]);
        self.model.lift(k, q, &mut self.state)?;
        let inputs = &segment.inputs[t - 1];
        let (next, memory) = (&mut self.next, &mut self.memory);
        self.model.step(&self.state, inputs, memory, next, &mut self.flows)?;
        self.model.densities(&self.next, &mut self.densities)
    }

    /// The loss of a segment; adds `scale` times its gradient, where one is asked for.
    pub fn add(
        &mut self,
        segment: Segment<'_>,
        scale: f64,
        mut gradient: Option<SegmentGradient<'_>>,
    ) -> Result<f64, ModelError> {
        let links = self.model.links();
        let steps = self.steps_of(&segment)?;
        if let Some(gradient) = &gradient {
            check_len("gradient of the densities", gradient.densities.len(), steps * links)?;
            check_len("gradient of the flows", gradient.flows.len(), steps * links)?;
        }
        let mut loss = 0.0;
        for t in 1..steps {
            let (now, then) = ((t - 1) * links..t * links, t * links..(t + 1) * links);
            let inputs = &segment.inputs[t - 1];
            let (k, q) = (&segment.densities[now.clone()], &segment.flows[now.clone()]);
            self.predict(&segment, t)?;
            for (n, &own_flow) in q.iter().enumerate() {
                let density = segment.densities[then.start + n] - self.densities[n];
                let flow = own_flow - self.flows[n];
                let (d_density, d_flow) =
                    (self.weights.density[n] * density, self.weights.flow[n] * flow);
                loss += 0.5 * (d_density * density + d_flow * flow);
                // The residuals fall as the model's own numbers rise.
                self.d_densities[n] = -scale * d_density;
                self.d_flows[n] = -scale * d_flow;
                if let Some(gradient) = &mut gradient {
                    gradient.densities[then.start + n] += scale * d_density;
                    gradient.flows[now.start + n] += scale * d_flow;
                }
            }
            let Some(gradient) = &mut gradient else { continue };
            self.d_next.fill(0.0);
            self.d_state.fill(0.0);
            self.model.densities_vjp(&self.d_densities, &mut self.d_next)?;
            let into = Gradient {
                state: &mut self.d_state,
                parameters: gradient.parameters.as_deref_mut(),
                demand: None,
            };
            self.model.vjp(inputs, &mut self.memory, &self.d_next, &self.d_flows, into)?;
            let (d_k, d_q) = (&mut gradient.densities[now.clone()], &mut gradient.flows[now]);
            self.model.lift_vjp((k, q), &self.d_state, d_k, d_q)?;
        }
        Ok(loss)
    }
}

#[cfg(test)]
mod tests {
    use traffic::Seconds;

    use super::*;
    use crate::cells::Discretisation;
    use crate::ctm::Ctm;
    use crate::finite_differences::check_parameters;
    use crate::parameters::Parameters;
    use crate::signals::GreenPlan;
    use crate::test_networks::Draw;

    struct Scene {
        model: Ctm,
        inputs: Vec<Inputs>,
        densities: Vec<f64>,
        flows: Vec<f64>,
    }

    /// Four steps of the corridor, as the model itself runs them.
    fn scene() -> Scene {
        let network = traffic::corridor().unwrap();
        let parameters = Parameters::typical(&network).unwrap();
        let plan = Discretisation::of_step(Seconds::new(10.0));
        let model = Ctm::new(&network, parameters, plan).unwrap();
        let signals = GreenPlan::of(&network);
        let draw = &mut Draw::new(3);
        let mut densities: Vec<f64> = (0..17).map(|_| draw.between(5.0, 100.0)).collect();
        let mut state = vec![0.0; model.state_len()];
        model.lift(&densities, &[0.0; 17], &mut state).unwrap();
        let mut memory = model.memory();
        let (mut flows, mut inputs) = (Vec::new(), Vec::new());
        for step in 0..4 {
            let mut input = Inputs::free(&model);
            input.signals_from(&signals, &model, Seconds::new(10.0 * f64::from(step))).unwrap();
            // Little enough that nobody waits outside, which link states do not tell.
            input.demand.iter_mut().for_each(|demand| *demand = 0.5);
            let mut flow = vec![0.0; 17];
            let mut next = state.clone();
            model.step(&state, &input, &mut memory, &mut next, &mut flow).unwrap();
            state = next;
            state[17..].fill(0.0);
            densities.extend_from_slice(&state[..17]);
            flows.extend(flow);
            inputs.push(input);
        }
        densities.truncate(4 * 17);
        Scene { model, inputs, densities, flows }
    }

    fn weights() -> ResidualWeights {
        ResidualWeights::from_variances(&[4.0; 17], &[1.0; 17]).unwrap()
    }

    #[test]
    fn what_the_model_itself_made_has_no_residual() {
        let scene = scene();
        let mut loss = PhysicsLoss::new(&scene.model, weights()).unwrap();
        let segment =
            Segment { densities: &scene.densities, flows: &scene.flows, inputs: &scene.inputs };
        // The same additions in the same order.
        assert!(loss.add(segment, 1.0, None).unwrap() < 1e-20);
    }

    /// Squares are those of which the loss is made.
    #[test]
    fn squares_over_variances_are_twice_the_loss() {
        let scene = scene();
        let mut loss = PhysicsLoss::new(&scene.model, weights()).unwrap();
        let densities: Vec<f64> = scene.densities.iter().map(|k| 0.9 * k + 3.0).collect();
        let segment = Segment { densities: &densities, flows: &scene.flows, inputs: &scene.inputs };
        let mut squares = [vec![0.0; 17], vec![0.0; 17]];
        let [density, flow] = &mut squares;
        loss.add_squares(segment, density, flow).unwrap();
        let twice = density.iter().sum::<f64>() / 4.0 + flow.iter().sum::<f64>();
        let found = loss.add(segment, 1.0, None).unwrap();
        // The same terms in another order.
        assert!(found > 1.0 && (2.0 * found - twice).abs() < 1e-12 * twice, "{found} {twice}");
    }

    #[test]
    fn its_gradient_is_that_of_differences() {
        let scene = scene();
        let draw = &mut Draw::new(8);
        let near = |values: &[f64], draw: &mut Draw| -> Vec<f64> {
            values.iter().map(|x| (x + draw.between(-4.0, 4.0)).clamp(2.0, 120.0)).collect()
        };
        let (densities, flows) = (near(&scene.densities, draw), near(&scene.flows, draw));
        let mut d_densities = vec![0.0; densities.len()];
        let mut d_flows = vec![0.0; flows.len()];
        let mut d_parameters = vec![0.0; scene.model.parameters().len()];
        let mut loss = PhysicsLoss::new(&scene.model, weights()).unwrap();
        let inputs = &scene.inputs[..];
        let gradient = SegmentGradient {
            densities: &mut d_densities,
            flows: &mut d_flows,
            parameters: Some(&mut d_parameters),
        };
        let segment = Segment { densities: &densities, flows: &flows, inputs };
        loss.add(segment, 1.0, Some(gradient)).unwrap();
        check_parameters(&d_densities, &densities, |densities| {
            loss.add(Segment { densities, flows: &flows, inputs }, 1.0, None).unwrap()
        })
        .unwrap();
        check_parameters(&d_flows, &flows, |flows| {
            loss.add(Segment { densities: &densities, flows, inputs }, 1.0, None).unwrap()
        })
        .unwrap();
        let links = 4 * 17;
        check_parameters(&d_parameters[..links], &scene.model.parameters()[..links], |diagrams| {
            let mut model = scene.model.clone();
            let mut values = model.parameters().to_vec();
            values[..links].copy_from_slice(diagrams);
            model.set_parameters(values).unwrap();
            let mut loss = PhysicsLoss::new(&model, weights()).unwrap();
            loss.add(Segment { densities: &densities, flows: &flows, inputs }, 1.0, None).unwrap()
        })
        .unwrap();
    }

    #[test]
    fn negative_variances_and_short_inputs_are_refused() {
        let error = ResidualWeights::from_variances(&[1.0, -2.0], &[1.0, 1.0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "link number 1: variance of density: found -2, expected more than 0"
        );
        let scene = scene();
        let mut loss = PhysicsLoss::new(&scene.model, weights()).unwrap();
        let inputs = &scene.inputs[..2];
        let segment = Segment { densities: &scene.densities, flows: &scene.flows, inputs };
        let error = loss.add(segment, 1.0, None).unwrap_err();
        assert_eq!(error.to_string(), "inputs of the segment: found 2 numbers, expected 3");
    }
}
