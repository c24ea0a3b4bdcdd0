use super::*;
use crate::check::{check_layer, passes};

fn ring(nodes: usize) -> Sparse {
    let edges: Vec<_> =
        (0..nodes).flat_map(|n| [(n, (n + 1) % nodes, 1.0), (n, (n + 2) % nodes, 0.5)]).collect();
    scaled_laplacian(&Sparse::new(nodes, &edges).unwrap(), 1.5)
}

/// The formula of the module, for one sample.
fn formula(s: ChebShape, l: &Sparse, residual: bool, w: &[f64], x: &[f64]) -> Vec<f64> {
    let nodes = l.nodes();
    let (theta, bias) = w.split_at(s.inputs * s.orders * s.outputs);
    let mut dense = vec![vec![0.0; nodes]; nodes];
    for (row, column, value) in l.entries() {
        dense[row][column] = f64::from(value);
    }
    let identity: Vec<Vec<f64>> =
        (0..nodes).map(|n| (0..nodes).map(|m| f64::from(n == m)).collect()).collect();
    let mut polynomials = vec![identity, dense.clone()];
    for k in 2..s.orders {
        let next = (0..nodes).map(|n| {
            let term = |m: usize| -> f64 {
                (0..nodes).map(|j| 2.0 * dense[n][j] * polynomials[k - 1][j][m]).sum::<f64>()
                    - polynomials[k - 2][n][m]
            };
            (0..nodes).map(term).collect()
        });
        let next = next.collect();
        polynomials.push(next);
    }
    let mut y = Vec::new();
    for x in x.chunks_exact(nodes * s.inputs) {
        for n in 0..nodes {
            for j in 0..s.outputs {
                let mut sum = bias[j];
                if residual && j < s.inputs {
                    sum += x[n * s.inputs + j];
                }
                for k in 0..s.orders {
                    for m in 0..nodes {
                        for i in 0..s.inputs {
                            sum += polynomials[k][n][m]
                                * x[m * s.inputs + i]
                                * theta[(i * s.orders + k) * s.outputs + j];
                        }
                    }
                }
                y.push(sum.max(0.0));
            }
        }
    }
    y
}

#[test]
fn values_and_gradients_are_those_of_the_formula() {
    let laplacian = ring(5);
    for orders in 1..=4 {
        for (inputs, outputs, residual) in [(3, 3, true), (2, 4, true), (4, 2, false)] {
            let shape = ChebShape { orders, slices: 2, inputs, outputs };
            for small in [true, false] {
                let layer = ChebConv::build(shape, &laplacian, Activation::Relu, residual, small);
                check_layer(&layer, 2, 3, |w, x| formula(shape, &laplacian, residual, w, x));
            }
        }
    }
}

/// Above the limit, where the recurrence is used by itself, it still agrees with matrices.
#[test]
fn recurrence_equals_matrices_on_a_larger_graph() {
    let laplacian = ring(SMALL_NODES + 8);
    let shape = ChebShape { orders: 3, slices: 2, inputs: 16, outputs: 16 };
    let mut draw = crate::Draw::new(1);
    let sparse = ChebConv::new(shape, &laplacian, Activation::Identity, true);
    assert!(matches!(sparse.graph, Graph::Large(_)));
    let small = ChebConv::build(shape, &laplacian, Activation::Identity, true, true);
    let mut some = |len: usize| -> Vec<f32> { (0..len).map(|_| draw.uniform(-1.0, 1.0)).collect() };
    let (w, x) = (some(sparse.layout().len()), some(sparse.input_len()));
    let dy = some(sparse.output_len());
    let a = passes(&sparse, 1, &w, &x, &dy);
    let b = passes(&small, 1, &w, &x, &dy);
    for (a, b) in [(a.0, b.0), (a.1, b.1), (a.2, b.2)] {
        let scale = b.iter().fold(1.0f32, |scale, value| scale.max(value.abs()));
        for (a, b) in a.iter().zip(&b) {
            // Both are sums of about a hundred roundings at 6e-8 of the largest term.
            assert!((a - b).abs() < 1e-5 * scale, "{a} {b}");
        }
    }
}

/// E1→E2, E1→off: successors exist for E1 only, so L[E1, E1] = 1 and the rest of L is 0 or the
/// bare weight, as the paper's code computes it.
#[test]
fn laplacian_of_a_diverge() {
    let weights = Sparse::new(3, &[(0, 1, 0.9), (0, 2, 0.9)]).unwrap();
    let laplacian = scaled_laplacian(&weights, 1.0);
    let entries: Vec<_> = laplacian.entries().collect();
    assert_eq!(entries, [(0, 0, 1.0), (0, 1, -1.8), (0, 2, -1.8), (1, 1, -1.0), (2, 2, -1.0)]);
}

/// On a ring where all nodes are alike, L = I − A/2 has the eigenvalue 0 for equal values and 2 for values of alternating
/// sign: scaled by λ = 2 they are −1 and 1, the ends of the interval where Chebyshev polynomials are at most 1.
#[test]
fn laplacian_of_a_ring_has_its_eigenvalues() {
    let nodes = 6;
    let edges: Vec<_> =
        (0..nodes).flat_map(|n| [(n, (n + 1) % nodes, 3.0), (n, (n + 5) % nodes, 3.0)]).collect();
    let laplacian = scaled_laplacian(&Sparse::new(nodes, &edges).unwrap(), 2.0);
    for (values, eigenvalue) in [([1.0; 6], -1.0), ([1.0, -1.0, 1.0, -1.0, 1.0, -1.0], 1.0)] {
        let mut found = [0.0; 6];
        laplacian.multiply(1, &values, &mut found);
        for (found, value) in found.into_iter().zip(values) {
            // Three roundings of numbers of order 1.
            assert!((found - eigenvalue * value).abs() < 1e-6, "{found}");
        }
    }
}

/// A single node has no neighbour: a polynomial of the number L = −1, T_k(−1) = (−1)^k.
#[test]
fn a_single_node_sees_itself_with_changing_sign() {
    let alone = scaled_laplacian(&Sparse::new(1, &[]).unwrap(), 1.0);
    assert_eq!(alone.entries().collect::<Vec<_>>(), [(0, 0, -1.0)]);
    let shape = ChebShape { orders: 4, slices: 1, inputs: 1, outputs: 1 };
    for small in [true, false] {
        let layer = ChebConv::build(shape, &alone, Activation::Identity, false, small);
        let (y, dx, gradient) = passes(&layer, 1, &[1.0, 10.0, 100.0, 1000.0, 0.5], &[2.0], &[1.0]);
        assert_eq!(y, [2.0 * (1.0 - 10.0 + 100.0 - 1000.0) + 0.5]);
        assert_eq!(dx, [-909.0]);
        assert_eq!(gradient, [2.0, -2.0, 2.0, -2.0, 1.0]);
    }
}
