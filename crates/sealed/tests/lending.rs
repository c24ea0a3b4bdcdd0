//! Products of some guests' values that another guest gets: the right ones, by all implementations that have them, and
//! nothing that does not belong to the loan.

use std::sync::Arc;

use sealed::fixed_point::MOST_LEVELS;
use sealed::ipfe::{Authority, IpfeGuest, IpfeHost, LogarithmTable};
use sealed::plain::{PlainGuest, PlainHost};
use sealed::rlwe::message::{Loan, Relay, SharedGrant};
use sealed::rlwe::{KeySeed, RlweGuest, RlweHost};
use sealed::{
    Agreement, BlockId, BlockProducts, Grid, Guest, Host, Lent, Randomness, Reach, Scale,
    SealedError,
};

fn agreement(width: usize) -> Agreement {
    let grid = Grid::new(-1.0, 2.0, MOST_LEVELS).expect("a grid");
    Agreement { width, grid, most_rows: 10_000, most_blocks: 20 }
}

/// A guest and the host's side of it.
struct Party {
    agreement: Agreement,
    guest: Box<dyn Guest>,
    host: Box<dyn Host>,
    blocks: Vec<BlockId>,
    /// Block after block.
    values: Vec<f64>,
}

impl Party {
    fn new(lattice: bool, width: usize, blocks: u64, random: &mut Randomness) -> Self {
        let agreement = agreement(width);
        let (mut guest, mut host): (Box<dyn Guest>, Box<dyn Host>) = if lattice {
            let guest = RlweGuest::new(agreement, &KeySeed::from_os().expect("a seed"));
            let guest = guest.expect("a guest");
            let host = RlweHost::new(agreement, &guest.opening()).expect("a host");
            (Box::new(guest), Box::new(host))
        } else {
            let guest = PlainGuest::new(agreement).expect("a guest");
            (Box::new(guest), Box::new(PlainHost::new(agreement).expect("a host")))
        };
        let mut values = Vec::new();
        let blocks: Vec<BlockId> = (0..blocks).map(BlockId).collect();
        for &block in &blocks {
            let levels = (0..width).map(|_| random.below(2 * MOST_LEVELS as u128 + 1) as i32);
            let levels: Vec<i32> = levels.map(|level| level - MOST_LEVELS).collect();
            values.extend(levels.iter().map(|&level| agreement.grid.value(level)));
            host.store(&guest.upload(block, &levels).expect("an upload")).expect("room");
        }
        Self { agreement, guest, host, blocks, values }
    }

    /// So many products of each block, with coefficients of this size.
    fn coefficients(&self, rows: usize, size: f64, random: &mut Randomness) -> Vec<f64> {
        let count = rows * self.blocks.len() * self.agreement.width;
        (0..count).map(|_| uniform(random) * size).collect()
    }

    fn expected(&self, rows: usize, coefficients: &[f64]) -> Vec<f64> {
        let width = self.agreement.width;
        let each = coefficients.chunks_exact(width).enumerate();
        let value = |(i, row): (usize, &[f64])| {
            let block = &self.values[i / rows * width..][..width];
            row.iter().zip(block).map(|(d, u)| d * u).sum()
        };
        each.map(value).collect()
    }

    fn largest(&self, coefficients: &[f64]) -> f64 {
        let norms = coefficients.chunks_exact(self.agreement.width);
        norms.map(|row| 2.0 * row.iter().map(|d| d.abs()).sum::<f64>()).fold(0.0, f64::max)
    }
}

fn uniform(random: &mut Randomness) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

fn products<'a>(
    party: &'a Party,
    rows: usize,
    coefficients: &'a [f64],
    offsets: &'a [f64],
) -> BlockProducts<'a> {
    BlockProducts { rows, blocks: &party.blocks, coefficients, offsets }
}

/// The first one takes, all others lend; coefficients of each and offsets of the taker.
fn granted(
    parties: &mut [Party],
    rows: usize,
    coefficients: &[Vec<f64>],
    offsets: &[f64],
) -> Result<Vec<f64>, SealedError> {
    let nothing = vec![0.0; offsets.len()];
    let part = |i: usize| if i == 0 { offsets } else { &nothing };
    let reaches =
        parties.iter().zip(coefficients).enumerate().map(|(i, (party, own))| {
            Reach::of(&party.agreement, &products(party, rows, own, part(i)))
        });
    let reach = reaches.collect::<Result<Vec<_>, _>>()?.into_iter().reduce(Reach::and);
    let scale = reach.expect("a party").scale()?;
    let opening = parties[0].guest.opening();
    let mut lent: Vec<Lent> = Vec::new();
    for i in 1..parties.len() {
        let blocks = parties[i].blocks.clone();
        let own = BlockProducts {
            rows,
            blocks: &blocks,
            coefficients: &coefficients[i],
            offsets: &nothing,
        };
        let (loan, kept) = parties[i].host.lend(&own, scale)?;
        assert_eq!(parties[i].guest.loan_rows(&loan)?, offsets.len());
        let relay = parties[i].guest.relay(&loan, &opening)?;
        lent.push(parties[0].host.accept(&kept, &relay)?);
    }
    let blocks = parties[0].blocks.clone();
    let own = BlockProducts { rows, blocks: &blocks, coefficients: &coefficients[0], offsets };
    let grant = parties[0].host.grant_with(&own, scale, &lent)?;
    parties[0].guest.take(&grant)
}

#[test]
fn the_taker_gets_the_sum_of_all_parts() {
    let mut random = Randomness::insecure_from_seed(1);
    // (lattice, widths, blocks, rows, sizes): guests of other widths, several polynomials of either kind, parts of very
    // different size, one lender and three.
    type Case<'a> = (bool, &'a [usize], u64, usize, &'a [f64]);
    let cases: [Case<'_>; 4] = [
        (false, &[4, 7], 3, 5, &[1.0, 1.0]),
        (true, &[4, 7], 3, 5, &[1.0, 1e-3]),
        (true, &[68, 34, 8], 10, 136, &[1e-4, 1e3, 1.0]),
        (true, &[1, 4, 2, 3], 3, 3000, &[1e20, 1e20, 1e20, 1e20]),
    ];
    for (lattice, widths, blocks, rows, sizes) in cases {
        let parties = widths.iter().map(|&width| Party::new(lattice, width, blocks, &mut random));
        let mut parties: Vec<Party> = parties.collect();
        let pairs = parties.iter().zip(sizes);
        let coefficients: Vec<Vec<f64>> =
            pairs.map(|(party, &size)| party.coefficients(rows, size, &mut random)).collect();
        let count = rows * blocks as usize;
        let offsets: Vec<f64> = (0..count).map(|_| uniform(&mut random) * sizes[0]).collect();
        let found = granted(&mut parties, rows, &coefficients, &offsets).unwrap();
        let mut expected = offsets.clone();
        let mut largest = offsets.iter().fold(0.0f64, |most, c| most.max(c.abs()));
        for (party, own) in parties.iter().zip(&coefficients) {
            let products = party.expected(rows, own);
            expected.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
            largest += party.largest(own);
        }
        // The scale is that of the largest rows of all together, rounded down to a power of two; each weight is
        // rounded by half a unit, times the largest level. In the clear there is the rounding of sums alone.
        let values: usize = widths.iter().sum();
        let lost = values as f64 * f64::from(MOST_LEVELS) / 2.0 + 2.0 * widths.len() as f64;
        let unit = 2.0 * largest / (549_755_813_887.0 - lost);
        let bound = if lattice { unit * lost } else { 0.0 } + 1e-12 * largest;
        assert_eq!(found.len(), count);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= bound, "{found} {expected} {bound}");
        }
    }
}

/// The largest weights on the largest values of everyone, all of one sign: the sum just fits.
#[test]
fn sums_of_the_largest_products_do_not_overflow() {
    let mut random = Randomness::insecure_from_seed(2);
    for sign in [1.0, -1.0] {
        let mut parties: Vec<Party> =
            (0..3).map(|_| Party::new(true, 18, 1, &mut random)).collect();
        for party in &mut parties {
            let upload = party.guest.upload(BlockId(0), &[MOST_LEVELS; 18]).unwrap();
            party.host.store(&upload).unwrap();
        }
        let coefficients = vec![vec![sign; 18]; 3];
        let found = granted(&mut parties, 1, &coefficients, &[sign]).unwrap();
        // 3·18 values of 2, and 1; half a unit of 2^-30 and less for each of 54 weights, times 2^14.
        assert!((found[0] - sign * 109.0).abs() < 54.0 * 2f64.powi(-17), "{found:?}");
    }
}

fn said<T: std::fmt::Debug>(result: Result<T, SealedError>) -> String {
    result.expect_err("a refusal").to_string()
}

/// A scale that anything fits: 1 is far from the largest number.
fn scale_of(party: &Party, coefficients: &[f64], offsets: &[f64]) -> Scale {
    let own = products(party, 2, coefficients, offsets);
    Reach::of(&party.agreement, &own).and_then(|reach| reach.and(reach).scale()).expect("a scale")
}

#[test]
fn what_does_not_belong_to_a_loan_is_refused() {
    let mut random = Randomness::insecure_from_seed(3);
    for lattice in [true, false] {
        let [mut lender, taker] = [0, 1].map(|_| Party::new(lattice, 5, 1, &mut random));
        let (coefficients, offsets) = (vec![1.0; 10], [0.0, 0.0]);
        let scale = scale_of(&lender, &coefficients, &offsets);
        let blocks = [BlockId(0)];
        let own = BlockProducts {
            rows: 2,
            blocks: &blocks,
            coefficients: &coefficients,
            offsets: &offsets,
        };
        let (loan, kept) = lender.host.lend(&own, scale).unwrap();
        let (other, _) = lender.host.lend(&own, scale).unwrap();
        let opening = taker.guest.opening();
        let relay = lender.guest.relay(&loan, &opening).unwrap();
        let late = lender.guest.relay(&other, &opening).unwrap();
        let error = said(taker.host.accept(&kept, &late));
        assert!(error.contains("exchange of the relay: found"), "{error}");
        for length in [0, 3, 15, relay.len() - 1] {
            let error = said(taker.host.accept(&kept, &relay[..length]));
            assert!(error.starts_with("the peer sent no valid relay"), "{error}");
        }
        let mut fewer = relay.clone();
        fewer[12] = 1;
        assert!(taker.host.accept(&kept, &fewer).is_err());
        // A loan is no question, a question no loan.
        assert!(said(lender.guest.relay(&relay, &opening)).contains("no valid loan"));
        let mut many = loan.clone();
        many[12..16].copy_from_slice(&10_001u32.to_le_bytes());
        assert!(said(lender.guest.loan_rows(&many)).contains("no valid loan"));
        assert!(lender.guest.relay(&many, &opening).is_err());
        if lattice {
            let error = said(lender.guest.relay(&loan, &opening[..1000]));
            assert!(error.contains("no valid public key"), "{error}");
        }
        taker.host.accept(&kept, &relay).unwrap();
        // A scale by which the sum could overflow, and parts of another size.
        let large: Vec<f64> = coefficients.iter().map(|d| d * 1e3).collect();
        let too_large = BlockProducts { coefficients: &large, ..own };
        assert!(said(lender.host.lend(&too_large, scale)).starts_with("scale of a grant"));
        let lent = [taker.host.accept(&kept, &relay).unwrap()];
        let fewer = BlockProducts {
            rows: 1,
            coefficients: &coefficients[..5],
            offsets: &offsets[..1],
            ..own
        };
        let mut host = taker.host;
        let error = said(host.grant_with(&fewer, scale, &lent));
        assert_eq!(error, "products that were lent: found 2, expected 1");
    }
}

#[test]
fn every_cut_and_every_addition_is_noticed() {
    let mut random = Randomness::insecure_from_seed(4);
    let [mut lender, mut taker] = [0, 1].map(|_| Party::new(true, 5, 1, &mut random));
    let (coefficients, offsets) = (vec![1.0; 10], [0.0, 0.0]);
    let scale = scale_of(&lender, &coefficients, &offsets);
    let blocks = [BlockId(0)];
    let own =
        BlockProducts { rows: 2, blocks: &blocks, coefficients: &coefficients, offsets: &offsets };
    let (loan, kept) = lender.host.lend(&own, scale).unwrap();
    let relay = lender.guest.relay(&loan, &taker.guest.opening()).unwrap();
    let lent = [taker.host.accept(&kept, &relay).unwrap()];
    let grant = taker.host.grant_with(&own, scale, &lent).unwrap();
    type Decode = fn(&[u8]) -> bool;
    let all: [(&[u8], Decode); 3] = [
        (&loan, |bytes| Loan::decode(bytes, 5, 10).is_ok()),
        (&relay, |bytes| Relay::decode(bytes, 10).is_ok()),
        (&grant, |bytes| SharedGrant::decode(bytes, 5, 10).is_ok()),
    ];
    for (bytes, decodes) in all {
        assert!(decodes(bytes));
        let cuts = (0..100.min(bytes.len())).chain((100..bytes.len()).step_by(1009));
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
    assert_eq!(format!("{kept:?} {:?}", lent[0]), "Loan(2 rows, …) Lent(2 rows, …)");
}

#[test]
fn functional_encryption_lends_nothing() {
    let agreement = Agreement { grid: Grid::new(0.0, 1.0, 100).unwrap(), ..agreement(4) };
    let key = Authority::new(agreement).unwrap().public_key();
    let table = Arc::new(LogarithmTable::new(10).expect("a table"));
    let mut guest = IpfeGuest::new(agreement, &key).unwrap();
    let mut host = IpfeHost::new(agreement, &key, table).unwrap();
    let products =
        BlockProducts { rows: 1, blocks: &[BlockId(1)], coefficients: &[1.0; 4], offsets: &[0.0] };
    let scale = Reach::of(&agreement, &products).unwrap().scale().unwrap();
    for error in [
        said(host.lend(&products, scale)),
        said(host.grant_with(&products, scale, &[])),
        said(guest.relay(&[], &[])),
        said(guest.loan_rows(&[])),
    ] {
        assert!(
            error.starts_with("functional encryption has no products for the guest"),
            "{error}"
        );
    }
}
