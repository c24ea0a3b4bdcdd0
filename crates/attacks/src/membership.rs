//! Was one vehicle among the data? What an adversary who knows everything else can tell from the noised data.
//!
//! Differential privacy promises that for every test TPR ≤ e^ε·FPR + δ, and TNR ≤ e^ε·FNR + δ. So a test that does better
//! than that for some ε shows that ε to be wrong: rates that were counted give a lower bound of ε, with a confidence by
//! Clopper and Pearson's limits. The test is the best there is for Gaussian noise: how far the data lie in the
//! direction of the vehicle's own contribution.

use serde::Serialize;

/// What counting gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Membership {
    /// Trials with the vehicle, and as many without it, that were counted; half of all.
    pub trials: usize,
    /// Share of trials with the vehicle in which it was said to be there.
    pub true_positives: f64,
    /// Share of trials without it in which it was.
    pub false_positives: f64,
    /// ε is at least this, with the confidence stated.
    pub epsilon_at_least: f64,
    /// Probability that the bound is right.
    pub confidence: f64,
}

/// The side of the threshold that is counted.
#[derive(Clone, Copy)]
enum Side {
    Above,
    Below,
}

/// A lower bound of ε from scores of trials with and without the vehicle. The first half chooses the
/// threshold, the second half is counted.
pub fn lower_bound(with: &[f64], without: &[f64], delta: f64, confidence: f64) -> Membership {
    // As many of either sort: rates are shares of the same number of trials.
    let trials = with.len().min(without.len());
    let (with, without) = (&with[..trials], &without[..trials]);
    let (choose_with, count_with) = with.split_at(with.len() / 2);
    let (choose_without, count_without) = without.split_at(without.len() / 2);
    let mut thresholds: Vec<f64> = choose_with.iter().chain(choose_without).copied().collect();
    thresholds.sort_by(f64::total_cmp);
    // A hundred thresholds are as good as all.
    let stride = (thresholds.len() / 100).max(1);
    let mut best = (f64::NEG_INFINITY, 0.0, Side::Above);
    for &threshold in thresholds.iter().step_by(stride).chain(thresholds.last()) {
        for side in [Side::Above, Side::Below] {
            let counted = Counted::of(choose_with, choose_without, threshold, side);
            let bound = counted.epsilon(delta, confidence);
            if bound > best.0 {
                best = (bound, threshold, side);
            }
        }
    }
    let (_, threshold, side) = best;
    let counted = Counted::of(count_with, count_without, threshold, side);
    let positives = Counted::of(count_with, count_without, threshold, Side::Above);
    Membership {
        trials: count_with.len(),
        true_positives: positives.share(positives.hits),
        false_positives: positives.share(positives.misses),
        epsilon_at_least: counted.epsilon(delta, confidence).max(0.0),
        confidence,
    }
}

/// How often a test said yes where it should (`hits`) and where it should not (`misses`).
struct Counted {
    hits: usize,
    misses: usize,
    trials: usize,
}

impl Counted {
    fn of(with: &[f64], without: &[f64], threshold: f64, side: Side) -> Self {
        let above = |scores: &[f64]| scores.iter().filter(|score| **score >= threshold).count();
        let (trials, there, not) = (with.len().min(without.len()), above(with), above(without));
        match side {
            Side::Above => Self { hits: there, misses: not, trials },
            Side::Below => Self { hits: without.len() - not, misses: with.len() - there, trials },
        }
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / self.trials.max(1) as f64
    }

    /// ln((hits − δ)/misses), each at the unlucky end of its interval; the doubt is divided between both.
    fn epsilon(&self, delta: f64, confidence: f64) -> f64 {
        let doubt = (1.0 - confidence) / 2.0;
        let hits = at_least(self.hits, self.trials, doubt);
        let misses = at_most(self.misses, self.trials, doubt);
        if hits > delta { ((hits - delta) / misses).ln() } else { f64::NEG_INFINITY }
    }
}

/// The smallest probability that so many hits of so many trials leave possible, but for a doubt (Clopper and Pearson).
pub(crate) fn at_least(hits: usize, trials: usize, doubt: f64) -> f64 {
    if hits == 0 {
        return 0.0;
    }
    // P(X ≥ hits) grows with p, and is the doubt at the limit.
    bisect(|p| 1.0 - below(hits, trials, p) < doubt)
}

/// The largest probability, likewise.
pub(crate) fn at_most(hits: usize, trials: usize, doubt: f64) -> f64 {
    if hits >= trials {
        return 1.0;
    }
    bisect(|p| below(hits + 1, trials, p) > doubt)
}

/// Where a condition that holds for small p ends.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// P(X < count) of a binomial count.
fn below(count: usize, trials: usize, p: f64) -> f64 {
    let n = trials as f64;
    let choose = |k: f64| libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let term =
        |k: usize| (choose(k as f64) + k as f64 * p.ln() + (n - k as f64) * (-p).ln_1p()).exp();
    // The tail with fewer terms that matter.
    if count as f64 > n * p {
        1.0 - sum_until_small((count..=trials).map(term))
    } else {
        sum_until_small((0..count).rev().map(term))
    }
}

/// Terms beyond the mode fall faster and faster.
fn sum_until_small(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sum = 0.0;
    for term in terms {
        sum += term;
        if term < 1e-18 * sum || (sum == 0.0 && term == 0.0) {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use sealed::Randomness;
    use sealed::noise::DiscreteGaussian;
    use sealed::noise::accounting::{concentrated_epsilon, least_epsilon};

    use super::*;

    #[test]
    fn limits_are_those_of_clopper_and_pearson() {
        // 0 of n: 1 − doubt^(1/n); n of n: doubt^(1/n), exactly.
        assert!((at_most(0, 100, 0.025) - (1.0 - 0.025f64.powf(0.01))).abs() < 1e-12);
        assert!((at_least(100, 100, 0.025) - 0.025f64.powf(0.01)).abs() < 1e-12);
        // 10 of 100 at 95 %: 0.0490 to 0.1762, as tables have it.
        assert!((at_least(10, 100, 0.025) - 0.0490).abs() < 1e-4);
        assert!((at_most(10, 100, 0.025) - 0.1762).abs() < 1e-4);
        assert_eq!((at_least(0, 5, 0.1), at_most(5, 5, 0.1)), (0.0, 1.0));
        // The defining equation, far out: P(X < 30 | n, p) = 1 − doubt.
        let p = at_least(30, 20_000, 1e-3);
        assert!((1.0 - below(30, 20_000, p) - 1e-3).abs() < 1e-9);
    }

    #[test]
    fn the_bound_comes_close_to_the_promise_and_does_not_exceed_it() {
        // Noise of twice the change: ε = 2.41 by the exact curve at δ = 1e-6.
        let (sigma, change) = (40.0, 20.0);
        let noise = DiscreteGaussian::new(sigma).unwrap();
        let mut random = Randomness::insecure_from_seed(1);
        let mut scores = |shift: f64| -> Vec<f64> {
            (0..40_000).map(|_| (noise.draw(&mut random) as f64 + shift) / change).collect()
        };
        let (with, without) = (scores(change), scores(0.0));
        let found = lower_bound(&with, &without, 1e-6, 0.999);
        let promised = concentrated_epsilon(sigma / change, 1e-6).unwrap();
        assert!(least_epsilon(sigma / change, 1e-6).unwrap() <= promised);
        assert!(found.epsilon_at_least <= promised, "{found:?}, {promised}");
        // What counting 20 000 trials can show: the best threshold's bound, with rates as the normal curve has them.
        let normal = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        let shown = (0..400).map(|i| {
            let threshold = f64::from(i) / 100.0;
            let count = |mean: f64| (20_000.0 * normal(mean - threshold)).round() as usize;
            let counted = Counted { hits: count(0.5), misses: count(0.0), trials: 20_000 };
            counted.epsilon(1e-6, 0.999)
        });
        let shown = shown.fold(0.0, f64::max);
        // Both counts deviate by their roots; at the best threshold some hundred are counted, so a tenth each. The
        // threshold is chosen from other trials, which costs about as much.
        assert!((found.epsilon_at_least - shown).abs() < 0.3, "{found:?}, {shown}");
    }

    #[test]
    fn shares_are_of_as_many_trials_with_as_without() {
        // More trials with the vehicle than without: those beyond are left out.
        let found = lower_bound(&[1.0; 3000], &[0.0; 2000], 1e-6, 0.95);
        assert_eq!(found, lower_bound(&[1.0; 2000], &[0.0; 2000], 1e-6, 0.95));
        let found = lower_bound(&[1.0; 10], &[0.0; 3000], 1e-6, 0.95);
        assert_eq!((found.trials, found.true_positives, found.false_positives), (5, 1.0, 0.0));
    }

    #[test]
    fn without_trials_nothing_is_shown() {
        for (with, without) in [(&[][..], &[][..]), (&[1.0], &[0.0]), (&[], &[0.0; 9])] {
            let found = lower_bound(with, without, 1e-6, 0.95);
            assert_eq!(found.epsilon_at_least, 0.0, "{found:?}");
        }
    }

    /// Half of the scores without the vehicle are as high as all with it: what tells is a low score, which shows that it was
    /// not there. So the other side of the threshold is counted: TNR/FNR = (½ − δ)/0.
    #[test]
    fn low_scores_tell_that_a_vehicle_was_not_there() {
        let without: Vec<f64> = (0..2000).map(|i| f64::from(i % 2)).collect();
        let found = lower_bound(&[1.0; 2000], &without, 1e-6, 0.95);
        assert_eq!((found.true_positives, found.false_positives), (1.0, 0.5));
        let shown = (at_least(500, 1000, 0.025) - 1e-6) / at_most(0, 1000, 0.025);
        assert!((found.epsilon_at_least - shown.ln()).abs() < 1e-12, "{found:?}");
        // Scores grow with the vehicle's contribution: ones that fall show nothing.
        assert_eq!(lower_bound(&[0.0; 2000], &[1.0; 2000], 1e-6, 0.95).epsilon_at_least, 0.0);
    }

    /// Binomial sums by hand: n = 4, p = ½ has 1, 4, 6, 4, 1 of 16.
    #[test]
    fn binomial_probabilities_are_exact() {
        for (count, expected) in [(0, 0.0), (1, 1.0), (2, 5.0), (3, 11.0), (4, 15.0), (5, 16.0)] {
            // Logarithms of factorials are good to 1e-15.
            assert!((below(count, 4, 0.5) - expected / 16.0).abs() < 1e-13, "{count}");
        }
        // Limits of a symmetric count are symmetric.
        for hits in 0..=20 {
            let (low, high) = (at_least(hits, 20, 0.05), at_most(20 - hits, 20, 0.05));
            assert!((low - (1.0 - high)).abs() < 1e-12, "{hits}");
            assert!(low <= hits as f64 / 20.0);
        }
    }

    #[test]
    fn without_noise_the_bound_is_all_that_counting_can_tell() {
        let found = lower_bound(&[1.0; 2000], &[0.0; 2000], 1e-6, 0.95);
        assert_eq!((found.true_positives, found.false_positives, found.trials), (1.0, 0.0, 1000));
        // ln(0.025^(1/1000)/(1 − 0.025^(1/1000))) = 5.6.
        assert!((found.epsilon_at_least - 5.6).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn equal_worlds_show_nothing() {
        let mut random = Randomness::insecure_from_seed(2);
        let mut scores = || (0..4000).map(|_| random.bits() as f64).collect::<Vec<_>>();
        let (with, without) = (scores(), scores());
        // 99.9 %: the seed's draws are not the one in a thousand.
        assert_eq!(lower_bound(&with, &without, 1e-6, 0.999).epsilon_at_least, 0.0);
    }
}
