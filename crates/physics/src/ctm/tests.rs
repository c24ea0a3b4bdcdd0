//! Conservation, bounds and derivatives, over random networks.

use proptest::prelude::*;
use traffic::{FundamentalDiagram, MetresPerSecond, Seconds, VehPerKmLane, VehPerMinLane};

use super::*;
use crate::cells::{CellRule, SubSteps};
use crate::finite_differences::{Subject, check_parameters, check_vjp};
use crate::test_networks::{Draw, network, random_network, random_ratios};

/// A model with random diagrams, ratios, cells and rules.
fn random_model(draw: &mut Draw) -> Ctm {
    let network = random_network(draw);
    let diagrams: Vec<_> = network
        .links()
        .iter()
        .map(|link| {
            let wave = MetresPerSecond::new(draw.between(2.0, 8.0));
            let jam = VehPerKmLane::new(draw.between(80.0, 180.0));
            let triangle = FundamentalDiagram::triangular(link.speed, wave, jam).unwrap();
            let capacity = VehPerMinLane::new(triangle.capacity().get() * draw.between(0.5, 1.0));
            FundamentalDiagram::new(link.speed, wave, jam, capacity).unwrap()
        })
        .collect();
    let parameters = Parameters::new(&network, &diagrams, &random_ratios(&network, draw)).unwrap();
    let cells = [
        CellRule::OnePerLink,
        CellRule::Each(3),
        CellRule::UpTo(traffic::Metres::new(50.0)),
        CellRule::Finest,
    ][(draw.next() * 4.0) as usize];
    let plan = Discretisation {
        step: Seconds::new(draw.between(2.0, 20.0)),
        cells,
        sub_steps: SubSteps::Fewest,
    };
    Ctm::new(&network, parameters, plan).unwrap()
}

/// Any densities between empty and jam, vehicles waiting outside at some links.
fn random_state(model: &Ctm, draw: &mut Draw) -> Vec<f64> {
    let mut state = vec![0.0; model.state_len()];
    for link in &model.links {
        for cell in link.cells.clone() {
            let share = draw.between(-0.2, 1.2).clamp(0.0, 1.0);
            state[cell] = share * link.diagram.jam;
        }
    }
    for waiting in &mut state[model.cell_count()..] {
        *waiting = draw.between(-5.0, 5.0).max(0.0);
    }
    state
}

fn random_inputs(model: &Ctm, draw: &mut Draw) -> Inputs {
    let mut inputs = Inputs::free(model);
    inputs.demand.iter_mut().for_each(|demand| *demand = draw.between(-20.0, 40.0).max(0.0));
    inputs.green.iter_mut().for_each(|green| *green = draw.between(-0.3, 1.3).clamp(0.0, 1.0));
    inputs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn vehicles_are_conserved_and_densities_stay_between_empty_and_jam(seed: u64) {
        let draw = &mut Draw::new(seed);
        let model = random_model(draw);
        let mut state = random_state(&model, draw);
        let mut next = vec![0.0; state.len()];
        let mut flows = vec![0.0; model.links()];
        let mut memory = model.memory();
        for _ in 0..50 {
            let inputs = random_inputs(&model, draw);
            let through = model.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
            let (before, after) = (model.vehicles(&state), model.vehicles(&next));
            let expected = before + through.arrived - through.left;
            // Each of some hundred additions rounds at 1e-16 of at most all vehicles.
            prop_assert!(
                (after - expected).abs() <= 1e-13 * (1.0 + before + through.arrived),
                "{after} {expected}"
            );
            for link in &model.links {
                for &density in &next[link.cells.clone()] {
                    prop_assert!((0.0..=link.diagram.jam).contains(&density), "{density}");
                }
            }
            prop_assert!(next[model.cell_count()..].iter().all(|&waiting| waiting >= 0.0));
            prop_assert!(flows.iter().all(|&flow| flow >= 0.0));
            std::mem::swap(&mut state, &mut next);
        }
    }

    #[test]
    fn the_vjp_is_that_of_finite_differences(seed: u64) {
        let draw = &mut Draw::new(seed);
        let model = random_model(draw);
        // Away from the ends of the diagram, where moving a little would cross a bound.
        let mut state = random_state(&model, draw);
        for link in &model.links {
            for cell in link.cells.clone() {
                state[cell] = state[cell].clamp(0.05 * link.diagram.jam, 0.95 * link.diagram.jam);
            }
        }
        state[model.cell_count()..].iter_mut().for_each(|waiting| *waiting += 1.0);
        let mut inputs = random_inputs(&model, draw);
        inputs.demand.iter_mut().for_each(|demand| *demand += 1.0);
        let weights: Vec<f64> = state.iter().map(|_| draw.between(-1.0, 1.0)).collect();
        let mut gradient = vec![0.0; model.parameters().len()];
        let mut memory = model.memory();
        let (mut next, mut flows) = (state.clone(), vec![0.0; model.links()]);
        model.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
        let mut d_state = vec![0.0; state.len()];
        let into = Gradient { state: &mut d_state, parameters: Some(&mut gradient), demand: None };
        let d_flows = vec![0.3; model.links()];
        model.vjp(&inputs, &mut memory, &weights, &d_flows, into).unwrap();
        check_parameters(&gradient, model.parameters(), |values| {
            let mut other = model.clone();
            other.parameters = model.parameters.unchecked(values);
            for (n, link) in other.links.iter_mut().enumerate() {
                link.diagram = other.parameters.diagram(n);
            }
            other.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
            let states: f64 = next.iter().zip(&weights).map(|(x, w)| x * w).sum();
            states + 0.3 * flows.iter().sum::<f64>()
        })?;
        check_vjp(Subject { model: &model, state, inputs }, draw)?;
    }
}

fn two_links() -> traffic::Network {
    network(&[(200.0, 1, 10.0), (200.0, 1, 10.0)], &[(0, 1)])
}

#[test]
fn an_unstable_discretisation_is_refused_with_the_link() {
    let network = two_links();
    let parameters = Parameters::typical(&network).unwrap();
    let plan = Discretisation {
        step: Seconds::new(30.0),
        cells: CellRule::OnePerLink,
        sub_steps: SubSteps::Exactly(1),
    };
    let error = Ctm::new(&network, parameters.clone(), plan).unwrap_err();
    assert_eq!(
        error.to_string(),
        "link `L0`: unstable: waves of 10 m/s run 300 m in a sub-step of 30 s, but cells are 200 m \
         long; expected cells at least that long: use more sub-steps or fewer cells"
    );
    let plan = Discretisation { sub_steps: SubSteps::Fewest, ..plan };
    let mut model = Ctm::new(&network, parameters, plan).unwrap();
    assert_eq!(model.sub_steps(), 2);
    // A learner that raises a free speed past the condition is refused, and nothing changes.
    let mut faster = model.parameters().to_vec();
    let before = faster.clone();
    faster[1] = 14.0;
    let error = model.set_parameters(faster).unwrap_err();
    assert!(matches!(&error, ModelError::Unstable { link, .. } if link == "L1"), "{error}");
    assert_eq!(model.parameters(), before);
}

#[test]
fn ratios_that_do_not_add_up_or_lead_nowhere_are_refused() {
    let network = two_links();
    let typical = Parameters::typical(&network).unwrap();
    let graph = RoadGraph::of(&network);
    let with = |ratios: [f64; 3]| {
        let mut values = typical.values().to_vec();
        values[typical.layout().ratio()].copy_from_slice(&ratios);
        Parameters::from_values(&graph, values).unwrap_err()
    };
    assert!(
        matches!(with([0.7, 0.0, 1.0]), ModelError::Ratios { link, sum } if link == "L0" && sum == 0.7)
    );
    assert!(matches!(with([1.5, -0.5, 1.0]), ModelError::Ratios { link, .. } if link == "L0"));
    assert!(matches!(with([1.0, 0.0, f64::NAN]), ModelError::Ratios { link, .. } if link == "L1"));

    // Two links that lead into each other: nothing ever leaves.
    let ring =
        crate::test_networks::network(&[(200.0, 1, 10.0), (200.0, 1, 10.0)], &[(0, 1), (1, 0)]);
    assert_eq!(RoadGraph::of(&ring).check_ratios(&[1.0, 1.0, 0.0, 0.0]), Err(ModelError::NoSinks));
}

#[test]
fn a_part_without_a_way_out_is_named() {
    // L0 leads out or into the ring of L1 and L2, which leads nowhere else.
    let network = network(&[(200.0, 1, 10.0); 3], &[(0, 1), (1, 2), (2, 1)]);
    let ratios = [0.5, 1.0, 1.0, 0.5, 0.0, 0.0];
    let graph = RoadGraph::of(&network);
    assert_eq!(graph.check_ratios(&ratios), Err(ModelError::Trap { link: "L1".into() }));
}

#[test]
fn slices_of_the_wrong_length_are_refused() {
    let network = two_links();
    let plan = Discretisation::of_step(Seconds::new(10.0));
    let model = Ctm::new(&network, Parameters::typical(&network).unwrap(), plan).unwrap();
    let mut memory = model.memory();
    let mut next = vec![0.0; model.state_len()];
    let inputs = Inputs::free(&model);
    let error = model.step(&[0.0; 3], &inputs, &mut memory, &mut next, &mut [0.0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "state: found 3 numbers, expected 4");
}
