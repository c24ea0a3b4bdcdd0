//! METANET: equilibrium, conservation and derivatives.

use proptest::prelude::*;
use traffic::Metres;

use super::*;
use crate::cells::{CellRule, SubSteps};
use crate::finite_differences::{Subject, check_parameters, check_vjp, run_random};
use crate::test_networks::{Draw, random_network, random_ratios, road};

fn random_model(draw: &mut Draw) -> Metanet {
    let network = random_network(draw);
    let graph = RoadGraph::of(&network);
    let mut values = Parameters::typical(&network).unwrap().values().to_vec();
    let ratios = random_ratios(&network, draw);
    let from = values.len() - ratios.len();
    values[from..].copy_from_slice(&ratios);
    let parameters = Parameters::from_values(&graph, values).unwrap();
    let cells =
        [CellRule::OnePerLink, CellRule::UpTo(Metres::new(60.0))][(draw.next() * 2.0) as usize];
    let plan = Discretisation {
        step: Seconds::new(draw.between(1.0, 4.0)),
        cells,
        sub_steps: SubSteps::Fewest,
    };
    // Streets look less far ahead than motorways; short cells would else need hundreds of sub-steps.
    let constants = MetanetConstants { anticipation: 5.0, ..MetanetConstants::default() };
    Metanet::new(&network, parameters, plan, constants).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn vehicles_are_conserved_and_densities_stay_between_empty_and_jam(seed: u64) {
        let draw = &mut Draw::new(seed);
        let model = random_model(draw);
        let jam: Vec<f64> = (0..model.links()).map(|n| model.parameters.diagram(n).jam).collect();
        run_random(&model, &jam, draw)?;
    }

    #[test]
    fn the_vjp_is_that_of_finite_differences(seed: u64) {
        let draw = &mut Draw::new(seed);
        let model = random_model(draw);
        let count = model.cells.count();
        let mut state = vec![0.0; model.state_len()];
        for link in 0..model.links() {
            let diagram = model.parameters.diagram(link);
            for cell in model.range(link) {
                state[cell] = draw.between(0.05, 0.95) * diagram.jam;
                state[count + cell] = draw.between(0.1, 0.9) * diagram.free / KM_PER_MIN;
            }
        }
        state[2 * count..].iter_mut().for_each(|waiting| *waiting = draw.between(0.1, 3.0));
        let mut inputs = Inputs::free(&model);
        inputs.demand.iter_mut().for_each(|demand| *demand = draw.between(1.0, 30.0));
        inputs.green.iter_mut().for_each(|green| *green = draw.next());

        let mut gradient = vec![0.0; model.parameters().len()];
        let mut memory = model.memory();
        let (mut next, mut flows) = (state.clone(), vec![0.0; model.links()]);
        model.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
        let mut d_state = vec![0.0; state.len()];
        let weights: Vec<f64> = state.iter().map(|_| draw.between(-1.0, 1.0)).collect();
        let d_flows = vec![0.3; model.links()];
        let into = Gradient { state: &mut d_state, parameters: Some(&mut gradient), demand: None };
        model.vjp(&inputs, &mut memory, &weights, &d_flows, into).unwrap();
        check_parameters(&gradient, model.parameters(), |values| {
            let parameters = model.parameters.unchecked(values);
            let other = Metanet { parameters, ..model.clone() };
            other.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
            let states: f64 = next.iter().zip(&weights).map(|(x, w)| x * w).sum();
            states + 0.3 * flows.iter().sum::<f64>()
        })?;
        check_vjp(Subject { model: &model, state, inputs }, draw)?;
    }
}

/// A road of 20 cells of 300 m at 30 m/s, steps of 10 s.
fn motorway() -> Metanet {
    let network = road(6000.0, 30.0);
    let mut values = Parameters::typical(&network).unwrap().values().to_vec();
    values[3] = 33.0;
    let parameters = Parameters::from_values(&RoadGraph::of(&network), values).unwrap();
    let plan = Discretisation {
        step: Seconds::new(10.0),
        cells: CellRule::Each(20),
        sub_steps: SubSteps::Fewest,
    };
    Metanet::new(&network, parameters, plan, MetanetConstants::default()).unwrap()
}

#[test]
fn a_steady_road_stays_steady_at_the_equilibrium_speed() {
    let model = motorway();
    let diagram = model.parameters.diagram(0);
    let density = 15.0;
    let speed = model.law.equilibrium(&diagram, density);
    let mut state = vec![density; 20];
    state.extend([speed / KM_PER_MIN; 20]);
    state.push(0.0);
    let start = state.clone();
    let mut inputs = Inputs::free(&model);
    inputs.demand[0] = density * speed;
    let mut memory = model.memory();
    let (mut next, mut flows) = (state.clone(), vec![0.0]);
    for _ in 0..200 {
        model.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
        std::mem::swap(&mut state, &mut next);
    }
    for (found, expected) in state.iter().zip(&start) {
        // A fixed point that rounding disturbs and the model brings back.
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert!((flows[0] - density * speed).abs() < 1e-9);
}

#[test]
fn a_disturbed_road_returns_to_equilibrium() {
    let model = motorway();
    let diagram = model.parameters.diagram(0);
    let (demand, mut memory) = (20.0, model.memory());
    // Slower and fuller than the equilibrium, but not so much that a jam would hold itself.
    let mut state = vec![14.0; 20];
    state.extend([22.0; 20]);
    state.push(0.0);
    let mut inputs = Inputs::free(&model);
    inputs.demand[0] = demand;
    let (mut next, mut flows) = (state.clone(), vec![0.0]);
    for _ in 0..600 {
        model.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
        std::mem::swap(&mut state, &mut next);
    }
    for cell in 0..20 {
        let (density, speed) = (state[cell], state[20 + cell] * KM_PER_MIN);
        // 100 minutes are 330 relaxation times: what is left of the start is below rounding.
        assert!((density * speed - demand).abs() < 1e-6, "cell {cell}: {}", density * speed);
        let equilibrium = model.law.equilibrium(&diagram, density);
        assert!((speed - equilibrium).abs() < 1e-6, "cell {cell}");
    }
}

#[test]
fn capacity_is_the_largest_equilibrium_flow() {
    let model = motorway();
    let diagram = model.parameters.diagram(0);
    let flow = |k: f64| k * model.law.equilibrium(&diagram, k);
    let most = (1..1300).map(|k| flow(0.1 * f64::from(k))).fold(0.0, f64::max);
    // The grid of 0.1 veh/km meets the flat top to second order: (0.05/20)² ≈ 1e-5.
    assert!((most - 33.0).abs() < 1e-3, "{most}");
}

/// A link of 17 m would take a thousand sub-steps with the usual anticipation, and takes few with what it allows.
#[test]
fn anticipation_fits_the_shortest_link() {
    let network = crate::test_networks::network(&[(17.0, 1, 8.0), (300.0, 1, 14.0)], &[(0, 1)]);
    let parameters = Parameters::typical(&network).unwrap();
    let step = Seconds::new(10.0);
    let usual = MetanetConstants::default();
    let constants = usual.for_network(&network, &parameters, step);
    assert!(constants.anticipation < usual.anticipation && constants.anticipation > 0.0);
    let sub_steps = |constants| {
        let plan = Discretisation::of_step(step);
        Metanet::new(&network, parameters.clone(), plan, constants).unwrap().sub_steps()
    };
    assert!(sub_steps(constants) <= 21, "{}", sub_steps(constants));
    assert!(sub_steps(usual) > 1000, "{}", sub_steps(usual));
    // 500 m allow all of it: 16 s are more than half a second.
    let long = crate::test_networks::road(500.0, 14.0);
    let parameters = Parameters::typical(&long).unwrap();
    assert_eq!(usual.for_network(&long, &parameters, step), usual);
}

#[test]
fn constants_that_are_unstable_are_refused() {
    let network = road(6000.0, 30.0);
    let parameters = Parameters::typical(&network).unwrap();
    let plan = Discretisation {
        step: Seconds::new(10.0),
        cells: CellRule::Each(20),
        sub_steps: SubSteps::Exactly(1),
    };
    let constants = MetanetConstants::default();
    let error = Metanet::new(&network, parameters.clone(), plan, constants).unwrap_err();
    assert!(matches!(&error, ModelError::Overshoot { link, .. } if link == "L0"), "{error}");
    // 0.3² km² · (133.3 + 40)/(4·1 km²/min·133.3) = 0.0293 min = 1.76 s: six sub-steps.
    let plan = Discretisation { sub_steps: SubSteps::Fewest, ..plan };
    assert_eq!(Metanet::new(&network, parameters.clone(), plan, constants).unwrap().sub_steps(), 6);
    let slow = MetanetConstants { relaxation: Seconds::new(-1.0), ..constants };
    let refusal = |constants| {
        Metanet::new(&network, parameters.clone(), plan, constants).unwrap_err().to_string()
    };
    assert_eq!(refusal(slow), "METANET: relaxation time: found -1, expected more than 0");
    for (constants, expected) in [
        (
            MetanetConstants { kappa: 0.0, ..constants },
            "METANET: kappa: found 0, expected more than 0",
        ),
        (
            MetanetConstants { exponent: f64::NAN, ..constants },
            "METANET: exponent: found NaN, expected more than 0",
        ),
        (
            MetanetConstants { anticipation: -1.0, ..constants },
            "METANET: anticipation: found -1, expected 0 or more",
        ),
    ] {
        assert_eq!(refusal(constants), expected);
    }
    // Without anticipation only relaxation limits a sub-step, and Courant: 10 s · 30 m/s in cells of 300 m is one.
    let blind = MetanetConstants { anticipation: 0.0, ..constants };
    assert_eq!(Metanet::new(&network, parameters.clone(), plan, blind).unwrap().sub_steps(), 1);
}
