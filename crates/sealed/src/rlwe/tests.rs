use super::codec::{expand, pack, packed_len, unpack};
use super::residue::Modulus;
use super::ring::{DELTA, FLOOD_BITS, PLAIN_BITS, PRIME, PRIMES, Poly, ring};
use super::transform::DEGREE;
use crate::kernel::{Lanes, Vectorised, in_all_ways};
use crate::random::Randomness;
use crate::wire::DecodeError;

/// x mod p for x = a·b·c… of u64 factors, by u128.
fn product_mod(factors: &[u64], p: u64) -> u64 {
    factors.iter().fold(1, |product, &factor| {
        (u128::from(product) * u128::from(factor % p) % u128::from(p)) as u64
    })
}

#[test]
fn constants_are_what_they_say() {
    for (i, &p) in PRIME.iter().enumerate() {
        assert!(p < 1 << 50 && p > (1 << 50) - (1 << 21) && p % 16384 == 1);
        // These bases decide primality below 3.3e24.
        assert!(
            [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37].iter().all(|&base| is_strong(base, p))
        );
        // ⌊q/t⌋·t = q − (q mod t), so modulo p it is −(q mod 2^40).
        let q_low = PRIME.iter().fold(1u64, |product, &prime| product.wrapping_mul(prime));
        let q_low = q_low & ((1 << PLAIN_BITS) - 1);
        let shifted = product_mod(&[DELTA[i], 1 << PLAIN_BITS], p);
        assert_eq!((shifted + q_low) % p, 0);
    }
    // 150 bits in all, of which the standard for homomorphic encryption allows 218 at this degree.
    let bits: f64 = PRIME.iter().map(|&p| (p as f64).log2()).sum();
    assert!(bits > 149.9 && bits <= 150.0);
}

/// The strong probable-prime test.
fn is_strong(base: u64, p: u64) -> bool {
    let modulus = Modulus::new(p);
    let twos = (p - 1).trailing_zeros();
    let mut x = modulus.power(base, (p - 1) >> twos);
    if x == 1 || x == p - 1 {
        return true;
    }
    (1..twos).any(|_| {
        x = product_mod(&[x, x], p);
        x == p - 1
    })
}

#[test]
fn residues_multiply_as_whole_numbers_do() {
    let mut random = Randomness::insecure_from_seed(1);
    for &p in &PRIME {
        let modulus = Modulus::new(p);
        let check = |x: i64, y: i64| {
            let expected = (i128::from(x) * i128::from(y)).rem_euclid(i128::from(p)) as u64;
            let found = modulus.canonical(modulus.multiply(x as f64, y as f64));
            assert_eq!(found, expected, "{x} · {y} mod {p}");
        };
        let half = p as i64 / 2;
        for x in [0, 1, -1, half, -half, half - 1, 2 * half, -2 * half] {
            for y in [0, 1, -1, half, -half, 1 - half] {
                check(x, y);
            }
        }
        for _ in 0..10_000 {
            let draw = |random: &mut Randomness| random.below(u128::from(p)) as i64 - half;
            check(2 * draw(&mut random), draw(&mut random));
        }
        assert_eq!(modulus.canonical(-1.0), p - 1);
        assert_eq!(modulus.canonical(8.0 * p as f64 - 1.0), p - 1);
        assert_eq!(product_mod(&[modulus.inverse_of(7), 7], p), 1);
    }
}

#[derive(Clone)]
struct LaneProducts(Vec<([f64; 8], [f64; 8])>, Modulus);

impl Vectorised for LaneProducts {
    type Output = Vec<[u64; 8]>;
    #[inline(always)]
    fn run<L: Lanes>(self) -> Vec<[u64; 8]> {
        let p = self.1.lanes::<L>();
        let mut results = Vec::new();
        for (x, y) in &self.0 {
            let mut out = [0.0; 8];
            p.multiply(L::load(x), L::load(y)).store(&mut out);
            // The bound that the sums of products rely on.
            assert!(out.iter().all(|x| x.abs() <= 0.76 * self.1.get() as f64));
            let product = L::load(&out);
            p.reduce(product.add(product).add(product)).store(&mut out);
            results.push(out.map(|x| self.1.canonical(x)));
        }
        results
    }
}

#[test]
fn all_kinds_of_lanes_agree() {
    let mut random = Randomness::insecure_from_seed(2);
    for &p in &PRIME {
        let mut draw = || {
            std::array::from_fn(|i| match i {
                0 => (p / 2) as f64,
                1 => -((p / 2) as f64),
                _ => random.below(u128::from(p)) as f64 - (p / 2) as f64,
            })
        };
        let work = LaneProducts((0..500).map(|_| (draw(), draw())).collect(), Modulus::new(p));
        let results = in_all_ways(&work);
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        for ((x, y), result) in work.0.iter().zip(&results[0]) {
            for i in 0..8 {
                let product = 3 * (x[i] as i128) * (y[i] as i128);
                assert_eq!(result[i], product.rem_euclid(i128::from(p)) as u64);
            }
        }
    }
}

/// A polynomial of random residues in balanced form, with the extremes in front.
fn random_poly(prime: usize, random: &mut Randomness) -> Poly {
    let mut poly = Poly::zero();
    let half = (PRIME[prime] / 2) as f64;
    for x in poly.0.iter_mut() {
        *x = random.below(u128::from(PRIME[prime])) as f64 - half;
    }
    poly.0[0] = half;
    poly.0[1] = -half;
    poly
}

/// A root of X^8192 + 1 modulo a prime, balanced.
fn root_of_minus_one(prime: usize) -> f64 {
    let (p, modulus) = (PRIME[prime], Modulus::new(PRIME[prime]));
    let roots = (2..).map(|base| modulus.power(base, (p - 1) / (2 * DEGREE as u64)));
    let root = roots.take(100).find(|&root| modulus.power(root, DEGREE as u64) == p - 1);
    modulus.reduce(root.expect("every other number gives one") as f64)
}

#[derive(Clone)]
struct ForwardOf(usize, Poly);

impl Vectorised for ForwardOf {
    type Output = Vec<u64>;
    #[inline(always)]
    fn run<L: Lanes>(mut self) -> Vec<u64> {
        let transform = &ring().transforms[self.0];
        transform.forward_within::<L>(&mut self.1.0);
        self.1.0.iter().map(|&x| transform.modulus().canonical(x)).collect()
    }
}

#[test]
fn transforms_invert_and_agree_in_all_kinds_of_lanes() {
    let mut random = Randomness::insecure_from_seed(3);
    for (prime, transform) in ring().transforms.iter().enumerate() {
        let half = (PRIME[prime] / 2) as f64;
        // Random, and the largest that can be: all layers at their bounds.
        let mut largest = Poly::zero();
        largest.0.fill(half);
        let mut alternating = Poly::zero();
        for (i, x) in alternating.0.iter_mut().enumerate() {
            *x = if i.count_ones() % 2 == 0 { half } else { -half };
        }
        for poly in [random_poly(prime, &mut random), largest, alternating] {
            let mut there = poly.clone();
            transform.forward(&mut there.0);
            // Values at all roots of X^8192 + 1: at any one of them Horner's rule gives one of the values.
            let (p, root) = (transform.modulus(), root_of_minus_one(prime));
            let value =
                poly.0.iter().rev().fold(0.0, |sum, &x| p.reduce(p.multiply(sum, root) + x));
            assert!(there.0.iter().any(|&x| p.canonical(x) == p.canonical(value)));
            let mut back = there.clone();
            transform.inverse(&mut back.0);
            assert_eq!(back.0, poly.0);
            let ways = in_all_ways(&ForwardOf(prime, poly));
            assert!(ways.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }
}

#[test]
fn products_of_values_are_products_of_polynomials() {
    // (Σ x_i X^i)·(a X^k + b X^m) modulo X^8192 + 1: shifts, with a change of sign on the way round.
    let mut random = Randomness::insecure_from_seed(4);
    for prime in 0..PRIMES {
        let transform = &ring().transforms[prime];
        let p = transform.modulus();
        let x = random_poly(prime, &mut random);
        let (a, k, b, m) = (123_456_789.0, 8191, -987.0, 17);
        let mut sparse = Poly::zero();
        sparse.0[k] = a;
        sparse.0[m] = b;
        let mut values = x.clone();
        transform.forward(&mut values.0);
        transform.forward(&mut sparse.0);
        for (value, factor) in values.0.iter_mut().zip(sparse.0.iter()) {
            *value = p.multiply(*value, *factor);
        }
        transform.inverse(&mut values.0);
        for i in 0..DEGREE {
            let from = |shift: usize| match i.checked_sub(shift) {
                Some(j) => x.0[j],
                None => -x.0[i + DEGREE - shift],
            };
            let expected = p.multiply(from(k), a) + p.multiply(from(m), b);
            assert_eq!(p.canonical(values.0[i]), p.canonical(expected), "coefficient {i}");
        }
    }
}

#[test]
fn switching_divides_and_rounds() {
    let ring = ring();
    let mut random = Randomness::insecure_from_seed(5);
    for _ in 0..1000 {
        // x = a·p1·p2 + r with |r| < p1·p2/2 becomes a, or its neighbour where both halves round.
        let a = random.below(u128::from(PRIME[0])) as u64;
        let r = random.below(1 << 98) as i128 - (1 << 97);
        let x = std::array::from_fn(|i| {
            let p = PRIME[i];
            let whole = product_mod(&[a, PRIME[1], PRIME[2]], p);
            let residue = (i128::from(whole) + r).rem_euclid(i128::from(p)) as f64;
            ring.modulus(i).reduce(residue)
        });
        assert_eq!(ring.switch(x), a);
    }
}

#[test]
fn floods_are_the_whole_number_they_come_from() {
    let mut random = Randomness::insecure_from_seed(6);
    let top = 1u128 << (FLOOD_BITS + 1);
    for bits in [0, 1, top - 1, top / 2].into_iter().chain((0..100).map(|_| random.below(top))) {
        let flood = bits as i128 - (1 << FLOOD_BITS);
        for (i, residue) in ring().flood(bits).into_iter().enumerate() {
            let expected = flood.rem_euclid(i128::from(PRIME[i])) as u64;
            assert_eq!(ring().modulus(i).canonical(residue), expected);
        }
    }
}

#[test]
fn packing_keeps_residues_and_checks_them() {
    let mut random = Randomness::insecure_from_seed(7);
    let p = PRIME[0];
    for count in [1, 2, 3, 4, 5, 335, 336, 8192] {
        let residues: Vec<u64> = (0..count).map(|_| random.below(u128::from(p)) as u64).collect();
        let mut bytes = Vec::new();
        pack(&residues, &mut bytes);
        assert_eq!(bytes.len(), packed_len(count));
        let mut back = vec![0; count];
        unpack("residues", &bytes, count, p, |i, x| back[i] = x).unwrap();
        assert_eq!(back, residues);
        let error = unpack("residues", &bytes[1..], count, p, |_, _| {}).unwrap_err();
        let expected = packed_len(count);
        assert_eq!(error, DecodeError::Length { what: "residues", found: expected - 1, expected });
        // Bits after the last residue must be zero, or one message would have several encodings.
        if count % 4 != 0 {
            let last = bytes.len() - 1;
            bytes[last] |= 0x80;
            let error = unpack("residues", &bytes, count, p, |_, _| {}).unwrap_err().to_string();
            // Of the last residue but in the group of four, these bits are its own: it is too large then.
            let padding = "residues: found bits after the last residue, expected zeros";
            assert!(error == padding || error.ends_with(&format!("residues below {p}")), "{error}");
        }
    }
    let mut bytes = Vec::new();
    pack(&[0, p - 1, p, 0], &mut bytes);
    let error = unpack("residues", &bytes, 4, p, |_, _| {}).unwrap_err().to_string();
    assert_eq!(error, format!("residues: found {p}, expected residues below {p}"));
}

#[test]
fn streams_of_seeds_are_uniform_and_differ() {
    let mut values = Box::new([0.0; DEGREE]);
    let mut counts = [0.0f64; 64];
    for seed in 0..8 {
        expand(&[seed; 32], usize::from(seed) % PRIMES, &mut values);
        for x in values.iter() {
            counts[(x / 2f64.powi(44)) as usize] += 1.0;
        }
    }
    // χ² with 63 degrees of freedom: mean 63, deviation 11.2; five of them.
    let expected = 8.0 * DEGREE as f64 / 64.0;
    let statistic: f64 = counts.iter().map(|c| (c - expected) * (c - expected) / expected).sum();
    assert!(statistic < 119.0, "{statistic}");
    let mut other = Box::new([0.0; DEGREE]);
    expand(&[0; 32], 1, &mut other);
    expand(&[0; 32], 0, &mut values);
    // 8192 pairs of 50 bits: one is the same with a probability of 2^-37.
    assert!(values.iter().zip(other.iter()).all(|(a, b)| a != b));
}

#[test]
fn secrets_have_their_distributions() {
    let mut random = Randomness::insecure_from_seed(8);
    let (mut ternary, mut square, mut largest) = ([0.0; 3], 0.0, 0.0f64);
    for _ in 0..16 {
        for x in Poly::ternary(&mut random).0.iter() {
            ternary[(x + 1.0) as usize] += 1.0;
        }
        for x in Poly::error(&mut random).0.iter() {
            square += x * x;
            largest = largest.max(x.abs());
        }
    }
    let count = 16.0 * DEGREE as f64;
    // Binomial with p = 1/3: deviation 171; five of them.
    assert!(ternary.iter().all(|found: &f64| (found - count / 3.0).abs() < 855.0), "{ternary:?}");
    // Variance 10.5, whose estimate has a deviation of 10.5·√(2/131072) = 0.041.
    assert!((square / count - 10.5).abs() < 0.21, "{}", square / count);
    assert!(largest <= 21.0);
}
