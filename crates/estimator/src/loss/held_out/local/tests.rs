//! Shares that are known, found again.

use super::*;

const FIXED: ShareVariation = ShareVariation { drift: 0.0, difference: 0.3, counting: 3.0 };

/// Two entries; link 0 belongs to the first, 1 to the second, 2 to both.
fn origins() -> Origins {
    let of_link = vec![vec![1.0, 0.0], vec![0.0, 1.0], vec![0.5, 0.5]];
    Origins { of_link, entries: 2 }
}

fn look(seen: Vec<(usize, f64, f64)>) -> Look {
    Look { last: Step(0), steps: STEPS_PER_LOOK, seen }
}

/// A loop behind each entry tells both shares, and their geometric mean where both mix.
#[test]
fn entries_are_told_apart_and_carried_on() {
    let origins = origins();
    let mut filter = ShareFilter::new(0.2, &origins, FIXED);
    for _ in 0..200 {
        filter.take(&look(vec![(0, 100.0, 10.0), (1, 100.0, 30.0)]));
    }
    // Without noise the prior alone pulls: with variance 0.09 of a look against its own 0.18, by 0.09/(200·0.18) of
    // a logarithm of 0.7, 0.2 %. The first looks were taken with slopes of twice the share, which is as much again.
    let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
    assert!(close(filter.share(0), 0.1), "{}", filter.share(0));
    assert!(close(filter.share(1), 0.3), "{}", filter.share(1));
    assert!(close(filter.share(2), (0.1f64 * 0.3).sqrt()), "{}", filter.share(2));
}

/// One loop that sees the first entry alone tells the second what both have in common, and no more.
#[test]
fn an_entry_without_a_loop_follows_the_common_share() {
    let origins = origins();
    let mut filter = ShareFilter::new(0.2, &origins, FIXED);
    for _ in 0..200 {
        filter.take(&look(vec![(0, 100.0, 10.0)]));
    }
    // Of the first entry's change the prior says half is common: 0.3² of 0.3² + 0.3².
    let expected = 0.2 * (0.5 * (0.1f64 / 0.2).ln()).exp();
    assert!((filter.share(1) / expected - 1.0).abs() < 0.005, "{} {expected}", filter.share(1));
}

/// A share that changes at once is followed if it may drift; what was passed before is forgotten.
#[test]
fn a_change_is_followed() {
    let origins = Origins { of_link: vec![vec![1.0]], entries: 1 };
    let variation = ShareVariation { drift: 0.15, ..FIXED };
    let mut filter = ShareFilter::new(0.2, &origins, variation);
    for _ in 0..50 {
        filter.take(&look(vec![(0, 100.0, 20.0)]));
    }
    assert!((filter.share(0) - 0.2).abs() < 1e-9, "nothing was surprising");
    for _ in 0..15 {
        filter.take(&look(vec![(0, 100.0, 40.0)]));
    }
    assert!((filter.share(0) / 0.4 - 1.0).abs() < 0.02, "{}", filter.share(0));
}

/// The likelihood prefers no drift for a share that stays, and drift for one that does not.
#[test]
fn likelihood_tells_whether_a_share_drifts() {
    let origins = Origins { of_link: vec![vec![1.0]], entries: 1 };
    // Passages of 100 vehicles with share p, off by about a standard deviation of the binomial, in turns.
    let looks = |share: fn(usize) -> f64| -> Vec<Look> {
        let of = |at: usize| {
            let p = share(at);
            let off =
                if at.is_multiple_of(2) { 1.0 } else { -1.0 } * (100.0 * p * (1.0 - p)).sqrt();
            look(vec![(0, 100.0, 100.0 * p + off)])
        };
        (0..200).map(of).collect()
    };
    let likelihood = |looks: &[Look], drift| -> f64 {
        let mut filter = ShareFilter::new(0.2, &origins, ShareVariation { drift, ..FIXED });
        looks.iter().map(|look| filter.take(look)).sum()
    };
    let constant = looks(|_| 0.2);
    assert!(likelihood(&constant, 0.0) > likelihood(&constant, 0.05));
    let hourly = looks(|at| if (at / 30).is_multiple_of(2) { 0.15 } else { 0.3 });
    assert!(likelihood(&hourly, 0.05) > likelihood(&hourly, 0.0));
}

/// On a chain a → b with an entry c into b: what reaches b came by a and c as they turned.
#[test]
fn visits_follow_turns() {
    let network = traffic::corridor().expect("the built-in corridor");
    let ratios = vec![0.5; network.turns().len()];
    let entry = network.entries().next().expect("an entry");
    let found = visits(&network, &ratios, entry, 8.0);
    assert_eq!(found[entry.index()], 8.0);
    let turn = network.outgoing(entry)[0];
    let next = network.turns()[turn.index()].to;
    assert_eq!(found[next.index()], 4.0, "half of them take each turn");
}
