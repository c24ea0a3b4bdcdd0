//! A minimum of a function of a few numbers, without derivatives (Nelder and Mead).
//!
//! The losses here have kinks (quantiles) and three or four unknowns of like size: what this method
//! is good at. Starts from a point and steps, ends when the simplex is small.

/// The place of a local minimum near `start`.
pub(super) fn minimum<const N: usize>(
    start: [f64; N],
    steps: [f64; N],
    rounds: usize,
    mut value: impl FnMut(&[f64; N]) -> f64,
) -> [f64; N] {
    let mut corners: Vec<([f64; N], f64)> = Vec::with_capacity(N + 1);
    corners.push((start, value(&start)));
    for i in 0..N {
        let mut corner = start;
        corner[i] += steps[i];
        corners.push((corner, value(&corner)));
    }
    for _ in 0..rounds {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (best, worst) = (corners[0].1, corners[N].1);
        if worst - best <= 1e-10 * (1.0 + best.abs()) {
            break;
        }
        let centre: [f64; N] = std::array::from_fn(|i| {
            corners[..N].iter().map(|corner| corner.0[i]).sum::<f64>() / N as f64
        });
        let along = |factor: f64, from: &[f64; N]| -> [f64; N] {
            std::array::from_fn(|i| centre[i] + factor * (from[i] - centre[i]))
        };
        let outer = corners[N].0;
        let mut try_at = |factor: f64| {
            let place = along(factor, &outer);
            (place, value(&place))
        };
        let reflected = try_at(-1.0);
        let moved = if reflected.1 < best {
            let further = try_at(-2.0);
            if further.1 < reflected.1 { further } else { reflected }
        } else if reflected.1 < corners[N - 1].1 {
            reflected
        } else {
            try_at(if reflected.1 < worst { -0.5 } else { 0.5 })
        };
        if moved.1 < worst {
            corners[N] = moved;
        } else {
            let towards = corners[0].0;
            for corner in &mut corners[1..] {
                corner.0 = std::array::from_fn(|i| 0.5 * (corner.0[i] + towards[i]));
                corner.1 = value(&corner.0);
            }
        }
    }
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    corners[0].0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_minimum_of_a_curved_valley() {
        // Rosenbrock's: the minimum is at (1, 1), at the bottom of a bent valley.
        let valley = |x: &[f64; 2]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
        let found = minimum([-1.2, 1.0], [0.5, 0.5], 1000, valley);
        // It stops where values agree to 1e-10; along the valley the value grows with about the square.
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 2e-3, "{found:?}");
    }

    #[test]
    fn without_rounds_the_best_corner_is_taken() {
        let slope = |x: &[f64; 1]| -x[0];
        assert_eq!(minimum([0.0], [1.0], 0, slope), [1.0]);
        assert_eq!(minimum([0.0], [-1.0], 0, slope), [0.0]);
        // A flat function has its minimum where it starts.
        assert_eq!(minimum([2.0, 3.0], [1.0, 1.0], 100, |_| 7.0), [2.0, 3.0]);
    }

    #[test]
    fn it_finds_a_minimum_with_a_kink() {
        let bent = |x: &[f64; 3]| (x[0] - 1.0).abs() + (x[1] + 2.0).powi(2) + (x[2] - x[0]).abs();
        let found = minimum([5.0, 5.0, 5.0], [1.0, 1.0, 1.0], 1000, bent);
        // It stops where the values of the corners agree to 1e-10; the square is flat to its root.
        for (found, expected) in found.iter().zip([1.0, -2.0, 1.0]) {
            assert!((found - expected).abs() < 1e-3, "{found} {expected}");
        }
    }
}
