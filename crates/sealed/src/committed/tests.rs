use super::*;
use crate::rlwe::{KeySeed, RlweGuest, RlweHost};
use crate::{Agreement, Answerer, BlockId, Grid, Guest, Host, Matrix};

const RANGE: (i32, i32) = (-100, 155);

fn levels(count: usize) -> Vec<i32> {
    // Both ends of the range are among them.
    (0..count as i32).map(|i| [-100, 155, 0, (i * 37) % 200 - 90][i as usize % 4]).collect()
}

fn committed(count: usize) -> (Committed, Commitments, Randomness) {
    let mut random = Randomness::insecure_from_seed(1);
    let committed = Committed::to(&levels(count), &mut random).expect("commitments");
    let host = Commitments::decode(&committed.commitments()).expect("commitments");
    (committed, host, random)
}

#[test]
fn values_in_their_range_are_proven() {
    for count in [1, 2, 3, 18] {
        let (guest, host, mut random) = committed(count);
        let proof = guest.prove(RANGE, b"fleet-a, day 1", &mut random).unwrap();
        host.check_range(RANGE, b"fleet-a, day 1", &proof).unwrap();
        // Two sides, 16 bits, to a power of two: two points for each halving, and 9 numbers.
        let bits = (2 * count).next_power_of_two() * 16;
        assert_eq!(proof.len(), 4 + 32 * (9 + 2 * bits.ilog2() as usize));
    }
}

#[test]
fn values_outside_are_not() {
    let (guest, host, mut random) = committed(4);
    for range in [(-99, 155), (-100, 154)] {
        let error = guest.prove(range, b"", &mut random).unwrap_err().to_string();
        assert!(error.starts_with("level: found"), "{error}");
        // A guest that makes the proof all the same: of the low 16 bits of numbers below 0.
        let forged = forge(&guest, range, &mut random);
        let error = host.check_range(range, b"", &forged).unwrap_err();
        assert_eq!(error, CommittedError::Range { low: range.0, high: range.1 });
    }
}

/// A proof as [`Committed::prove`] makes it, without looking at the values.
fn forge(guest: &Committed, (low, high): (i32, i32), random: &mut Randomness) -> Vec<u8> {
    let sides = |&level: &i32| [i64::from(level - low), i64::from(high - level)];
    let values: Vec<u64> =
        guest.levels.iter().flat_map(sides).map(|value| value as u64 & 0xFFFF).collect();
    let blindings: Vec<Scalar> =
        guest.blindings.iter().flat_map(|blinding| [*blinding, -blinding]).collect();
    let mut transcript = begun(&guest.points, (low, high), b"");
    let proof = RangeProof::prove(&mut transcript, &values, &blindings, random);
    let mut writer = Writer::new(Kind::RangeProof, proof.len());
    proof.write(&mut writer);
    writer.finish()
}

#[test]
fn a_proof_is_of_its_own_values_range_and_context() {
    let (guest, host, mut random) = committed(3);
    let proof = guest.prove(RANGE, b"day 1", &mut random).unwrap();
    assert!(host.check_range(RANGE, b"day 2", &proof).is_err());
    assert!(host.check_range((-100, 156), b"day 1", &proof).is_err());
    let other = Committed::to(&levels(3), &mut random).unwrap();
    let other = Commitments::decode(&other.commitments()).unwrap();
    assert!(other.check_range(RANGE, b"day 1", &proof).is_err());
    // Every part of it counts: a bit changed anywhere is noticed.
    for at in (4..proof.len()).step_by(13) {
        let mut bad = proof.clone();
        bad[at] ^= 1;
        assert!(host.check_range(RANGE, b"day 1", &bad).is_err(), "byte {at}");
    }
    for length in [0, 3, 4, 35, proof.len() - 1] {
        assert!(host.check_range(RANGE, b"day 1", &proof[..length]).is_err());
    }
}

#[test]
fn commitments_hide_and_bind() {
    let mut random = Randomness::insecure_from_seed(2);
    // The same values again have other commitments.
    let [one, two] = [1, 2].map(|_| Committed::to(&[7, 7], &mut random).unwrap());
    assert_ne!(one.commitments(), two.commitments());
    assert_ne!(one.points[0], one.points[1]);
    let host = Commitments::decode(&one.commitments()).unwrap();
    let opening = one.open(&[2, -1]).unwrap();
    host.check_product(&[2, -1], 7, &opening).unwrap();
    assert_eq!(host.check_product(&[2, -1], 8, &opening), Err(CommittedError::Opening));
    assert_eq!(host.check_product(&[1, 0], 7, &opening), Err(CommittedError::Opening));
    let of_two = two.open(&[2, -1]).unwrap();
    assert_eq!(host.check_product(&[2, -1], 7, &of_two), Err(CommittedError::Opening));
    assert!(!format!("{one:?}").contains('7'));
}

#[test]
fn what_is_uploaded_is_held_against_what_was_committed() {
    let grid = Grid::new(0.0, 1.0, 1 << 12).unwrap();
    let agreement = Agreement { width: 6, grid, most_rows: 4, most_blocks: 4 };
    let mut random = Randomness::insecure_from_seed(3);
    let levels = [-4096, 4096, 0, 17, -1000, 999];
    for (forged, uploaded) in [(false, levels), (true, [-4096, 4096, 0, 18, -1000, 999])] {
        let committed = Committed::to(&levels, &mut random).unwrap();
        let commitments = Commitments::decode(&committed.commitments()).unwrap();
        let mut guest = RlweGuest::new(agreement, &KeySeed::from_os().unwrap()).unwrap();
        let mut host = RlweHost::new(agreement, &guest.public_key()).unwrap();
        let block = BlockId(1);
        host.store(&guest.upload(block, &uploaded).unwrap()).unwrap();
        // A row of random weights, that looks like any other to the guest.
        let row: Vec<f64> = (0..6).map(|_| random.bits() as f64 - 9e18).collect();
        let question = host.ask(&Matrix { rows: 1, blocks: &[block], values: &row }).unwrap();
        let product = host.open(&guest.answer(&question).unwrap()).unwrap()[0];
        let applied = RlweHost::applied(&agreement, &row).unwrap();
        let about = product - grid.centre() * row.iter().sum::<f64>();
        let whole = (about / (applied.unit * grid.step())).round() as i64;
        let opening = committed.open(&applied.weights).unwrap();
        let checked = commitments.check_product(&applied.weights, whole, &opening);
        assert_eq!(checked.is_err(), forged, "{checked:?}");
    }
}

#[test]
fn bytes_that_are_no_commitments_are_refused() {
    let (guest, host, mut random) = committed(2);
    let bytes = guest.commitments();
    for length in 0..bytes.len() {
        assert!(Commitments::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    let mut bad = bytes.clone();
    bad[8..40].fill(0xFF);
    let error = Commitments::decode(&bad).unwrap_err().to_string();
    assert!(error.contains("bytes of no point"), "{error}");
    assert!(Committed::to(&[], &mut random).is_err());
    assert!(Committed::to(&vec![0; MOST_COMMITTED + 1], &mut random).is_err());
    assert!(guest.prove((5, 4), b"", &mut random).is_err());
    assert!(guest.prove((0, 1 << 16), b"", &mut random).is_err());
    assert!(guest.open(&[1]).is_err() && guest.open(&[i64::MIN, 0]).is_err());
    assert!(host.check_product(&[1, 1], 0, &[0; 3]).is_err());
    let mut opening = guest.open(&[1, 1]).unwrap();
    opening[4..].fill(0xFF);
    assert!(host.check_product(&[1, 1], 0, &opening).is_err());
}
