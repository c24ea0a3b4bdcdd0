//! Products of guests' values that one of them gets: the right ones, by all implementations that have them, and nothing
//! that does not belong to the loan.

use std::sync::Arc;

use proptest::prelude::*;
use sealed::fixed_point::MOST_LEVELS;
use sealed::ipfe::{Authority, IpfeGuest, IpfeHost, LogarithmTable};
use sealed::plain::{PlainGuest, PlainHost};
use sealed::rlwe::message::{Grant, Loan, Relay};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, Coefficients, Grid, Guest, Host, Lent, LoanSize, Randomness, Reach, Scale,
    SealedError,
};

/// Numbers of a grant are below half the largest prime under 2^40 that is 1 modulo 16384.
const LIMIT: f64 = 549_755_740_160.0;

fn agreement() -> Agreement {
    let grid = Grid::new(-1.0, 2.0, MOST_LEVELS).expect("a grid");
    Agreement { width: 4, grid, most_rows: 10_000, most_blocks: 20 }
}

/// A guest and the host's side of it.
struct Party {
    guest: Box<dyn Guest>,
    host: Box<dyn Host>,
    terms: usize,
    /// `[product, term]`.
    levels: Vec<i32>,
    coefficients: Vec<f64>,
}

impl Party {
    fn new(
        lattice: bool,
        [products, terms]: [usize; 2],
        size: f64,
        random: &mut Randomness,
    ) -> Self {
        let agreement = agreement();
        let (guest, host): (Box<dyn Guest>, Box<dyn Host>) = if lattice {
            let guest = RlweGuest::new(agreement, &KeySeed::from_os().expect("a seed"));
            let guest = guest.expect("a guest");
            let host = RlweHost::new(agreement, &guest.opening()).expect("a host");
            (Box::new(guest), Box::new(host))
        } else {
            let guest = PlainGuest::new(agreement).expect("a guest");
            (Box::new(guest), Box::new(PlainHost::new(agreement).expect("a host")))
        };
        let count = products * terms;
        let level = |random: &mut Randomness| random.below(2 * MOST_LEVELS as u128 + 1) as i32;
        let levels = (0..count).map(|_| level(random) - MOST_LEVELS).collect();
        let coefficients = (0..count).map(|_| uniform(random) * size).collect();
        Self { guest, host, terms, levels, coefficients }
    }

    fn part(&self) -> Coefficients<'_> {
        Coefficients { terms: self.terms, values: &self.coefficients }
    }

    fn expected(&self) -> Vec<f64> {
        let rows = self.coefficients.chunks_exact(self.terms);
        let value = |(row, levels): (&[f64], &[i32])| {
            let values = levels.iter().map(|&level| agreement().grid.value(level));
            row.iter().zip(values).map(|(d, u)| d * u).sum()
        };
        rows.zip(self.levels.chunks_exact(self.terms)).map(value).collect()
    }

    /// No value is larger than 2.
    fn largest(&self) -> f64 {
        let norms = self.coefficients.chunks_exact(self.terms);
        norms.map(|row| 2.0 * row.iter().map(|d| d.abs()).sum::<f64>()).fold(0.0, f64::max)
    }

    fn lend(&mut self, scale: Scale, taker: Option<&[u8]>) -> Result<Lent, SealedError> {
        let part = Coefficients { terms: self.terms, values: &self.coefficients };
        let (loan, kept) = self.host.lend(&part, scale, taker.is_none())?;
        let (terms, products) = (self.terms, self.levels.len() / self.terms);
        assert_eq!(self.guest.loan_size(&loan)?, LoanSize { products, terms });
        let relay = self.guest.relay(&loan, &self.levels, taker)?;
        self.host.accept(&kept, &relay)
    }
}

fn uniform(random: &mut Randomness) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

fn scale_of(parties: &[Party], offsets: &[f64]) -> Result<Scale, SealedError> {
    let parts = parties.iter().map(|party| Reach::of(&agreement(), &party.part()));
    let parts = parts.chain([Reach::of_offsets(offsets)]).collect::<Result<Vec<_>, _>>()?;
    parts.into_iter().reduce(Reach::and).expect("offsets").scale()
}

/// The first one takes, all lend.
fn granted(parties: &mut [Party], offsets: &[f64]) -> Result<Vec<f64>, SealedError> {
    let scale = scale_of(parties, offsets)?;
    let opening = parties[0].guest.opening();
    let lent = parties.iter_mut().enumerate();
    let lent = lent.map(|(i, party)| party.lend(scale, (i > 0).then_some(&opening[..])));
    let lent = lent.collect::<Result<Vec<_>, _>>()?;
    let grant = parties[0].host.grant(offsets, scale, &lent)?;
    parties[0].guest.take(&grant)
}

/// All of one exchange, and how far its products are from exact ones, as a share of what rounding may cost.
fn error_of(lattice: bool, products: usize, terms: &[usize], sizes: &[f64], seed: u64) -> f64 {
    let mut random = Randomness::insecure_from_seed(seed);
    let parties = terms.iter().zip(sizes);
    let parties =
        parties.map(|(&terms, &size)| Party::new(lattice, [products, terms], size, &mut random));
    let mut parties: Vec<Party> = parties.collect();
    let offsets: Vec<f64> = (0..products).map(|_| uniform(&mut random) * sizes[0]).collect();
    let found = granted(&mut parties, &offsets).expect("products");
    let mut expected = offsets.clone();
    let mut largest = offsets.iter().fold(0.0f64, |most, c| most.max(c.abs()));
    for party in &parties {
        let products = party.expected();
        expected.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
        largest += party.largest();
    }
    // The scale is that of the largest rows of all together, rounded down to a power of two; each weight is
    // rounded by half a unit, times the largest level, each offset and middle of the grid by half a unit. In the
    // clear there is the rounding of sums alone.
    let values: usize = terms.iter().sum();
    let lost = values as f64 * f64::from(MOST_LEVELS) / 2.0 + 1.0 + terms.len() as f64;
    let unit = 2.0 * largest / (LIMIT - lost);
    let bound = if lattice { unit * lost } else { 0.0 } + 1e-12 * largest;
    assert_eq!(found.len(), products);
    let errors = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
    errors.fold(0.0, f64::max) / bound
}

#[test]
fn the_taker_gets_the_sum_of_all_parts() {
    // One guest for itself, others of other sizes, several polynomials, parts of very different size.
    type Case<'a> = (bool, usize, &'a [usize], &'a [f64]);
    let cases: [Case<'_>; 5] = [
        (false, 15, &[4, 7], &[1.0, 1.0]),
        (true, 8192, &[2], &[1.0]),
        (true, 15, &[4, 7], &[1.0, 1e-3]),
        (true, 9000, &[2, 1, 3], &[1e-4, 1e3, 1.0]),
        (true, 30, &[1, 4, 2, 3], &[1e20, 1e20, 1e20, 1e20]),
    ];
    for (i, (lattice, products, terms, sizes)) in cases.into_iter().enumerate() {
        let share = error_of(lattice, products, terms, sizes, i as u64);
        assert!(share <= 1.0, "case {i}: {share} of what rounding may cost");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_guest_gets_its_own_products(
        products in 1usize..60,
        terms in 1usize..12,
        size in -30i32..30,
        seed in any::<u64>(),
    ) {
        let share = error_of(true, products, &[terms], &[10f64.powi(size)], seed);
        prop_assert!(share <= 1.0, "{} of what rounding may cost", share);
    }
}

/// The largest weights on the largest values of everyone, all of one sign: the sum just fits.
#[test]
fn sums_of_the_largest_products_do_not_overflow() {
    let mut random = Randomness::insecure_from_seed(2);
    for sign in [1.0, -1.0] {
        let mut parties: Vec<Party> =
            (0..3).map(|_| Party::new(true, [1, 18], 1.0, &mut random)).collect();
        for party in &mut parties {
            party.levels.fill(MOST_LEVELS);
            party.coefficients.fill(sign);
        }
        let found = granted(&mut parties, &[sign]).unwrap();
        // 3·18 values of 2, and 1, below 2^7: units of 2^-32, half of one for each of 54 weights, times 2^14.
        assert!((found[0] - sign * 109.0).abs() < 54.0 * 2f64.powi(-19), "{found:?}");
    }
}

fn said<T: std::fmt::Debug>(result: Result<T, SealedError>) -> String {
    result.expect_err("a refusal").to_string()
}

fn two(lattice: bool, random: &mut Randomness) -> [Party; 2] {
    [0, 1].map(|_| {
        let mut party = Party::new(lattice, [2, 5], 1.0, random);
        party.coefficients.fill(1.0);
        party
    })
}

#[test]
fn what_does_not_belong_to_a_loan_is_refused() {
    let mut random = Randomness::insecure_from_seed(3);
    for lattice in [true, false] {
        let mut parties = two(lattice, &mut random);
        let scale = scale_of(&parties, &[0.0; 2]).unwrap();
        let [lender, taker] = &mut parties;
        let part = Coefficients { terms: 5, values: &[1.0; 10] };
        let (loan, kept) = lender.host.lend(&part, scale, false).unwrap();
        let (other, _) = lender.host.lend(&part, scale, false).unwrap();
        let opening = taker.guest.opening();
        let relay = lender.guest.relay(&loan, &lender.levels, Some(&opening)).unwrap();
        let late = lender.guest.relay(&other, &lender.levels, Some(&opening)).unwrap();
        let error = said(lender.host.accept(&kept, &late));
        assert!(error.contains("exchange of the relay: found"), "{error}");
        for length in [0, 3, 15, relay.len() - 1] {
            let error = said(lender.host.accept(&kept, &relay[..length]));
            assert!(error.starts_with("the peer sent no valid relay"), "{error}");
        }
        let mut fewer = relay.clone();
        fewer[12] = 1;
        let error = said(lender.host.accept(&kept, &fewer));
        assert!(error.starts_with("the peer sent no valid relay"), "{error}");
        // A loan is no relay, a relay no loan.
        let error = said(lender.guest.relay(&relay, &lender.levels, None));
        assert!(error.contains("no valid loan"), "{error}");
        let mut many = loan.clone();
        many[12..16].copy_from_slice(&10_001u32.to_le_bytes());
        assert!(said(lender.guest.loan_size(&many)).contains("no valid loan"));
        let error = said(lender.guest.relay(&many, &lender.levels, None));
        assert!(error.starts_with("the peer sent no valid loan"), "{error}");
        // More products than it has bytes for: nobody makes room for their values.
        let mut claims = loan.clone();
        claims[12..16].copy_from_slice(&9000u32.to_le_bytes());
        let error = said(lender.guest.loan_size(&claims));
        assert!(error.contains(&format!("bytes of the loan: found {}", loan.len())), "{error}");
        let error = said(lender.guest.relay(&loan, &lender.levels[..9], None));
        assert_eq!(error, "values of a loan: found 9, expected 10");
        let error = said(lender.guest.relay(&loan, &[16_385; 10], None));
        assert!(error.starts_with("found level 16385, expected −"), "{error}");
        if lattice {
            let error = said(lender.guest.relay(&loan, &lender.levels, Some(&opening[..1000])));
            assert!(error.contains("no valid public key"), "{error}");
            // A lender that keeps the seed of its mask to itself.
            let selfish = lender.guest.relay(&loan, &lender.levels, None).unwrap();
            let error = said(lender.host.accept(&kept, &selfish));
            assert!(error.ends_with("seeds of the relay: found 0, expected 1"), "{error}");
        }
        let lent = [lender.host.accept(&kept, &relay).unwrap()];
        // A scale by which the sum could overflow, and parts of another size.
        let too_large = Coefficients { terms: 5, values: &[1e3; 10] };
        assert!(said(lender.host.lend(&too_large, scale, false)).starts_with("scale of a grant"));
        let error = said(taker.host.grant(&[0.0], scale, &lent));
        assert_eq!(error, "products that were lent: found 2, expected 1");
        assert!(said(taker.host.grant(&[1e12; 2], scale, &lent)).starts_with("scale of a grant"));
    }
}

#[test]
fn what_cannot_be_lent_is_refused() {
    let mut random = Randomness::insecure_from_seed(5);
    for lattice in [true, false] {
        let mut parties = two(lattice, &mut random);
        let scale = scale_of(&parties, &[0.0; 2]).unwrap();
        let host = &mut parties[0].host;
        let mut lend =
            |terms, values: &[f64]| said(host.lend(&Coefficients { terms, values }, scale, true));
        assert_eq!(
            lend(5, &[1.0; 9]),
            "coefficients: found 9, expected as many for each product, 5"
        );
        assert_eq!(lend(0, &[]), "values of a product: found 0, expected 1 to 128");
        assert_eq!(lend(1, &[]), "products: found 0, expected 1 to 10000");
        assert_eq!(lend(1, &[1.0; 10_001]), "products: found 10001, expected 1 to 10000");
        let error = lend(1, &[f64::NAN]);
        assert_eq!(error, "coefficient of a grant: found NaN, expected a finite number");
        assert!(lend(2, &[1e308; 2]).starts_with("products of a grant: found a row of size"));
        let error = said(host.grant(&[f64::INFINITY], scale, &[]));
        assert_eq!(error, "offset of a grant: found inf, expected a finite number");
    }
}

#[test]
fn a_grant_is_read_by_whoever_has_the_masks() {
    let mut random = Randomness::insecure_from_seed(6);
    let mut parties = two(true, &mut random);
    let offsets = [0.5, -0.5];
    let scale = scale_of(&parties, &offsets).unwrap();
    let opening = parties[0].guest.opening();
    let own = parties[0].lend(scale, None).unwrap();
    let lent = parties[1].lend(scale, Some(&opening)).unwrap();
    let [taker, lender] = &mut parties;
    let grant = taker.host.grant(&offsets, scale, &[own, lent]).unwrap();
    let error = said(lender.guest.take(&grant));
    assert!(error.contains("no valid grant: exchange of the grant: found"), "{error}");
    taker.guest.take(&grant).unwrap();
    // Its mask is that of its last loan.
    let other = taker.lend(scale, None).unwrap();
    assert!(said(taker.guest.take(&grant)).contains("exchange of the grant: found"));
    let again = taker.lend(scale, None).unwrap();
    let error = said(taker.host.grant(&offsets, scale, &[other, again]));
    assert_eq!(error, "what the taker has lent to itself: found two parts, expected one");
}

#[test]
fn grants_of_any_readable_scale_are_finite_numbers() {
    let mut random = Randomness::insecure_from_seed(7);
    let [mut taker, _] = two(true, &mut random);
    let scale_of = |offsets: &[f64]| Reach::of_offsets(offsets).and_then(|reach| reach.scale());
    let offsets = [-1.0, 1.0];
    let grant = taker.host.grant(&offsets, scale_of(&offsets).unwrap(), &[]).unwrap();
    let mut with_scale = |scale: i32| {
        let mut grant = grant.clone();
        grant[16..20].copy_from_slice(&scale.to_le_bytes());
        taker.guest.take(&grant)
    };
    for scale in [-984, 1000] {
        let found = with_scale(scale).unwrap();
        assert!(found.iter().all(|product| product.is_normal()), "{scale}: {found:?}");
    }
    for scale in [-985, -1000, 1001, i32::MIN] {
        let error = said(with_scale(scale));
        assert!(error.contains(&format!("scale of the grant: found {scale}, expected -984")));
    }
    // And a host does not make what a guest refuses.
    for size in [1e290, 1e300, 1e308] {
        match scale_of(&[size]) {
            Ok(scale) => {
                let grant = taker.host.grant(&[size], scale, &[]).unwrap();
                assert!(taker.guest.take(&grant).unwrap()[0].is_finite());
            }
            Err(error) => {
                assert!(error.to_string().starts_with("products of a grant: found a row"))
            }
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_noticed() {
    let mut random = Randomness::insecure_from_seed(4);
    let parties = two(true, &mut random);
    let scale = scale_of(&parties, &[0.0; 2]).unwrap();
    let [mut lender, mut taker] = parties;
    let part = Coefficients { terms: 5, values: &[1.0; 10] };
    let (loan, kept) = lender.host.lend(&part, scale, false).unwrap();
    let opening = taker.guest.opening();
    let relay = lender.guest.relay(&loan, &lender.levels, Some(&opening)).unwrap();
    let lent = [lender.host.accept(&kept, &relay).unwrap()];
    let grant = taker.host.grant(&[0.0; 2], scale, &lent).unwrap();
    assert_eq!(Loan::size(2, 5), loan.len());
    type Decode = fn(&[u8]) -> bool;
    let all: [(&[u8], Decode); 3] = [
        (&loan, |bytes| Loan::decode(bytes, 10).is_ok()),
        (&relay, |bytes| Relay::decode(bytes, 10).is_ok()),
        (&grant, |bytes| Grant::decode(bytes, 10).is_ok()),
    ];
    for (bytes, decodes) in all {
        assert!(decodes(bytes));
        let cuts = (0..100.min(bytes.len())).chain((100..bytes.len()).step_by(10_007));
        for length in cuts.chain([bytes.len() - 1]) {
            assert!(!decodes(&bytes[..length]), "{length} of {} bytes", bytes.len());
        }
        let mut long = bytes.to_vec();
        long.push(0);
        assert!(!decodes(&long));
        for place in 0..4 {
            let mut changed = bytes.to_vec();
            changed[place] ^= 0x40;
            assert!(!decodes(&changed));
        }
        // A residue above its modulus, in the last polynomial.
        let mut changed = bytes.to_vec();
        let at = bytes.len() - 13;
        changed[at..].fill(0xFF);
        assert!(!decodes(&changed));
    }
    let mut changed = grant.clone();
    changed[24..29].fill(0xFF);
    let error = Grant::decode(&changed, 10).unwrap_err().to_string();
    assert_eq!(
        error,
        "product of the grant: found 1099511627775, expected numbers below 1099511480321"
    );
    assert_eq!(format!("{kept:?} {:?}", lent[0]), "Loan(2 products, …) Lent(2 products, …)");
}

#[test]
fn functional_encryption_lends_nothing() {
    let agreement = Agreement { grid: Grid::new(0.0, 1.0, 100).unwrap(), ..agreement() };
    let key = Authority::new(agreement).unwrap().public_key();
    let table = Arc::new(LogarithmTable::new(10).expect("a table"));
    let mut guest = IpfeGuest::new(agreement, &key).unwrap();
    let mut host = IpfeHost::new(agreement, &key, table).unwrap();
    let part = Coefficients { terms: 1, values: &[1.0] };
    let scale = Reach::of(&agreement, &part).unwrap().scale().unwrap();
    for error in [
        said(host.lend(&part, scale, true)),
        said(host.grant(&[0.0], scale, &[])),
        said(guest.relay(&[], &[], None)),
        said(guest.loan_size(&[])),
        said(guest.take(&[])),
    ] {
        assert!(
            error.starts_with("functional encryption has no products for the guest"),
            "{error}"
        );
    }
}
