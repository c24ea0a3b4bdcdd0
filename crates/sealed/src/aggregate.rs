//! Sums over guests that show no guest's numbers: pairwise masks that cancel, and a mask of each guest's own.
//!
//! ```text
//! y_i = x_i + PRG(b_i) + Σ_{j > i} PRG(s_ij) − Σ_{j < i} PRG(s_ij)      modulo 2^64, word by word
//! Σ x_i = Σ y_i − Σ PRG(b_i) − Σ over i that stayed, j that dropped out, of ±PRG(s_ij)
//! ```
//!
//! After Bonawitz et al., *Practical secure aggregation for privacy-preserving machine learning* (CCS 2017), without secret
//! sharing: a guest that has sent y_i and is counted has to reveal b_i by itself.
//!
//! s_ij comes from an X25519 key agreement (RFC 7748) and HKDF-SHA256 (RFC 5869) with the context (run and participants), both
//! names and the block: what is revealed of one block says nothing of any other. PRG is ChaCha20. b_i hides a vector that came
//! late: its guest was counted as dropped out, the others have revealed s_ij, and nobody reveals b_i.
//!
//! **One mask hides one vector.** Never mask two different vectors of the same block with the same [`Masks`]; the crate
//! `federation` sees to it. Keys are drawn when a guest starts and are never stored.

mod fixed_point;

use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::IsIdentity;
use hkdf::Hkdf;
use sha2::Sha256;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::random::{Randomness, RandomnessError};

pub use fixed_point::FixedPoint;

/// Most guests of a sum: the fixed point leaves room for so many.
pub const MOST_GUESTS: usize = 64;

/// Why numbers cannot be added up.
#[derive(Debug, Error, PartialEq)]
pub enum AggregateError {
    /// A fixed point that could wrap around, or of no numbers.
    #[error(
        "fixed point: found values up to {bound} in steps of 2^-{fraction_bits}, expected 1 to 2^56 steps"
    )]
    FixedPoint {
        /// The largest value.
        bound: f64,
        /// Bits after the point.
        fraction_bits: u32,
    },
    /// A value beyond the bound, or that is no number.
    #[error("value {place}: found {found}, expected a number within ±{bound}")]
    Value {
        /// Its place.
        place: usize,
        /// The value.
        found: f64,
        /// The bound.
        bound: f64,
    },
    /// A sum that no values within the bound can have: masks do not cancel.
    #[error("sum {place}: found {found:e}, expected at most {most:e}: the masks do not cancel")]
    Sum {
        /// Its place.
        place: usize,
        /// The sum.
        found: f64,
        /// The bound of the sum.
        most: f64,
    },
    /// Too few or too many guests.
    #[error("guests of a sum: found {found}, expected 1 to {MOST_GUESTS}")]
    Guests {
        /// How many.
        found: usize,
    },
    /// A key that agrees on the same secret with everyone.
    #[error("key of guest `{guest}`: found a point of low order")]
    WeakKey {
        /// Whose.
        guest: String,
    },
    /// Parts of a sum that do not belong together.
    #[error("{what}: found {found}, expected {expected}")]
    Mismatch {
        /// Which part.
        what: &'static str,
        /// Found.
        found: usize,
        /// Expected.
        expected: usize,
    },
    /// The operating system gave no randomness.
    #[error("{0}")]
    Randomness(String),
}

impl From<RandomnessError> for AggregateError {
    fn from(error: RandomnessError) -> Self {
        Self::Randomness(error.to_string())
    }
}

/// What a guest's masks follow from: an X25519 secret, and a secret of its own.
pub struct MaskKey {
    agreement: Zeroizing<[u8; 32]>,
    own: Zeroizing<[u8; 32]>,
}

crate::debug_sizes!(MaskKey, |_it| "MaskKey(…)");

/// The public half of a [`MaskKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl MaskKey {
    /// A new one.
    pub fn from_os() -> Result<Self, RandomnessError> {
        Ok(Self::from_randomness(&mut Randomness::from_os()?))
    }

    /// From any randomness; a party's is from the operating system.
    pub fn from_randomness(random: &mut Randomness) -> Self {
        Self { agreement: Zeroizing::new(random.seed()), own: Zeroizing::new(random.seed()) }
    }

    /// What the other guests need.
    pub fn public(&self) -> PublicKey {
        PublicKey(MontgomeryPoint::mul_base_clamped(*self.agreement).to_bytes())
    }

    /// Nothing, if the other key has low order.
    fn agree(&self, other: PublicKey) -> Option<Zeroizing<[u8; 32]>> {
        let shared = MontgomeryPoint(other.0).mul_clamped(*self.agreement);
        (!shared.is_identity()).then(|| Zeroizing::new(shared.to_bytes()))
    }
}

/// A seed of a mask of one block.
#[derive(Clone, PartialEq)]
pub struct Seed(Zeroizing<[u8; 32]>);

crate::debug_sizes!(Seed, |_it| "Seed(…)");

impl Seed {
    /// One that was revealed.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// To be revealed.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn derive(secret: &[u8; 32], label: &[u8], block: &[u8]) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        let kdf = Hkdf::<Sha256>::new(Some(b"fedtse aggregate v1"), secret);
        // One block of SHA-256 is never too long.
        let _ = kdf.expand_multi_info(&[label, block], seed.as_mut());
        Self(seed)
    }

    /// Adds the mask to words, or takes it off.
    fn apply(&self, words: &mut [u64], sign: Sign) {
        let mut random = Randomness::from_secret(&self.0);
        let mut bytes = Zeroizing::new([0u8; 4096]);
        for words in words.chunks_mut(bytes.len() / 8) {
            random.fill(&mut bytes[..8 * words.len()]);
            for (word, mask) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                let mask = u64::from_le_bytes(*mask);
                *word = match sign {
                    Sign::Plus => word.wrapping_add(mask),
                    Sign::Minus => word.wrapping_sub(mask),
                };
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Sign {
    Plus,
    Minus,
}

impl Sign {
    /// Of the mask that the guest at `place` adds for the pair with the one at `other`.
    fn of(place: usize, other: usize) -> Self {
        if place < other { Self::Plus } else { Self::Minus }
    }

    fn opposite(self) -> Self {
        match self {
            Self::Plus => Self::Minus,
            Self::Minus => Self::Plus,
        }
    }
}

/// The masks of one guest among the participants of a sum.
pub struct Masks {
    place: usize,
    own: Zeroizing<[u8; 32]>,
    own_label: Vec<u8>,
    /// By place; the guest's own has none.
    pairs: Vec<Option<Pair>>,
}

crate::debug_sizes!(Masks, |it| "Masks({} participants)", it.pairs.len());

struct Pair {
    secret: Zeroizing<[u8; 32]>,
    label: Vec<u8>,
}

impl Masks {
    /// Agrees with all participants, who are in the same order for everyone; this guest is at `place`. The context names the
    /// run and the participants with their keys: masks of guests who do not agree on it do not cancel.
    pub fn agree(
        key: &MaskKey,
        place: usize,
        participants: &[(&str, PublicKey)],
        context: &[u8; 32],
    ) -> Result<Self, AggregateError> {
        let found = participants.len();
        if !(1..=MOST_GUESTS).contains(&found) {
            return Err(AggregateError::Guests { found });
        }
        let Some((name, _)) = participants.get(place) else {
            return Err(AggregateError::Mismatch { what: "place", found: place, expected: found });
        };
        let pair = |(other, (guest, public)): (usize, &(&str, PublicKey))| {
            if other == place {
                return Ok(None);
            }
            let weak = || AggregateError::WeakKey { guest: (*guest).to_owned() };
            let secret = key.agree(*public).ok_or_else(weak)?;
            let names = if place < other { [name, guest] } else { [guest, name] };
            Ok(Some(Pair { secret, label: label(context, &names) }))
        };
        let pairs =
            participants.iter().enumerate().map(pair).collect::<Result<_, AggregateError>>()?;
        Ok(Self { place, own: key.own.clone(), own_label: label(context, &[name]), pairs })
    }

    /// Masks the words of a block.
    pub fn mask(&self, block: &[u8], words: &mut [u64]) {
        self.own_seed(block).apply(words, Sign::Plus);
        for (other, pair) in self.pairs.iter().enumerate() {
            if let Some(pair) = pair {
                pair.seed(block).apply(words, Sign::of(self.place, other));
            }
        }
    }

    /// What takes the masks of a block off the sum over `survivors`, which this guest is one of. Reveal it for one set of
    /// survivors alone.
    pub fn reveal(&self, block: &[u8], survivors: &[usize]) -> Reveal {
        let dropped = self.pairs.iter().enumerate();
        let dropped = dropped.filter(|(other, _)| !survivors.contains(other));
        let dropped = dropped.filter_map(|(_, pair)| Some(pair.as_ref()?.seed(block))).collect();
        Reveal { own: self.own_seed(block), dropped }
    }

    fn own_seed(&self, block: &[u8]) -> Seed {
        Seed::derive(&self.own, &self.own_label, block)
    }
}

impl Pair {
    fn seed(&self, block: &[u8]) -> Seed {
        Seed::derive(&self.secret, &self.label, block)
    }
}

/// Lengths go in, too: no two contexts with names have the same bytes.
fn label(context: &[u8; 32], names: &[&&str]) -> Vec<u8> {
    let mut label = context.to_vec();
    label.push(names.len() as u8);
    for name in names {
        label.extend((name.len() as u64).to_le_bytes());
        label.extend(name.as_bytes());
    }
    label
}

/// What a guest that is counted reveals of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Reveal {
    /// The seed of its own mask.
    pub own: Seed,
    /// Those that it shares with each participant that is not counted, in their order.
    pub dropped: Vec<Seed>,
}

/// What a guest that is counted has sent of a block.
#[derive(Clone, Copy, Debug)]
pub struct Contribution<'a> {
    /// Its place among the participants.
    pub place: usize,
    /// Its masked words.
    pub masked: &'a [u64],
    /// What it has revealed.
    pub reveal: &'a Reveal,
}

/// The sum over the guests that are counted, in the order of their places.
pub fn unmask(
    participants: usize,
    survivors: &[Contribution<'_>],
) -> Result<Vec<u64>, AggregateError> {
    let mismatch = |what, found, expected| Err(AggregateError::Mismatch { what, found, expected });
    if !(1..=MOST_GUESTS.min(participants)).contains(&survivors.len()) {
        return Err(AggregateError::Guests { found: survivors.len() });
    }
    let (length, dropped) = (survivors[0].masked.len(), participants - survivors.len());
    let mut sum = vec![0u64; length];
    let mut next = 0;
    let places: Vec<usize> = survivors.iter().map(|guest| guest.place).collect();
    for guest in survivors {
        if !(next..participants).contains(&guest.place) {
            return mismatch("place of a guest", guest.place, next);
        }
        next = guest.place + 1;
        if guest.masked.len() != length {
            return mismatch("masked words", guest.masked.len(), length);
        }
        if guest.reveal.dropped.len() != dropped {
            return mismatch("revealed seeds", guest.reveal.dropped.len(), dropped);
        }
        for (sum, word) in sum.iter_mut().zip(guest.masked) {
            *sum = sum.wrapping_add(*word);
        }
        guest.reveal.own.apply(&mut sum, Sign::Minus);
        let others = (0..participants).filter(|other| !places.contains(other));
        for (other, seed) in others.zip(&guest.reveal.dropped) {
            seed.apply(&mut sum, Sign::of(guest.place, other).opposite());
        }
    }
    Ok(sum)
}

/// The sum of vectors through all of it: keys, masks, unmasking. For guests of one process, and to compare with.
pub fn masked_sum(vectors: &[Vec<u64>]) -> Result<Vec<u64>, AggregateError> {
    let keys = vectors.iter().map(|_| MaskKey::from_os()).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> = (0..vectors.len()).map(|place| place.to_string()).collect();
    let names = names.iter().map(String::as_str);
    let participants: Vec<_> = names.zip(keys.iter().map(MaskKey::public)).collect();
    let places: Vec<usize> = (0..vectors.len()).collect();
    let context = Randomness::from_os()?.seed();
    let mut masked = vectors.to_vec();
    let mut reveals = Vec::new();
    for (place, words) in masked.iter_mut().enumerate() {
        let masks = Masks::agree(&keys[place], place, &participants, &context)?;
        masks.mask(&[], words);
        reveals.push(masks.reveal(&[], &places));
    }
    let guests = masked.iter().zip(&reveals).enumerate();
    let guests = guests.map(|(place, (masked, reveal))| Contribution { place, masked, reveal });
    unmask(vectors.len(), &guests.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
