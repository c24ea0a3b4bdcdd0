//! Ratios are found again, with errors that cover the truth.

use super::*;
use crate::test_networks::{Draw, network, random_network, random_ratios};

/// L0 and L1 lead into L2 and L3.
fn crossing() -> Network {
    network(&[(100.0, 1, 10.0); 4], &[(0, 2), (0, 3), (1, 2), (1, 3)])
}

#[test]
fn counts_give_ratios_and_their_errors() {
    let network = crossing();
    let draw = &mut Draw::new(2);
    let mut within = 0;
    for _ in 0..100 {
        let mut counts = TurnCounts::none(&network);
        for _ in 0..400 {
            let to = if draw.next() < 0.7 { LinkId(2) } else { LinkId(3) };
            counts.turned(&network, LinkId(0), to, 1.0).unwrap();
        }
        counts.turned(&network, LinkId(1), LinkId(3), 3.0).unwrap();
        counts.left(&network, LinkId(2), 5.0).unwrap();
        let found = counts.ratios(&network, 2.0, 10.0).unwrap();
        within += usize::from((found.ratios[0] - 0.7).abs() < 2.0 * found.errors[0]);
        assert_eq!(found.sources[0], RatioSource::Counts);
        // Three vehicles are too few: half and half, by lanes.
        assert_eq!(found.sources[1], RatioSource::Prior);
        assert_eq!(found.ratios[2..4], [0.5, 0.5]);
        crate::RoadGraph::of(&network).check_ratios(&found.ratios).unwrap();
    }
    // 95 % nominal: 95 of 100, binomial deviation 2.2.
    assert!((87..=100).contains(&within), "{within}");
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let network = crossing();
    let mut counts = TurnCounts::none(&network);
    let error = counts.turned(&network, LinkId(2), LinkId(0), 1.0).unwrap_err();
    assert!(error.to_string().contains("no such turn"), "{error}");
    for vehicles in [-1.0, f64::NAN, f64::INFINITY] {
        let error =
            counts.turned(&network, LinkId(0), LinkId(2), vehicles).unwrap_err().to_string();
        let expected = format!(
            "calibration: count of movement 0: found {vehicles}, expected 0 or more vehicles"
        );
        assert_eq!(error, expected);
    }
    let error = counts.turned(&network, LinkId(9), LinkId(2), 1.0).unwrap_err().to_string();
    let expected = "calibration: turn from link number 9 to 2: the network has no such turn";
    assert_eq!(error, expected);
    let error = counts.left(&network, LinkId(9), 1.0).unwrap_err().to_string();
    // Four turns, then the exits.
    assert_eq!(error, "calibration: count of movement 13: the network has no such movement");
    for prior in [0.0, -1.0, f64::NAN] {
        let error = counts.ratios(&network, prior, 1.0).unwrap_err().to_string();
        let expected =
            format!("calibration: vehicles of the prior: found {prior}, expected more than 0");
        assert_eq!(error, expected);
    }
    assert_eq!(counts, TurnCounts::none(&network), "nothing of that was counted");
}

/// p = (c + a·p₀)/(Σc + a), error √(p(1 − p)/(Σc + a + 1)): 6 and 2 of 8, a prior of half and half for 4 vehicles.
#[test]
fn ratios_have_their_closed_form() {
    let network = crossing();
    let mut counts = TurnCounts::none(&network);
    counts.turned(&network, LinkId(0), LinkId(2), 6.0).unwrap();
    counts.turned(&network, LinkId(0), LinkId(3), 2.0).unwrap();
    counts.left(&network, LinkId(2), 3.0).unwrap();
    let found = counts.ratios(&network, 4.0, 8.0).unwrap();
    assert_eq!(found.ratios[..2], [8.0 / 12.0, 4.0 / 12.0]);
    let error = (8.0 / 12.0 * 4.0 / 12.0 / 13.0f64).sqrt();
    assert!((found.errors[0] - error).abs() < 1e-15 && (found.errors[1] - error).abs() < 1e-15);
    // Nobody left at L0, nor can: a prior of nothing stays nothing.
    assert_eq!((found.ratios[4], found.errors[4]), (0.0, 0.0));
    // An exit is all that L2 has: sure, with few vehicles as with many.
    assert_eq!((found.ratios[6], found.errors[6]), (1.0, 0.0));
    let prior = RatioSource::Prior;
    assert_eq!(found.sources, [RatioSource::Counts, prior, prior, prior]);
    // One vehicle more is needed than was seen: half and half, with the error of the prior's four.
    let found = counts.ratios(&network, 4.0, 9.0).unwrap();
    assert_eq!(found.ratios[..2], [0.5, 0.5]);
    assert!((found.errors[0] - (0.25 / 5.0f64).sqrt()).abs() < 1e-15);
}

#[test]
fn flows_give_ratios() {
    for seed in 1..=10 {
        let draw = &mut Draw::new(seed);
        let network = random_network(draw);
        let turns = network.turns().len();
        let mut truth = random_ratios(&network, draw);
        // Flows alone do not tell exits from turns: none but at ends.
        for link in network.link_ids().filter(|&link| !network.outgoing(link).is_empty()) {
            let exit = truth[turns + link.index()];
            truth[turns + link.index()] = 0.0;
            for turn in network.outgoing(link) {
                truth[turn.index()] /= 1.0 - exit;
            }
        }
        let links = network.links().len();
        let mut inflows = vec![0.0; 400 * links];
        let mut outflows = vec![0.0; 400 * links];
        for t in 0..400 {
            for link in network.link_ids() {
                outflows[t * links + link.index()] = draw.between(0.0, 20.0);
            }
            for (e, turn) in network.turns().iter().enumerate() {
                let flow = truth[e] * outflows[t * links + turn.from.index()];
                inflows[t * links + turn.to.index()] += flow;
            }
            for link in 0..links {
                let noisy: f64 = inflows[t * links + link] + draw.normal();
                inflows[t * links + link] = noisy.max(0.0);
            }
        }
        let found = ratios_from_flows(&network, &inflows, &outflows).unwrap();
        for (e, &truth) in truth[..turns].iter().enumerate() {
            // Four standard errors; flows cut at zero and shares at the edge add a little.
            let (share, error) = (found.ratios[e], found.errors[e]);
            assert!((share - truth).abs() < 4.0 * error + 0.02, "{e}: {share} {truth}");
            // Noise of 1 against flows of deviation 6 over 400 steps: 1/(6·20) ≈ 0.008, some more
            // where flows are alike.
            assert!(error < 0.05, "{e}: {error}");
        }
    }
}

#[test]
fn too_few_steps_are_refused() {
    let network = crossing();
    let error = ratios_from_flows(&network, &[1.0; 8], &[1.0; 8]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "calibration: steps with flows of all links: found 2, expected at least 20"
    );
    let refusal = |inflows: &[f64], outflows: &[f64]| {
        ratios_from_flows(&network, inflows, outflows).unwrap_err().to_string()
    };
    let none = "calibration: turning ratios: no flow in the data";
    assert_eq!(refusal(&[0.0; 160], &[0.0; 160]), none);
    // Of different lengths, or with half a step: so many whole steps, and no more.
    let unequal = "calibration: steps with flows of all links: found 40, expected at least 20";
    assert_eq!(refusal(&[1.0; 160], &[1.0; 156]), unequal);
    assert_eq!(refusal(&[1.0; 161], &[1.0; 161]), unequal);
    let mut bad = vec![1.0; 160];
    bad[7] = -2.0;
    let negative = "calibration: flows: found -2, expected 0 or more";
    assert_eq!(refusal(&[1.0; 160], &bad), negative);
    assert_eq!(refusal(&bad, &[1.0; 160]), negative);
}

#[test]
fn the_projection_is_onto_shares() {
    let mut shares = [0.5, 0.8, -0.4];
    onto_simplex(&mut shares);
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    for (found, expected) in shares.iter().zip([0.35, 0.65, 0.0]) {
        assert!((found - expected).abs() < 1e-15);
    }
    // Shares stay as they are; one that is far ahead takes all; equal ones share.
    for (given, expected) in [
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([9.0, 0.0, 1.0], [1.0, 0.0, 0.0]),
        ([-7.0, -7.0, -7.0], [1.0 / 3.0; 3]),
    ] {
        let mut shares = given;
        onto_simplex(&mut shares);
        for (found, expected) in shares.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{given:?}: {shares:?}");
        }
    }
    let mut one = [42.0];
    onto_simplex(&mut one);
    assert_eq!(one, [1.0]);
    onto_simplex(&mut []);
}
