//! Blindings that follow from a seed, so that a guest which starts anew is held to the commitments that it has made.
//!
//! Blindings of a part follow from the seed, the part's name *and its levels*: the same levels always have the same
//! commitments, and other levels under the same name have blindings of their own. Were these the same, the difference of
//! two commitments would tell the difference of the levels.

use curve25519_dalek::scalar::Scalar;
use sha2::{Digest, Sha512};
use zeroize::{Zeroize, Zeroizing};

use super::{Committed, CommittedError, MOST_COMMITTED, misuse};
use crate::ipfe::{random_scalar, small_scalar};
use crate::random::{Randomness, RandomnessError};
use crate::wire::{MessageKind, Writer};

/// What all blindings of a guest follow from. As secret as the data.
pub struct BlindingSeed(Zeroizing<[u8; 32]>);

/// Levels that have a name, for instance the step that they were measured in.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// The name; no two parts of a guest have the same.
    pub name: &'a [u8],
    /// The levels.
    pub levels: &'a [i32],
}

/// What the weights of an opened row sum to at most, without their signs: no more than in a product of lattice encryption
/// on the finest grid, so that opening a sum tells no more than a product does.
pub(crate) const MOST_WEIGHTS: u64 = 1 << 25;

impl BlindingSeed {
    /// A new one, from the operating system.
    pub fn from_os() -> Result<Self, RandomnessError> {
        Ok(Self(Zeroizing::new(Randomness::from_os()?.seed())))
    }

    /// One that was kept.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// To be kept.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Commits to all levels of some parts, one after the other, [`MOST_COMMITTED`] at a time.
    pub fn commit(&self, parts: &[Named<'_>]) -> Result<Vec<Committed>, CommittedError> {
        let levels: Vec<i32> = parts.iter().flat_map(|part| part.levels).copied().collect();
        if levels.is_empty() {
            return Err(misuse("values", "none", "at least one"));
        }
        let mut blindings: Vec<Scalar> =
            parts.iter().flat_map(|part| self.blindings(part)).collect();
        let groups = levels.chunks(MOST_COMMITTED).zip(blindings.chunks(MOST_COMMITTED));
        let groups = groups.map(|(levels, blindings)| Committed::new(levels, blindings)).collect();
        blindings.zeroize();
        Ok(groups)
    }

    /// What hides Σ w_j·k_j over all levels of some parts: shows the sum to whoever has the commitments, and nothing else. Each
    /// opening costs as much as a product: count them alike. Refuses weights with which a sum would tell more than a product:
    /// see `MOST_WEIGHTS`.
    pub fn open(&self, parts: &[Named<'_>], weights: &[i64]) -> Result<Vec<u8>, CommittedError> {
        let expected: usize = parts.iter().map(|part| part.levels.len()).sum();
        if weights.len() != expected {
            return Err(misuse("weights", weights.len(), expected));
        }
        let sum =
            weights.iter().fold(0u64, |sum, weight| sum.saturating_add(weight.unsigned_abs()));
        if sum > MOST_WEIGHTS {
            return Err(misuse("sum of weights", sum, format!("at most {MOST_WEIGHTS}")));
        }
        Ok(opening(weights, parts.iter().flat_map(|part| self.blindings(part))))
    }

    fn blindings(&self, part: &Named<'_>) -> Vec<Scalar> {
        let mut hash = Sha512::new();
        hash.update(b"fedtse blindings, v1");
        hash.update(self.as_bytes());
        hash.update((part.name.len() as u64).to_le_bytes());
        hash.update(part.name);
        for level in part.levels {
            hash.update(level.to_le_bytes());
        }
        let mut digest: [u8; 64] = hash.finalize().into();
        let mut seed = Zeroizing::new([0; 32]);
        seed.copy_from_slice(&digest[..32]);
        digest.zeroize();
        let mut random = Randomness::from_secret(&seed);
        part.levels.iter().map(|_| random_scalar(&mut random)).collect()
    }
}

/// What hides a sum of committed values, from what hides each of them.
pub(super) fn opening(weights: &[i64], blindings: impl IntoIterator<Item = Scalar>) -> Vec<u8> {
    let terms = weights.iter().zip(blindings);
    let sum: Scalar = terms.map(|(&weight, blinding)| small_scalar(weight) * blinding).sum();
    let mut writer = Writer::new(MessageKind::Opening, 32);
    writer.bytes(sum.as_bytes());
    writer.finish()
}

crate::debug_sizes!(BlindingSeed, |_it| "BlindingSeed(…)");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committed::Commitments;

    fn parts<'a>(levels: &'a [Vec<i32>], names: &'a [[u8; 1]]) -> Vec<Named<'a>> {
        let parts = levels.iter().zip(names);
        parts.map(|(levels, name)| Named { name, levels }).collect()
    }

    #[test]
    fn a_seed_gives_the_same_commitments_for_the_same_levels_and_unrelated_ones_for_others() {
        let seed = BlindingSeed::from_bytes([7; 32]);
        let made = |levels: &[i32], name: u8, seed: &BlindingSeed| {
            let made = seed.commit(&[Named { name: &[name], levels }]).unwrap();
            made[0].commitments()
        };
        let one = made(&[5, 6], 1, &seed);
        assert_eq!(one, made(&[5, 6], 1, &BlindingSeed::from_bytes(*seed.as_bytes())));
        // The first level is the same in all: its commitment is not.
        for other in [made(&[5, 7], 1, &seed), made(&[5, 6], 2, &seed)] {
            assert_eq!(one[..8], other[..8], "header and count");
            let points =
                |bytes: &[u8]| bytes[8..].chunks(32).map(<[u8]>::to_vec).collect::<Vec<_>>();
            let mut all = [points(&one), points(&other)].concat();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 4, "no commitment comes twice");
        }
        // By a new seed of the system the first commitment is the same with a probability of 2^-252.
        assert_ne!(one[8..40], made(&[5, 6], 1, &BlindingSeed::from_os().unwrap())[8..40]);
        for none in [&[][..], &[Named { name: b"a", levels: &[] }]] {
            let error = seed.commit(none).unwrap_err().to_string();
            assert_eq!(error, "values: found none, expected at least one");
        }
        assert!(!format!("{seed:?}").contains('7'));
    }

    #[test]
    fn sums_over_several_groups_are_opened_against_their_commitments() {
        let seed = BlindingSeed::from_bytes([9; 32]);
        let names = [[1], [2], [3]];
        let levels: Vec<Vec<i32>> =
            [300, 300, 1].iter().map(|&n| (0..n).map(|i| i * 31 % 200 - 100).collect()).collect();
        let parts = parts(&levels, &names);
        let groups = seed.commit(&parts).unwrap();
        assert_eq!(groups.iter().map(|group| group.levels.len()).collect::<Vec<_>>(), [512, 89]);
        let groups = groups.iter().map(|group| Commitments::decode(&group.commitments()).unwrap());
        let all = Commitments::joined(&groups.collect::<Vec<_>>());
        // What the host keeps by part, in another order: a batch that begins with the last one.
        let kept = [all.part(600..601).unwrap(), all.part(300..600).unwrap()];
        assert!(all.part(600..602).is_none());
        let (batch, asked) = (Commitments::joined(&kept), [parts[2], parts[1]]);
        let weights: Vec<i64> = (0..301).map(|i| i * 7919 % 50_000 - 25_000).collect();
        let values = levels[2].iter().chain(&levels[1]);
        let product = values.zip(&weights).map(|(&level, weight)| i64::from(level) * weight).sum();
        let opening = seed.open(&asked, &weights).unwrap();
        batch.check_product(&weights, product, &opening).unwrap();
        assert_eq!(
            batch.check_product(&weights, product + 1, &opening),
            Err(CommittedError::Opening)
        );
        let error = seed.open(&asked, &weights[1..]).unwrap_err().to_string();
        assert_eq!(error, "weights: found 300, expected 301");
        // Weights with which a sum would have room for several levels side by side.
        let mut wide = weights.clone();
        wide[0] = 1 << 25;
        let sum: u64 = wide.iter().map(|weight| weight.unsigned_abs()).sum();
        let error = seed.open(&asked, &wide).unwrap_err().to_string();
        assert_eq!(error, format!("sum of weights: found {sum}, expected at most 33554432"));
        // Sums that would not fit are counted as the largest there is.
        wide[..2].fill(i64::MIN);
        let error = seed.open(&asked, &wide).unwrap_err().to_string();
        let expected = format!("sum of weights: found {}, expected at most 33554432", u64::MAX);
        assert_eq!(error, expected);
        // Exactly as much as a product has is opened.
        let just: Vec<i64> = (0..301).map(|i| if i == 0 { -(1 << 25) } else { 0 }).collect();
        let product = i64::from(levels[2][0]) * just[0];
        batch.check_product(&just, product, &seed.open(&asked, &just).unwrap()).unwrap();
    }
}
