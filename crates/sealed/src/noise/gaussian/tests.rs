use super::*;

/// χ² of draws against the exact probabilities; cells of fewer than 20 expected draws are put together.
fn chi_square(drawn: f64, sigma: f64, draws: u32, seed: u64) -> (f64, f64) {
    let [drawn, noise] = [drawn, sigma].map(|sigma| DiscreteGaussian::new(sigma).expect("noise"));
    let mut random = Randomness::insecure_from_seed(seed);
    let reach = (10.0 * noise.sigma()).ceil() as i64 + 10;
    let mut counts = vec![0.0; 2 * reach as usize + 1];
    for _ in 0..draws {
        counts[(drawn.draw(&mut random) + reach) as usize] += 1.0;
    }
    let weight = |k: i64| (-(k as f64).powi(2) / (2.0 * noise.sigma().powi(2))).exp();
    let total: f64 = (-reach..=reach).map(weight).sum();
    let (mut statistic, mut cells) = (0.0, 0.0);
    let (mut expected, mut found) = (0.0, 0.0);
    for k in -reach..=reach {
        expected += f64::from(draws) * weight(k) / total;
        found += counts[(k + reach) as usize];
        if expected >= 20.0 {
            statistic += (found - expected) * (found - expected) / expected;
            cells += 1.0;
            (expected, found) = (0.0, 0.0);
        }
    }
    (statistic, cells - 1.0)
}

#[test]
fn draws_follow_the_exact_probabilities() {
    for (seed, sigma) in [0.3, 0.5, 1.0, 2.7, 13.3, 250.0].into_iter().enumerate() {
        let (statistic, freedom) = chi_square(sigma, sigma, 200_000, seed as u64);
        // χ² with f degrees of freedom has mean f and variance 2f: five deviations.
        let most = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(statistic < most, "σ = {sigma}: {statistic}, {freedom}");
        assert!(freedom >= 2.0);
    }
}

#[test]
fn a_wrong_sigma_would_be_noticed() {
    // 2 % more: the mean of χ² grows by about 200 000·(0.02·√2)² = 160.
    let (statistic, freedom) = chi_square(2.754, 2.7, 200_000, 9);
    assert!(statistic > freedom + 5.0 * (2.0 * freedom).sqrt(), "{statistic}, {freedom}");
}

#[test]
fn exponentials_have_their_probability() {
    let mut random = Randomness::insecure_from_seed(3);
    for (above, below) in [(0, 7), (1, 3), (1, 1), (5, 2)] {
        let hits = (0..100_000).filter(|_| exp_minus(above, below, &mut random)).count() as f64;
        let p = (-(above as f64) / below as f64).exp();
        // Five deviations of a binomial count.
        assert!(
            (hits / 1e5 - p).abs() <= 5.0 * (p * (1.0 - p) / 1e5).sqrt(),
            "{above}/{below}: {hits}"
        );
    }
}

#[test]
fn sigma_must_be_a_sensible_number() {
    for found in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        let error = DiscreteGaussian::new(found).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("standard deviation: found {found} steps of the grid, expected 1/64 to 65536")
        );
    }
    // Both limits are accepted; σ² is the next multiple of 2^-12.
    for sigma in [1.0 / 64.0, 0.3, 1.0, 2.7, 4.23, 1000.1, MOST_SIGMA] {
        let noise = DiscreteGaussian::new(sigma).unwrap();
        let units = noise.sigma() * noise.sigma() * 4096.0;
        // To rounding of the square root: a relative 2^-52.
        assert!((units - units.round()).abs() <= units * 4.5e-16, "{sigma}: {units}");
        let asked = sigma * sigma * 4096.0;
        assert!(units.round() >= asked && units.round() < asked + 1.0, "{sigma}: {units}");
    }
    let noise = DiscreteGaussian::new(MOST_SIGMA).unwrap();
    let mut random = Randomness::insecure_from_seed(4);
    // Twelve deviations.
    assert!((0..100).all(|_| noise.draw(&mut random).abs() < 12 * 65_536));
}
