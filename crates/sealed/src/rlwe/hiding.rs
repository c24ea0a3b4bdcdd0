//! What makes a polynomial of products say no more than the products.

use zeroize::Zeroize;

use super::accumulate::{Expanded, Sums};
use super::message::Sealed;
use super::ring::{FLOOD_BITS, Poly, error, ring};
use super::row_places;
use super::slots::{Flood, slots};
use super::transform::DEGREE;
use crate::random::Randomness;

/// What hides one polynomial of products, drawn anew for each. Erased when dropped.
pub(super) struct Hiding {
    blind: Poly,
    /// Of c1.
    noise: Poly,
    /// Of c0 where products are: the rest of it is not sent.
    noise_of_rows: Vec<f64>,
    floods: Vec<u128>,
    /// Made when all of a polynomial is sent.
    whole: Option<(Poly, Flood)>,
}

impl Hiding {
    /// Nothing is hidden before [`Hiding::draw`].
    pub(super) fn new() -> Self {
        let (blind, noise) = (Poly::zero(), Poly::zero());
        Self { blind, noise, noise_of_rows: Vec::new(), floods: Vec::new(), whole: None }
    }

    pub(super) fn draw(&mut self, random: &mut Randomness, rows: usize) {
        self.blind.draw_ternary(random);
        self.noise.draw_error(random);
        self.noise_of_rows.resize(rows, 0.0);
        error(random, &mut self.noise_of_rows);
        self.floods.clear();
        self.floods.extend((0..rows).map(|_| random.bits128() >> (128 - FLOOD_BITS - 1)));
    }

    /// The same where all of c0 is sent.
    pub(super) fn draw_whole(&mut self, random: &mut Randomness) {
        self.blind.draw_ternary(random);
        self.noise.draw_error(random);
        let (noise, flood) = self.whole.get_or_insert_with(|| (Poly::zero(), Flood::new()));
        noise.draw_error(random);
        flood.draw(random);
    }

    /// The same for numbers that are nobody's products: there is no noise but that of the encryption itself.
    pub(super) fn without_flood(random: &mut Randomness, numbers: usize) -> Self {
        let blind = Poly::ternary(random);
        let noise_of_rows = Poly::error(random).0[..numbers].to_vec();
        let noise = Poly::error(random);
        // Floods count from −2^108: this is 0.
        Self { blind, noise, noise_of_rows, floods: vec![1 << FLOOD_BITS; numbers], whole: None }
    }

    /// Adds Enc_pk(0), the plaintexts and flooding noise; switches to one prime; keeps what is needed.
    ///
    /// Without Enc_pk(0), c1 = Σ w_b·c1_b would be linear in the rows, and the guest knows every c1_b.
    pub(super) fn finish(
        &self,
        sums: &mut Sums,
        scratch: &mut Poly,
        public: &Expanded,
        width: usize,
        plaintexts: &[u64],
    ) -> Sealed {
        let ring = ring();
        sums.blind(&self.blind, scratch, public);
        let [[a0, a1], [b0, b1], [d0, d1]] = &sums.halves;
        let c1 = ring.switch_all([a1, b1, d1], &self.noise);
        let places = row_places(width, plaintexts.len());
        let drawn = self.noise_of_rows.iter().zip(&self.floods);
        let c0 = places
            .zip(plaintexts.iter().zip(drawn))
            .map(|(i, (&plaintext, (noise, &flood)))| {
                let mut flood = ring.flood(flood);
                let hidden = |prime: usize, sum: &Poly| {
                    let plain = ring.scaled(prime, plaintext as f64);
                    // Each of the four is at most p/2.
                    sum.0[i] + noise + plain + flood[prime]
                };
                let switched = ring.switch([hidden(0, a0), hidden(1, b0), hidden(2, d0)]);
                flood.zeroize();
                switched
            })
            .collect();
        Sealed { c1, c0 }
    }

    /// The same with a plaintext of one number at each place, given by its remainders, and all of c0. Without
    /// [`Hiding::draw_whole`] before, nothing.
    pub(super) fn finish_whole(
        &self,
        sums: &mut Sums,
        scratch: &mut Poly,
        public: &Expanded,
        remainders: &Poly,
    ) -> Sealed {
        let ring = ring();
        let Some((noise, flood)) = &self.whole else {
            return Sealed { c1: vec![0; DEGREE], c0: vec![0; DEGREE] };
        };
        sums.blind(&self.blind, scratch, public);
        for (prime, [c0, _]) in sums.halves.iter_mut().enumerate() {
            slots().add_scaled(prime, remainders, &mut c0.0);
            flood.add(prime, &mut c0.0);
        }
        let [[a0, a1], [b0, b1], [d0, d1]] = &sums.halves;
        let c1 = ring.switch_all([a1, b1, d1], &self.noise);
        Sealed { c1, c0: ring.switch_all([a0, b0, d0], noise) }
    }
}

impl Drop for Hiding {
    fn drop(&mut self) {
        self.noise_of_rows.zeroize();
        self.floods.zeroize();
    }
}
