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
        let mut guest = TurnCounts::none(&network);
        guest.turned(&network, LinkId(1), LinkId(3), 3.0).unwrap();
        guest.left(&network, LinkId(2), 5.0).unwrap();
        counts.merge(&guest).unwrap();
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
    assert!(counts.turned(&network, LinkId(0), LinkId(2), -1.0).is_err());
    assert!(counts.turned(&network, LinkId(9), LinkId(2), 1.0).is_err());
    assert!(counts.left(&network, LinkId(9), 1.0).is_err());
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
    assert!(ratios_from_flows(&network, &[0.0; 160], &[0.0; 160]).is_err());
}

#[test]
fn the_projection_is_onto_shares() {
    let mut shares = [0.5, 0.8, -0.4];
    onto_simplex(&mut shares);
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    for (found, expected) in shares.iter().zip([0.35, 0.65, 0.0]) {
        assert!((found - expected).abs() < 1e-15);
    }
}
