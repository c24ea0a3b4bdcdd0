use super::*;
use crate::noise::DiscreteGaussian;

/// δ at ε of discrete Gaussian noise on one whole number that changes by `change`: by summation, exact but for
/// tails of less than 1e-30.
fn discrete_delta(epsilon: f64, sigma: f64, change: u32) -> Result<f64, NoiseError> {
    check_epsilon(epsilon)?;
    DiscreteGaussian::new(sigma)?;
    let change = f64::from(change);
    let reach = (12.0 * sigma + change).ceil() as i64 + 40;
    let weight = |k: f64| (-k * k / (2.0 * sigma * sigma)).exp();
    let total: f64 = (-reach..=reach).map(|k| weight(k as f64)).sum();
    // Σ max(P(k) − e^ε·P(k + change), 0), where P(k) > e^ε·P(k + change) means a large enough k.
    let shifted = |k: f64| (epsilon - (k + change) * (k + change) / (2.0 * sigma * sigma)).exp();
    let excess = |k: f64| weight(k) - shifted(k);
    let sum: f64 = (-reach..=reach).map(|k| excess(k as f64).max(0.0)).sum();
    Ok(sum / total)
}

#[test]
fn ratios_are_those_of_the_literature() {
    // The analytic Gaussian mechanism at δ = 1e-6, to the two decimals that are usually printed.
    for (epsilon, ratio) in [(1.0, 4.23), (2.0, 2.23), (4.0, 1.19), (8.0, 0.65)] {
        let found = continuous_ratio(Budget::new(epsilon, 1e-6).unwrap());
        assert!((found - ratio).abs() < 0.006, "ε = {epsilon}: {found}");
        // There and back.
        assert!((least_epsilon(found, 1e-6).unwrap() - epsilon).abs() < 1e-6);
        assert!(curve(epsilon, found) <= 1e-6 && curve(epsilon, found * 0.999) > 1e-6);
    }
}

#[test]
fn delta_is_the_integral_of_the_excess() {
    // δ(ε) = ∫ max(φ(x) − e^ε·φ(x + Δ), 0) dx, by the midpoint rule on 10^5 pieces of ±12 σ: error below 1e-9.
    for (epsilon, ratio) in [(0.5, 1.0), (1.0, 2.0), (3.0, 0.5), (0.01, 5.0)] {
        let (count, reach) = (100_000, 12.0);
        let width = 2.0 * reach / f64::from(count);
        let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let sum: f64 = (0..count)
            .map(|i| {
                let x = -reach + (f64::from(i) + 0.5) * width;
                (density(x) - f64::exp(epsilon) * density(x + 1.0 / ratio)).max(0.0) * width
            })
            .sum();
        let found = delta(epsilon, ratio).unwrap();
        assert!((sum - found).abs() < 1e-8, "{sum} {found}");
    }
}

#[test]
fn discrete_noise_is_nearly_continuous_and_sometimes_worse() {
    let mut worse = 0;
    for (epsilon, sigma, change) in [
        (1.0, 16.0, 4),
        (4.0, 16.0, 14),
        (2.0, 64.0, 29),
        (1.0, 4.0, 1),
        (1.0, 4.23, 1),
        (4.0, 4.76, 4),
        (8.0, 4.0, 6),
    ] {
        let exact = discrete_delta(epsilon, sigma, change).unwrap();
        let continuous = delta(epsilon, sigma / f64::from(change)).unwrap();
        // As the module says, relative to a δ of 4e-8 to 3e-6; summation itself is good to 1e-13.
        assert!((exact / continuous - 1.0).abs() < 0.05, "{exact} {continuous}");
        worse += usize::from(exact > continuous);
    }
    // The curve is no bound: (1, 4, 1) is 4.5 % above it.
    assert!(worse >= 3, "{worse}");
}

#[test]
fn the_curve_of_continuous_noise_promises_too_much() {
    // 1e-6 became 1.03e-6.
    let curve = continuous_ratio(Budget::new(1.0, 1e-6).unwrap());
    assert!(discrete_delta(1.0, curve, 1).unwrap() > 1.01e-6);
}

#[test]
fn the_concentrated_bound_is_never_below_the_curve() {
    for rho in [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0] {
        let ratio = f64::sqrt(0.5 / rho);
        for mass in [1e-9, 1e-6, 1e-4, 1e-2, 0.05] {
            let bound = concentrated_epsilon(ratio, mass).unwrap();
            let exact = least_epsilon(ratio, mass).unwrap();
            // 1e-9 is what the curve's inverse is good to.
            assert!(bound >= exact - 1e-9, "ρ = {rho}, δ = {mass}: {bound} < {exact}");
        }
    }
    // By an independent search over 200 000 orders, to the four decimals printed.
    for (ratio, expected) in [(4.23, 1.0764), (1.19, 4.2934)] {
        let found = concentrated_epsilon(ratio, 1e-6).unwrap();
        assert!((found - expected).abs() < 6e-5, "{ratio}: {found}");
    }
}

#[test]
fn the_ratio_to_draw_by_is_the_concentrated_one() {
    // The same independent search, to the two decimals printed.
    for (epsilon, ratio) in [(1.0, 4.53), (2.0, 2.38), (4.0, 1.27), (8.0, 0.69)] {
        let budget = Budget::new(epsilon, 1e-6).unwrap();
        let found = least_ratio(budget);
        assert!((found - ratio).abs() < 0.006, "ε = {epsilon}: {found}");
        assert!(found > continuous_ratio(budget));
        assert!(concentrated_epsilon(found, 1e-6).unwrap() <= epsilon);
    }
}

#[test]
fn numbers_without_a_meaning_are_refused() {
    let said = |result: Result<f64, NoiseError>| result.unwrap_err().to_string();
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        let ratio = format!("σ/Δ: found {bad}, expected 1e-6 to 1e12");
        assert_eq!(said(delta(1.0, bad)), ratio);
        assert_eq!(said(least_epsilon(bad, 1e-6)), ratio);
        assert_eq!(said(concentrated_epsilon(bad, 1e-6)), ratio);
        let mass = format!("δ: found {bad}, expected more than 0 and less than 1");
        assert_eq!(said(least_epsilon(1.0, bad)), mass);
        assert_eq!(said(concentrated_epsilon(1.0, bad)), mass);
        let sigma =
            format!("standard deviation: found {bad} steps of the grid, expected 1/64 to 65536");
        assert_eq!(said(discrete_delta(1.0, bad, 1)), sigma);
    }
    for bad in [f64::NAN, -1.0, 1000.1] {
        let epsilon = format!("ε: found {bad}, expected 0 to 1000");
        assert_eq!(said(delta(bad, 1.0)), epsilon);
        assert_eq!(said(discrete_delta(bad, 4.0, 1)), epsilon);
    }
}

#[test]
fn without_epsilon_delta_is_the_distance_of_two_normal_curves() {
    // At ε = 0, δ is the total variation of N(0, 1) and N(1/r, 1): 2Φ(1/2r) − 1 = erf(1/(2√2·r)).
    for ratio in [0.3, 1.0, 2.0, 10.0, 1e6] {
        let expected = libm::erf(0.5 / ratio / std::f64::consts::SQRT_2);
        assert!((delta(0.0, ratio).unwrap() - expected).abs() < 1e-15, "{ratio}");
    }
    // No change, no loss: discrete noise that is not moved has δ = 0 at any ε.
    assert_eq!(discrete_delta(0.0, 4.0, 0).unwrap(), 0.0);
    // δ falls in ε and in the noise.
    let steps = [0.0, 0.1, 1.0, 3.0, 10.0];
    for pair in steps.windows(2) {
        assert!(delta(pair[0], 1.0).unwrap() > delta(pair[1], 1.0).unwrap());
        assert!(delta(1.0, pair[0] + 0.5).unwrap() > delta(1.0, pair[1] + 0.5).unwrap());
    }
}

#[test]
fn extreme_budgets_have_a_ratio() {
    for (epsilon, mass) in [(1e-3, 1e-12), (1e3, 0.5), (50.0, 1e-300), (1e-3, 0.999)] {
        let budget = Budget::new(epsilon, mass).unwrap();
        let (ratio, continuous) = (least_ratio(budget), continuous_ratio(budget));
        assert!(ratio < 1e11 && curve(epsilon, ratio) <= mass, "{epsilon} {mass}: {ratio}");
        assert!(curve(epsilon, continuous) <= mass, "{epsilon} {mass}: {continuous}");
    }
    for (epsilon, mass) in
        [(0.0, 1e-6), (1000.1, 1e-6), (1.0, 0.0), (1.0, 1.0), (f64::NAN, 1e-6), (1.0, f64::NAN)]
    {
        let error = Budget::new(epsilon, mass).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "privacy budget: found ε = {epsilon}, δ = {mass}, expected ε from 0.001 to 1000 and δ in (0, 1)"
            )
        );
    }
    let budget = Budget::new(1000.0, 0.5).unwrap();
    assert_eq!((budget.epsilon, budget.delta()), (1000.0, 0.5));
}

#[test]
fn tails_join_smoothly() {
    // Both branches of ln Φ(−x) at 30, where Φ(−30) = 4.9e-198 is still a number.
    let direct = (0.5 * libm::erfc(30.0 / std::f64::consts::SQRT_2)).ln();
    assert!((log_normal_tail(30.0) - direct).abs() < 1e-6);
}
