//! Elementwise loops and column sums, compiled for the vectors of this machine.
//!
//! The sums run in a fixed order (sixteen lanes, then across), so that every instruction set that
//! has fused multiply-add gives the same bits.

use crate::kernel::{Vectorised, fma, vectorise};

/// `e^x` to 2 units in the last place for |x| < 87, clamped outside.
#[inline(always)]
pub(crate) fn exp<const FUSED: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5·2²³: adding it rounds to an integer
    let x = x.clamp(-87.0, 87.0);
    let shifted = fma::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts, so that the remainder is exact to f32.
    let r = fma::<FUSED>(n, -0.693_359_4, x);
    let r = fma::<FUSED>(n, 2.121_944_4e-4, r);
    // Taylor's series: |r| ≤ ln 2 / 2, the term left out is below 1e-8.
    let p = fma::<FUSED>(r, 1.0 / 5040.0, 1.0 / 720.0);
    let p = fma::<FUSED>(p, r, 1.0 / 120.0);
    let p = fma::<FUSED>(p, r, 1.0 / 24.0);
    let p = fma::<FUSED>(p, r, 1.0 / 6.0);
    let p = fma::<FUSED>(p, r, 0.5);
    let p = fma::<FUSED>(p, r, 1.0);
    let p = fma::<FUSED>(p, r, 1.0);
    // The integer sits in the low bits of `shifted`; into the exponent with it.
    let scale = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    p * f32::from_bits(scale)
}

/// `1/(1 + e^−x)`.
#[inline(always)]
pub(crate) fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FUSED>(-x))
}

/// `tanh x`, exact to 1e-7 absolute.
#[inline(always)]
pub(crate) fn tanh<const FUSED: bool>(x: f32) -> f32 {
    2.0 * sigmoid::<FUSED>(2.0 * x) - 1.0
}

/// Applies a function to every value in place.
pub(crate) fn map(values: &mut [f32], function: impl Pointwise) {
    struct Map<'a, F>(&'a mut [f32], F);
    impl<F: Pointwise> Vectorised for Map<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run<const FUSED: bool>(self) {
            for value in self.0 {
                *value = self.1.at::<FUSED>(*value);
            }
        }
    }
    vectorise(Map(values, function));
}

/// `to[i] = f(to[i], with[i])`.
pub(crate) fn zip(to: &mut [f32], with: &[f32], function: impl Pairwise) {
    struct Zip<'a, F>(&'a mut [f32], &'a [f32], F);
    impl<F: Pairwise> Vectorised for Zip<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run<const FUSED: bool>(self) {
            for (to, with) in self.0.iter_mut().zip(self.1) {
                *to = self.2.at::<FUSED>(*to, *with);
            }
        }
    }
    debug_assert_eq!(to.len(), with.len());
    vectorise(Zip(to, with, function));
}

/// A function of one number. `at` must be `#[inline(always)]`.
pub(crate) trait Pointwise {
    fn at<const FUSED: bool>(&self, x: f32) -> f32;
}

/// A function of two numbers. `at` must be `#[inline(always)]`.
pub(crate) trait Pairwise {
    fn at<const FUSED: bool>(&self, a: f32, b: f32) -> f32;
}

/// `to[i] += with[i]`.
pub(crate) fn add(to: &mut [f32], with: &[f32]) {
    struct Add;
    impl Pairwise for Add {
        #[inline(always)]
        fn at<const FUSED: bool>(&self, a: f32, b: f32) -> f32 {
            a + b
        }
    }
    zip(to, with, Add);
}

/// `to[i] += factor · with[i]`.
pub(crate) fn add_scaled(to: &mut [f32], factor: f32, with: &[f32]) {
    struct AddScaled(f32);
    impl Pairwise for AddScaled {
        #[inline(always)]
        fn at<const FUSED: bool>(&self, a: f32, b: f32) -> f32 {
            fma::<FUSED>(self.0, b, a)
        }
    }
    zip(to, with, AddScaled(factor));
}

/// Adds the rows of a matrix to `sums`, whose length is that of a row.
pub(crate) fn add_rows(sums: &mut [f32], matrix: &[f32]) {
    struct AddRows<'a>(&'a mut [f32], &'a [f32]);
    impl Vectorised for AddRows<'_> {
        type Output = ();
        #[inline(always)]
        fn run<const FUSED: bool>(self) {
            let AddRows(sums, matrix) = self;
            let width = sums.len();
            let mut first = 0;
            // Sixteen columns at a time stay in a register over all rows. (More of them would not:
            // the compiler keeps larger arrays in memory.)
            while first + 16 <= width {
                let mut lanes = [0.0f32; 16];
                for row in matrix.chunks_exact(width) {
                    for (lane, value) in lanes.iter_mut().zip(&row[first..first + 16]) {
                        *lane += value;
                    }
                }
                for (sum, lane) in sums[first..first + 16].iter_mut().zip(lanes) {
                    *sum += lane;
                }
                first += 16;
            }
            if first < width {
                for row in matrix.chunks_exact(width) {
                    for (sum, value) in sums[first..].iter_mut().zip(&row[first..]) {
                        *sum += value;
                    }
                }
            }
        }
    }
    if !sums.is_empty() {
        vectorise(AddRows(sums, matrix));
    }
}

/// The sum of sixteen lanes, in the order of a tree.
#[inline(always)]
pub(crate) fn across(lanes: [f32; 16]) -> f32 {
    let mut lanes = lanes;
    let mut half = 8;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_and_its_kin_are_exact_to_a_few_units_in_the_last_place() {
        for i in -8000..=8000 {
            let x = i as f32 * 0.01;
            let exact = f64::from(x).exp();
            // Coefficients and remainder are rounded to f32: a few times 2⁻²⁴ together.
            assert!((f64::from(exp::<true>(x)) / exact - 1.0).abs() < 4e-7, "exp {x}");
            assert!((f64::from(exp::<false>(x)) / exact - 1.0).abs() < 4e-7, "exp {x}");
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid::<true>(x)) / exact - 1.0).abs() < 6e-7, "sigmoid {x}");
            let exact = f64::from(x).tanh();
            // Two roundings near 1 are doubled.
            assert!((f64::from(tanh::<true>(x)) - exact).abs() < 4e-7, "tanh {x}");
        }
        assert_eq!(sigmoid::<true>(-1e9), exp::<true>(-87.0) / (1.0 + exp::<true>(-87.0)));
        assert_eq!(sigmoid::<true>(1e9), 1.0);
        assert!(sigmoid::<true>(f32::NAN).is_nan());
    }

    #[test]
    fn rows_add_up_in_every_width() {
        for width in [1, 2, 15, 16, 17, 33, 64, 130] {
            let matrix: Vec<f32> = (0..3 * width).map(|i| i as f32).collect();
            let mut sums = vec![1.0; width];
            add_rows(&mut sums, &matrix);
            for (column, sum) in sums.iter().enumerate() {
                assert_eq!(*sum, (1 + 3 * column + 3 * width) as f32);
            }
        }
    }
}
