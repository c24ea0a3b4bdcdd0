//! Store-and-forward: links are queues that signals empty.
//!
//! ```text
//!  outflow of m to n:  p_mn · min( γ_mn·q_c·lanes , N_m/δt )        saturation flow, or all there is
//!  room of n:          (k_jam·L·lanes − N_n)/δt
//! ```
//!
//! After Aboudolas and others (2009), whose linear form `N ← N + T·(Σ p·S·γ − S·γ)` holds while queues
//! neither run empty nor spill back; the two minima are what makes it hold always (ours). There is
//! no travel time, hence no stability condition: steps may be as long as a cycle. Free speed and
//! wave speed play no part.

use traffic::{Network, Seconds};

use crate::error::ModelError;
use crate::graph::RoadGraph;
use crate::parameters::Parameters;
use crate::stores::{Cotangent, Law, Store, StoreModel, StorePlan};

/// A link that stores vehicles and forwards them at green.
#[derive(Clone, Copy, Debug)]
pub struct LinkQueue {
    /// Minutes.
    step: f64,
}

/// The store-and-forward model.
pub type StoreAndForward = StoreModel<LinkQueue>;

impl StoreAndForward {
    /// Of a network; flows of links are what leaves them.
    pub fn new(
        network: &Network,
        parameters: Parameters,
        step: Seconds,
    ) -> Result<Self, ModelError> {
        let graph = RoadGraph::of(network);
        crate::error::check_len(
            "turns of the parameters",
            parameters.ratios().len(),
            graph.movements(),
        )?;
        if !(step.get() > 0.0 && step.get().is_finite()) {
            let place = "discretisation".into();
            let expected = "more than 0 s";
            return Err(ModelError::Number { place, field: "step", found: step.get(), expected });
        }
        let size = |link: &traffic::Link| link.lane_length().get() / 1000.0;
        let stores = network.links().iter().enumerate().map(|(n, link)| Store {
            diagram: parameters.diagram(n),
            size: size(link),
            flow_share: 1.0 / f64::from(link.lanes),
        });
        StoreModel::build(StorePlan {
            stores: stores.collect(),
            links: network.links().iter().enumerate().map(|(n, link)| (n, size(link))).collect(),
            law: LinkQueue { step: step.get() / 60.0 },
            graph,
            parameters,
            step,
            sub_steps: 1,
        })
    }
}

impl LinkQueue {
    /// Lanes of a store, from the share of its outflow that each has.
    fn lanes(store: &Store) -> f64 {
        1.0 / store.flow_share
    }
}

impl Law for LinkQueue {
    fn offers(&self, store: &Store, density: f64) -> [f64; 3] {
        let per_minute = store.size / self.step;
        [
            density.max(0.0) * per_minute,
            store.diagram.capacity * Self::lanes(store),
            (store.diagram.jam - density).max(0.0) * per_minute,
        ]
    }

    fn offers_vjp(&self, store: &Store, density: f64, given: [f64; 3], d: &mut Cotangent) -> f64 {
        let [d_leaving, d_capacity, d_room] = given;
        let per_minute = store.size / self.step;
        d.0.capacity += d_capacity * Self::lanes(store);
        let mut d_density = if density > 0.0 { d_leaving * per_minute } else { 0.0 };
        if density < store.diagram.jam {
            d.0.jam += d_room * per_minute;
            d_density -= d_room * per_minute;
        }
        d_density
    }

    fn check(&self, _: &Store, _: &str, _: f64) -> Result<(), ModelError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::finite_differences::{Subject, check_vjp, run_random};
    use crate::model::{Inputs, TrafficModel};
    use crate::test_networks::{Draw, network, random_network, random_ratios};

    fn random_model(draw: &mut Draw) -> StoreAndForward {
        let network = random_network(draw);
        let mut values = Parameters::typical(&network).unwrap().values().to_vec();
        let graph = RoadGraph::of(&network);
        let ratios = random_ratios(&network, draw);
        let from = values.len() - ratios.len();
        values[from..].copy_from_slice(&ratios);
        let parameters = Parameters::from_values(&graph, values).unwrap();
        let step = Seconds::new(draw.between(5.0, 90.0));
        StoreAndForward::new(&network, parameters, step).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn vehicles_are_conserved_and_stores_never_overflow(seed: u64) {
            let draw = &mut Draw::new(seed);
            let model = random_model(draw);
            let most: Vec<f64> = model.parameters()[2 * model.links()..][..model.links()].to_vec();
            run_random(&model, &most, draw)?;
        }

        #[test]
        fn the_vjp_is_that_of_finite_differences(seed: u64) {
            let draw = &mut Draw::new(seed);
            let model = random_model(draw);
            let densities: Vec<f64> =
                (0..model.links()).map(|_| draw.between(5.0, 125.0)).collect();
            let mut state = vec![0.0; model.state_len()];
            model.lift(&densities, &vec![0.0; model.links()], &mut state).unwrap();
            state[model.links()..].iter_mut().for_each(|waiting| *waiting = draw.between(0.1, 3.0));
            let mut inputs = Inputs::free(&model);
            inputs.demand.iter_mut().for_each(|demand| *demand = draw.between(1.0, 30.0));
            inputs.green.iter_mut().for_each(|green| *green = draw.next());
            check_vjp(Subject { model: &model, state, inputs }, draw)?;
        }
    }

    #[test]
    fn a_queue_leaves_at_saturation_flow_while_it_lasts() {
        let network = network(&[(300.0, 2, 10.0)], &[]);
        let parameters = Parameters::typical(&network).unwrap();
        let capacity = parameters.values()[3];
        let model = StoreAndForward::new(&network, parameters, Seconds::new(30.0)).unwrap();
        let mut inputs = Inputs::free(&model);
        inputs.green[0] = 0.4;
        let mut memory = model.memory();
        let (mut next, mut flows) = (vec![0.0; 2], vec![0.0]);
        let left = |n: f64, memory: &mut _, next: &mut Vec<f64>, flows: &mut Vec<f64>| {
            model.step(&[n, 0.0], &inputs, memory, next, flows).unwrap().left
        };
        // Two lanes, 40 % green, half a minute.
        let saturated = 2.0 * 0.4 * capacity * 0.5;
        let found = left(30.0, &mut memory, &mut next, &mut flows);
        assert!((found - saturated).abs() < 1e-12);
        assert!((flows[0] - 0.4 * capacity).abs() < 1e-12);
        // Fewer vehicles than that: all leave.
        assert!((left(3.0, &mut memory, &mut next, &mut flows) - 3.0).abs() < 1e-12);
    }
}
