//! Least squares over weights that are none below zero and 1 together, with labels that models may know by heart.

use serde::{Deserialize, Serialize};

use super::rates::FoldRates;

/// Passes over all pairs; each leaves a model's weight at the best place between two.
const PASSES: usize = 200;

/// What boxes tell of models: sums over choices of folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConvexFit {
    /// Sums of products of the models' values, `[model][model]`.
    pub(super) products: Vec<Vec<f64>>,
    /// With the labels.
    pub(super) moments: Vec<f64>,
    /// How far the models' answers and the labels differ alike from fold to fold: sums of their covariances.
    memory: Vec<f64>,
    /// Variances of the labels.
    noise: f64,
    pub(super) count: f64,
}

impl ConvexFit {
    pub(super) fn new(models: usize) -> Self {
        let sums = vec![0.0; models];
        let products = vec![sums.clone(); models];
        Self { products, moments: sums.clone(), memory: sums, noise: 0.0, count: 0.0 }
    }

    /// Whether its parts belong together, for so many models.
    pub(super) fn is_sound(&self, models: usize) -> bool {
        let rows = self.products.iter().chain([&self.moments, &self.memory]);
        let sums = rows.clone().flatten().chain([&self.noise, &self.count]);
        self.products.len() == models
            && rows.into_iter().all(|row| row.len() == models)
            && sums.into_iter().all(|sum| sum.is_finite())
            && self.count >= 0.0
    }

    /// Adds what another one has.
    pub(super) fn take(&mut self, other: &Self) {
        let products = self.products.iter_mut().zip(&other.products);
        let rows = [(&mut self.moments, &other.moments), (&mut self.memory, &other.memory)];
        for (sums, others) in products.chain(rows) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
        self.noise += other.noise;
        self.count += other.count;
    }

    /// Lets what was added until now count less.
    pub(super) fn fade(&mut self, factor: f64) {
        let rows = self.products.iter_mut().chain([&mut self.moments, &mut self.memory]);
        rows.flatten().chain([&mut self.noise, &mut self.count]).for_each(|sum| *sum *= factor);
    }

    /// The same problem for some of the models.
    pub(super) fn among(&self, some: &[usize]) -> Self {
        let of = |row: &[f64]| some.iter().map(|&at| row[at]).collect::<Vec<_>>();
        let products = some.iter().map(|&at| of(&self.products[at])).collect();
        Self {
            products,
            moments: of(&self.moments),
            memory: of(&self.memory),
            noise: self.noise,
            count: self.count,
        }
    }

    /// The sum of a model's squared errors, up to one constant for all models.
    pub(super) fn error_of(&self, model: usize) -> f64 {
        self.products[model][model] - 2.0 * self.moments[model]
    }

    /// Adds one value of each model.
    pub(super) fn add(&mut self, values: &[f64], label: f64) {
        self.count += 1.0;
        for (at, &value) in values.iter().enumerate() {
            self.moments[at] += value * label;
            self.products[at].iter_mut().zip(values).for_each(|(sum, other)| *sum += value * other);
        }
    }

    /// Adds a box: of each model the values of all choices of folds, with each choice's label and the variance of these.
    pub(super) fn add_box(&mut self, values: &[Vec<f64>], labels: &[f64], noise: f64) {
        self.noise += labels.len() as f64 * noise;
        for (choice, &label) in labels.iter().enumerate() {
            let of_models: Vec<f64> = values.iter().map(|of_model| of_model[choice]).collect();
            self.add(&of_models, label);
        }
        for (memory, values) in self.memory.iter_mut().zip(values) {
            *memory += labels.len() as f64 * known_by_heart(values, labels);
        }
    }

    /// The same with labels' noise that models know by heart taken off: then it is as if labels were new to them.
    pub(super) fn without_memory(mut self, rates: &FoldRates) -> Self {
        let whole = rates.noise_beside_folds();
        for (moment, memory) in self.moments.iter_mut().zip(&self.memory) {
            *moment -= whole * memory.max(0.0);
        }
        self
    }

    /// The same with weights that are known beforehand, each to a deviation of a half: few and noisy labels move them little. Labels count as
    /// `alike` fewer ones, since neighbouring ones are of the same vehicles.
    pub(super) fn expecting(mut self, weights: &[f64], alike: f64) -> Self {
        // Of one label, noise over the variance of a weight; as many of these as there are labels, over as many that count.
        let strength = 4.0 * (self.noise / self.count.max(f64::MIN_POSITIVE)).max(0.0) * alike;
        for (at, weight) in weights.iter().enumerate() {
            self.products[at][at] += strength;
            self.moments[at] += strength * weight;
        }
        self
    }

    /// By exact steps along pairs, from equal weights: the problem is convex, and no such step is left only at its minimum.
    pub(super) fn solve(&self) -> Vec<f64> {
        let models = self.moments.len();
        let mut weights = vec![1.0 / models.max(1) as f64; models];
        for _ in 0..PASSES {
            for (to, from) in (0..models).flat_map(|to| (0..to).map(move |from| (to, from))) {
                // d(loss)/2 when a little weight goes from one to the other.
                let slope = |at: usize| {
                    let products = self.products[at].iter().zip(&weights);
                    products.map(|(product, weight)| product * weight).sum::<f64>()
                        - self.moments[at]
                };
                let curve = self.products[to][to] - 2.0 * self.products[to][from]
                    + self.products[from][from];
                let step = (slope(from) - slope(to)) / curve;
                if curve > 0.0 && step.is_finite() {
                    let step = step.clamp(-weights[to], weights[from]);
                    weights[to] += step;
                    weights[from] -= step;
                }
            }
        }
        weights
    }
}

/// Covariance, over choices of folds, of a model's values and the labels of a box. Where more is seen, less is held out: whoever has
/// not met these vehicles' labels before, and says no less where more is seen, has none above zero.
pub(super) fn known_by_heart(values: &[f64], labels: &[f64]) -> f64 {
    let count = labels.len() as f64;
    let [value, label] = [values, labels].map(|all| all.iter().sum::<f64>() / count);
    let products = values.iter().zip(labels).map(|(one, own)| (one - value) * (own - label));
    products.sum::<f64>() / (count - 1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(rows: &[(&[f64], f64)]) -> Vec<f64> {
        let mut fit = ConvexFit::new(rows[0].0.len());
        rows.iter().for_each(|(values, label)| fit.add(values, *label));
        fit.solve()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            // Steps along pairs converge geometrically: 200 passes leave rounding.
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn weights_are_those_of_the_closed_form() {
        // Two models with independent errors of variances 1 and 4 around labels of 0: weights 4/5 and 1/5.
        let independent: [(&[f64], f64); 4] =
            [(&[1.0, 2.0], 0.0), (&[1.0, -2.0], 0.0), (&[-1.0, 2.0], 0.0), (&[-1.0, -2.0], 0.0)];
        assert_close(&fit(&independent), &[0.8, 0.2]);
        // One that is right, among others that are not.
        let right: [(&[f64], f64); 3] =
            [(&[5.0, 1.0, 7.0], 1.0), (&[2.0, 4.0, 1.0], 4.0), (&[9.0, 2.0, 3.0], 2.0)];
        assert_close(&fit(&right), &[0.0, 1.0, 0.0]);
        // What would need a weight below zero stays at the border.
        let outside: [(&[f64], f64); 2] = [(&[2.0, 3.0], 1.0), (&[4.0, 6.0], 2.0)];
        assert_close(&fit(&outside), &[1.0, 0.0]);
        assert_eq!(fit(&[(&[3.0], 8.0)]), [1.0]);
    }

    /// Of a vehicle that stands in one place all the time, fold 1 holds it: a model that has learned the labels by heart is no better than
    /// one that says nothing of it, though it misses none of them.
    #[test]
    fn what_is_known_by_heart_does_not_count() {
        let rates = FoldRates::new(0.5, 2).unwrap();
        // Two vehicles, one in fold 1, one in none: s = r = 1/4, so that labels S + H·(1 − s)/r are 3 without fold 1, and 1 without fold 2.
        let labels = [3.0, 1.0];
        let mut fit = ConvexFit::new(2);
        // By heart; and the truth.
        fit.add_box(&[vec![3.0, 1.0], vec![2.0, 2.0]], &labels, 0.0);
        assert_close(&fit.solve(), &[1.0, 0.0]);
        // V = Q·(3/4)·(1/2)/(1/4) and V̄ = Q·(1/2)/(1/2): V/(V − V̄) = 1.5/(1.5 − 1) = 3.
        assert!((rates.noise_beside_folds() - 3.0).abs() < 1e-12);
        assert_eq!([[3.0, 1.0], [2.0, 2.0]].map(|own| known_by_heart(&own, &labels)), [2.0, 0.0]);
        // With 3·2 taken off, each of the two labels: moments 10 − 12 and 8, products 10, 8 and 8.
        let new = fit.without_memory(&rates);
        assert!((new.moments[0] + 2.0).abs() < 1e-12 && (new.moments[1] - 8.0).abs() < 1e-12);
        assert_close(&new.solve(), &[0.0, 1.0]);
    }

    #[test]
    fn few_noisy_labels_move_weights_little() {
        let mut fit = ConvexFit::new(2);
        // The second model is right and the first is off by 1; one label of variance 1.
        fit.add_box(&[vec![1.0], vec![0.0]], &[0.0], 1.0);
        // Minimum of w² + 4(w − 1)² + 4(1 − w)², w the weight of the first: 8/9.
        assert_close(&fit.clone().expecting(&[1.0, 0.0], 1.0).solve(), &[8.0 / 9.0, 1.0 / 9.0]);
        // Without noise the label is believed.
        fit.noise = 0.0;
        assert_close(&fit.expecting(&[1.0, 0.0], 1.0).solve(), &[0.0, 1.0]);
    }

    #[test]
    fn what_fades_counts_less() {
        let mut fit = ConvexFit::new(2);
        fit.add(&[1.0, 0.0], 1.0);
        fit.fade(0.25);
        let mut later = ConvexFit::new(2);
        later.add(&[1.0, 0.0], 0.0);
        fit.take(&later);
        // Labels 1 with weight 1/4 and 0 with weight 1.
        assert_close(&fit.solve(), &[0.2, 0.8]);
        assert!((fit.count - 1.25).abs() < 1e-12 && fit.is_sound(2) && !fit.is_sound(3));
    }
}
