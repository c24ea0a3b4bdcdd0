//! Fewer products than values: whole numbers of a few bits are found all the same, by lattice reduction.
//!
//! Products of whole weights with whole numbers k are exact: W·k = p. All (x, τ) with W·x = τ·p form a lattice, and
//! (k, 1) is one of its shortest vectors when W has more bits than k has to spare: LLL (Lenstra, Lenstra and
//! Lovász 1982) finds it.
//!
//! The lattice's vectors are whole numbers of 128 bits, so every step keeps them in the lattice exactly; only
//! the choice of steps is made with `f64`. What is found is checked against all equations: a wrong answer cannot come
//! out, none can.

/// LLL's δ: how much shorter a vector must become to change places.
const DELTA: f64 = 0.99;
/// Multiples that are left: a half, and a little more, since half of a vector could be taken off for ever.
const MOST_FACTOR: f64 = 0.501;
/// Steps of one reduction, at most; bases of twenty vectors need a few thousand.
const MOST_STEPS: usize = 1_000_000;

/// The whole numbers of at most `most` in size that have these products, if lattice reduction finds them.
/// `weights` are the rows of W, `products` as many.
pub fn whole_numbers(weights: &[Vec<i64>], products: &[i64], most: i64) -> Option<Vec<i64>> {
    let unknowns = weights.first()?.len();
    if weights.len() != products.len() || weights.iter().any(|row| row.len() != unknowns) {
        return None;
    }
    // Coordinates of a vector: x, τ, and the equation that is worked on. τ counts as much as a typical k.
    let mut scales = vec![1.0; unknowns + 2];
    scales[unknowns] = most as f64 / 2.0;
    let mut basis = Basis { vectors: identity(unknowns + 1), scales };
    for (row, &product) in weights.iter().zip(products) {
        basis = basis.satisfying(row, product)?;
    }
    basis.reduce()?;
    basis.vectors.iter().find_map(|vector| {
        let sign = vector[unknowns];
        let numbers = vector[..unknowns].iter().map(|&x| i64::try_from(x * sign).ok());
        let numbers = numbers.collect::<Option<Vec<i64>>>()?;
        let fits = sign.abs() == 1 && numbers.iter().all(|k| (-most..=most).contains(k));
        (fits && holds(weights, products, &numbers)).then_some(numbers)
    })
}

fn holds(weights: &[Vec<i64>], products: &[i64], numbers: &[i64]) -> bool {
    weights.iter().zip(products).all(|(row, &product)| {
        let sum: i128 = row.iter().zip(numbers).map(|(&w, &k)| i128::from(w) * i128::from(k)).sum();
        sum == i128::from(product)
    })
}

fn identity(count: usize) -> Vec<Vec<i128>> {
    let vector = |i| (0..=count).map(|j| i128::from(i == j)).collect();
    (0..count).map(vector).collect()
}

/// Vectors that span a lattice, and how much each coordinate counts.
struct Basis {
    vectors: Vec<Vec<i128>>,
    scales: Vec<f64>,
}

impl Basis {
    /// The part of the lattice where Σ row·x = product·τ: one vector fewer.
    fn satisfying(mut self, row: &[i64], product: i64) -> Option<Self> {
        let last = row.len() + 1;
        for vector in &mut self.vectors {
            let terms = row.iter().zip(&*vector).map(|(&w, &x)| i128::from(w).checked_mul(x));
            let sum = terms.chain([(-i128::from(product)).checked_mul(vector[row.len()])]);
            vector[last] = sum.sum::<Option<i128>>()?;
        }
        if self.vectors.iter().all(|vector| vector[last] == 0) {
            return Some(self);
        }
        // The equation counts more and more, until all vectors but one satisfy it. Each reduction starts from an
        // almost reduced basis, so that its numbers have few digits to lose.
        for power in (0..=60).step_by(6) {
            self.scales[last] = f64::powi(2.0, power);
            self.reduce()?;
            if self.vectors.iter().filter(|vector| vector[last] != 0).count() == 1 {
                self.vectors.retain(|vector| vector[last] == 0);
                self.scales[last] = 1.0;
                return Some(self);
            }
        }
        None
    }

    /// LLL. Nothing if it does not end.
    fn reduce(&mut self) -> Option<()> {
        let count = self.vectors.len();
        let mut orthogonal = Orthogonal::default();
        let (mut k, mut steps) = (0, 0);
        while k < count {
            steps += 1;
            if steps > MOST_STEPS {
                return None;
            }
            self.shorten(k, &mut orthogonal)?;
            let below = k.checked_sub(1).map(|before| {
                let mu = orthogonal.factors[k][before];
                orthogonal.squares[k] < (DELTA - mu * mu) * orthogonal.squares[before]
            });
            if below == Some(true) {
                self.vectors.swap(k, k - 1);
                k -= 1;
            } else {
                k += 1;
            }
        }
        Some(())
    }

    /// Takes whole multiples of earlier vectors off vector k, until nothing changes.
    fn shorten(&mut self, k: usize, orthogonal: &mut Orthogonal) -> Option<()> {
        for _ in 0..100 {
            orthogonal.set(k, self.scaled(k));
            let mut changed = false;
            for j in (0..k).rev() {
                let times = orthogonal.factors[k][j].round();
                if orthogonal.factors[k][j].abs() <= MOST_FACTOR {
                    continue;
                }
                changed = true;
                let (before, from) = self.vectors.split_at_mut(k);
                for (x, y) in from[0].iter_mut().zip(&before[j]) {
                    *x = x.checked_sub((times as i128).checked_mul(*y)?)?;
                }
                let (before, from) = orthogonal.factors.split_at_mut(k);
                for (mu, of_j) in from[0].iter_mut().zip(&before[j][..j]) {
                    *mu -= times * of_j;
                }
                from[0][j] -= times;
            }
            if !changed {
                return Some(());
            }
        }
        None
    }

    fn scaled(&self, k: usize) -> Vec<f64> {
        self.vectors[k].iter().zip(&self.scales).map(|(&x, scale)| x as f64 * scale).collect()
    }
}

/// The vectors made orthogonal to those before them.
#[derive(Default)]
struct Orthogonal {
    stars: Vec<Vec<f64>>,
    squares: Vec<f64>,
    /// μ_kj for j < k.
    factors: Vec<Vec<f64>>,
}

impl Orthogonal {
    /// Sets the k-th; those after it are forgotten.
    fn set(&mut self, k: usize, vector: Vec<f64>) {
        self.stars.truncate(k);
        self.squares.truncate(k);
        self.factors.truncate(k);
        let (mut star, mut factors) = (vector, vec![0.0; k]);
        // Twice: what rounding has left in the first pass is taken off in the second.
        for _ in 0..2 {
            for (j, factor) in factors.iter_mut().enumerate() {
                let along = dot(&star, &self.stars[j]) / self.squares[j];
                *factor += along;
                for (x, y) in star.iter_mut().zip(&self.stars[j]) {
                    *x -= along * y;
                }
            }
        }
        self.squares.push(dot(&star, &star).max(f64::MIN_POSITIVE));
        self.stars.push(star);
        self.factors.push(factors);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use neural::hash;

    use super::*;

    fn number(key: u64, i: usize, bits: u32) -> i64 {
        let most = 1i64 << (bits - 1);
        (hash([key, i as u64]) % (2 * most as u64)) as i64 - most
    }

    fn case(
        key: u64,
        rows: usize,
        [weight_bits, value_bits]: [u32; 2],
    ) -> (Vec<Vec<i64>>, Vec<i64>) {
        let row = |r| (0..18).map(|j| number(key, 100 * r + j, weight_bits)).collect();
        ((0..rows).map(row).collect(), (0..18).map(|j| number(key + 1, j, value_bits)).collect())
    }

    fn products(weights: &[Vec<i64>], values: &[i64]) -> Vec<i64> {
        weights.iter().map(|row| row.iter().zip(values).map(|(w, k)| w * k).sum()).collect()
    }

    #[test]
    fn nine_products_give_eighteen_values_of_twelve_bits() {
        // Weights of 14 bits: 9·(14 + 12 + 2) bits are told, 18·12 are looked for.
        for trial in 0..20 {
            let (weights, values) = case(10 * trial, 9, [14, 12]);
            let found = whole_numbers(&weights, &products(&weights, &values), 1 << 11);
            assert_eq!(found.as_ref(), Some(&values), "trial {trial}");
        }
    }

    #[test]
    fn finer_grids_and_weights_as_lattice_products_have_them() {
        // 21 bits are what weights of 18 values have; 15 bits the finest grid.
        for trial in 0..5 {
            let (weights, values) = case(1000 + 10 * trial, 9, [21, 15]);
            let found = whole_numbers(&weights, &products(&weights, &values), 1 << 14);
            assert_eq!(found.as_ref(), Some(&values), "trial {trial}");
        }
    }

    #[test]
    fn too_few_products_do_not_tell() {
        // 3·28 bits are told, 216 looked for: there are many answers, and any that is found has these products.
        let (weights, values) = case(7, 3, [14, 12]);
        let told = products(&weights, &values);
        if let Some(found) = whole_numbers(&weights, &told, 1 << 11) {
            assert_ne!(found, values);
            assert_eq!(products(&weights, &found), told);
            assert!(found.iter().all(|k| k.abs() <= 1 << 11));
        }
    }

    #[test]
    fn equations_of_different_lengths_have_no_solution() {
        assert_eq!(whole_numbers(&[], &[], 1), None);
        assert_eq!(whole_numbers(&[vec![1, 2]], &[1, 2], 1), None);
        assert_eq!(whole_numbers(&[vec![1, 2], vec![1]], &[1, 2], 1), None);
    }

    /// Small systems by hand: one solution, none within the bound, and none at all.
    #[test]
    fn small_systems_are_solved_or_refused() {
        let rows = |rows: &[[i64; 2]]| rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>();
        // x + 1000·y = 3007: within ±10 only (7, 3).
        assert_eq!(whole_numbers(&rows(&[[1, 1000]]), &[3007], 10), Some(vec![7, 3]));
        assert_eq!(whole_numbers(&rows(&[[1, 1000]]), &[-3007], 10), Some(vec![-7, -3]));
        assert_eq!(whole_numbers(&rows(&[[1, 1000]]), &[0], 10), Some(vec![0, 0]));
        // 500 is out of reach: 500 or 1·1000 − 500.
        assert_eq!(whole_numbers(&rows(&[[1, 1000]]), &[500], 10), None);
        // An odd sum of even terms; two equations that contradict each other.
        assert_eq!(whole_numbers(&rows(&[[2, 4]]), &[7], 10), None);
        assert_eq!(whole_numbers(&rows(&[[1, 1], [2, 2]]), &[3, 7], 10), None);
        // An equation told twice is one.
        let twice = whole_numbers(&rows(&[[1, 1000], [2, 2000]]), &[3007, 6014], 10);
        assert_eq!(twice, Some(vec![7, 3]));
    }

    #[test]
    fn the_largest_products_do_not_overflow() {
        let weights = [vec![i64::MAX, 1], vec![1, 0]];
        for product in [i64::MIN, i64::MAX] {
            // Whatever is found has these products: here k = (±1, …) at most.
            let found = whole_numbers(&weights, &[product, product.signum()], 4);
            if let Some(found) = found {
                assert!(holds(&weights, &[product, product.signum()], &found));
            }
        }
        assert!(holds(&[vec![i64::MAX, i64::MAX]], &[0], &[i64::MAX, -i64::MAX]));
        assert!(!holds(&[vec![1]], &[2], &[1]));
    }
}
