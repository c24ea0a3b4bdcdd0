use super::*;

#[test]
fn ratios_are_those_of_the_literature() {
    // The analytic Gaussian mechanism at δ = 1e-6, to the two decimals that are usually printed.
    for (epsilon, ratio) in [(1.0, 4.23), (2.0, 2.23), (4.0, 1.19), (8.0, 0.65)] {
        let found = least_ratio(Budget::new(epsilon, 1e-6).unwrap());
        assert!((found - ratio).abs() < 0.006, "ε = {epsilon}: {found}");
        // There and back.
        assert!((least_epsilon(found, 1e-6) - epsilon).abs() < 1e-6);
        assert!(delta(epsilon, found) <= 1e-6 && delta(epsilon, found * 0.999) > 1e-6);
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
        assert!((sum - delta(epsilon, ratio)).abs() < 1e-8, "{sum} {}", delta(epsilon, ratio));
    }
}

#[test]
fn discrete_noise_is_nearly_continuous() {
    for (epsilon, sigma, change) in
        [(1.0, 16.0, 4), (4.0, 16.0, 14), (2.0, 64.0, 29), (1.0, 4.0, 1)]
    {
        let exact = discrete_delta(epsilon, sigma, change);
        let continuous = delta(epsilon, sigma / f64::from(change));
        assert!(exact > 0.0 && (exact - continuous).abs() < 1e-3, "{exact} {continuous}");
    }
}

#[test]
fn the_concentrated_bound_is_wider_but_not_by_much() {
    for epsilon in [1.0, 2.0, 4.0, 8.0] {
        let ratio = least_ratio(Budget::new(epsilon, 1e-6).unwrap());
        let bound = concentrated_epsilon(ratio, 1e-6);
        assert!(bound > epsilon && bound < 1.15 * epsilon, "{epsilon}: {bound}");
    }
}

#[test]
fn extreme_budgets_have_a_ratio() {
    for (epsilon, mass) in [(1e-3, 1e-12), (1e3, 0.5), (50.0, 1e-300), (1e-3, 0.999)] {
        let ratio = least_ratio(Budget::new(epsilon, mass).unwrap());
        assert!(ratio.is_finite() && delta(epsilon, ratio) <= mass, "{epsilon} {mass}: {ratio}");
    }
    assert!(Budget::new(0.0, 1e-6).is_err() && Budget::new(1.0, 0.0).is_err());
    assert!(Budget::new(f64::NAN, 1e-6).is_err() && Budget::new(1.0, f64::NAN).is_err());
}

#[test]
fn tails_join_smoothly() {
    // Both branches of ln Φ(−x) at 30, where Φ(−30) = 4.9e-198 is still a number.
    let direct = (0.5 * libm::erfc(30.0 / std::f64::consts::SQRT_2)).ln();
    assert!((log_normal_tail(30.0) - direct).abs() < 1e-6);
}
