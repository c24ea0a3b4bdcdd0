//! Products for a guest alone, see [`lending`](crate::lending): the host encrypts coefficients, the lender multiplies
//! them by its values, place by place ([`slots`](super::slots)).
//!
//! What the host decrypts is masked by numbers that are uniform modulo t, so it is uniform itself; and c1 and the noise
//! are hidden from it as those of a question are from a guest, by an encryption of zero with the key of the loan and by
//! flooding noise at every coefficient.

use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::accumulate::{Expanded, Sums};
use super::encrypt::{encrypt, transformed};
use super::guest::{OwnMask, times_key};
use super::hiding::Hiding;
use super::message::lent::{SEED_NUMBERS, polys_of};
use super::message::{Grant, Loan as LoanMessage, PublicKey, Relay, Sealed, SealedProducts};
use super::ring::{PRIMES, Poly, ring};
use super::slots::slots;
use super::transform::DEGREE;
use super::{RlweGuest, RlweHost};
use crate::kernel::ROUND;
use crate::lending::{Kept, Lent, Loan, Numbers, Reach, Scale};
use crate::product::{Coefficients, SealedError, misuse, peer};
use crate::random::Randomness;
use crate::wire::out_of_range;

impl RlweHost {
    pub(super) fn lent_out(
        &mut self,
        part: &Coefficients<'_>,
        scale: Scale,
        own: bool,
    ) -> Result<(Vec<u8>, Loan), SealedError> {
        let products = part.products(&self.agreement)?;
        Reach::of(&self.agreement, part)?.check(scale)?;
        let (per_unit, grid) = (libm::ldexp(1.0, scale.0), self.agreement.grid);
        let mut key = transformed(&Poly::ternary(&mut self.random));
        let noise = Poly::error(&mut self.random);
        let public = encrypt(&key, self.random.seed(), &noise, |_, _| {});
        let planes = polys_of(products) * part.terms;
        let seeds = self.seeds(planes);
        let planes = seeds.par_iter().enumerate().map(|(plane, seed)| {
            let (poly, term) = (plane / part.terms, plane % part.terms);
            let own = part.values.chunks_exact(part.terms).skip(poly * DEGREE);
            let mut weights = Poly::zero();
            for (weight, own) in weights.0.iter_mut().zip(own) {
                *weight = (own[term] * grid.step() * per_unit + ROUND) - ROUND;
            }
            let mut random = Randomness::from_secret(seed);
            sealed_plane(&key, &mut weights, &mut random)
        });
        let planes = planes.collect();
        let corrections = part.values.chunks_exact(part.terms).map(|row| {
            let sum: f64 = row.iter().sum();
            (sum * grid.centre() * per_unit + ROUND) - ROUND
        });
        let corrections = corrections.collect();
        // 0 stands for none.
        let exchange = self.random.bits().max(1);
        let (key, terms) = (std::mem::replace(&mut key[0], Poly::zero()), part.terms);
        let message = LoanMessage { exchange, products, terms, key: public, planes }.encode();
        Ok((message, Loan { exchange, products, own, kept: Kept::Lattice { key, corrections } }))
    }

    pub(super) fn accepted(&self, loan: &Loan, relay: &[u8]) -> Result<Lent, SealedError> {
        let Kept::Lattice { key, corrections } = &loan.kept else {
            return Err(misuse("loan", "one in the clear", "an encrypted one"));
        };
        let Relay { exchange, products, polys, seed } =
            Relay::decode(relay, self.agreement.most_rows).map_err(peer("relay"))?;
        let wrong =
            |what, found: u64, expected: u64| peer("relay")(out_of_range(what, found, expected));
        if exchange != loan.exchange {
            return Err(wrong("exchange of the relay", exchange, loan.exchange));
        }
        if products != loan.products {
            return Err(wrong("products of the relay", products as u64, loan.products as u64));
        }
        let seeds = u64::from(!loan.own);
        if u64::from(seed.is_some()) != seeds {
            return Err(wrong("seeds of the relay", u64::from(seed.is_some()), seeds));
        }
        let numbers = polys.par_iter().map(|sealed| numbers_of(sealed, key));
        let numbers: Vec<Poly> = numbers.collect();
        let numbers = numbers.iter().flat_map(|poly| poly.0.iter());
        let t = slots().modulus();
        let masked = numbers.zip(corrections).map(|(number, more)| t.reduce(number + more));
        let numbers = Numbers::Lattice { masked: masked.collect(), seed };
        Ok(Lent { exchange, own: loan.own, numbers })
    }

    pub(super) fn granted(
        &mut self,
        offsets: &[f64],
        scale: Scale,
        lent: &[Lent],
    ) -> Result<Vec<u8>, SealedError> {
        Reach::of_offsets(offsets)?.check(scale)?;
        if !(1..=self.agreement.most_rows).contains(&offsets.len()) {
            let expected = format!("1 to {}", self.agreement.most_rows);
            return Err(misuse("products", offsets.len(), expected));
        }
        let t = slots().modulus();
        let per_unit = libm::ldexp(1.0, scale.0);
        let whole = offsets.iter().map(|offset| (offset * per_unit + ROUND) - ROUND);
        let mut sums: Vec<f64> = whole.collect();
        let (mut seeds, mut own) = (Vec::new(), 0);
        for part in lent {
            let Numbers::Lattice { masked, seed } = &part.numbers else {
                return Err(misuse("what was lent", "numbers in the clear", "masked ones"));
            };
            if masked.len() != sums.len() {
                return Err(misuse("products that were lent", masked.len(), sums.len()));
            }
            sums.iter_mut().zip(masked).for_each(|(sum, masked)| *sum = t.reduce(*sum + masked));
            if part.own && std::mem::replace(&mut own, part.exchange) != 0 {
                return Err(misuse("what the taker has lent to itself", "two parts", "one"));
            }
            seeds.extend(seed.clone());
        }
        let masked = sums.iter().map(|&sum| t.canonical(sum)).collect();
        sums.zeroize();
        Ok(Grant { own, scale, masked, seeds }.encode())
    }
}

/// Encrypts whole numbers, one at each place.
fn sealed_plane(
    key: &[Poly; PRIMES],
    numbers: &mut Poly,
    random: &mut Randomness,
) -> super::message::SeededHalf {
    slots().encode(numbers);
    slots().remainders(numbers);
    let noise = Poly::error(random);
    encrypt(key, random.seed(), &noise, |prime, message| {
        slots().add_scaled(prime, numbers, message);
    })
}

/// Decrypts numbers, one at each place.
fn numbers_of(sealed: &Sealed, key: &Poly) -> Poly {
    let p = ring().modulus(0);
    let mut numbers = Poly::zero();
    times_key(&sealed.c1, key, &mut numbers);
    for (x, &c0) in numbers.0.iter_mut().zip(&sealed.c0) {
        *x = p.reduce(*x + c0 as f64);
    }
    slots().plaintexts(&mut numbers);
    slots().decode(&mut numbers);
    numbers
}

impl RlweGuest {
    pub(super) fn relayed(
        &mut self,
        loan: &[u8],
        levels: &[i32],
        taker: Option<&[u8]>,
    ) -> Result<Vec<u8>, SealedError> {
        let loan = LoanMessage::decode(loan, self.agreement.most_rows).map_err(peer("loan"))?;
        let LoanMessage { exchange, products, terms, key, planes } = loan;
        if levels.len() != products * terms {
            return Err(misuse("values of a loan", levels.len(), products * terms));
        }
        self.agreement.grid.check(levels)?;
        let seed = Zeroizing::new(self.random.seed());
        let for_taker = taker.map(|opening| self.seed_for(&seed, opening)).transpose()?;
        let mut public = Expanded::new();
        public.fill(&key);
        let seeds = (0..polys_of(products)).map(|_| Zeroizing::new(self.random.seed()));
        let seeds: Vec<Zeroizing<[u8; 32]>> = seeds.collect();
        let polys = seeds.par_iter().zip(planes.par_chunks(terms)).enumerate();
        let polys = polys.map(|(poly, (own_seed, planes))| {
            let mut work = self.room.take();
            for (term, plane) in planes.iter().enumerate() {
                let levels = levels.chunks_exact(terms).skip(poly * DEGREE);
                work.weights.0.fill(0.0);
                for (weight, levels) in work.weights.0.iter_mut().zip(levels) {
                    *weight = f64::from(levels[term]);
                }
                slots().encode(&mut work.weights);
                let ciphertext = work.ciphertext.get_or_insert_with(Expanded::new);
                ciphertext.fill(plane);
                work.sums.add(&work.weights, &mut work.scratch, ciphertext);
            }
            slots().mask(&seed, poly, &mut work.weights);
            slots().remainders(&mut work.weights);
            work.hiding.draw_whole(&mut Randomness::from_secret(own_seed));
            let sealed =
                work.hiding.finish_whole(&mut work.sums, &mut work.scratch, &public, &work.weights);
            self.room.give_back(work);
            sealed
        });
        let polys = polys.collect();
        if for_taker.is_none() {
            self.own = Some(OwnMask { exchange, seed });
        }
        Ok(Relay { exchange, products, polys, seed: for_taker }.encode())
    }

    /// A seed, encrypted for the guest with this opening.
    fn seed_for(&mut self, seed: &[u8; 32], opening: &[u8]) -> Result<Sealed, SealedError> {
        let key = PublicKey::decode(opening).map_err(peer("public key"))?;
        let mut public = Expanded::new();
        public.fill(&key.half);
        let numbers = Zeroizing::new(seed_numbers(seed));
        let hiding = Hiding::without_flood(&mut self.random, SEED_NUMBERS);
        // Nothing is multiplied: what remains is an encryption of the numbers alone, one at each place.
        Ok(hiding.finish(&mut Sums::new(), &mut Poly::zero(), &public, 1, &numbers[..]))
    }

    pub(super) fn taken(&mut self, grant: &[u8]) -> Result<Vec<f64>, SealedError> {
        let Grant { own, scale, masked, seeds } =
            Grant::decode(grant, self.agreement.most_rows).map_err(peer("grant"))?;
        let mut known: Vec<Zeroizing<[u8; 32]>> = Vec::new();
        if own != 0 {
            let mask = self.own.as_ref().filter(|mask| mask.exchange == own);
            let found = self.own.as_ref().map_or(0, |mask| mask.exchange);
            let mask = mask
                .ok_or_else(|| peer("grant")(out_of_range("exchange of the grant", own, found)))?;
            known.push(mask.seed.clone());
        }
        for seed in seeds {
            known.push(self.seed_of(seed)?);
        }
        let unit = libm::ldexp(1.0, -scale.0);
        let t = slots().modulus();
        let parts: Vec<&[u64]> = masked.chunks(DEGREE).collect();
        let parts = parts.into_par_iter().enumerate().map(|(poly, masked)| {
            let (mut all, mut one) = (Poly::zero(), Poly::zero());
            for seed in &known {
                slots().mask(seed, poly, &mut one);
                all.0
                    .iter_mut()
                    .zip(one.0.iter())
                    .for_each(|(all, one)| *all = t.reduce(*all + one));
            }
            slots().decode(&mut all);
            let pairs = masked.iter().zip(all.0.iter());
            pairs.map(|(&masked, mask)| t.reduce(masked as f64 - mask) * unit).collect::<Vec<f64>>()
        });
        Ok(parts.collect::<Vec<_>>().concat())
    }

    fn seed_of(&self, sealed: Sealed) -> Result<Zeroizing<[u8; 32]>, SealedError> {
        let products = SealedProducts { exchange: 0, rows: SEED_NUMBERS, polys: vec![sealed] };
        let numbers = Zeroizing::new(self.decrypt(&products, 1));
        let mut seed = Zeroizing::new([0; 32]);
        for (bytes, &number) in seed.as_chunks_mut::<4>().0.iter_mut().zip(numbers.iter()) {
            let word = u32::try_from(number);
            // Not shown: it may be half a secret.
            let wrong = |_| peer("grant")(out_of_range("number of a seed", "more", "32 bits"));
            *bytes = word.map_err(wrong)?.to_le_bytes();
        }
        Ok(seed)
    }
}

/// As numbers of 32 bits.
fn seed_numbers(seed: &[u8; 32]) -> [u64; SEED_NUMBERS] {
    let words = seed.as_chunks::<4>().0;
    std::array::from_fn(|i| u64::from(u32::from_le_bytes(words[i])))
}
