//! The guest: encrypts its blocks, decrypts what the host has masked or granted.

use std::fmt;

use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::codec::expand;
use super::message::{
    Answer, Grant, PublicKey, Question, Sealed, SealedProducts, SeededHalf, Upload,
};
use super::residue::Modulus;
use super::ring::{PLAIN_BITS, PRIME, PRIMES, Poly, Ring, ring};
use super::row_places;
use super::transform::DEGREE;
use crate::kernel::{LANES, Lanes, ROUND, Vectorised, vectorise};
use crate::product::{
    Agreement, Answerer, BlockId, Guest, SealedError, misuse, peer, rows_of, rows_of_loan,
};
use crate::random::Randomness;
use crate::wire::{Kind, is};

/// A guest of the lattice protocol.
pub struct RlweGuest {
    pub(super) agreement: Agreement,
    /// The secret key, transformed.
    pub(super) key: [Poly; PRIMES],
    public: PublicKey,
    pub(super) random: Randomness,
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

impl fmt::Debug for KeySeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySeed(…)")
    }
}

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
        let key = transformed(ring(), &secret);
        let noise = Poly::error(&mut stream);
        let public_seed = stream.seed();
        let agreement = agreement.checked()?;
        let half = encrypt(&key, public_seed, noise, &[]);
        let public = PublicKey { terms: agreement.terms(), half };
        Ok(Self { agreement, key, public, random })
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
        let transform = &ring().transforms[0];
        let p = transform.modulus();
        for (x, &residue) in masked.0.iter_mut().zip(&sealed.c1) {
            *x = p.reduce(residue as i64 as f64);
        }
        transform.forward(&mut masked.0);
        vectorise(MultiplyInto { prime: 0, x: &mut masked.0, y: &self.key[0].0 });
        transform.inverse(&mut masked.0);
        let places = row_places(width, sealed.c0.len()).zip(&sealed.c0);
        places.map(|(place, &c0)| p.reduce(masked.0[place] + c0 as f64)).collect()
    }
}

impl Guest for RlweGuest {
    fn opening(&self) -> Vec<u8> {
        self.public.encode()
    }

    fn upload(&mut self, block: BlockId, levels: &[i32]) -> Result<Vec<u8>, SealedError> {
        if levels.len() != self.agreement.width {
            return Err(misuse("values of a block", levels.len(), self.agreement.width));
        }
        self.agreement.grid.check(levels)?;
        let noise = Poly::error(&mut self.random);
        let half = encrypt(&self.key, self.random.seed(), noise, levels);
        Ok(Upload { block, terms: self.agreement.terms(), half }.encode())
    }

    fn take(&mut self, grant: &[u8]) -> Result<Vec<f64>, SealedError> {
        let Agreement { width, most_rows, .. } = self.agreement;
        let (mut numbers, scale) = if is(Kind::RlweSharedGrant, grant) {
            self.shared(grant)?
        } else {
            let grant = Grant::decode(grant, width, most_rows).map_err(peer("grant"))?;
            (self.decrypt(&grant.products, width), grant.scale)
        };
        let unit = libm::ldexp(1.0, -scale);
        let products = numbers.iter().map(|&number| centred(number) as f64 * unit).collect();
        numbers.zeroize();
        Ok(products)
    }

    fn relay(&mut self, loan: &[u8], opening: &[u8]) -> Result<Vec<u8>, SealedError> {
        self.relayed(loan, opening)
    }

    fn loan_rows(&self, loan: &[u8]) -> Result<usize, SealedError> {
        rows_of_loan(Kind::RlweLoan, loan, self.agreement.most_rows)
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
        rows_of(Kind::RlweQuestion, question, self.agreement.most_rows)
    }
}

impl fmt::Debug for RlweGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RlweGuest(width {}, …)", self.agreement.width)
    }
}

/// The number in −2^39..2^39 that is congruent to this one modulo 2^40.
pub(crate) fn centred(number: u64) -> i64 {
    (number << (64 - PLAIN_BITS)) as i64 >> (64 - PLAIN_BITS)
}

/// b = −a·s + e + ⌊q/t⌋·u, transformed, where a is what the seed stands for.
fn encrypt(key: &[Poly; PRIMES], seed: [u8; 32], noise: Poly, levels: &[i32]) -> SeededHalf {
    let ring = ring();
    // Erased when dropped: a becomes a·s.
    let (mut a, mut message) = (Poly::zero(), Poly::zero());
    let residues = std::array::from_fn(|prime| {
        let transform = &ring.transforms[prime];
        let p = transform.modulus();
        message.0.copy_from_slice(&*noise.0);
        for (x, &level) in message.0.iter_mut().zip(levels) {
            *x = p.reduce(*x + ring.scaled(prime, f64::from(level)));
        }
        transform.forward(&mut message.0);
        expand(&seed, prime, &mut a.0);
        vectorise(MultiplyInto { prime, x: &mut a.0, y: &key[prime].0 });
        let mut difference = vec![0; DEGREE];
        vectorise(Difference { p, x: &message.0, y: &a.0, out: &mut difference });
        difference
    });
    SeededHalf::new(seed, residues)
}

fn transformed(ring: &Ring, secret: &Poly) -> [Poly; PRIMES] {
    std::array::from_fn(|prime| {
        let mut poly = secret.clone();
        ring.transforms[prime].forward(&mut poly.0);
        poly
    })
}

/// x ← x·y, balanced.
struct MultiplyInto<'a> {
    prime: usize,
    x: &'a mut [f64; DEGREE],
    y: &'a [f64; DEGREE],
}

impl Vectorised for MultiplyInto<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let p = ring().modulus(self.prime).lanes::<L>();
        let factors = self.y.as_chunks::<LANES>().0;
        for (x, y) in self.x.as_chunks_mut::<LANES>().0.iter_mut().zip(factors) {
            p.reduce(p.multiply(L::load(x), L::load(y))).store(x);
        }
    }
}

/// x − y, in 0..p.
struct Difference<'a> {
    p: Modulus,
    x: &'a [f64; DEGREE],
    y: &'a [f64; DEGREE],
    out: &'a mut [u64],
}

impl Vectorised for Difference<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        for ((out, x), y) in self.out.iter_mut().zip(self.x).zip(self.y) {
            *out = self.p.canonical(x - y);
        }
    }
}
