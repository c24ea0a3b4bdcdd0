//! The inner-product argument of Bulletproofs (Bünz and others 2018): a and b with ⟨a, G⟩ + ⟨b, H⟩ + ⟨a, b⟩·Q = P, shown with
//! two points for each halving of the vectors.

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::VartimeMultiscalarMul;

use super::transcript::Transcript;

/// The argument.
pub(super) struct InnerProduct {
    pub(super) rounds: Vec<[CompressedRistretto; 2]>,
    pub(super) a: Scalar,
    pub(super) b: Scalar,
}

impl InnerProduct {
    /// Of vectors whose length is a power of two, the same as that of the generators. They hide nothing: a and b must have been
    /// blinded before.
    pub(super) fn prove(
        transcript: &mut Transcript,
        q: &RistrettoPoint,
        [mut g, mut h]: [Vec<RistrettoPoint>; 2],
        [mut a, mut b]: [Vec<Scalar>; 2],
    ) -> Self {
        let mut rounds = Vec::new();
        while a.len() > 1 {
            let half = a.len() / 2;
            let (a_low, a_high) = a.split_at(half);
            let (b_low, b_high) = b.split_at(half);
            let (g_low, g_high) = g.split_at(half);
            let (h_low, h_high) = h.split_at(half);
            let cross = |a: &[Scalar], b: &[Scalar], g: &[RistrettoPoint], h: &[RistrettoPoint]| {
                let product = dot(a, b);
                let scalars = a.iter().chain(b).chain([&product]);
                let points = g.iter().chain(h).chain([q]);
                RistrettoPoint::vartime_multiscalar_mul(scalars, points).compress()
            };
            let left = cross(a_low, b_high, g_high, h_low);
            let right = cross(a_high, b_low, g_low, h_high);
            let (u, inverse) = challenge(transcript, &[left, right]);
            rounds.push([left, right]);
            let fold = |low: &[Scalar], high: &[Scalar], by: [Scalar; 2]| -> Vec<Scalar> {
                low.iter().zip(high).map(|(low, high)| by[0] * low + by[1] * high).collect()
            };
            let fold_points = |low: &[RistrettoPoint], high: &[RistrettoPoint], by: [Scalar; 2]| {
                let pairs = low.iter().zip(high);
                let sum = |(low, high)| RistrettoPoint::vartime_multiscalar_mul(by, [low, high]);
                pairs.map(sum).collect::<Vec<_>>()
            };
            let folded = (fold(a_low, a_high, [u, inverse]), fold(b_low, b_high, [inverse, u]));
            g = fold_points(g_low, g_high, [inverse, u]);
            h = fold_points(h_low, h_high, [u, inverse]);
            (a, b) = folded;
        }
        Self { rounds, a: a[0], b: b[0] }
    }

    /// The challenges of all rounds and their inverses, for vectors of this length; none if the rounds do not fit.
    pub(super) fn challenges(
        &self,
        transcript: &mut Transcript,
        length: usize,
    ) -> Option<Vec<(Scalar, Scalar)>> {
        if !length.is_power_of_two() || self.rounds.len() != length.ilog2() as usize {
            return None;
        }
        let each = self.rounds.iter().map(|round| challenge(transcript, round));
        let challenges: Vec<_> = each.collect();
        challenges.iter().all(|(u, _)| *u != Scalar::ZERO).then_some(challenges)
    }
}

/// What each generator G_i is multiplied by once all rounds have folded them; for H_i it is the inverse, which is that of
/// the last i first.
pub(super) fn folded(challenges: &[(Scalar, Scalar)]) -> Vec<Scalar> {
    let mut factors = vec![Scalar::ONE];
    for (u, inverse) in challenges {
        let double = factors.iter().flat_map(|factor| [factor * inverse, factor * u]);
        factors = double.collect();
    }
    factors
}

pub(super) fn dot(a: &[Scalar], b: &[Scalar]) -> Scalar {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn challenge(
    transcript: &mut Transcript,
    [left, right]: &[CompressedRistretto; 2],
) -> (Scalar, Scalar) {
    transcript.point(b"L", left);
    transcript.point(b"R", right);
    let u = transcript.challenge(b"u");
    (u, u.invert())
}
