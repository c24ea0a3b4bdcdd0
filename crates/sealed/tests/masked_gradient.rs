//! Products of guests' values that one of them gets: the right ones, by all implementations that have them, and nothing
//! that does not belong to the request.

use std::sync::Arc;

use proptest::prelude::*;
use sealed::fixed_point::MOST_LEVELS;
use sealed::ipfe::{Authority, IpfeGuest, IpfeHost, LogarithmTable};
use sealed::plain::{PlainGuest, PlainHost};
use sealed::rlwe::message::{EncryptedCoefficients, MaskedGradient, MaskedProducts};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, Coefficients, CoefficientsSize, Grid, Guest, Host, MagnitudeBound, MaskedShare,
    Randomness, Scale, SealedError,
};

/// Numbers of a masked gradient are below half the largest prime under 2^40 that is 1 modulo 16384.
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
            let host = RlweHost::new(agreement, &guest.public_key()).expect("a host");
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

    fn encrypt_coefficients(
        &mut self,
        scale: Scale,
        recipient: Option<&[u8]>,
    ) -> Result<MaskedShare, SealedError> {
        let part = Coefficients { terms: self.terms, values: &self.coefficients };
        let (request, kept) = self.host.encrypt_coefficients(&part, scale, recipient.is_none())?;
        let (terms, products) = (self.terms, self.levels.len() / self.terms);
        assert_eq!(self.guest.coefficients_size(&request)?, CoefficientsSize { products, terms });
        let reply = self.guest.multiply_masked(&request, &self.levels, recipient)?;
        self.host.accept_masked(&kept, &reply)
    }
}

fn uniform(random: &mut Randomness) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

fn scale_of(parties: &[Party], offsets: &[f64]) -> Result<Scale, SealedError> {
    let parts = parties.iter().map(|party| MagnitudeBound::of(&agreement(), &party.part()));
    let parts =
        parts.chain([MagnitudeBound::of_offsets(offsets)]).collect::<Result<Vec<_>, _>>()?;
    parts.into_iter().reduce(MagnitudeBound::and).expect("offsets").scale()
}

/// The first party receives the sum, all parties compute shares of it.
fn unmasked(parties: &mut [Party], offsets: &[f64]) -> Result<Vec<f64>, SealedError> {
    let scale = scale_of(parties, offsets)?;
    let opening = parties[0].guest.public_key();
    let shares = parties.iter_mut().enumerate();
    let shares =
        shares.map(|(i, party)| party.encrypt_coefficients(scale, (i > 0).then_some(&opening[..])));
    let shares = shares.collect::<Result<Vec<_>, _>>()?;
    let gradient = parties[0].host.mask_gradient(offsets, scale, &shares)?;
    parties[0].guest.unmask(&gradient)
}

/// All of one exchange, and how far its products are from exact ones, as a share of what rounding may cost.
fn error_of(lattice: bool, products: usize, terms: &[usize], sizes: &[f64], seed: u64) -> f64 {
    let mut random = Randomness::insecure_from_seed(seed);
    let parties = terms.iter().zip(sizes);
    let parties =
        parties.map(|(&terms, &size)| Party::new(lattice, [products, terms], size, &mut random));
    let mut parties: Vec<Party> = parties.collect();
    let offsets: Vec<f64> = (0..products).map(|_| uniform(&mut random) * sizes[0]).collect();
    let found = unmasked(&mut parties, &offsets).expect("products");
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
fn the_recipient_gets_the_sum_of_all_shares() {
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
        let found = unmasked(&mut parties, &[sign]).unwrap();
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
fn replies_that_do_not_match_their_request_are_refused() {
    let mut random = Randomness::insecure_from_seed(3);
    for lattice in [true, false] {
        let mut parties = two(lattice, &mut random);
        let scale = scale_of(&parties, &[0.0; 2]).unwrap();
        let [owner, recipient] = &mut parties;
        let part = Coefficients { terms: 5, values: &[1.0; 10] };
        let (request, kept) = owner.host.encrypt_coefficients(&part, scale, false).unwrap();
        let (other, _) = owner.host.encrypt_coefficients(&part, scale, false).unwrap();
        let opening = recipient.guest.public_key();
        let reply = owner.guest.multiply_masked(&request, &owner.levels, Some(&opening)).unwrap();
        let late = owner.guest.multiply_masked(&other, &owner.levels, Some(&opening)).unwrap();
        let error = said(owner.host.accept_masked(&kept, &late));
        assert!(error.contains("exchange of the masked products: found"), "{error}");
        for length in [0, 3, 15, reply.len() - 1] {
            let error = said(owner.host.accept_masked(&kept, &reply[..length]));
            assert!(error.starts_with("the peer sent no valid masked products"), "{error}");
        }
        let mut fewer = reply.clone();
        fewer[12] = 1;
        let error = said(owner.host.accept_masked(&kept, &fewer));
        assert!(error.starts_with("the peer sent no valid masked products"), "{error}");
        // A request is no reply, a reply no request.
        let error = said(owner.guest.multiply_masked(&reply, &owner.levels, None));
        assert!(error.contains("no valid coefficients"), "{error}");
        let mut many = request.clone();
        many[12..16].copy_from_slice(&10_001u32.to_le_bytes());
        assert!(said(owner.guest.coefficients_size(&many)).contains("no valid coefficients"));
        let error = said(owner.guest.multiply_masked(&many, &owner.levels, None));
        assert!(error.starts_with("the peer sent no valid coefficients"), "{error}");
        // More products than it has bytes for: nobody makes room for their values.
        let mut claims = request.clone();
        claims[12..16].copy_from_slice(&9000u32.to_le_bytes());
        let error = said(owner.guest.coefficients_size(&claims));
        assert!(
            error.contains(&format!("bytes of the coefficients: found {}", request.len())),
            "{error}"
        );
        let error = said(owner.guest.multiply_masked(&request, &owner.levels[..9], None));
        assert_eq!(error, "values of encrypted coefficients: found 9, expected 10");
        let error = said(owner.guest.multiply_masked(&request, &[16_385; 10], None));
        assert!(error.starts_with("found level 16385, expected −"), "{error}");
        if lattice {
            let error =
                said(owner.guest.multiply_masked(&request, &owner.levels, Some(&opening[..1000])));
            assert!(error.contains("no valid public key"), "{error}");
            // A owner that keeps the seed of its mask to itself.
            let selfish = owner.guest.multiply_masked(&request, &owner.levels, None).unwrap();
            let error = said(owner.host.accept_masked(&kept, &selfish));
            assert!(
                error.ends_with("seeds of the masked products: found 0, expected 1"),
                "{error}"
            );
        }
        let shares = [owner.host.accept_masked(&kept, &reply).unwrap()];
        // A scale by which the sum could overflow, and parts of another size.
        let too_large = Coefficients { terms: 5, values: &[1e3; 10] };
        assert!(
            said(owner.host.encrypt_coefficients(&too_large, scale, false))
                .starts_with("scale of a masked gradient")
        );
        let error = said(recipient.host.mask_gradient(&[0.0], scale, &shares));
        assert_eq!(error, "products of a share: found 2, expected 1");
        assert!(
            said(recipient.host.mask_gradient(&[1e12; 2], scale, &shares))
                .starts_with("scale of a masked gradient")
        );
    }
}

#[test]
fn invalid_coefficients_are_refused() {
    let mut random = Randomness::insecure_from_seed(5);
    for lattice in [true, false] {
        let mut parties = two(lattice, &mut random);
        let scale = scale_of(&parties, &[0.0; 2]).unwrap();
        let host = &mut parties[0].host;
        let mut request = |terms, values: &[f64]| {
            said(host.encrypt_coefficients(&Coefficients { terms, values }, scale, true))
        };
        assert_eq!(
            request(5, &[1.0; 9]),
            "coefficients: found 9, expected as many for each product, 5"
        );
        assert_eq!(request(0, &[]), "values of a product: found 0, expected 1 to 128");
        assert_eq!(request(1, &[]), "products: found 0, expected 1 to 10000");
        assert_eq!(request(1, &[1.0; 10_001]), "products: found 10001, expected 1 to 10000");
        let error = request(1, &[f64::NAN]);
        assert_eq!(error, "coefficient of a masked gradient: found NaN, expected a finite number");
        assert!(
            request(2, &[1e308; 2])
                .starts_with("products of a masked gradient: found a row of size")
        );
        let error = said(host.mask_gradient(&[f64::INFINITY], scale, &[]));
        assert_eq!(error, "offset of a masked gradient: found inf, expected a finite number");
    }
}

#[test]
fn a_masked_gradient_is_read_by_whoever_has_the_masks() {
    let mut random = Randomness::insecure_from_seed(6);
    let mut parties = two(true, &mut random);
    let offsets = [0.5, -0.5];
    let scale = scale_of(&parties, &offsets).unwrap();
    let opening = parties[0].guest.public_key();
    let own = parties[0].encrypt_coefficients(scale, None).unwrap();
    let shares = parties[1].encrypt_coefficients(scale, Some(&opening)).unwrap();
    let [recipient, owner] = &mut parties;
    let gradient = recipient.host.mask_gradient(&offsets, scale, &[own, shares]).unwrap();
    let error = said(owner.guest.unmask(&gradient));
    assert!(
        error.contains("no valid masked gradient: exchange of the masked gradient: found"),
        "{error}"
    );
    let read = recipient.guest.unmask(&gradient).unwrap();
    // A gradient comes in parts: the mask of an earlier request is kept beside that of a later one.
    let other = recipient.encrypt_coefficients(scale, None).unwrap();
    assert_eq!(recipient.guest.unmask(&gradient).unwrap(), read);
    let again = recipient.encrypt_coefficients(scale, None).unwrap();
    let error = said(recipient.host.mask_gradient(&offsets, scale, &[other, again]));
    assert_eq!(error, "shares of the recipient itself: found two parts, expected one");
}

#[test]
fn masked_gradients_of_any_readable_scale_are_finite_numbers() {
    let mut random = Randomness::insecure_from_seed(7);
    let [mut recipient, _] = two(true, &mut random);
    let scale_of =
        |offsets: &[f64]| MagnitudeBound::of_offsets(offsets).and_then(|reach| reach.scale());
    let offsets = [-1.0, 1.0];
    let gradient =
        recipient.host.mask_gradient(&offsets, scale_of(&offsets).unwrap(), &[]).unwrap();
    let mut with_scale = |scale: i32| {
        let mut gradient = gradient.clone();
        gradient[16..20].copy_from_slice(&scale.to_le_bytes());
        recipient.guest.unmask(&gradient)
    };
    for scale in [-984, 1000] {
        let found = with_scale(scale).unwrap();
        assert!(found.iter().all(|product| product.is_normal()), "{scale}: {found:?}");
    }
    for scale in [-985, -1000, 1001, i32::MIN] {
        let error = said(with_scale(scale));
        assert!(
            error.contains(&format!("scale of the masked gradient: found {scale}, expected -984"))
        );
    }
    // And a host does not make what a guest refuses.
    for size in [1e290, 1e300, 1e308] {
        match scale_of(&[size]) {
            Ok(scale) => {
                let gradient = recipient.host.mask_gradient(&[size], scale, &[]).unwrap();
                assert!(recipient.guest.unmask(&gradient).unwrap()[0].is_finite());
            }
            Err(error) => {
                assert!(error.to_string().starts_with("products of a masked gradient: found a row"))
            }
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_noticed() {
    let mut random = Randomness::insecure_from_seed(4);
    let parties = two(true, &mut random);
    let scale = scale_of(&parties, &[0.0; 2]).unwrap();
    let [mut owner, mut recipient] = parties;
    let part = Coefficients { terms: 5, values: &[1.0; 10] };
    let (request, kept) = owner.host.encrypt_coefficients(&part, scale, false).unwrap();
    let opening = recipient.guest.public_key();
    let reply = owner.guest.multiply_masked(&request, &owner.levels, Some(&opening)).unwrap();
    let shares = [owner.host.accept_masked(&kept, &reply).unwrap()];
    let gradient = recipient.host.mask_gradient(&[0.0; 2], scale, &shares).unwrap();
    assert_eq!(EncryptedCoefficients::size(2, 5), request.len());
    type Decode = fn(&[u8]) -> bool;
    let all: [(&[u8], Decode); 3] = [
        (&request, |bytes| EncryptedCoefficients::decode(bytes, 10).is_ok()),
        (&reply, |bytes| MaskedProducts::decode(bytes, 10).is_ok()),
        (&gradient, |bytes| MaskedGradient::decode(bytes, 10).is_ok()),
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
    let mut changed = gradient.clone();
    changed[24..29].fill(0xFF);
    let error = MaskedGradient::decode(&changed, 10).unwrap_err().to_string();
    assert_eq!(
        error,
        "product of the masked gradient: found 1099511627775, expected numbers below 1099511480321"
    );
    assert_eq!(
        format!("{kept:?} {:?}", shares[0]),
        "PendingProducts(2 products, …) MaskedShare(2 products, …)"
    );
}

#[test]
fn functional_encryption_lends_nothing() {
    let agreement = Agreement { grid: Grid::new(0.0, 1.0, 100).unwrap(), ..agreement() };
    let key = Authority::new(agreement).unwrap().public_key();
    let table = Arc::new(LogarithmTable::new(10).expect("a table"));
    let mut guest = IpfeGuest::new(agreement, &key).unwrap();
    let mut host = IpfeHost::new(agreement, &key, table).unwrap();
    let part = Coefficients { terms: 1, values: &[1.0] };
    let scale = MagnitudeBound::of(&agreement, &part).unwrap().scale().unwrap();
    for error in [
        said(host.encrypt_coefficients(&part, scale, true)),
        said(host.mask_gradient(&[0.0], scale, &[])),
        said(guest.multiply_masked(&[], &[], None)),
        said(guest.coefficients_size(&[])),
        said(guest.unmask(&[])),
    ] {
        assert!(
            error.starts_with("functional encryption has no products for the guest"),
            "{error}"
        );
    }
}
