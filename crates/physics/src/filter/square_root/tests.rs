//! Against the Kalman filter, and positive definite over random runs.

use proptest::prelude::*;

use super::*;
use crate::test_networks::Draw;

type Matrix = Vec<Vec<f64>>;

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let entry = |row: &Vec<f64>, j: usize| row.iter().zip(b).map(|(x, r)| x * r[j]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|j| entry(row, j)).collect()).collect()
}

fn transposed(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Solves A·X = B by Gauss with pivots.
fn solved(a: &Matrix, b: &Matrix) -> Matrix {
    let n = a.len();
    let mut rows: Matrix = a.iter().zip(b).map(|(a, b)| [&a[..], &b[..]].concat()).collect();
    for i in 0..n {
        let pivot = (i..n).max_by(|&p, &q| rows[p][i].abs().total_cmp(&rows[q][i].abs())).unwrap();
        rows.swap(i, pivot);
        for r in 0..n {
            let factor = rows[r][i] / rows[i][i];
            if r != i {
                let from = rows[i].clone();
                rows[r].iter_mut().zip(&from).for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
    rows.iter().enumerate().map(|(i, row)| row[n..].iter().map(|x| x / row[i]).collect()).collect()
}

fn apply(a: &Matrix, x: &[f64]) -> Vec<f64> {
    a.iter().map(|row| row.iter().zip(x).map(|(a, x)| a * x).sum()).collect()
}

fn diagonal(values: &[f64]) -> Matrix {
    let row = |i: usize| (0..values.len()).map(|j| if i == j { values[i] } else { 0.0 }).collect();
    (0..values.len()).map(row).collect()
}

/// The textbook filter, on covariances.
struct Kalman {
    x: Vec<f64>,
    p: Matrix,
}

impl Kalman {
    fn step(&mut self, f: &Matrix, q: &[f64], h: &Matrix, r: &[f64], z: &[f64]) {
        self.x = apply(f, &self.x);
        self.p = product(&product(f, &self.p), &transposed(f));
        (0..q.len()).for_each(|i| self.p[i][i] += q[i] * q[i]);
        let mut s = product(&product(h, &self.p), &transposed(h));
        (0..r.len()).for_each(|i| s[i][i] += r[i] * r[i]);
        let gain = transposed(&solved(&s, &product(h, &self.p)));
        let innovation: Vec<f64> = apply(h, &self.x).iter().zip(z).map(|(h, z)| z - h).collect();
        self.x.iter_mut().zip(apply(&gain, &innovation)).for_each(|(x, c)| *x += c);
        let less = product(&gain, &product(h, &self.p));
        for (row, less) in self.p.iter_mut().zip(less) {
            row.iter_mut().zip(less).for_each(|(p, l)| *p -= l);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn on_a_linear_model_it_is_the_kalman_filter(seed: u64, n in 1..6_usize, m in 1..4_usize) {
        let draw = &mut Draw::new(seed);
        let mut matrix = |rows: usize, columns: usize, reach: f64| -> Matrix {
            (0..rows).map(|_| (0..columns).map(|_| draw.between(-reach, reach)).collect()).collect()
        };
        // Entries below 1/n keep the model from growing.
        let (f, h) = (matrix(n, n, 1.0 / n as f64), matrix(m, n, 1.0));
        let mut list = |len: usize, low: f64, high: f64| -> Vec<f64> {
            (0..len).map(|_| draw.between(low, high)).collect()
        };
        let (q, r, first) = (list(n, 0.1, 1.0), list(m, 0.1, 1.0), list(n, 0.5, 2.0));
        let squares: Vec<f64> = first.iter().map(|d| d * d).collect();
        let mut kalman = Kalman { x: list(n, -1.0, 1.0), p: diagonal(&squares) };
        let mut filter =
            SquareRootFilter::new(kalman.x.clone(), &first, SigmaPointSpread::default()).unwrap();
        for _ in 0..30 {
            let z = list(m, -2.0, 2.0);
            kalman.step(&f, &q, &h, &r, &z);
            let linear = |a: &Matrix, x: &[f64], y: &mut [f64]| {
                y.copy_from_slice(&apply(a, x));
                Ok::<_, FilterError>(())
            };
            filter.predict(n, &q, |x, y| linear(&f, x, y)).unwrap();
            filter.compare(&z, |x, y| linear(&h, x, y)).unwrap();
            filter.take(&r).unwrap();
            for i in 0..n {
                // Points at 0.1 deviations: differences lose two digits of sixteen, thirty times.
                prop_assert!((filter.mean()[i] - kalman.x[i]).abs() < 1e-11);
                for j in 0..n {
                    prop_assert!((filter.covariance(i, j) - kalman.p[i][j]).abs() < 1e-11);
                }
            }
        }
    }

    #[test]
    fn the_covariance_stays_positive_definite(seed: u64, n in 1..8_usize) {
        let draw = &mut Draw::new(seed);
        let mut filter =
            SquareRootFilter::new(vec![0.0; n], &vec![1.0; n], SigmaPointSpread::default()).unwrap();
        for _ in 0..200 {
            // A rough function with kinks, noise from 1e-6 to 1, measurements that come and go.
            let noise = 10_f64.powf(draw.between(-6.0, 0.0));
            let shift = draw.between(-1.0, 1.0);
            let rough = |x: &[f64], y: &mut [f64]| {
                for i in 0..x.len() {
                    let next = x[(i + 1) % x.len()];
                    y[i] = (x[i] + shift).min(0.5 * next).max(-2.0);
                }
                Ok::<_, FilterError>(())
            };
            filter.predict(n, &vec![noise; n], rough).unwrap();
            let z: Vec<f64> = (0..(draw.next() * 3.0) as usize).map(|_| draw.normal()).collect();
            let seen = |x: &[f64], y: &mut [f64]| {
                y.iter_mut().for_each(|y| *y = x[0].max(0.0) + x[x.len() - 1].abs());
                Ok::<_, FilterError>(())
            };
            filter.compare(&z, seen).unwrap();
            filter.take(&vec![noise.sqrt(); z.len()]).unwrap();
            prop_assert!(filter.smallest_pivot() > 0.0, "{}", filter.smallest_pivot());
            prop_assert!(filter.mean().iter().all(|x| x.is_finite()));
        }
    }
}

/// Two numbers with variances 4 and 9, seen with noise of variance 1 and 16: S = diag(5, 25).
#[test]
fn innovations_are_as_likely_as_their_covariance_says() {
    let mut filter =
        SquareRootFilter::new(vec![0.0; 2], &[2.0, 3.0], SigmaPointSpread::default()).unwrap();
    let same = |x: &[f64], y: &mut [f64]| {
        y.copy_from_slice(x);
        Ok::<_, FilterError>(())
    };
    filter.compare(&[5.0, 10.0], same).unwrap();
    let taken = filter.take(&[1.0, 4.0]).unwrap();
    // Points at 0.1 deviations lose two digits of sixteen.
    assert!((taken.squared_innovation - (25.0 / 5.0 + 100.0 / 25.0)).abs() < 1e-10);
    assert!((taken.log_determinant - 125.0f64.ln()).abs() < 1e-10);
}

#[test]
fn the_centred_sum_is_van_der_merwes_covariance() {
    // x² of a normal x: the usual weights, with −96 or so on the centre, give the same matrix.
    let spread = SigmaPointSpread::default();
    let mut filter = SquareRootFilter::new(vec![1.5, -0.5], &[0.7, 0.3], spread).unwrap();
    let square = |x: &[f64], y: &mut [f64]| {
        y[0] = x[0] * x[0] + x[1];
        y[1] = x[0] * x[1];
        Ok::<_, FilterError>(())
    };
    let lambda = spread.alpha * spread.alpha * 2.0 - 2.0;
    let reach = (2.0 + lambda).sqrt();
    let points = [[0.0, 0.0], [0.7, 0.0], [0.0, 0.3], [-0.7, 0.0], [0.0, -0.3]];
    let images: Vec<[f64; 2]> = points
        .iter()
        .map(|[a, b]| {
            let mut y = [0.0; 2];
            square(&[1.5 + reach * a, -0.5 + reach * b], &mut y).unwrap();
            y
        })
        .collect();
    let weight = |i: usize| if i == 0 { lambda / (2.0 + lambda) } else { 0.5 / (2.0 + lambda) };
    let mean =
        [0, 1].map(|c| images.iter().enumerate().map(|(i, y)| weight(i) * y[c]).sum::<f64>());
    let centre = 1.0 - spread.alpha * spread.alpha + spread.beta;
    let covariance = |a: usize, b: usize| -> f64 {
        let of = |(i, y): (usize, &[f64; 2])| {
            let weight = weight(i) + if i == 0 { centre } else { 0.0 };
            weight * (y[a] - mean[a]) * (y[b] - mean[b])
        };
        images.iter().enumerate().map(of).sum()
    };
    filter.predict(2, &[1e-9, 1e-9], square).unwrap();
    for (a, mean) in mean.iter().enumerate() {
        // Weights of a hundred lose two digits.
        assert!((filter.mean()[a] - mean).abs() < 1e-12);
        for b in 0..2 {
            assert!((filter.covariance(a, b) - covariance(a, b)).abs() < 1e-12);
        }
    }
}

#[test]
fn numbers_that_make_no_filter_are_refused() {
    let new = |mean: Vec<f64>, deviations: &[f64], spread: SigmaPointSpread| {
        SquareRootFilter::new(mean, deviations, spread).unwrap_err().to_string()
    };
    assert_eq!(
        new(vec![0.0], &[-1.0], SigmaPointSpread::default()),
        "filter: standard deviation 0: found -1, expected more than 0"
    );
    let flat = SigmaPointSpread { alpha: 1.0, beta: 0.0, kappa: 0.0 };
    assert!(new(vec![0.0], &[1.0], flat).contains("beta: found 0"));
    let mut filter = SquareRootFilter::new(vec![0.0], &[1.0], SigmaPointSpread::default()).unwrap();
    let error = filter.predict(1, &[0.0], |x, y| {
        y.copy_from_slice(x);
        Ok::<_, FilterError>(())
    });
    assert!(error.unwrap_err().to_string().contains("process noise 0: found 0"));
}
