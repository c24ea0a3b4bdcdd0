//! What host and owner see of encrypted coefficients, with their keys in hand.

use super::guest::times_key;
use super::message::{EncryptedCoefficients as CoefficientsMessage, MaskedProducts, Sealed};
use super::ring::{PRIME, Poly, ring};
use super::slots::{Flood, Q_MOD_T, SLOT_FLOOD_BITS, SLOT_PRIME, slots};
use super::transform::DEGREE;
use super::{KeySeed, RlweGuest, RlweHost};
use crate::fixed_point::{Grid, MOST_LEVELS};
use crate::masked_gradient::{MagnitudeBound, PendingProducts, ProductSecrets, Scale};
use crate::product::{Agreement, Coefficients, Guest, Host};
use crate::random::Randomness;

/// As many as there is room for in a polynomial.
const PRODUCTS: usize = DEGREE;

fn agreement() -> Agreement {
    let grid = Grid::new(-1.0, 1.0, MOST_LEVELS).expect("a grid");
    Agreement { width: 1, grid, most_rows: PRODUCTS, most_blocks: 1 }
}

/// A owner and the host's side of it.
struct Lender {
    guest: RlweGuest,
    host: RlweHost,
}

impl Lender {
    fn new(seed: u64) -> Self {
        let random = |n| Randomness::insecure_from_seed(10 * seed + n);
        let key = KeySeed::drawn(&mut random(1));
        let guest = RlweGuest::with_randomness(agreement(), &key, random(2)).expect("a guest");
        let host = RlweHost::with_randomness(agreement(), &guest.public_key(), random(3));
        Self { guest, host: host.expect("a host") }
    }

    fn encrypt_coefficients(&mut self, coefficient: f64, own: bool) -> (Vec<u8>, PendingProducts) {
        let values = vec![coefficient; 2 * PRODUCTS];
        let part = Coefficients { terms: 2, values: &values };
        self.host.encrypt_coefficients(&part, scale(), own).expect("a request")
    }

    fn multiply_masked(
        &mut self,
        request: &[u8],
        level: i32,
        recipient: Option<&[u8]>,
    ) -> MaskedProducts {
        let reply = self
            .guest
            .multiply_masked(request, &vec![level; 2 * PRODUCTS], recipient)
            .expect("a reply");
        MaskedProducts::decode(&reply, PRODUCTS).expect("our own bytes")
    }
}

/// A scale for coefficients of 1.
fn scale() -> Scale {
    let part = Coefficients { terms: 2, values: &[1.0; 2] };
    MagnitudeBound::of(&agreement(), &part).and_then(|reach| reach.scale()).expect("a scale")
}

/// c0 + c1·s, in units of a number.
fn phases(sealed: &Sealed, key: &Poly) -> Vec<f64> {
    let p = ring().modulus(0);
    let mut phases = Poly::zero();
    times_key(&sealed.c1, key, &mut phases);
    let unit = PRIME[0] as f64 / SLOT_PRIME as f64;
    phases.0.iter().zip(&sealed.c0).map(|(x, &c0)| p.reduce(x + c0 as f64) / unit).collect()
}

/// What the host sees with the key of the coefficients: numbers at their places and c1 by 64 equal parts, the noise in steps
/// of 1/64.
fn view(reply: &MaskedProducts, request: &PendingProducts) -> [Vec<f64>; 3] {
    let ProductSecrets::Lattice { key, .. } = &request.kept else {
        panic!("a request of the lattice protocol")
    };
    let mut view = [vec![0.0; 64], vec![0.0; 64], vec![0.0; 64]];
    for poly in &reply.polys {
        let mut numbers = Poly::zero();
        for (number, phase) in numbers.0.iter_mut().zip(phases(poly, key)) {
            *number = slots().modulus().reduce(phase.round());
            view[1][(((phase - phase.round()) + 0.5) * 64.0) as usize % 64] += 1.0;
        }
        slots().decode(&mut numbers);
        for number in numbers.0.iter() {
            let whole = slots().modulus().canonical(*number);
            view[0][(whole as f64 / SLOT_PRIME as f64 * 64.0) as usize] += 1.0;
        }
        poly.c1.iter().for_each(|c1| view[2][(c1 >> 44) as usize] += 1.0);
    }
    view
}

/// χ² with 63 degrees of freedom: mean 63, deviation 11.2; five of them.
fn is_uniform(counts: &[f64]) -> bool {
    let expected = counts.iter().sum::<f64>() / 64.0;
    counts.iter().map(|x| (x - expected).powi(2) / expected).sum::<f64>() < 119.0
}

/// χ² of two histograms of as many draws against each other: as above, with as many degrees of freedom as cells.
fn look_alike(a: &[f64], b: &[f64]) -> bool {
    let cells = a.iter().zip(b).filter(|(x, y)| *x + *y > 0.0);
    let terms: Vec<f64> = cells.map(|(x, y)| (x - y).powi(2) / (x + y)).collect();
    let freedom = terms.len() as f64 - 1.0;
    terms.iter().sum::<f64>() < freedom + 5.0 * (2.0 * freedom).sqrt()
}

#[test]
fn constants_are_what_they_say() {
    const { assert!(SLOT_PRIME < 1 << 40 && SLOT_PRIME > (1 << 40) - (1 << 18)) };
    const { assert!(SLOT_PRIME % 16384 == 1) };
    // Trial division up to the root: 2^20.
    assert!((3..1 << 20).step_by(2).all(|n| !SLOT_PRIME.is_multiple_of(n)));
    let product =
        PRIME.iter().fold(1u128, |x, &p| x * u128::from(p % SLOT_PRIME) % u128::from(SLOT_PRIME));
    assert_eq!(product, u128::from(Q_MOD_T));
    // A quarter of q/t: 2^150/2^40/4, to a part in 10^5.
    let bits: f64 = PRIME.iter().map(|&p| (p as f64).log2()).sum();
    assert!((bits - (SLOT_PRIME as f64).log2() - 2.0 - f64::from(SLOT_FLOOD_BITS)).abs() < 1e-4);
}

#[test]
fn products_of_polynomials_are_products_at_places() {
    let t = slots().modulus();
    let mut random = Randomness::insecure_from_seed(1);
    // One of them has a single coefficient, X^1: the product moves the other's by one place, and the last around.
    let mut a = Poly::zero();
    a.0.iter_mut().for_each(|x| *x = t.reduce(random.below(u128::from(SLOT_PRIME)) as f64));
    let mut moved = Poly::zero();
    for i in 0..DEGREE {
        moved.0[(i + 1) % DEGREE] = if i + 1 == DEGREE { -a.0[i] } else { a.0[i] };
    }
    let mut x = Poly::zero();
    x.0[1] = 1.0;
    for poly in [&mut a, &mut moved, &mut x] {
        slots().decode(poly);
    }
    for ((a, x), moved) in a.0.iter().zip(x.0.iter()).zip(moved.0.iter()) {
        assert_eq!(t.canonical(t.multiply(*a, *x)), t.canonical(*moved));
    }
    let numbers = moved.clone();
    slots().encode(&mut moved);
    slots().decode(&mut moved);
    assert!(moved.0.iter().zip(numbers.0.iter()).all(|(a, b)| t.canonical(*a) == t.canonical(*b)));
}

#[test]
fn the_host_sees_uniform_numbers_whatever_the_products_are() {
    let mut owner = Lender::new(1);
    // As different as can be: nothing, and the largest coefficients on the largest values.
    let views = [0, MOST_LEVELS].map(|level| {
        let (request, kept) = owner.encrypt_coefficients(1.0, true);
        view(&owner.multiply_masked(&request, level, None), &kept)
    });
    let [zeros, ones] = &views;
    for (what, (a, b)) in ["masked", "noise", "c1"].into_iter().zip(zeros.iter().zip(ones)) {
        assert!(look_alike(a, b), "{what}");
    }
    for view in &views {
        assert!(is_uniform(&view[0]) && is_uniform(&view[2]));
        // The flood takes a quarter to either side; eight deviations of rounding, 21.4 of 1024 each, eleven steps more.
        let beyond = view[1][..16 - 11].iter().chain(&view[1][48 + 11..]).sum::<f64>();
        assert!(beyond == 0.0 && view[1][16..48].iter().all(|count| *count > 0.0));
    }
}

/// The same request twice shares nothing: mask, encryption of zero and seed are drawn anew.
#[test]
fn masks_are_drawn_anew() {
    let mut owner = Lender::new(2);
    let opening = Lender::new(3).guest.public_key();
    let (request, kept) = owner.encrypt_coefficients(1.0, false);
    let ProductSecrets::Lattice { key, .. } = &kept.kept else {
        panic!("a request of the lattice protocol")
    };
    let replies = [0, 1].map(|_| owner.multiply_masked(&request, 5, Some(&opening)));
    let [a, b] = &replies;
    // 8192 residues of 50 bits, numbers of 40 bits: some are the same by chance with probability 7e-9 for the latter.
    assert!(a.polys[0].c1.iter().zip(&b.polys[0].c1).all(|(a, b)| a != b));
    let [masked, others] = [a, b].map(|reply| phases(&reply.polys[0], key));
    assert!(masked.iter().zip(&others).all(|(a, b)| a.round() != b.round()));
    let [a, b] = replies.map(|reply| reply.seed.expect("a seed"));
    assert!(
        a.c1.iter().zip(&b.c1).all(|(a, b)| a != b) && a.c0.iter().zip(&b.c0).all(|(a, b)| a != b)
    );
}

/// Coefficients are encrypted with a key of this request alone: what the owner gets looks uniform, whatever they are.
#[test]
fn the_lender_sees_uniform_residues_whatever_the_coefficients() {
    let mut owner = Lender::new(4);
    let mut keys = Vec::new();
    for coefficient in [0.0, 1.0] {
        let (request, _) = owner.encrypt_coefficients(coefficient, true);
        let request = CoefficientsMessage::decode(&request, PRODUCTS).expect("our own bytes");
        for half in request.planes.iter().chain([&request.key]) {
            for prime in 0..3 {
                let mut residues = Poly::zero();
                half.residues(prime, &mut residues.0);
                let mut counts = vec![0.0; 64];
                residues.0.iter().for_each(|x| counts[(*x as u64 >> 44) as usize] += 1.0);
                assert!(is_uniform(&counts));
            }
        }
        keys.push(request.key);
    }
    assert_ne!(keys[0], keys[1]);
}

/// Values in -1..1 by 64 cells; how far their counts are from what is expected, as χ².
fn chi_square(counts: &[f64; 64], share: impl Fn(usize) -> f64) -> f64 {
    let all: f64 = counts.iter().sum();
    let cells = counts.iter().enumerate().map(|(cell, found)| (found, all * share(cell)));
    cells.map(|(found, expected)| (found - expected).powi(2) / expected).sum()
}

#[test]
fn floods_have_no_edges_and_are_bounded() {
    let mut counts = [0.0; 64];
    for seed in 0..8 {
        let mut flood = Flood::new();
        flood.draw(&mut Randomness::insecure_from_seed(seed));
        let mut sums = [Poly::zero(), Poly::zero(), Poly::zero()];
        for (prime, sums) in sums.iter_mut().enumerate() {
            flood.add(prime, &mut sums.0);
        }
        // Switched down to one prime, ±2^108 of q are a quarter of a number, 1024, to either side, and 1 of rounding.
        let zero = Poly::zero();
        let [a, b, c] = &sums;
        for x in ring().switch_all([a, b, c], &zero) {
            let balanced =
                ring().modulus(0).reduce(x as f64) / (PRIME[0] as f64 / SLOT_PRIME as f64 / 4.0);
            assert!(balanced.abs() < 1.01, "{balanced}");
            counts[((balanced + 1.0) * 32.0).clamp(0.0, 63.0) as usize] += 1.0;
        }
    }
    // The density 1 - |x|: 63 degrees of freedom, deviation 11.2, five of them.
    let middle = |cell: usize| (cell as f64 + 0.5) / 32.0 - 1.0;
    let found = chi_square(&counts, |cell| (1.0 - middle(cell).abs()) / 32.0);
    assert!(found < 119.0, "{found}");
}

/// What the host, which has the key, learns of a guest's values from the noise of masked products: over 10,000 exchanges of two
/// polynomials each less than 2^-40, with the 34 terms of a head with message passing, too.
#[test]
fn the_flood_hides_the_noise_of_ten_thousand_exchanges() {
    // 1 − ∫√(f(x)·f(x − d)) for the density of the flood, on ±1, by the middle of many cells: its edges are resolved, since d
    // is ten of them.
    let hidden = |d: f64| {
        let density = |x: f64| (1.0 - x.abs()).max(0.0);
        let (cell, from) = (d / 10.0, -1.0);
        let cells = ((2.0 + d) / cell).ceil() as usize;
        let x = |i: usize| from + (i as f64 + 0.5) * cell;
        (0..cells).map(|i| (density(x(i)).sqrt() - density(x(i) - d).sqrt()).powi(2)).sum::<f64>()
            * cell
            / 2.0
    };
    // docs/sealed.md: the squared Hellinger distance of one coefficient is at most d²·(ln(1/d) + 3)/4.
    let bound = |d: f64| d * d * ((1.0 / d).ln() + 3.0) / 4.0;
    for d in [1e-2, 1e-3, 1e-4] {
        assert!(hidden(d) <= bound(d) && hidden(d) > 0.5 * bound(d), "{} {}", hidden(d), bound(d));
    }
    // The noise of a term is a product of errors, of variance 10.5, with the difference of two polynomials of coefficients
    // below 2^39: so is, in the mean over errors, the square of its coefficients.
    for terms in [2.0, 34.0] {
        let square = terms * 10.5 * DEGREE as f64 * 2f64.powi(80);
        let d = square.sqrt() / 2f64.powi(SLOT_FLOOD_BITS as i32);
        let coefficients = 1e4 * 2.0 * DEGREE as f64;
        let distance = (2.0 * coefficients * bound(d)).sqrt();
        assert!(distance < 2f64.powi(-40), "2^{} for {terms} terms", distance.log2());
    }
}
