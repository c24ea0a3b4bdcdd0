//! Optimisers: one update of the flat parameter vector from its gradient.
//!
//! [`Adam`], as PyTorch computes it:
//!
//! ```text
//! g ← g + λ·θ  (decay in the gradient)      or   θ ← θ − lr·λ·θ  (decoupled, "AdamW")
//! m ← β₁·m + (1−β₁)·g       v ← β₂·v + (1−β₂)·g²
//! θ ← θ − lr/(1−β₁ᵗ)·m/(√(v/(1−β₂ᵗ)) + ε)
//! ```
//!
//! ```
//! use neural::{Adam, Decay, Optimiser};
//! let mut adam = Adam::new(1, Decay::None);
//! let mut parameters = [1.0];
//! adam.update(0.1, &mut parameters, &[5.0]);
//! // The first step has the length of the learning rate, whatever the gradient.
//! assert!((parameters[0] - 0.9).abs() < 1e-6);
//! ```

use crate::kernel::{Vectorised, fma, vectorise};
use rayon::prelude::*;

/// Something that improves parameters step by step.
pub trait Optimiser {
    /// One step at this learning rate.
    fn update(&mut self, rate: f32, parameters: &mut [f32], gradient: &[f32]);
    /// Steps made.
    fn steps(&self) -> u64;
    /// Named vectors, each as long as the parameters, to be saved with [`steps`](Self::steps).
    fn state(&self) -> Vec<(&'static str, &[f32])>;
    /// The same, to be restored.
    fn state_mut(&mut self) -> (&mut u64, Vec<(&'static str, &mut [f32])>);
}

/// How weights are drawn towards zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// Not at all.
    None,
    /// λ·θ is added to the gradient, as `weight_decay` of PyTorch's `Adam` and `SGD`.
    InGradient(f32),
    /// θ shrinks by lr·λ, apart from the gradient, as in PyTorch's `AdamW`.
    Decoupled(f32),
}

impl Decay {
    /// Factor on θ in the gradient, and factor by which θ is multiplied.
    fn factors(self, rate: f32) -> (f32, f32) {
        match self {
            Decay::None => (0.0, 1.0),
            Decay::InGradient(decay) => (decay, 1.0),
            Decay::Decoupled(decay) => (0.0, 1.0 - rate * decay),
        }
    }
}

/// Parameters that one task updates: long enough to be worth a task.
const BLOCK: usize = 16 * 1024;

/// Adam, see the [module](self).
#[derive(Clone, Debug)]
pub struct Adam {
    betas: (f32, f32),
    epsilon: f32,
    decay: Decay,
    steps: u64,
    mean: Vec<f32>,
    square: Vec<f32>,
}

impl Adam {
    /// For this many parameters, with β = (0.9, 0.999) and ε = 1e-8.
    pub fn new(parameters: usize, decay: Decay) -> Self {
        Adam {
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            decay,
            steps: 0,
            mean: vec![0.0; parameters],
            square: vec![0.0; parameters],
        }
    }

    /// The same with other β.
    #[cfg(test)]
    pub(crate) fn with_betas(mut self, betas: (f32, f32)) -> Self {
        self.betas = betas;
        self
    }
}

impl Optimiser for Adam {
    fn update(&mut self, rate: f32, parameters: &mut [f32], gradient: &[f32]) {
        self.steps += 1;
        // In f64: 1 − β₂ᵗ loses digits in f32 during the first steps.
        let unbiased = |beta: f32| 1.0 - f64::from(beta).powf(self.steps as f64);
        let (in_gradient, shrink) = self.decay.factors(rate);
        let rule = AdamRule {
            betas: self.betas,
            epsilon: self.epsilon,
            in_gradient,
            shrink,
            step: (f64::from(rate) / unbiased(self.betas.0)) as f32,
            root: (1.0 / unbiased(self.betas.1).sqrt()) as f32,
        };
        let moments = self.mean.par_chunks_mut(BLOCK).zip(self.square.par_chunks_mut(BLOCK));
        parameters.par_chunks_mut(BLOCK).zip(gradient.par_chunks(BLOCK)).zip(moments).for_each(
            |((parameters, gradient), (mean, square))| {
                vectorise(AdamBlock { rule, parameters, gradient, mean, square });
            },
        );
    }

    fn steps(&self) -> u64 {
        self.steps
    }
    fn state(&self) -> Vec<(&'static str, &[f32])> {
        vec![("mean", &self.mean), ("square", &self.square)]
    }
    fn state_mut(&mut self) -> (&mut u64, Vec<(&'static str, &mut [f32])>) {
        (&mut self.steps, vec![("mean", &mut self.mean), ("square", &mut self.square)])
    }
}

#[derive(Clone, Copy)]
struct AdamRule {
    betas: (f32, f32),
    epsilon: f32,
    in_gradient: f32,
    shrink: f32,
    step: f32,
    root: f32,
}

struct AdamBlock<'a> {
    rule: AdamRule,
    parameters: &'a mut [f32],
    gradient: &'a [f32],
    mean: &'a mut [f32],
    square: &'a mut [f32],
}

impl Vectorised for AdamBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let AdamRule { betas, epsilon, in_gradient, shrink, step, root } = self.rule;
        let moments = self.mean.iter_mut().zip(self.square);
        let values = self.parameters.iter_mut().zip(self.gradient).zip(moments);
        for ((parameter, gradient), (mean, square)) in values {
            let gradient = fma::<FUSED>(in_gradient, *parameter, *gradient);
            *mean = fma::<FUSED>(1.0 - betas.0, gradient - *mean, *mean);
            *square = fma::<FUSED>(betas.1, *square, (1.0 - betas.1) * gradient * gradient);
            let length = fma::<FUSED>(square.sqrt(), root, epsilon);
            *parameter = fma::<FUSED>(-step, *mean / length, *parameter * shrink);
        }
    }
}

/// Gradient descent with optional momentum: `m ← μ·m + g`, `θ ← θ − lr·m`.
#[derive(Clone, Debug)]
pub struct Sgd {
    momentum: f32,
    decay: Decay,
    steps: u64,
    velocity: Vec<f32>,
}

impl Sgd {
    /// For this many parameters.
    pub fn new(parameters: usize, momentum: f32, decay: Decay) -> Self {
        Sgd { momentum, decay, steps: 0, velocity: vec![0.0; parameters] }
    }
}

impl Optimiser for Sgd {
    fn update(&mut self, rate: f32, parameters: &mut [f32], gradient: &[f32]) {
        self.steps += 1;
        let (in_gradient, shrink) = self.decay.factors(rate);
        let values = parameters.iter_mut().zip(gradient).zip(&mut self.velocity);
        for ((parameter, gradient), velocity) in values {
            *velocity = self.momentum * *velocity + gradient + in_gradient * *parameter;
            *parameter = *parameter * shrink - rate * *velocity;
        }
    }

    fn steps(&self) -> u64 {
        self.steps
    }
    fn state(&self) -> Vec<(&'static str, &[f32])> {
        vec![("velocity", &self.velocity)]
    }
    fn state_mut(&mut self) -> (&mut u64, Vec<(&'static str, &mut [f32])>) {
        (&mut self.steps, vec![("velocity", &mut self.velocity)])
    }
}

/// Scales the gradient down to this Euclidean norm, if it is longer. Returns its norm before.
///
/// ```
/// let mut gradient = [3.0, 4.0];
/// assert_eq!(neural::clip_norm(&mut gradient, 1.0), 5.0);
/// assert_eq!(gradient, [0.6, 0.8]);
/// ```
pub fn clip_norm(gradient: &mut [f32], longest: f32) -> f32 {
    let mut lanes = [0.0f64; 8];
    for block in gradient.chunks(8) {
        for (lane, value) in lanes.iter_mut().zip(block) {
            *lane += f64::from(*value) * f64::from(*value);
        }
    }
    let norm = lanes.iter().sum::<f64>().sqrt() as f32;
    if norm > longest {
        let factor = longest / norm;
        gradient.iter_mut().for_each(|value| *value *= factor);
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps of Adam on one weight, by the formulas in f64.
    #[test]
    fn adam_follows_its_formula() {
        for decay in [Decay::None, Decay::InGradient(0.1), Decay::Decoupled(0.1)] {
            let mut adam = Adam::new(1, decay);
            let mut found = [1.0f32];
            let (mut exact, mut m, mut v) = (1.0f64, 0.0f64, 0.0f64);
            for (t, g) in [(1, 0.5f64), (2, -2.0), (3, 0.25)] {
                adam.update(0.01, &mut found, &[g as f32]);
                let mut g = g;
                match decay {
                    Decay::InGradient(decay) => g += f64::from(decay) * exact,
                    Decay::Decoupled(decay) => exact *= 1.0 - 0.01 * f64::from(decay),
                    Decay::None => {}
                }
                m = 0.9 * m + 0.1 * g;
                v = 0.999 * v + 0.001 * g * g;
                let length = (v / (1.0 - 0.999f64.powi(t))).sqrt() + 1e-8;
                exact -= 0.01 / (1.0 - 0.9f64.powi(t)) * m / length;
                // A few roundings of a number near 1.
                assert!((f64::from(found[0]) - exact).abs() < 1e-6, "{decay:?} {found:?} {exact}");
            }
        }
    }

    /// With the same gradient in every step, both corrected moments are exact: each step is lr·g/(|g| + ε),
    /// whatever the size of the gradient.
    #[test]
    fn adam_walks_at_its_rate_along_a_constant_gradient() {
        for gradient in [1e-3f32, 0.5, -7.0, 1e4] {
            let mut adam = Adam::new(1, Decay::None);
            let mut parameters = [0.0f32];
            for step in 1..=50 {
                adam.update(0.01, &mut parameters, &[gradient]);
                let expected = -0.01 * step as f32 * gradient.signum();
                // ε/|g| is 1e-5 at the most; the roots and sums round at 6e-8 each.
                let error = (parameters[0] / expected - 1.0).abs();
                assert!(error < 3e-5, "{gradient}: {parameters:?} after {step}, {expected}");
            }
            assert_eq!(adam.steps(), 50);
        }
    }

    /// Without a gradient nothing moves but what decay takes: θ·(1 − lr·λ)ⁿ if it is decoupled.
    #[test]
    fn without_a_gradient_only_decay_moves_weights() {
        let run = |decay| {
            let mut adam = Adam::new(2, decay);
            let mut parameters = [2.0f32, -3.0];
            (0..10).for_each(|_| adam.update(0.1, &mut parameters, &[0.0; 2]));
            parameters
        };
        assert_eq!(run(Decay::None), [2.0, -3.0]);
        let shrunk = 0.95f32.powi(10);
        for (found, start) in run(Decay::Decoupled(0.5)).into_iter().zip([2.0f32, -3.0]) {
            // Ten roundings.
            assert!((found / (start * shrunk) - 1.0).abs() < 1e-6, "{found}");
        }
        // In the gradient it is a gradient like any other: Adam forgets its size and goes at its rate.
        for (found, start) in run(Decay::InGradient(0.5)).into_iter().zip([2.0f32, -3.0]) {
            let moved = (start - found) * start.signum();
            assert!((0.8..=1.0 + 1e-5).contains(&moved), "{found} from {start}");
        }
    }

    /// β₁ = 0: no memory of directions. β = (0, 0): the sign of the gradient alone.
    #[test]
    fn other_betas_give_their_own_rules() {
        let mut sign = Adam::new(3, Decay::None).with_betas((0.0, 0.0));
        let mut parameters = [0.0f32; 3];
        let near = |found: [f32; 3], expected: [f32; 3]| {
            // g/(|g| + ε) with |g| of a hundredth at least: 1e-6 short of the sign.
            let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f32::max) < 2e-6, "{found:?} {expected:?}");
        };
        sign.update(0.5, &mut parameters, &[3.0, -0.01, 0.0]);
        near(parameters, [-0.5, 0.5, 0.0]);
        sign.update(0.5, &mut parameters, &[-0.01, 4.0, 1.0]);
        near(parameters, [0.0, 0.0, -0.5]);
    }

    /// Long vectors are updated in blocks, side by side: each number as if it were alone.
    #[test]
    fn blocks_make_no_difference() {
        let count = 2 * BLOCK + 3;
        let number = |seed: u64, i: usize| crate::unit(crate::hash([seed, i as u64])) - 0.5;
        let mut long = Adam::new(count, Decay::Decoupled(0.1));
        let mut parameters: Vec<f32> = (0..count).map(|i| number(1, i)).collect();
        for step in 0..3 {
            let gradient: Vec<f32> = (0..count).map(|i| number(2 + step, i)).collect();
            long.update(0.01, &mut parameters, &gradient);
        }
        for i in [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK, count - 1] {
            let mut alone = Adam::new(1, Decay::Decoupled(0.1));
            let mut parameter = [number(1, i)];
            (0..3).for_each(|step| alone.update(0.01, &mut parameter, &[number(2 + step, i)]));
            assert_eq!(parameters[i], parameter[0], "parameter {i}");
        }
    }

    /// v_n = g·(1 − μⁿ)/(1 − μ), and θ the sum of these: with μ = ½ and g = 1 exact in binary.
    #[test]
    fn momentum_has_its_closed_form() {
        let mut sgd = Sgd::new(1, 0.5, Decay::None);
        let mut parameters = [0.0f32];
        for n in 1..=12 {
            sgd.update(1.0, &mut parameters, &[1.0]);
            let velocity = 2.0 - 0.5f32.powi(n - 1);
            assert_eq!(sgd.state()[0].1, [velocity]);
            assert_eq!(parameters, [-2.0 * n as f32 + 2.0 - 0.5f32.powi(n - 1)]);
        }
        assert_eq!(sgd.steps(), 12);
    }

    /// On θ²/2, plain descent multiplies by 1 − lr in each step; decay of either sort takes lr·λ more.
    #[test]
    fn descent_on_a_parabola_shrinks_by_its_rate() {
        for (decay, factor) in [
            (Decay::None, 0.75f32),
            (Decay::InGradient(0.5), 0.625),
            (Decay::Decoupled(0.5), 0.625),
        ] {
            let mut sgd = Sgd::new(1, 0.0, decay);
            let mut parameters = [1.0f32];
            for n in 1..=6 {
                let gradient = parameters;
                sgd.update(0.25, &mut parameters, &gradient);
                // Powers of 3/4 and 5/8 up to the sixth have 18 binary digits: exact.
                assert_eq!(parameters, [factor.powi(n)], "{decay:?}");
            }
        }
    }

    /// What is saved is what is needed to go on.
    #[test]
    fn states_are_named_and_restored() {
        let mut adam = Adam::new(2, Decay::None);
        adam.update(0.1, &mut [0.0; 2], &[2.0, -4.0]);
        let names: Vec<&str> = adam.state().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["mean", "square"]);
        // One step from zero: (1 − β₁)·g and (1 − β₂)·g², to the rounding of 1 − β.
        for (name, expected) in [("mean", [0.2f32, -0.4]), ("square", [0.004, 0.016])] {
            let (_, found) = adam.state().into_iter().find(|(found, _)| *found == name).unwrap();
            for (found, expected) in found.iter().zip(expected) {
                assert!((found / expected - 1.0).abs() < 2e-5, "{name}: {found}");
            }
        }
        let mut other = Adam::new(2, Decay::None);
        let (steps, state) = other.state_mut();
        *steps = adam.steps();
        for ((_, to), (_, from)) in state.into_iter().zip(adam.state()) {
            to.copy_from_slice(from);
        }
        let (mut a, mut b) = ([1.0; 2], [1.0; 2]);
        adam.update(0.1, &mut a, &[1.0, 1.0]);
        other.update(0.1, &mut b, &[1.0, 1.0]);
        assert_eq!(a, b);
    }

    #[test]
    fn momentum_adds_up() {
        let mut sgd = Sgd::new(1, 0.5, Decay::None);
        let mut parameters = [0.0];
        sgd.update(1.0, &mut parameters, &[1.0]);
        sgd.update(1.0, &mut parameters, &[1.0]);
        assert_eq!(parameters, [-1.0 - 1.5]);
    }

    #[test]
    fn short_gradients_are_not_clipped() {
        let mut gradient = [0.3, 0.4];
        // The root of 0.25, to the rounding of 0.3 and 0.4.
        assert!((clip_norm(&mut gradient, 1.0) - 0.5).abs() < 1e-7);
        assert_eq!(gradient, [0.3, 0.4]);
        // Exactly as long as allowed is not too long.
        let mut just = [3.0, 4.0];
        assert_eq!(clip_norm(&mut just, 5.0), 5.0);
        assert_eq!(just, [3.0, 4.0]);
        assert_eq!(clip_norm(&mut [], 1.0), 0.0);
        assert_eq!(clip_norm(&mut [0.0; 20], 0.0), 0.0);
    }

    #[test]
    fn long_gradients_keep_their_direction() {
        // Squares of these have no place in f32.
        let mut huge = [3e30f32, -4e30, 0.0];
        assert_eq!(clip_norm(&mut huge, 1.0), 5e30);
        for (found, expected) in huge.into_iter().zip([0.6f32, -0.8, 0.0]) {
            assert!((found - expected).abs() < 1e-6, "{huge:?}");
        }
        // Ten thousand ones have the norm 100, and 10 of it is left: a tenth of each.
        let mut ones = vec![1.0f32; 10_000];
        assert_eq!(clip_norm(&mut ones, 10.0), 100.0);
        assert!(ones.iter().all(|&value| value == 0.1));
    }
}
