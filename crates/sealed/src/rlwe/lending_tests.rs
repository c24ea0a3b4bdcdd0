//! What lender and taker see of a loan, with their keys in hand.

use super::message::{Loan as LoanMessage, Relay, SealedProducts, SharedGrant};
use super::ring::{PLAIN_BITS, PRIME};
use super::{KeySeed, RlweGuest, RlweHost};
use crate::fixed_point::{Grid, MOST_LEVELS};
use crate::lending::{Loan, Reach, Scale};
use crate::product::{Agreement, BlockId, BlockProducts, Guest, Host};
use crate::random::Randomness;

const ROWS: usize = 8192;

/// A guest with one value, the largest, and the host's side of it.
struct Party {
    guest: RlweGuest,
    host: RlweHost,
}

fn agreement() -> Agreement {
    let grid = Grid::new(-1.0, 1.0, MOST_LEVELS).expect("a grid");
    Agreement { width: 1, grid, most_rows: ROWS, most_blocks: 1 }
}

impl Party {
    fn new(seed: u64) -> Self {
        let random = |n| Randomness::insecure_from_seed(10 * seed + n);
        let key = KeySeed::drawn(&mut random(1));
        let guest = RlweGuest::with_randomness(agreement(), &key, random(2));
        let mut guest = guest.expect("a guest");
        let host = RlweHost::with_randomness(agreement(), &guest.opening(), random(3));
        let mut host = host.expect("a host");
        let upload = guest.upload(BlockId(0), &[MOST_LEVELS]).expect("an upload");
        host.store(&upload).expect("room");
        Self { guest, host }
    }

    /// As many loans of the same coefficient as there is room for in a polynomial.
    fn lend(&mut self, coefficient: f64, scale: Scale) -> (Vec<u8>, Loan) {
        let (coefficients, offsets) = (vec![coefficient; ROWS], vec![0.0; ROWS]);
        self.host.lend(&products(&coefficients, &offsets), scale).expect("a loan")
    }
}

fn products<'a>(coefficients: &'a [f64], offsets: &'a [f64]) -> BlockProducts<'a> {
    BlockProducts { rows: ROWS, blocks: &[BlockId(0)], coefficients, offsets }
}

/// Room for so many parts with coefficients of 1.
fn scale(parts: usize) -> Scale {
    let (coefficients, offsets) = (vec![1.0; ROWS], vec![0.0; ROWS]);
    let one = Reach::of(&agreement(), &products(&coefficients, &offsets)).expect("a reach");
    (1..parts).fold(one, |all, _| all.and(one)).scale().expect("a scale")
}

/// What a guest with its key sees: numbers and c1 by their top six bits, the noise in steps of 1/64.
fn view(guest: &RlweGuest, products: &SealedProducts) -> [Vec<f64>; 3] {
    let unit = PRIME[0] as f64 / 2f64.powi(PLAIN_BITS as i32);
    let mut view = [vec![0.0; 64], vec![0.0; 64], vec![0.0; 64]];
    for poly in &products.polys {
        for phase in guest.phases(poly, 1) {
            let number = (phase / unit).round();
            let whole = number as i64 as u64 & ((1 << PLAIN_BITS) - 1);
            view[0][(whole >> (PLAIN_BITS - 6)) as usize] += 1.0;
            view[1][(((phase / unit - number) + 0.5) * 64.0) as usize % 64] += 1.0;
        }
        for c1 in &poly.c1 {
            view[2][(c1 >> 44) as usize] += 1.0;
        }
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
fn a_lender_sees_uniform_numbers_whatever_it_lends() {
    let mut lender = Party::new(1);
    let scale = scale(2);
    let views = [0.0, 1.0].map(|coefficient| {
        let (loan, _) = lender.lend(coefficient, scale);
        let LoanMessage(products) = LoanMessage::decode(&loan, 1, ROWS).expect("our own bytes");
        view(&lender.guest, &products)
    });
    let [zeros, ones] = &views;
    for (what, (a, b)) in ["masked", "noise", "c1"].into_iter().zip(zeros.iter().zip(ones)) {
        assert!(look_alike(a, b), "{what}");
    }
    for view in &views {
        assert!(is_uniform(&view[0]) && is_uniform(&view[2]));
    }
    // Masks are drawn anew for each: no number is the same in two loans.
    let [a, b] = [0, 1].map(|_| {
        let (loan, _) = lender.lend(1.0, scale);
        let LoanMessage(products) = LoanMessage::decode(&loan, 1, ROWS).expect("our own bytes");
        lender.guest.decrypt(&products, 1)
    });
    // Numbers of 40 bits at 8192 places: one is the same with probability 7e-9, and the seed is fixed.
    assert!(a.iter().zip(&b).all(|(a, b)| a != b));
}

#[test]
fn a_taker_sees_uniform_parts_of_what_is_always_the_same_sum() {
    let mut taker = Party::new(2);
    let mut lenders = [Party::new(3), Party::new(4), Party::new(5)];
    let (scale, opening) = (scale(4), taker.guest.opening());
    // The same sum of 3: from the taker's own part, and from three lenders.
    let views = [(3.0, 0.0), (0.0, 1.0)].map(|(offset, coefficient)| {
        let lent: Vec<_> = lenders
            .iter_mut()
            .map(|lender| {
                let (loan, kept) = lender.lend(coefficient, scale);
                let relay = lender.guest.relay(&loan, &opening).expect("a relay");
                taker.host.accept(&kept, &relay).expect("what was asked for")
            })
            .collect();
        let (coefficients, offsets) = (vec![0.0; ROWS], vec![offset; ROWS]);
        let grant = taker.host.grant_with(&products(&coefficients, &offsets), scale, &lent);
        let grant = grant.expect("a grant");
        let found = taker.guest.take(&grant).expect("products");
        // Weights are whole numbers of units below 2^-23.
        assert!(found.iter().all(|found| (found - 3.0).abs() < 1e-6), "{:?}", &found[..3]);
        let SharedGrant { own, lent, .. } =
            SharedGrant::decode(&grant, 1, ROWS).expect("our own bytes");
        [view(&taker.guest, &own), view(&taker.guest, &lent)]
    });
    let [own_alone, all_lent] = &views;
    for (a, b) in own_alone.iter().flatten().zip(all_lent.iter().flatten()) {
        assert!(look_alike(a, b));
    }
    for part in views.iter().flatten() {
        assert!(is_uniform(&part[0]) && is_uniform(&part[2]));
    }
    // Three relays have a noise of √3·21.4 of 1024 units, 0.036: eight deviations are 19 cells of 1/64 from the middle.
    let noise = &all_lent[1][1];
    assert!(noise[..32 - 19].iter().chain(&noise[32 + 19..]).all(|count| *count == 0.0));
}

#[test]
fn the_host_sees_nothing_in_a_relay_but_fresh_encryption() {
    let (mut lender, taker) = (Party::new(6), Party::new(7));
    let (loan, _) = lender.lend(1.0, scale(2));
    let opening = taker.guest.opening();
    let [a, b] = [0, 1].map(|_| {
        let relay = lender.guest.relay(&loan, &opening).expect("a relay");
        let Relay(products) = Relay::decode(&relay, ROWS).expect("our own bytes");
        products.polys.into_iter().next().expect("a polynomial")
    });
    // The same loan twice: no residue is the same but by chance, 8192·2^-50.
    assert!(a.c1.iter().zip(&b.c1).all(|(a, b)| a != b));
    assert!(a.c0.iter().zip(&b.c0).all(|(a, b)| a != b));
    for residues in [&a.c0, &a.c1] {
        let mut counts = vec![0.0; 64];
        residues.iter().for_each(|residue| counts[(residue >> 44) as usize] += 1.0);
        assert!(is_uniform(&counts));
    }
}
