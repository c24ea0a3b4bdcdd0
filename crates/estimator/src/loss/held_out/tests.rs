//! The algebra of folds, and labels without bias on a population whose totals are known.

use proptest::prelude::*;
use sensing::draw;

use super::*;

proptest! {
    /// A fold that holds exactly its share of the unseen tells the total exactly.
    #[test]
    fn the_expected_label_is_the_total(
        fleet in 0.01f64..=1.0,
        folds in 2usize..=32,
        total in 0.0f64..1e4,
        part in 0.0f64..=1.0,
    ) {
        let rates = FoldRates::new(fleet, folds)?;
        let seen = part * total;
        let expected = (total - seen) * rates.held_out() / (1.0 - rates.seen());
        // Rounding of a few operations, each relative to the total.
        prop_assert!((rates.label(seen, expected) - total).abs() <= 1e-11 * total);
    }

    /// Learning the total or the unseen part is the same: estimates of one are those of the other.
    #[test]
    fn totals_and_unseen_parts_lead_to_the_same_estimate(
        fleet in 0.01f64..=1.0,
        answers in prop::collection::vec((0.0f64..500.0, 0.0f64..500.0), 2..8),
        whole in 0.0f64..500.0,
    ) {
        let rates = FoldRates::new(fleet, answers.len())?;
        let unseen = answers.iter().map(|(seen, more)| {
            let total = seen + more;
            (total - seen) / (1.0 - rates.seen())
        });
        let unseen: Vec<f64> = unseen.collect();
        let mean = answers.iter().map(|(_, more)| more / (1.0 - rates.seen())).sum::<f64>()
            / answers.len() as f64;
        let expected = whole + (1.0 - fleet) * mean;
        let found = rates.estimate(whole, &unseen);
        // As above; the largest term is 500 over 1 − s ≥ 1/8.
        prop_assert!((found - expected).abs() <= 1e-9, "{found} {expected}");
    }

    /// Totals that are estimated too low from one choice of folds and too high from another by as much
    /// lead to the estimate of those that are right: nothing is cut off before the mean.
    #[test]
    fn errors_of_several_choices_cancel(
        fleet in 0.01f64..=1.0,
        unseen in 0.0f64..50.0,
        error in 0.0f64..500.0,
        whole in 0.0f64..500.0,
    ) {
        let rates = FoldRates::new(fleet, 2)?;
        let (seen, total) = (whole / 2.0, whole / 2.0 + unseen);
        let of = |total: f64| rates.unseen_of(total, seen);
        let right = rates.estimate(whole, &[of(total), of(total)]);
        let found = rates.estimate(whole, &[of(total - error), of(total + error)]);
        // Rounding of a few operations on numbers below 1,500 over 1 − s ≥ 1/2.
        prop_assert!((found - right).abs() <= 1e-9, "{found} {right}");
        // In the mean too there is no less than nothing.
        prop_assert!(rates.estimate(whole, &[of(total - error), of(seen - error)]) >= whole);
    }

    /// Labels of total and of unseen part differ by what is seen and by a factor, and so do their
    /// variances; with vehicles that all count 1 it is the binomial one.
    #[test]
    fn variances_belong_together(fleet in 0.01f64..1.0, folds in 2usize..=32, unseen in 1u32..1000) {
        let rates = FoldRates::new(fleet, folds)?;
        let rest = 1.0 - rates.seen();
        let squares = f64::from(unseen) / rest;
        let share = rates.held_out() / rest;
        let binomial = f64::from(unseen) * (1.0 - share) / share;
        let found = rates.label_variance(squares);
        prop_assert!((found - binomial).abs() <= 1e-9 * binomial, "{found} {binomial}");
        let scaled = rest * rest * rates.unseen_label_variance(squares);
        prop_assert!((scaled - found).abs() <= 1e-9 * found, "{scaled} {found}");
    }
}

/// A fleet of everyone leaves nothing to guess, and its labels have no noise.
#[test]
fn a_fleet_of_everyone_needs_no_model() -> Result<(), HeldOutError> {
    let rates = FoldRates::new(1.0, 4)?;
    assert_eq!(rates.estimate(50.0, &[1e3, 0.0, 7.0, -1e3]), 50.0);
    assert_eq!(rates.label(30.0, 20.0), 50.0);
    assert_eq!(rates.label_variance(9.0), 0.0);
    Ok(())
}

#[test]
fn impossible_rates_are_refused() {
    assert_eq!(FoldRates::new(0.0, 4), Err(HeldOutError::Rate(0.0)));
    assert_eq!(FoldRates::new(1.01, 4), Err(HeldOutError::Rate(1.01)));
    assert!(matches!(FoldRates::new(f64::NAN, 4), Err(HeldOutError::Rate(_))));
    assert_eq!(FoldRates::new(0.5, 1), Err(HeldOutError::Folds(1)));
}

/// Vehicles in a box, with dwell times that differ.
const DWELLS: [f64; 24] = [
    10.0, 10.0, 10.0, 9.5, 9.0, 8.0, 7.5, 7.0, 6.0, 5.5, 5.0, 4.5, 4.0, 3.5, 3.0, 2.5, 2.0, 1.5,
    1.0, 0.9, 0.7, 0.5, 0.3, 0.1,
];
const TRIALS: usize = 40_000;

struct Sums {
    error: f64,
    square: f64,
    /// Of error times what is seen, from its expectation.
    with_seen: f64,
    with_seen_square: f64,
}

/// Errors of a label over many draws of fleet and folds.
fn label_errors(rates: &FoldRates, label: impl Fn(f64, f64) -> f64) -> Sums {
    let total: f64 = DWELLS.iter().sum();
    let mut sums = Sums { error: 0.0, square: 0.0, with_seen: 0.0, with_seen_square: 0.0 };
    for trial in 0..TRIALS {
        let (mut seen, mut held_out) = (0.0, 0.0);
        for (vehicle, dwell) in DWELLS.iter().enumerate() {
            let draw = draw(3, &format!("{trial}/{vehicle}"));
            if draw < rates.seen() {
                seen += dwell;
            } else if draw < rates.fleet() {
                held_out += dwell;
            }
        }
        let error = label(seen, held_out) - total;
        let product = error * (seen - rates.seen() * total);
        sums.error += error / TRIALS as f64;
        sums.square += error * error / TRIALS as f64;
        sums.with_seen += product / TRIALS as f64;
        sums.with_seen_square += product * product / TRIALS as f64;
    }
    sums
}

/// Labels have no bias, have none either given what is seen, and vary as they should.
#[test]
fn labels_have_no_bias_whatever_is_seen() -> Result<(), HeldOutError> {
    let squares: f64 = DWELLS.iter().map(|dwell| dwell * dwell).sum();
    for (fleet, folds) in [(0.2, 4), (0.8, 4), (0.5, 2), (0.6, 8)] {
        let rates = FoldRates::new(fleet, folds)?;
        let found = label_errors(&rates, |seen, held_out| rates.label(seen, held_out));
        let standard_error = (found.square / TRIALS as f64).sqrt();
        assert!(found.error.abs() < 4.0 * standard_error, "{fleet}: {}", found.error);
        let standard_error = (found.with_seen_square / TRIALS as f64).sqrt();
        assert!(found.with_seen.abs() < 4.0 * standard_error, "{fleet}: {}", found.with_seen);
        // The error of a mean of squares: √(κ−1)/√n with κ at most 20 (few vehicles held out), 4
        // of them: 9 %.
        let ratio = found.square / rates.label_variance(squares);
        assert!((ratio - 1.0).abs() < 0.09, "{fleet}, {folds}: {ratio}");
    }
    Ok(())
}

/// Dividing by the fold's own rate, as if it had been drawn from all vehicles, errs the more the
/// more is seen: the reason for the label's form.
#[test]
fn a_scaled_up_fold_is_no_label_of_the_total() -> Result<(), HeldOutError> {
    let rates = FoldRates::new(0.8, 4)?;
    let found = label_errors(&rates, |_, held_out| rates.unseen_label(held_out));
    let standard_error = (found.with_seen_square / TRIALS as f64).sqrt();
    assert!(found.with_seen < -20.0 * standard_error, "{}", found.with_seen);
    Ok(())
}
