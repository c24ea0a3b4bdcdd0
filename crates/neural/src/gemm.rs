//! The matrix product that all dense layers share.
//!
//! ```text
//! C[m, n] = start + Σ_s Σ_k A[m·a_row + k·a_depth + s·a_segment] · B[k·b_row + s·b_segment + n]
//! ```
//!
//! `A` has any strides, `B` and `C` have rows of adjacent columns. Segments are an outer sum, with
//! strides of its own: the taps of a temporal convolution, the samples over which a weight's
//! gradient adds up, the orders of a Chebyshev polynomial. So forward, input gradient and weight
//! gradient of every layer are calls of this one function, without copies of the operands.
//!
//! ```
//! use neural::{Product, Start};
//! // [1 2; 3 4] · [5 6; 7 8] = [19 22; 43 50]
//! let mut c = [0.0; 4];
//! Product::dense(2, 2, 2).run(&[1., 2., 3., 4.], &[5., 6., 7., 8.], Start::Zero, &mut c);
//! assert_eq!(c, [19., 22., 43., 50.]);
//! ```

use crate::kernel::{self, Level};

/// Sizes and strides (in elements) of one product, see the [module](self) for the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of B and C.
    pub columns: usize,
    /// Length of the inner sum.
    pub depth: usize,
    /// Length of the outer sum.
    pub segments: usize,
    /// From one row of A to the next.
    pub a_row: usize,
    /// From one term of the inner sum to the next, in A.
    pub a_depth: usize,
    /// From one segment to the next, in A.
    pub a_segment: usize,
    /// From one term of the inner sum to the next, in B.
    pub b_row: usize,
    /// From one segment to the next, in B.
    pub b_segment: usize,
    /// From one row of C to the next.
    pub c_row: usize,
}

/// What is added to the product.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Nothing.
    Zero,
    /// What C held before.
    Keep,
    /// One row (a bias) to all rows of C.
    Row(&'a [f32]),
}

/// What happens to each sum before it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub start: Start<'a>,
    pub relu: bool,
}

impl Product {
    /// A plain product of row-major matrices: `A[rows, depth] · B[depth, columns]`.
    pub fn dense(rows: usize, depth: usize, columns: usize) -> Self {
        Product {
            rows,
            columns,
            depth,
            segments: 1,
            a_row: depth,
            a_depth: 1,
            a_segment: 0,
            b_row: columns,
            b_segment: 0,
            c_row: columns,
        }
    }

    /// `Aᵀ·B` for row-major `A[depth, rows]` and `B[depth, columns]`: the gradient of a weight.
    pub fn transposed(depth: usize, rows: usize, columns: usize) -> Self {
        Product { a_row: 1, a_depth: rows, ..Product::dense(rows, depth, columns) }
    }

    /// Computes the product into `c`.
    ///
    /// # Panics
    /// If an operand is shorter than its strides require, or the rows of C overlap.
    #[inline]
    pub fn run(&self, a: &[f32], b: &[f32], start: Start<'_>, c: &mut [f32]) {
        self.run_at(kernel::level(), a, b, Ends { start, relu: false }, c);
    }

    /// The same, followed by `max(0, c)` if `relu`: cheaper than a second pass over `c`.
    #[inline]
    pub(crate) fn run_relu(
        &self,
        a: &[f32],
        b: &[f32],
        start: Start<'_>,
        relu: bool,
        c: &mut [f32],
    ) {
        self.run_at(kernel::level(), a, b, Ends { start, relu }, c);
    }

    pub(crate) fn run_at(&self, level: Level, a: &[f32], b: &[f32], ends: Ends<'_>, c: &mut [f32]) {
        if self.rows == 0 || self.columns == 0 {
            return;
        }
        self.check(a, b, ends.start, c);
        if !kernel::multiply(level, self, a, b, ends, c) {
            self.portable(a, b, ends, c);
        }
    }

    /// The kernel relies on this check: it is what makes its pointers valid.
    #[inline]
    fn check(&self, a: &[f32], b: &[f32], start: Start<'_>, c: &[f32]) {
        let last = |steps: &[(usize, usize)]| {
            steps.iter().fold(0usize, |sum, &(count, stride)| {
                sum.saturating_add((count - 1).saturating_mul(stride))
            })
        };
        let summed = self.depth > 0 && self.segments > 0;
        let sum = (self.segments, self.depth);
        assert!(
            !summed
                || last(&[(self.rows, self.a_row), (sum.1, self.a_depth), (sum.0, self.a_segment)])
                    < a.len(),
            "matrix A of {} elements is too short for {self:?}",
            a.len()
        );
        assert!(
            !summed
                || last(&[(sum.1, self.b_row), (sum.0, self.b_segment), (self.columns, 1)])
                    < b.len(),
            "matrix B of {} elements is too short for {self:?}",
            b.len()
        );
        assert!(
            last(&[(self.rows, self.c_row), (self.columns, 1)]) < c.len()
                && (self.rows == 1 || self.c_row >= self.columns),
            "matrix C of {} elements does not fit {self:?}",
            c.len()
        );
        if let Start::Row(row) = start {
            assert!(row.len() >= self.columns, "bias of {} elements for {self:?}", row.len());
        }
    }

    /// The same sums in the same order, without fused multiply-add.
    fn portable(&self, a: &[f32], b: &[f32], ends: Ends<'_>, c: &mut [f32]) {
        for row in 0..self.rows {
            for first in (0..self.columns).step_by(16) {
                let width = (self.columns - first).min(16);
                let mut sums = [0.0f32; 16];
                for s in 0..self.segments {
                    for k in 0..self.depth {
                        let value = a[row * self.a_row + k * self.a_depth + s * self.a_segment];
                        let from = k * self.b_row + s * self.b_segment + first;
                        for (sum, b) in sums.iter_mut().zip(&b[from..from + width]) {
                            *sum += value * b;
                        }
                    }
                }
                let to = row * self.c_row + first;
                let c = &mut c[to..to + width];
                match ends.start {
                    Start::Zero => c.copy_from_slice(&sums[..width]),
                    Start::Keep => c.iter_mut().zip(&sums).for_each(|(c, sum)| *c += sum),
                    Start::Row(bias) => {
                        for ((c, sum), bias) in c.iter_mut().zip(&sums).zip(&bias[first..]) {
                            *c = sum + bias;
                        }
                    }
                }
                if ends.relu {
                    c.iter_mut().for_each(|c| *c = if *c < 0.0 { 0.0 } else { *c });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
