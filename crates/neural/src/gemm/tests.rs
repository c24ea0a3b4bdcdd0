use proptest::prelude::*;

use super::*;
use crate::Draw;

/// The formula, in f64.
fn oracle(p: &Product, a: &[f32], b: &[f32], start: Start<'_>, c: &[f32]) -> Vec<f64> {
    let mut result: Vec<f64> = c.iter().map(|&c| f64::from(c)).collect();
    for row in 0..p.rows {
        for column in 0..p.columns {
            let mut sum = match start {
                Start::Zero => 0.0,
                Start::Keep => f64::from(c[row * p.c_row + column]),
                Start::Row(bias) => f64::from(bias[column]),
            };
            for s in 0..p.segments {
                for k in 0..p.depth {
                    sum += f64::from(a[row * p.a_row + k * p.a_depth + s * p.a_segment])
                        * f64::from(b[k * p.b_row + s * p.b_segment + column]);
                }
            }
            result[row * p.c_row + column] = sum;
        }
    }
    result
}

fn levels() -> Vec<Level> {
    let mut levels = vec![Level::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        let best = kernel::level();
        if best != Level::Portable {
            levels.push(Level::Avx2);
        }
        if best == Level::Avx512 {
            levels.push(Level::Avx512);
        }
    }
    levels
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any sizes and strides, every kernel of this machine, every start: the formula.
    #[test]
    fn every_kernel_computes_the_formula(
        sizes in (1usize..40, 1usize..70, 0usize..20, 0usize..4),
        gaps in (0usize..3, 0usize..3, 0usize..5),
        transposed: bool,
        start in 0usize..3,
        relu: bool,
        seed: u64,
    ) {
        let (rows, columns, depth, segments) = sizes;
        let (a_row, a_depth) =
            if transposed { (1, rows + gaps.0) } else { (depth + gaps.0, 1) };
        let product = Product {
            rows, columns, depth, segments, a_row, a_depth,
            a_segment: rows.max(1) * depth.max(1) + gaps.1,
            b_row: columns + gaps.1,
            b_segment: gaps.2,
            c_row: columns + gaps.2,
        };
        let mut draw = Draw::new(seed);
        let mut some = |len: usize| -> Vec<f32> {
            (0..len).map(|_| draw.uniform(-1.0, 1.0)).collect()
        };
        // Exactly as long as needed: a read or write past the end would be out of bounds.
        let a = some((rows - 1) * a_row + depth.saturating_sub(1) * a_depth
            + segments.saturating_sub(1) * product.a_segment + 1);
        let b = some(depth.saturating_sub(1) * product.b_row
            + segments.saturating_sub(1) * product.b_segment + columns);
        let c = some((rows - 1) * product.c_row + columns);
        let bias = some(columns);
        let start = [Start::Zero, Start::Keep, Start::Row(&bias)][start];
        let mut expected = oracle(&product, &a, &b, start, &c);
        if relu {
            for row in expected.chunks_mut(product.c_row) {
                row.iter_mut().take(columns).for_each(|value| *value = value.max(0.0));
            }
        }
        let mut fused = Vec::new();
        for level in levels() {
            let mut result = c.clone();
            product.run_at(level, &a, &b, Ends { start, relu }, &mut result);
            for (found, expected) in result.iter().zip(&expected) {
                // At most 60 terms of random signs below 1: 60 roundings of sums of about 10.
                prop_assert!((f64::from(*found) - expected).abs() < 4e-5, "{level:?} {product:?}");
            }
            if level != Level::Portable {
                fused.push(result);
            }
        }
        // Same chain of fused multiply-adds, same bits.
        prop_assert!(fused.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
#[should_panic(expected = "too short")]
fn a_matrix_that_is_too_short_is_refused() {
    Product::dense(2, 3, 2).run(&[0.0; 5], &[0.0; 6], Start::Zero, &mut [0.0; 4]);
}

#[test]
#[should_panic(expected = "does not fit")]
fn overlapping_rows_are_refused() {
    let product = Product { c_row: 1, ..Product::dense(2, 1, 2) };
    product.run(&[0.0; 2], &[0.0; 2], Start::Zero, &mut [0.0; 4]);
}

#[test]
fn relu_keeps_numbers_that_are_none() {
    for level in levels() {
        let mut c = [0.0; 2];
        let ends = Ends { start: Start::Row(&[f32::NAN, -1.0]), relu: true };
        Product::dense(1, 1, 2).run_at(level, &[1.0], &[0.0, 0.0], ends, &mut c);
        assert!(c[0].is_nan() && c[1] == 0.0, "{level:?} {c:?}");
    }
}
