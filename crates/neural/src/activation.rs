//! Pointwise non-linearities, alone ([`Activate`]) or at the end of another layer.
//!
//! ```text
//! relu   max(0, x)          silu   x·σ(x)
//! sigmoid  σ(x)             gelu   x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
//! tanh     tanh(x)
//! ```
//!
//! Input and output have any shape, the same for both.
//!
//! ```
//! use neural::{Activate, Activation, Learner, Plan};
//! let mut relu = Learner::new(Activate::new(Activation::Relu, 3), 0, Plan::default());
//! let mut y = [0.0; 3];
//! relu.infer(&[-1.0, 0.0, 2.0], &mut y);
//! assert_eq!(y, [0.0, 0.0, 2.0]);
//! ```

use crate::kernel::fma;
use crate::layer::{BackwardPass, Layer, Memory, Pass};
use crate::vector::{self, Pairwise, Pointwise};

/// A pointwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The input itself.
    Identity,
    /// `max(0, x)`.
    Relu,
    /// `1/(1 + e^−x)`.
    Sigmoid,
    /// `tanh x`.
    Tanh,
    /// `x·σ(x)`.
    Silu,
    /// The Gaussian error linear unit, in its tanh form.
    Gelu,
}

impl Activation {
    /// Whether backward needs the input; for the others the output is enough.
    pub(crate) fn needs_input(self) -> bool {
        matches!(self, Activation::Silu | Activation::Gelu)
    }

    /// Applies the function in place.
    pub(crate) fn apply(self, values: &mut [f32]) {
        match self {
            Activation::Identity => {}
            Activation::Relu => vector::map(values, Relu),
            Activation::Sigmoid => vector::map(values, Sigmoid),
            Activation::Tanh => vector::map(values, Tanh),
            Activation::Silu => vector::map(values, Silu),
            Activation::Gelu => vector::map(values, Gelu),
        }
    }

    /// Multiplies `dy` by the derivative. `known` is the input if
    /// [`needs_input`](Self::needs_input), else the output.
    pub(crate) fn backward(self, known: &[f32], dy: &mut [f32]) {
        match self {
            Activation::Identity => {}
            Activation::Relu => vector::zip(dy, known, Relu),
            Activation::Sigmoid => vector::zip(dy, known, Sigmoid),
            Activation::Tanh => vector::zip(dy, known, Tanh),
            Activation::Silu => vector::zip(dy, known, Silu),
            Activation::Gelu => vector::zip(dy, known, Gelu),
        }
    }
}

struct Relu;
struct Sigmoid;
struct Tanh;
struct Silu;
struct Gelu;

impl Pointwise for Relu {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, x: f32) -> f32 {
        // Keeps NaN, which `max` would hide.
        if x < 0.0 { 0.0 } else { x }
    }
}
impl Pairwise for Relu {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, dy: f32, y: f32) -> f32 {
        if y > 0.0 { dy } else { 0.0 }
    }
}
impl Pointwise for Sigmoid {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, x: f32) -> f32 {
        vector::sigmoid::<FUSED>(x)
    }
}
impl Pairwise for Sigmoid {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, dy: f32, y: f32) -> f32 {
        dy * y * (1.0 - y)
    }
}
impl Pointwise for Tanh {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, x: f32) -> f32 {
        vector::tanh::<FUSED>(x)
    }
}
impl Pairwise for Tanh {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, dy: f32, y: f32) -> f32 {
        dy * (1.0 - y * y)
    }
}
impl Pointwise for Silu {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, x: f32) -> f32 {
        x * vector::sigmoid::<FUSED>(x)
    }
}
impl Pairwise for Silu {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, dy: f32, x: f32) -> f32 {
        let s = vector::sigmoid::<FUSED>(x);
        dy * s * fma::<FUSED>(x, 1.0 - s, 1.0)
    }
}

impl Gelu {
    const SCALE: f32 = 0.797_884_6; // √(2/π)
    const CUBE: f32 = 0.044_715;
}
impl Pointwise for Gelu {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, x: f32) -> f32 {
        // (1 + tanh u)/2 = σ(2u)
        x * vector::sigmoid::<FUSED>(2.0 * Self::SCALE * x * fma::<FUSED>(Self::CUBE * x, x, 1.0))
    }
}
impl Pairwise for Gelu {
    #[inline(always)]
    fn at<const FUSED: bool>(&self, dy: f32, x: f32) -> f32 {
        let s =
            vector::sigmoid::<FUSED>(2.0 * Self::SCALE * x * fma::<FUSED>(Self::CUBE * x, x, 1.0));
        let slope = 2.0 * Self::SCALE * fma::<FUSED>(3.0 * Self::CUBE * x, x, 1.0);
        dy * s * fma::<FUSED>(x * slope, 1.0 - s, 1.0)
    }
}

/// A pointwise function as a layer.
#[derive(Clone, Copy, Debug)]
pub struct Activate {
    activation: Activation,
    len: usize,
}

impl Activate {
    /// For samples of `len` values.
    pub fn new(activation: Activation, len: usize) -> Self {
        Activate { activation, len }
    }
}

impl Layer for Activate {
    fn input_len(&self) -> usize {
        self.len
    }

    fn forward(&self, _pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        y.copy_from_slice(x);
        self.activation.apply(y);
    }

    fn backward(&self, _pass: &Pass<'_>, work: BackwardPass<'_>) {
        let BackwardPass { given, dy, dx, .. } = work;
        let Some(dx) = dx else { return };
        dx.copy_from_slice(dy);
        self.activation.backward(if self.activation.needs_input() { given.x } else { given.y }, dx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_layer;

    pub(crate) fn exact(activation: Activation, x: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match activation {
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Sigmoid => sigmoid(x),
            Activation::Tanh => x.tanh(),
            Activation::Silu => x * sigmoid(x),
            Activation::Gelu => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                0.5 * x * (1.0 + u.tanh())
            }
        }
    }

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        for activation in [
            Activation::Identity,
            Activation::Relu,
            Activation::Sigmoid,
            Activation::Tanh,
            Activation::Silu,
            Activation::Gelu,
        ] {
            check_layer(&Activate::new(activation, 40), 3, 1, |_, x| {
                x.iter().map(|&x| exact(activation, x)).collect()
            });
        }
    }
}
