//! The guest: encrypts its blocks, decrypts what the host has masked.

use std::collections::VecDeque;

use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::encrypt::{encrypt, multiply_into, transformed};
use super::message::{
    Answer, EncryptedCoefficients, PublicKey, Question, Sealed, SealedProducts, Upload,
};
use super::ring::{PLAIN_BITS, PRIME, PRIMES, Poly, ring};
use super::row_places;
use super::scratch::ScratchPool;
use crate::kernel::ROUND;
use crate::product::{
    Agreement, Answerer, BlockId, CoefficientsSize, Guest, SealedError, peer, rows_of,
    size_of_coefficients,
};
use crate::random::Randomness;
use crate::wire::MessageKind;

/// A guest of the lattice protocol.
pub struct RlweGuest {
    pub(super) agreement: Agreement,
    /// The secret key, transformed.
    pub(super) key: [Poly; PRIMES],
    public: PublicKey,
    pub(super) random: Randomness,
    pub(super) scratch: ScratchPool,
    /// The masks of its last shares of its own gradient, the oldest first.
    pub(super) own: VecDeque<OwnMask>,
}

/// What a guest keeps of encrypted coefficients to itself until the gradient.
pub(super) struct OwnMask {
    pub(super) exchange: u64,
    pub(super) seed: Zeroizing<[u8; 32]>,
}

/// Polynomials that a thread decrypts one after the other, in the same room.
const POLYS_AT_ONCE: usize = 4;

/// 32 bytes from which a guest's keys are made; what a guest keeps across restarts.
#[derive(Clone)]
pub struct KeySeed(Zeroizing<[u8; 32]>);

impl KeySeed {
    /// A new one, from the operating system.
    pub fn from_os() -> Result<Self, SealedError> {
        Ok(Self::drawn(&mut Randomness::from_os()?))
    }

    /// A new one from a given stream.
    pub fn drawn(random: &mut Randomness) -> Self {
        Self(Zeroizing::new(random.seed()))
    }

    /// One that was kept.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// To keep it; as secret as the data themselves.
    pub fn to_bytes(&self) -> [u8; 32] {
        *self.0
    }
}

crate::debug_sizes!(KeySeed, |_it| "KeySeed(…)");

impl RlweGuest {
    /// A guest with these keys; encryptions use randomness of the operating system.
    pub fn new(agreement: Agreement, seed: &KeySeed) -> Result<Self, SealedError> {
        Self::with_randomness(agreement, seed, Randomness::from_os()?)
    }

    /// A guest whose every byte can be repeated: for tests and test vectors only.
    pub fn with_randomness(
        agreement: Agreement,
        seed: &KeySeed,
        random: Randomness,
    ) -> Result<Self, SealedError> {
        let mut stream = Randomness::from_secret(&seed.0);
        let secret = Poly::ternary(&mut stream);
        let key = transformed(&secret);
        let noise = Poly::error(&mut stream);
        let public_seed = stream.seed();
        let agreement = agreement.checked()?;
        let half = encrypt(&key, public_seed, &noise, |_, _| {});
        let public = PublicKey { terms: agreement.terms(), half };
        Ok(Self {
            agreement,
            key,
            public,
            random,
            scratch: ScratchPool::default(),
            own: VecDeque::new(),
        })
    }

    /// Numbers modulo 2^40, in the order of the rows, which stand as for blocks of this width.
    pub(super) fn decrypt(&self, products: &SealedProducts, width: usize) -> Vec<u64> {
        let polys = products.polys.par_iter().with_min_len(POLYS_AT_ONCE);
        let mut parts: Vec<Vec<f64>> = polys
            .map_init(Poly::zero, |room, poly| self.phases_within(room, poly, width))
            .collect();
        let to_plain = (1u64 << PLAIN_BITS) as f64 / PRIME[0] as f64;
        let numbers = parts.iter().flatten().map(|&phase| {
            // The noise stays a quarter of a unit away from the next number, this rounding 2^-12.
            let number = (phase * to_plain + ROUND) - ROUND;
            number as i64 as u64 & ((1 << PLAIN_BITS) - 1)
        });
        let numbers = numbers.collect();
        parts.zeroize();
        numbers
    }

    #[cfg(test)]
    pub(super) fn phases(&self, sealed: &Sealed, width: usize) -> Vec<f64> {
        self.phases_within(&mut Poly::zero(), sealed, width)
    }

    /// c0 + c1·s where a product is, modulo the first prime: the number, scaled, and noise.
    fn phases_within(&self, masked: &mut Poly, sealed: &Sealed, width: usize) -> Vec<f64> {
        let p = ring().modulus(0);
        times_key(&sealed.c1, &self.key[0], masked);
        let places = row_places(width, sealed.c0.len()).zip(&sealed.c0);
        places.map(|(place, &c0)| p.reduce(masked.0[place] + c0 as f64)).collect()
    }
}

impl Guest for RlweGuest {
    fn public_key(&self) -> Vec<u8> {
        self.public.encode()
    }

    fn upload(&mut self, block: BlockId, levels: &[i32]) -> Result<Vec<u8>, SealedError> {
        self.agreement.check_levels(levels)?;
        let noise = Poly::error(&mut self.random);
        let half = encrypt(&self.key, self.random.seed(), &noise, |prime, message| {
            let p = ring().modulus(prime);
            for (x, &level) in message.iter_mut().zip(levels) {
                *x = p.reduce(*x + ring().scaled(prime, f64::from(level)));
            }
        });
        Ok(Upload { block, terms: self.agreement.terms(), half }.encode())
    }

    fn multiply_masked(
        &mut self,
        request: &[u8],
        levels: &[i32],
        recipient: Option<&[u8]>,
    ) -> Result<Vec<u8>, SealedError> {
        self.masked_products(request, levels, recipient)
    }

    fn coefficients_size(&self, request: &[u8]) -> Result<CoefficientsSize, SealedError> {
        size_of_coefficients(
            MessageKind::RlweCoefficients,
            request,
            self.agreement.most_rows,
            EncryptedCoefficients::size,
        )
    }

    fn unmask(&mut self, gradient: &[u8]) -> Result<Vec<f64>, SealedError> {
        self.taken(gradient)
    }
}

impl Answerer for RlweGuest {
    fn answer(&mut self, question: &[u8]) -> Result<Vec<u8>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let Question(products) =
            Question::decode(question, width, most_rows).map_err(peer("question"))?;
        let masked = self.decrypt(&products, width);
        Ok(Answer { exchange: products.exchange, masked }.encode())
    }

    fn rows(&self, question: &[u8]) -> Result<usize, SealedError> {
        rows_of(MessageKind::RlweQuestion, question, self.agreement.most_rows)
    }
}

crate::debug_sizes!(RlweGuest, |it| "RlweGuest(width {}, …)", it.agreement.width);

/// c1·s modulo the first prime, balanced.
pub(super) fn times_key(c1: &[u64], key: &Poly, out: &mut Poly) {
    let transform = &ring().transforms[0];
    let p = transform.modulus();
    for (x, &residue) in out.0.iter_mut().zip(c1) {
        *x = p.reduce(residue as i64 as f64);
    }
    transform.forward(&mut out.0);
    multiply_into(0, out, key);
    transform.inverse(&mut out.0);
}

/// The number in −2^39..2^39 that is congruent to this one modulo 2^40.
pub(crate) fn centred(number: u64) -> i64 {
    (number << (64 - PLAIN_BITS)) as i64 >> (64 - PLAIN_BITS)
}
