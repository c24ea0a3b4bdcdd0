//! What makes a polynomial of products say no more than the products.

use zeroize::Zeroize;

use super::accumulate::{Expanded, Sums};
use super::message::Sealed;
use super::ring::{FLOOD_BITS, Poly, ring};
use super::row_places;
use crate::random::Randomness;

/// What hides one polynomial of products. Erased when dropped.
pub(super) struct Hiding {
    blind: Poly,
    noise: [Poly; 2],
    floods: Vec<u128>,
}

impl Hiding {
    pub(super) fn draw(random: &mut Randomness, rows: usize) -> Self {
        let blind = Poly::ternary(random);
        let noise = [Poly::error(random), Poly::error(random)];
        let floods = (0..rows).map(|_| random.bits128() >> (128 - FLOOD_BITS - 1)).collect();
        Self { blind, noise, floods }
    }

    /// The same for numbers that are nobody's products: there is no noise but that of the encryption itself.
    pub(super) fn without_flood(random: &mut Randomness, numbers: usize) -> Self {
        let blind = Poly::ternary(random);
        let noise = [Poly::error(random), Poly::error(random)];
        // Floods count from −2^108: this is 0.
        Self { blind, noise, floods: vec![1 << FLOOD_BITS; numbers] }
    }

    /// Adds Enc_pk(0), the plaintexts and flooding noise; switches to one prime; keeps what is needed.
    ///
    /// Without Enc_pk(0), c1 = Σ w_b·c1_b would be linear in the rows, and the guest knows every c1_b.
    pub(super) fn finish(
        &self,
        mut sums: Sums,
        public: &Expanded,
        width: usize,
        plaintexts: &[u64],
    ) -> Sealed {
        let ring = ring();
        sums.blind(&self.blind, public);
        let [[a0, a1], [b0, b1], [d0, d1]] = &sums.halves;
        let [noise0, noise1] = &self.noise;
        let c1 = ring.switch_all([a1, b1, d1], noise1);
        let places = row_places(width, plaintexts.len());
        let c0 = places
            .zip(plaintexts.iter().zip(&self.floods))
            .map(|(i, (&plaintext, &flood))| {
                let mut flood = ring.flood(flood);
                let hidden = |prime: usize, sum: &Poly| {
                    let plain = ring.scaled(prime, plaintext as f64);
                    // Each of the four is at most p/2.
                    sum.0[i] + noise0.0[i] + plain + flood[prime]
                };
                let switched = ring.switch([hidden(0, a0), hidden(1, b0), hidden(2, d0)]);
                flood.zeroize();
                switched
            })
            .collect();
        Sealed { c1, c0 }
    }
}

impl Drop for Hiding {
    fn drop(&mut self) {
        self.floods.zeroize();
    }
}
