//! A sparse square matrix over the nodes of a graph, with its transpose (CSR).
//!
//! ```
//! use neural::Sparse;
//! // Node 0 feeds node 1, with weight 2.
//! assert!(Sparse::new(2, &[(1, 0, 2.0)]).is_ok());
//! assert!(Sparse::new(2, &[(2, 0, 2.0)]).is_err());
//! ```

use crate::kernel::{Vectorised, fma, vectorise};

/// Why entries do not make a matrix.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SparseError {
    /// An entry lies outside.
    #[error("entry ({row}, {column}) lies outside a graph of {nodes} nodes")]
    Outside {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        column: usize,
        /// Nodes of the graph.
        nodes: usize,
    },
    /// An entry is not a number, or infinite.
    #[error("entry ({row}, {column}) is not finite")]
    NotFinite {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        column: usize,
    },
}

/// The matrix, see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Sparse {
    nodes: usize,
    forward: Rows,
    transposed: Rows,
}

#[derive(Clone, Debug, PartialEq)]
struct Rows {
    /// Where each row starts in `entries`, and where the last one ends.
    starts: Vec<u32>,
    entries: Vec<(u32, f32)>,
}

impl Sparse {
    /// From entries (row, column, value) in any order; entries of the same place add up.
    pub fn new(nodes: usize, entries: &[(usize, usize, f32)]) -> Result<Self, SparseError> {
        for &(row, column, value) in entries {
            if row >= nodes || column >= nodes {
                return Err(SparseError::Outside { row, column, nodes });
            }
            if !value.is_finite() {
                return Err(SparseError::NotFinite { row, column });
            }
        }
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(|&(row, column, _)| (row, column));
        sorted.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let forward = Rows::new(nodes, &sorted);
        let mut turned: Vec<_> = sorted.iter().map(|&(row, column, v)| (column, row, v)).collect();
        turned.sort_by_key(|&(row, column, _)| (row, column));
        Ok(Sparse { nodes, forward, transposed: Rows::new(nodes, &turned) })
    }

    /// The matrix whose row n is the mean over the neighbours m of n, for edges (n, m). Nodes
    /// without neighbours get zeros.
    pub fn mean_over(nodes: usize, edges: &[(usize, usize)]) -> Result<Self, SparseError> {
        let mut degree = vec![0usize; nodes];
        for &(row, column) in edges {
            let outside = SparseError::Outside { row, column, nodes };
            *degree.get_mut(row).ok_or(outside)? += 1;
        }
        let entries: Vec<_> =
            edges.iter().map(|&(row, column)| (row, column, 1.0 / degree[row] as f32)).collect();
        Sparse::new(nodes, &entries)
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// All entries (row, column, value), by rows.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, usize, f32)> + '_ {
        (0..self.nodes).flat_map(|row| {
            self.forward.row(row).iter().map(move |&(column, v)| (row, column as usize, v))
        })
    }

    /// `y = M·x` for slices `x`, `y`: `[slice, node, channels]`.
    pub(crate) fn multiply(&self, channels: usize, x: &[f32], y: &mut [f32]) {
        self.apply(&self.forward, Strided::plain(channels), x, 1.0, y, Put::Write);
    }

    /// `y += factor·M·x`, with rows of x and y that may be parts of longer rows.
    pub(crate) fn add(&self, at: Strided, x: &[f32], factor: f32, y: &mut [f32]) {
        self.apply(&self.forward, at, x, factor, y, Put::Add);
    }

    /// `y += factor·Mᵀ·x`, as [`add`](Self::add).
    pub(crate) fn add_transposed(&self, at: Strided, x: &[f32], factor: f32, y: &mut [f32]) {
        self.apply(&self.transposed, at, x, factor, y, Put::Add);
    }

    fn apply(&self, rows: &Rows, at: Strided, x: &[f32], factor: f32, y: &mut [f32], put: Put) {
        rows.apply(self.nodes, at, x, factor, y, put);
    }
}

/// A sparse matrix that need not be square, applied to rows of adjacent channels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Oblong {
    rows: usize,
    columns: usize,
    forward: Rows,
    transposed: Rows,
}

impl Oblong {
    /// From entries (row, column, value) sorted by row; all lie inside.
    pub(crate) fn new(rows: usize, columns: usize, sorted: &[(usize, usize, f32)]) -> Self {
        let mut turned: Vec<_> = sorted.iter().map(|&(row, column, v)| (column, row, v)).collect();
        turned.sort_by_key(|&(row, column, _)| (row, column));
        Oblong {
            rows,
            columns,
            forward: Rows::new(rows, sorted),
            transposed: Rows::new(columns, &turned),
        }
    }

    /// `y = max(0, y + M·x)`, or without the maximum.
    pub(crate) fn add(&self, channels: usize, x: &[f32], relu: bool, y: &mut [f32]) {
        let put = if relu { Put::AddRelu } else { Put::Add };
        self.forward.apply(self.columns, Strided::plain(channels), x, 1.0, y, put);
    }

    /// `y = Mᵀ·x`.
    pub(crate) fn multiply_transposed(&self, channels: usize, x: &[f32], y: &mut [f32]) {
        self.transposed.apply(self.rows, Strided::plain(channels), x, 1.0, y, Put::Write);
    }
}

impl Rows {
    fn new(rows: usize, sorted: &[(usize, usize, f32)]) -> Self {
        let mut starts = vec![0u32; rows + 1];
        for &(row, ..) in sorted {
            starts[row + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        Rows { starts, entries: sorted.iter().map(|&(_, c, v)| (c as u32, v)).collect() }
    }

    /// Slice by slice, with slices of x of so many rows.
    fn apply(&self, x_rows: usize, at: Strided, x: &[f32], factor: f32, y: &mut [f32], put: Put) {
        let rows = self.starts.len() - 1;
        let (x_slice, y_slice) = (x_rows * at.x_row, rows * at.y_row);
        if x_slice == 0 || y_slice == 0 {
            return;
        }
        for (x, y) in x.chunks(x_slice).zip(y.chunks_mut(y_slice)) {
            vectorise(OneSlice { rows: self, nodes: rows, at, x, factor, y, put });
        }
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[(u32, f32)] {
        &self.entries[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}

/// How the rows of x and y lie: their distance and how many values count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided {
    pub channels: usize,
    pub x_row: usize,
    pub y_row: usize,
}

impl Strided {
    pub(crate) fn plain(channels: usize) -> Self {
        Strided { channels, x_row: channels, y_row: channels }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Put {
    Write,
    Add,
    AddRelu,
}

struct OneSlice<'a> {
    rows: &'a Rows,
    nodes: usize,
    at: Strided,
    x: &'a [f32],
    factor: f32,
    y: &'a mut [f32],
    put: Put,
}

impl Vectorised for OneSlice<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Strided { channels, x_row, y_row } = self.at;
        let whole = channels / 16 * 16;
        for node in 0..self.nodes {
            let entries = self.rows.row(node);
            let y = &mut self.y[node * y_row..][..channels];
            for first in (0..whole).step_by(16) {
                let mut lanes = [0.0f32; 16];
                for &(from, value) in entries {
                    let x = &self.x[from as usize * x_row + first..][..16];
                    for l in 0..16 {
                        lanes[l] = fma::<FUSED>(value, x[l], lanes[l]);
                    }
                }
                put::<FUSED>(self.put, self.factor, &lanes, &mut y[first..first + 16]);
            }
            for (channel, y) in y.iter_mut().enumerate().skip(whole) {
                let sum = entries.iter().fold(0.0, |sum, &(from, value)| {
                    fma::<FUSED>(value, self.x[from as usize * x_row + channel], sum)
                });
                put::<FUSED>(self.put, self.factor, &[sum], std::slice::from_mut(y));
            }
        }
    }
}

#[inline(always)]
fn put<const FUSED: bool>(how: Put, factor: f32, from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        let sum = fma::<FUSED>(factor, *from, if how == Put::Write { 0.0 } else { *to });
        *to = if how == Put::AddRelu && sum < 0.0 { 0.0 } else { sum };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_place_add_up_and_bad_ones_are_refused() {
        let matrix = Sparse::new(2, &[(0, 1, 1.0), (0, 1, 2.0)]).unwrap();
        assert_eq!(matrix.entries().collect::<Vec<_>>(), [(0, 1, 3.0)]);
        let outside = SparseError::Outside { row: 0, column: 2, nodes: 2 };
        assert_eq!(Sparse::new(2, &[(0, 2, 1.0)]), Err(outside));
        let bad = SparseError::NotFinite { row: 1, column: 0 };
        assert_eq!(Sparse::new(2, &[(1, 0, f32::NAN)]), Err(bad));
    }

    #[test]
    fn edges_outside_the_graph_are_refused() {
        for (row, column) in [(3, 0), (0, 3), (usize::MAX, 0)] {
            let outside = SparseError::Outside { row, column, nodes: 3 };
            assert_eq!(Sparse::mean_over(3, &[(0, 1), (row, column)]), Err(outside));
        }
        let error = Sparse::new(0, &[(0, 0, 1.0)]).unwrap_err().to_string();
        assert_eq!(error, "entry (0, 0) lies outside a graph of 0 nodes");
        let error = Sparse::new(1, &[(0, 0, f32::INFINITY)]).unwrap_err().to_string();
        assert_eq!(error, "entry (0, 0) is not finite");
    }

    #[test]
    fn a_matrix_without_entries_writes_zeros() {
        let empty = Sparse::new(2, &[]).unwrap();
        assert_eq!((empty.nodes(), empty.entries().count()), (2, 0));
        let mut y = [9.0; 4];
        empty.multiply(2, &[1.0; 4], &mut y);
        assert_eq!(y, [0.0; 4]);
        empty.add_transposed(Strided::plain(2), &[1.0; 4], 1.0, &mut y);
        assert_eq!(y, [0.0; 4]);
        Sparse::new(0, &[]).unwrap().multiply(1, &[], &mut []);
    }

    #[test]
    fn entries_come_by_rows_whatever_their_order() {
        let matrix =
            Sparse::new(3, &[(2, 0, 1.0), (0, 2, 2.0), (2, 2, -1.0), (0, 1, 3.0)]).unwrap();
        let sorted = [(0, 1, 3.0), (0, 2, 2.0), (2, 0, 1.0), (2, 2, -1.0)];
        assert_eq!(matrix.entries().collect::<Vec<_>>(), sorted);
        assert_eq!(Sparse::new(3, &sorted).unwrap(), matrix);
        // An edge named twice counts twice in the mean, and is one entry.
        let twice = Sparse::mean_over(3, &[(0, 1), (0, 1), (0, 2), (0, 1)]).unwrap();
        assert_eq!(twice.entries().collect::<Vec<_>>(), [(0, 1, 0.75), (0, 2, 0.25)]);
    }

    proptest::proptest! {
        /// ⟨M·x, y⟩ = ⟨x, Mᵀ·y⟩, with small whole numbers: exact in any order.
        #[test]
        fn products_with_the_transpose_are_adjoint(
            nodes in 1usize..8,
            entries in proptest::collection::vec((0usize..8, 0usize..8, -4i8..5), 0..20),
            numbers in proptest::collection::vec(-8i8..9, 2 * 8 * 3),
            channels in 1usize..4,
        ) {
            let entries: Vec<_> =
                entries.iter().map(|&(r, c, v)| (r % nodes, c % nodes, f32::from(v))).collect();
            let matrix = Sparse::new(nodes, &entries).unwrap();
            let len = nodes * channels;
            let [x, y] = [0, 1].map(|which| {
                numbers[which * len..(which + 1) * len].iter().map(|&v| f32::from(v)).collect::<Vec<f32>>()
            });
            let (mut mx, mut my) = (vec![0.0; len], vec![0.0; len]);
            matrix.multiply(channels, &x, &mut mx);
            matrix.add_transposed(Strided::plain(channels), &y, 1.0, &mut my);
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            proptest::prop_assert_eq!(dot(&mx, &y), dot(&x, &my));
        }
    }

    #[test]
    fn the_mean_is_over_the_neighbours_there_are() {
        let matrix = Sparse::mean_over(3, &[(0, 1), (0, 2), (1, 2)]).unwrap();
        let mut y = [9.0; 3];
        matrix.multiply(1, &[1.0, 10.0, 100.0], &mut y);
        assert_eq!(y, [55.0, 100.0, 0.0]);
    }

    /// Small integers, so that sums are exact in any order.
    #[test]
    fn products_equal_the_dense_ones_for_every_width_and_slice() {
        let entries = [(0, 0, 1.0), (0, 2, 2.0), (1, 0, 3.0), (2, 1, 4.0), (2, 2, 5.0)];
        let matrix = Sparse::new(3, &entries).unwrap();
        for channels in [1, 16, 19] {
            let x: Vec<f32> = (0..2 * 3 * channels).map(|i| i as f32).collect();
            let (mut y, mut z) = (vec![9.0; x.len()], vec![0.0; x.len()]);
            matrix.multiply(channels, &x, &mut y);
            matrix.add_transposed(Strided::plain(channels), &x, 1.0, &mut z);
            let (mut ey, mut ez) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            for slice in 0..2 {
                for (row, column, value) in entries {
                    for c in 0..channels {
                        let at = |node: usize| (slice * 3 + node) * channels + c;
                        ey[at(row)] += value * x[at(column)];
                        ez[at(column)] += value * x[at(row)];
                    }
                }
            }
            assert_eq!((y, z), (ey, ez));
        }
    }
}
