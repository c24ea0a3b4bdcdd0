//! Conservation, gridlock and derivatives of the region model.

use proptest::prelude::*;
use traffic::{GridPlan, VehPerKmLane};

use super::*;
use crate::finite_differences::{Subject, check_vjp, run_random};
use crate::model::{Inputs, TrafficModel};
use crate::test_networks::{Draw, random_network, random_ratios};

fn diagram(jam: f64) -> FundamentalDiagram {
    FundamentalDiagram::triangular(
        MetresPerSecond::new(8.0),
        MetresPerSecond::new(3.0),
        VehPerKmLane::new(jam),
    )
    .unwrap()
}

/// A grid city: its first links the centre, the others the rim, trips both ways.
fn city(step: f64, jam: f64) -> RegionModel {
    let network = traffic::grid(GridPlan::default()).unwrap();
    let links = network.links().len();
    let region = |name: &str, ending| Region {
        name: name.into(),
        diagram: diagram(jam),
        trip_length: Metres::new(600.0),
        ending,
    };
    let division = Regions {
        regions: vec![region("centre", 0.4), region("rim", 0.3)],
        of_link: (0..links).map(|link| usize::from(link >= links / 3)).collect(),
        crossings: vec![(0, 1, 0.6), (1, 0, 0.7)],
    };
    RegionModel::new(&network, &division, Seconds::new(step)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn vehicles_are_conserved_and_regions_never_overflow(seed: u64) {
        let draw = &mut Draw::new(seed);
        let jam = draw.between(60.0, 150.0);
        let model = city(draw.between(10.0, 300.0), jam);
        run_random(&model, &vec![jam; model.links()], draw)?;
    }

    /// Regions that are grown by themselves make a model of any network that leads out, which loses no vehicle.
    #[test]
    fn grown_regions_make_a_model_of_any_network(seed: u64) {
        let draw = &mut Draw::new(seed);
        let network = random_network(draw);
        let ratios = random_ratios(&network, draw);
        let typical = Parameters::typical(&network).unwrap();
        let diagrams: Vec<_> =
            (0..network.links().len()).map(|n| typical.fundamental_diagram(n).unwrap()).collect();
        let parameters = Parameters::new(&network, &diagrams, &ratios).unwrap();
        let passed: Vec<f64> =
            network.links().iter().map(|_| draw.between(-50.0, 200.0).max(0.0)).collect();
        let division = Regions::grown(&network, &parameters, &passed).unwrap();
        prop_assert!(division.of_link.iter().all(|&region| region < division.regions.len()));
        for (r, region) in division.regions.iter().enumerate() {
            let crossing = division.crossings.iter().filter(|c| c.0 == r).map(|c| c.2);
            // Quotients of a few sums.
            prop_assert!((crossing.sum::<f64>() + region.ending - 1.0).abs() < 1e-12);
        }
        let model = RegionModel::new(&network, &division, Seconds::new(10.0)).unwrap();
        let jam = typical.fundamental_diagram(0).unwrap().jam_density().get();
        run_random(&model, &vec![jam; model.links()], draw)?;
    }

    #[test]
    fn the_vjp_is_that_of_finite_differences(seed: u64) {
        let draw = &mut Draw::new(seed);
        let model = city(draw.between(10.0, 200.0), 120.0);
        let mut state = vec![0.0; model.state_len()];
        let densities = [draw.between(5.0, 110.0), draw.between(5.0, 110.0)];
        let links = model.links();
        let of_links: Vec<f64> =
            (0..links).map(|link| densities[usize::from(link >= links / 3)]).collect();
        model.lift(&of_links, &vec![0.0; links], &mut state).unwrap();
        state[2..].fill(1.0);
        let mut inputs = Inputs::free(&model);
        inputs.demand.iter_mut().for_each(|demand| *demand = draw.between(0.1, 2.0));
        check_vjp(Subject { model: &model, state, inputs }, draw)?;
    }
}

#[test]
fn flow_rises_to_capacity_falls_and_ends_in_gridlock() {
    let model = city(30.0, 120.0);
    let inputs = Inputs::free(&model);
    let mut memory = model.memory();
    let links = model.links();
    let mut flow = |density: f64| {
        let mut state = vec![0.0; model.state_len()];
        model.lift(&vec![density; links], &vec![0.0; links], &mut state).unwrap();
        let (mut next, mut flows) = (state.clone(), vec![0.0; links]);
        let through = model.step(&state, &inputs, &mut memory, &mut next, &mut flows).unwrap();
        (flows[0], through.left, state, next)
    };
    // The first sub-step's flow is the MFD's own; later ones have somewhat other densities.
    let critical = diagram(120.0).critical_density().get();
    // In free flow twice the density is twice the flow, sub-step by sub-step: the model is linear there.
    let (half, quarter) = (flow(0.5 * critical).0, flow(0.25 * critical).0);
    assert!((half / quarter - 2.0).abs() < 1e-9, "{half} {quarter}");
    assert!(half < flow(0.95 * critical).0);
    assert!(flow(0.6 * 120.0).0 > flow(0.8 * 120.0).0);
    // All regions at jam: nothing moves, ever.
    let (standing, left, before, after) = flow(120.0);
    // Lane-kilometres are sums over links, so that density is jam to rounding only.
    assert!(standing < 1e-11 && left < 1e-9, "{standing} {left}");
    assert!(before.iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-9));
}

#[test]
fn what_makes_no_region_is_refused() {
    let network = traffic::grid(GridPlan::default()).unwrap();
    let region = Region {
        name: "all".into(),
        diagram: diagram(120.0),
        trip_length: Metres::new(500.0),
        ending: 1.0,
    };
    let of_link = vec![0; network.links().len()];
    let good = Regions { regions: vec![region], of_link, crossings: vec![] };
    let step = Seconds::new(60.0);
    let whole = RegionModel::new(&network, &good, step).unwrap();
    assert_eq!((whole.links(), whole.graph().places()), (network.links().len(), 1));
    let refused =
        |division: &Regions| RegionModel::new(&network, division, step).unwrap_err().to_string();
    let mut bad = good.clone();
    bad.regions[0].ending = 0.5;
    assert!(refused(&bad).contains("link `all`: turning ratios and exit share add up to 0.5"));
    let mut bad = good.clone();
    bad.of_link[7] = 3;
    assert!(refused(&bad).contains("region: found 3, expected a region that exists"));
    let mut bad = good;
    bad.regions[0].trip_length = Metres::new(-1.0);
    assert!(refused(&bad).contains("trip length"));
}
