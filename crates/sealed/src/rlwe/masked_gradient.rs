//! Products for a guest alone, see [`masked_gradient`](crate::masked_gradient): the host encrypts coefficients, the owner multiplies
//! them by its values, place by place ([`slots`](super::slots)).
//!
//! What the host decrypts is masked by numbers that are uniform modulo t, so it is uniform itself; and c1 and the noise
//! are hidden from it as those of a question are from a guest, by an encryption of zero with the key of the coefficients and by
//! flooding noise at every coefficient.

use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::accumulate::{Expanded, Sums};
use super::encrypt::{encrypt, transformed};
use super::guest::{OwnMask, times_key};
use super::hiding::Hiding;
use super::message::masked::{SEED_NUMBERS, polys_of};
use super::message::{
    EncryptedCoefficients as CoefficientsMessage, MaskedGradient, MaskedProducts, PublicKey,
    Sealed, SealedProducts,
};
use super::ring::{PRIMES, Poly, ring};
use super::slots::slots;
use super::transform::DEGREE;
use super::{RlweGuest, RlweHost};
use crate::kernel::ROUND;
use crate::masked_gradient::{
    MagnitudeBound, MaskedShare, Numbers, PendingProducts, ProductSecrets, Scale,
};
use crate::product::{Coefficients, Expected, SealedError, misuse, peer};
use crate::random::Randomness;
use crate::wire::out_of_range;

/// The most masks of shares of its own gradient that a guest keeps: a gradient has at most as many parts.
const MOST_OWN_MASKS: usize = 4096;

impl RlweHost {
    pub(super) fn lent_out(
        &mut self,
        part: &Coefficients<'_>,
        scale: Scale,
        own: bool,
    ) -> Result<(Vec<u8>, PendingProducts), SealedError> {
        let products = part.products(&self.agreement)?;
        MagnitudeBound::of(&self.agreement, part)?.check(scale)?;
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
        let message =
            CoefficientsMessage { exchange, products, terms, key: public, planes }.encode();
        Ok((
            message,
            PendingProducts {
                exchange,
                products,
                own,
                kept: ProductSecrets::Lattice { key, corrections },
            },
        ))
    }

    pub(super) fn accepted(
        &self,
        request: &PendingProducts,
        reply: &[u8],
    ) -> Result<MaskedShare, SealedError> {
        let ProductSecrets::Lattice { key, corrections } = &request.kept else {
            return Err(misuse("coefficients", "one in the clear", "an encrypted one"));
        };
        let MaskedProducts { exchange, products, polys, seed } =
            MaskedProducts::decode(reply, self.agreement.most_rows)
                .map_err(peer("masked products"))?;
        let wrong = peer("masked products");
        Expected::masked_products(request).check(exchange, products).map_err(&wrong)?;
        let [found, expected] = [seed.is_some(), !request.own].map(u8::from);
        if found != expected {
            return Err(wrong(out_of_range("seeds of the masked products", found, expected)));
        }
        let numbers = polys.par_iter().map(|sealed| numbers_of(sealed, key));
        let numbers: Vec<Poly> = numbers.collect();
        let numbers = numbers.iter().flat_map(|poly| poly.0.iter());
        let t = slots().modulus();
        let masked = numbers.zip(corrections).map(|(number, more)| t.reduce(number + more));
        let numbers = Numbers::Lattice { masked: masked.collect(), seed };
        Ok(MaskedShare { exchange, own: request.own, numbers })
    }

    pub(super) fn masked_gradient(
        &mut self,
        offsets: &[f64],
        scale: Scale,
        shares: &[MaskedShare],
    ) -> Result<Vec<u8>, SealedError> {
        MagnitudeBound::of_offsets(offsets)?.check(scale)?;
        if !(1..=self.agreement.most_rows).contains(&offsets.len()) {
            let expected = format!("1 to {}", self.agreement.most_rows);
            return Err(misuse("products", offsets.len(), expected));
        }
        let t = slots().modulus();
        let per_unit = libm::ldexp(1.0, scale.0);
        let whole = offsets.iter().map(|offset| (offset * per_unit + ROUND) - ROUND);
        let mut sums: Vec<f64> = whole.collect();
        let (mut seeds, mut own) = (Vec::new(), 0);
        for part in shares {
            let Numbers::Lattice { masked, seed } = &part.numbers else {
                return Err(misuse(
                    "shares of a masked gradient",
                    "numbers in the clear",
                    "masked ones",
                ));
            };
            if masked.len() != sums.len() {
                return Err(misuse("products of a share", masked.len(), sums.len()));
            }
            sums.iter_mut().zip(masked).for_each(|(sum, masked)| *sum = t.reduce(*sum + masked));
            if part.own && std::mem::replace(&mut own, part.exchange) != 0 {
                return Err(misuse("shares of the recipient itself", "two parts", "one"));
            }
            seeds.extend(seed.clone());
        }
        let masked = sums.iter().map(|&sum| t.canonical(sum)).collect();
        sums.zeroize();
        Ok(MaskedGradient { own, scale, masked, seeds }.encode())
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
    pub(super) fn masked_products(
        &mut self,
        request: &[u8],
        levels: &[i32],
        recipient: Option<&[u8]>,
    ) -> Result<Vec<u8>, SealedError> {
        let request = CoefficientsMessage::decode(request, self.agreement.most_rows)
            .map_err(peer("coefficients"))?;
        let CoefficientsMessage { exchange, products, terms, key, planes } = request;
        if levels.len() != products * terms {
            return Err(misuse("values of encrypted coefficients", levels.len(), products * terms));
        }
        self.agreement.grid.check(levels)?;
        let seed = Zeroizing::new(self.random.seed());
        let seed_for_recipient =
            recipient.map(|opening| self.seed_for(&seed, opening)).transpose()?;
        let mut public = Expanded::new();
        public.fill(&key);
        let seeds = (0..polys_of(products)).map(|_| Zeroizing::new(self.random.seed()));
        let seeds: Vec<Zeroizing<[u8; 32]>> = seeds.collect();
        let polys = seeds.par_iter().zip(planes.par_chunks(terms)).enumerate();
        let polys = polys.map(|(poly, (own_seed, planes))| {
            let mut work = self.scratch.take();
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
            self.scratch.give_back(work);
            sealed
        });
        let polys = polys.collect();
        if seed_for_recipient.is_none() {
            if self.own.len() >= MOST_OWN_MASKS {
                self.own.pop_front();
            }
            self.own.push_back(OwnMask { exchange, seed });
        }
        Ok(MaskedProducts { exchange, products, polys, seed: seed_for_recipient }.encode())
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

    pub(super) fn taken(&mut self, gradient: &[u8]) -> Result<Vec<f64>, SealedError> {
        let MaskedGradient { own, scale, masked, seeds } =
            MaskedGradient::decode(gradient, self.agreement.most_rows)
                .map_err(peer("masked gradient"))?;
        let mut known: Vec<Zeroizing<[u8; 32]>> = Vec::new();
        if own != 0 {
            let mask = self.own.iter().find(|mask| mask.exchange == own);
            let found = self.own.back().map_or(0, |mask| mask.exchange);
            let mask = mask.ok_or_else(|| {
                peer("masked gradient")(out_of_range("exchange of the masked gradient", own, found))
            })?;
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
            let wrong =
                |_| peer("masked gradient")(out_of_range("number of a seed", "more", "32 bits"));
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
