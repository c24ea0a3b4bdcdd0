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
    pub fn with_betas(mut self, betas: (f32, f32)) -> Self {
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
        clip_norm(&mut gradient, 1.0);
        assert_eq!(gradient, [0.3, 0.4]);
    }
}
