use super::*;
use crate::ipfe::random_scalar;
use crate::rlwe::{KeySeed, RlweGuest, RlweHost};
use crate::{Agreement, Answerer, BlockId, Grid, Guest, Host, Matrix};

const RANGE: (i32, i32) = (-100, 155);

fn levels(count: usize) -> Vec<i32> {
    // Both ends of the range are among them.
    (0..count as i32).map(|i| [-100, 155, 0, (i * 37) % 200 - 90][i as usize % 4]).collect()
}

impl Committed {
    /// With random blindings, where a guest takes those of its seed.
    fn to(levels: &[i32], random: &mut Randomness) -> Self {
        let blindings: Vec<Scalar> = levels.iter().map(|_| random_scalar(random)).collect();
        Self::new(levels, &blindings)
    }

    fn open(&self, weights: &[i64]) -> Result<Vec<u8>, CommittedError> {
        check_weights(weights, self.levels.len())?;
        Ok(seed::opening(weights, self.blindings.iter().copied()))
    }
}

fn committed(count: usize) -> (Committed, Commitments, Randomness) {
    let mut random = Randomness::insecure_from_seed(1);
    let committed = Committed::to(&levels(count), &mut random);
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
    let mut writer = Writer::new(MessageKind::RangeProof, proof.len());
    proof.write(&mut writer);
    writer.finish()
}

#[test]
fn a_proof_is_of_its_own_values_range_and_context() {
    let (guest, host, mut random) = committed(3);
    let proof = guest.prove(RANGE, b"day 1", &mut random).unwrap();
    let refused = |(low, high)| Err(CommittedError::Range { low, high });
    assert_eq!(host.check_range(RANGE, b"day 2", &proof), refused(RANGE));
    assert_eq!(host.check_range((-100, 156), b"day 1", &proof), refused((-100, 156)));
    assert_eq!(host.check_range((-101, 155), b"day 1", &proof), refused((-101, 155)));
    let other = Committed::to(&levels(3), &mut random);
    let other = Commitments::decode(&other.commitments()).unwrap();
    assert_eq!(other.check_range(RANGE, b"day 1", &proof), refused(RANGE));
    // The same commitments in another order are others.
    let turned = Commitments::joined(&[host.part(1..3).unwrap(), host.part(0..1).unwrap()]);
    assert_eq!(turned.check_range(RANGE, b"day 1", &proof), refused(RANGE));
    // Every part of it counts: a bit changed anywhere is noticed, as bytes of no point or scalar or as a proof that fails.
    for at in (4..proof.len()).step_by(13) {
        let mut bad = proof.clone();
        bad[at] ^= 1;
        let error = host.check_range(RANGE, b"day 1", &bad).unwrap_err();
        let noticed = match &error {
            CommittedError::Range { low, high } => (*low, *high) == RANGE,
            CommittedError::Peer { what, reason: DecodeError::Range { .. } } => {
                *what == "range proof"
            }
            _ => false,
        };
        assert!(noticed, "byte {at}: {error:?}");
    }
    for length in [0, 3, 4, 35, proof.len() - 1] {
        let error = host.check_range(RANGE, b"day 1", &proof[..length]).unwrap_err();
        let cut = matches!(
            error,
            CommittedError::Peer { what: "range proof", reason: DecodeError::Length { .. } }
        );
        assert!(cut, "{length} bytes: {error:?}");
    }
    let mut long = proof;
    long.push(0);
    let error = host.check_range(RANGE, b"day 1", &long).unwrap_err().to_string();
    assert_eq!(error, "the peer sent no valid range proof: range proof: found 1 bytes, expected 0");
}

#[test]
fn ranges_of_the_widest_and_the_narrowest_kind_are_proven() {
    let mut random = Randomness::insecure_from_seed(4);
    for (levels, range) in [
        // 65,536 levels, the most there can be: both ends are proven, neither side has a bit to spare.
        (vec![0, 65_535], (0, 65_535)),
        (vec![i32::MIN, i32::MIN + 65_535], (i32::MIN, i32::MIN + 65_535)),
        (vec![i32::MAX, i32::MAX - 65_535], (i32::MAX - 65_535, i32::MAX)),
        // One level: nothing but the number itself.
        (vec![42], (42, 42)),
    ] {
        let guest = Committed::to(&levels, &mut random);
        let host = Commitments::decode(&guest.commitments()).unwrap();
        let proof = guest.prove(range, b"", &mut random).unwrap();
        assert_eq!(host.check_range(range, b"", &proof), Ok(()), "{range:?}");
    }
    let guest = Committed::to(&[42], &mut random);
    for range in [(43, 43), (41, 41), (i32::MIN, i32::MIN)] {
        let error = guest.prove(range, b"", &mut random).unwrap_err().to_string();
        assert_eq!(error, format!("level: found 42, expected {} to {}", range.0, range.1));
    }
}

#[test]
fn sums_are_opened_at_the_extremes_of_levels_and_weights() {
    let mut random = Randomness::insecure_from_seed(5);
    let levels = [i32::MIN, i32::MAX, -1, 0];
    let guest = Committed::to(&levels, &mut random);
    let host = Commitments::decode(&guest.commitments()).unwrap();
    let most = 1i64 << 48;
    for weights in [[0; 4], [1, 1, 1, 1], [-1 << 20, 1 << 20, 5, 7], [0, 0, most, -most]] {
        let product: i64 = weights.iter().zip(levels).map(|(w, k)| w * i64::from(k)).sum();
        let opening = guest.open(&weights).unwrap();
        assert_eq!(host.check_product(&weights, product, &opening), Ok(()), "{weights:?}");
        for wrong in [product - 1, product + 1, -product - 1, i64::MAX, i64::MIN] {
            assert_eq!(
                host.check_product(&weights, wrong, &opening),
                Err(CommittedError::Opening),
                "{wrong} for {product}"
            );
        }
    }
    for weight in [most + 1, -most - 1, i64::MAX, i64::MIN] {
        let error = guest.open(&[0, 0, 0, weight]).unwrap_err().to_string();
        assert_eq!(error, format!("weight: found {weight}, expected at most {most} in size"));
    }
}

#[test]
fn commitments_add_like_their_levels() {
    // C(a) + C(b) opens as a + b with the sum of what hides them: what opening sums rests on.
    let mut random = Randomness::insecure_from_seed(6);
    let guest = Committed::to(&[1200, -345], &mut random);
    let points: Vec<RistrettoPoint> =
        guest.points.iter().map(|point| point.decompress().unwrap()).collect();
    let sum = RistrettoPoint::mul_base(&small_scalar(855))
        + (guest.blindings[0] + guest.blindings[1]) * blinding_generator();
    assert_eq!(points[0] + points[1], sum);
}

#[test]
fn parts_of_commitments_stay_within_them() {
    let (_, host, _) = committed(5);
    assert_eq!((host.len(), host.is_empty()), (5, false));
    let (front, back) = (host.part(0..2).unwrap(), host.part(2..5).unwrap());
    assert_eq!((front.len(), back.len()), (2, 3));
    assert_eq!(Commitments::joined([&front, &back]), host);
    assert_eq!(host.part(5..5).map(|none| none.len()), Some(0));
    let backwards = std::ops::Range { start: 3, end: 2 };
    for range in [4..6, 6..6, backwards] {
        assert_eq!(host.part(range.clone()), None, "{range:?}");
    }
    assert!(Commitments::joined([]).is_empty());
}

#[test]
fn challenges_depend_on_where_messages_begin() {
    let challenge = |messages: &[(&[u8], &[u8])]| {
        let mut transcript = Transcript::new(b"test");
        messages.iter().for_each(|(label, message)| transcript.append(label, message));
        transcript.challenge(b"c")
    };
    let all = [
        challenge(&[]),
        challenge(&[(b"a", b"bc")]),
        challenge(&[(b"ab", b"c")]),
        challenge(&[(b"a", b"b"), (b"", b"c")]),
        challenge(&[(b"a", b"b"), (b"c", b"")]),
        challenge(&[(b"c", b""), (b"a", b"b")]),
        Transcript::new(b"other").challenge(b"c"),
        Transcript::new(b"test").challenge(b"d"),
    ];
    for (i, one) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other != one), "{i}");
    }
    // Said again, the same again; asked twice, another.
    assert_eq!(challenge(&[(b"a", b"bc")]), all[1]);
    let mut transcript = Transcript::new(b"test");
    assert_eq!(transcript.challenge(b"c"), all[0]);
    let second = transcript.challenge(b"c");
    assert!(all.iter().all(|other| *other != second));
}

#[test]
fn generators_are_as_many_points_as_there_are_names() {
    let [left, right] = generators::bit_generators(40);
    let [longer, _] = generators::bit_generators(64);
    assert_eq!(left, longer[..40], "more of them are the same ones and others");
    let mut all: Vec<[u8; 32]> =
        left.iter().chain(&right).map(|point| point.compress().to_bytes()).collect();
    all.push(blinding_generator().compress().to_bytes());
    all.push(curve25519_dalek::constants::RISTRETTO_BASEPOINT_COMPRESSED.to_bytes());
    all.push([0; 32]); // The identity.
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), 2 * 40 + 3);
}

/// ⟨a, G⟩ + ⟨b, H⟩ + ⟨a, b⟩·Q, folded by the challenges of the argument, is its last round's sum.
#[test]
fn inner_products_fold_to_what_they_were() {
    use curve25519_dalek::traits::MultiscalarMul;
    use inner_product::{InnerProduct, dot, folded};

    let mut random = Randomness::insecure_from_seed(7);
    for length in [1, 2, 4, 16] {
        let [g, h] = generators::bit_generators(length);
        let q = RistrettoPoint::mul_base(&random_scalar(&mut random));
        let [a, b] = [0, 1].map(|_| (0..length).map(|_| random_scalar(&mut random)).collect());
        let (a, b): (Vec<Scalar>, Vec<Scalar>) = (a, b);
        let product = dot(&a, &b);
        let whole = RistrettoPoint::multiscalar_mul(&a, &g)
            + RistrettoPoint::multiscalar_mul(&b, &h)
            + product * q;
        let proof =
            InnerProduct::prove(&mut Transcript::new(b"test"), &q, [g.clone(), h.clone()], [a, b]);
        assert_eq!(proof.rounds.len(), length.ilog2() as usize);
        let challenges = proof.challenges(&mut Transcript::new(b"test"), length).unwrap();
        for (u, inverse) in &challenges {
            assert_eq!(u * inverse, Scalar::ONE);
        }
        let mut left = whole;
        for ((u, inverse), round) in challenges.iter().zip(&proof.rounds) {
            left += u * u * round[0].decompress().unwrap();
            left += inverse * inverse * round[1].decompress().unwrap();
        }
        let factors = folded(&challenges);
        let last: Vec<Scalar> = factors.iter().rev().copied().collect();
        let right = proof.a * RistrettoPoint::multiscalar_mul(&factors, &g)
            + proof.b * RistrettoPoint::multiscalar_mul(&last, &h)
            + proof.a * proof.b * q;
        assert_eq!(left, right, "{length} values");
        // Rounds that do not fit the length are none.
        assert!(proof.challenges(&mut Transcript::new(b"test"), 2 * length).is_none());
        assert!(proof.challenges(&mut Transcript::new(b"test"), 3).is_none());
    }
}

#[test]
fn commitments_hide_and_bind() {
    let mut random = Randomness::insecure_from_seed(2);
    // The same value again has another commitment, within one list and in the next.
    let [one, two] = [1, 2].map(|_| Committed::to(&[7, 7], &mut random));
    let points: std::collections::HashSet<[u8; 32]> =
        one.points.iter().chain(&two.points).map(|point| point.to_bytes()).collect();
    assert_eq!(points.len(), 4);
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
        let committed = Committed::to(&levels, &mut random);
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
        let error = Commitments::decode(&bytes[..length]).unwrap_err();
        let cut = matches!(
            error,
            CommittedError::Peer { what: "commitments", reason: DecodeError::Length { .. } }
        );
        assert!(cut, "{length} bytes: {error:?}");
    }
    for (at, byte, expected) in [
        (0, 0, "found bytes that do not begin as a sealed message does (5E A1)"),
        (2, 1, "found version 1 of the encoding, expected 2"),
        (3, 65, "found a message of kind 65, expected Commitments"),
        (4, 0, "values: found 0, expected 1 to 512"),
        (5, 2, "values: found 514, expected 1 to 512"),
    ] {
        let mut bad = bytes.clone();
        bad[at] = byte;
        let error = Commitments::decode(&bad).unwrap_err().to_string();
        assert_eq!(error, format!("the peer sent no valid commitments: {expected}"));
    }
    let mut bad = bytes.clone();
    bad[8..40].fill(0xFF);
    let error = Commitments::decode(&bad).unwrap_err().to_string();
    assert!(error.contains("bytes of no point"), "{error}");
    let misuse = |error: CommittedError| {
        assert!(matches!(error, CommittedError::Misuse { .. }), "{error:?}");
        error.to_string()
    };
    for (low, high) in [(5, 4), (0, 1 << 16), (i32::MIN, i32::MAX), (i32::MAX, i32::MIN)] {
        let expected = format!("range: found {low} to {high}, expected at most 65536 levels");
        assert_eq!(misuse(guest.prove((low, high), b"", &mut random).unwrap_err()), expected);
        assert_eq!(misuse(host.check_range((low, high), b"", &[]).unwrap_err()), expected);
    }
    assert_eq!(misuse(guest.open(&[1]).unwrap_err()), "weights: found 1, expected 2");
    assert_eq!(
        misuse(host.check_product(&[1, 1, 1], 0, &[]).unwrap_err()),
        "weights: found 3, expected 2"
    );
    let error = host.check_product(&[1, 1], 0, &[0; 3]).unwrap_err().to_string();
    assert_eq!(error, "the peer sent no valid opening: opening: found 3 bytes, expected 4");
    let mut opening = guest.open(&[1, 1]).unwrap();
    opening[4..].fill(0xFF);
    let error = host.check_product(&[1, 1], 0, &opening).unwrap_err().to_string();
    assert_eq!(
        error,
        "the peer sent no valid opening: scalar: found bytes of no scalar, expected a canonical scalar"
    );
}
