//! Numbers of 16 bits under commitments: the aggregated range proof of Bulletproofs (Bünz and others 2018).
//!
//! With a_L the bits of all m numbers and a_R = a_L − 1, all at once: bits are bits (a_L ∘ a_R = 0, a_L − a_R = 1), and they are
//! those of the numbers (⟨a_L, 2^n⟩ = v). Both become one inner product by challenges y and z,
//!
//! ```text
//! l(X) = a_L − z + s_L·X      r(X) = y^i ∘ (a_R + z + s_R·X) + z^(1+j)·2^i      t(X) = ⟨l, r⟩
//! t(0) = Σ_j z^(1+j)·v_j + δ(y, z)      δ = (z − z²)·Σ y^i − Σ_j z^(2+j)·(2^n − 1)      j = 1 … m
//! ```
//!
//! whose value at a challenge x is shown by the [inner-product argument](super::inner_product). s_L and s_R are random, so
//! that l(x) and r(x) tell nothing.

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_POINT;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity, IsIdentity, MultiscalarMul, VartimeMultiscalarMul};
use zeroize::Zeroize;

use super::generators::{bit_generators, blinding_generator};
use super::inner_product::{InnerProduct, dot, folded};
use super::transcript::Transcript;
use crate::ipfe::message::{point, scalar};
use crate::ipfe::random_scalar;
use crate::random::Randomness;
use crate::wire::{DecodeError, Reader, Writer};

/// Bits of a number.
pub(super) const BITS: usize = 16;

/// The proof.
pub(super) struct RangeProof {
    /// A, S, T₁, T₂.
    points: [CompressedRistretto; 4],
    /// t(x), what hides it, and what hides A + x·S.
    scalars: [Scalar; 3],
    inner: InnerProduct,
}

/// Numbers of a proof: a power of two; those that are added are 0, with nothing to hide.
fn padded(values: usize) -> usize {
    values.next_power_of_two()
}

impl RangeProof {
    /// Of values below 2^16 with the blindings of their commitments.
    pub(super) fn prove(
        transcript: &mut Transcript,
        values: &[u64],
        blindings: &[Scalar],
        random: &mut Randomness,
    ) -> Self {
        let length = padded(values.len()) * BITS;
        let [g, h] = bit_generators(length);
        let hiding = blinding_generator();
        let bit = |i: usize| values.get(i / BITS).map_or(0, |value| value >> (i % BITS) & 1);
        let mut left: Vec<Scalar> = (0..length).map(|i| Scalar::from(bit(i))).collect();
        let mut right: Vec<Scalar> = left.iter().map(|bit| bit - Scalar::ONE).collect();
        let draw = |random: &mut Randomness| -> Vec<Scalar> {
            (0..length).map(|_| random_scalar(random)).collect()
        };
        let [mut s_left, mut s_right] = [draw(random), draw(random)];
        let [mut alpha, mut rho] = [random_scalar(random), random_scalar(random)];
        // Secrets: the sums that take the same time whatever the numbers are.
        let hidden = |blinding: &Scalar, left: &[Scalar], right: &[Scalar]| {
            let scalars = [blinding].into_iter().chain(left).chain(right);
            let points = [&hiding].into_iter().chain(&g).chain(&h);
            RistrettoPoint::multiscalar_mul(scalars, points).compress()
        };
        let a = hidden(&alpha, &left, &right);
        let s = hidden(&rho, &s_left, &s_right);
        let BitTerms { y, z, powers, numbers } = BitTerms::of(transcript, [&a, &s], length);

        // l(X) = l0 + l1·X, r(X) = r0 + r1·X.
        let mut l0: Vec<Scalar> = left.iter().map(|bit| bit - z).collect();
        let mut r0: Vec<Scalar> =
            (0..length).map(|i| powers[i] * (right[i] + z) + numbers[i]).collect();
        let mut r1: Vec<Scalar> = s_right.iter().zip(&powers).map(|(s, y)| s * y).collect();
        let t1 = dot(&l0, &r1) + dot(&s_left, &r0);
        let t2 = dot(&s_left, &r1);
        let [mut tau1, mut tau2] = [random_scalar(random), random_scalar(random)];
        let committed =
            |t: &Scalar, tau: &Scalar| (RistrettoPoint::mul_base(t) + tau * hiding).compress();
        let (t1, t2) = (committed(&t1, &tau1), committed(&t2, &tau2));
        let x = x(transcript, [&t1, &t2]);

        let l: Vec<Scalar> = l0.iter().zip(&s_left).map(|(l0, l1)| l0 + l1 * x).collect();
        let r: Vec<Scalar> = r0.iter().zip(&r1).map(|(r0, r1)| r0 + r1 * x).collect();
        let mut z_power = z;
        let mut t_hiding = tau1 * x + tau2 * x * x;
        for blinding in blindings {
            z_power *= z;
            t_hiding += z_power * blinding;
        }
        let scalars = [dot(&l, &r), t_hiding, alpha + rho * x];
        let w = w(transcript, &scalars);
        let h = weighted(&h, &y);
        let inner =
            InnerProduct::prove(transcript, &(w * RISTRETTO_BASEPOINT_POINT), [g, h], [l, r]);
        for secrets in [&mut left, &mut right, &mut s_left, &mut s_right, &mut l0, &mut r0, &mut r1]
        {
            secrets.zeroize();
        }
        for secret in [&mut alpha, &mut rho, &mut tau1, &mut tau2] {
            secret.zeroize();
        }
        Self { points: [a, s, t1, t2], scalars, inner }
    }

    /// Whether all commitments are to values below 2^16.
    pub(super) fn holds(&self, transcript: &mut Transcript, values: &[RistrettoPoint]) -> bool {
        self.check(transcript, values).unwrap_or(false)
    }

    fn check(&self, transcript: &mut Transcript, values: &[RistrettoPoint]) -> Option<bool> {
        let count = padded(values.len());
        let length = count * BITS;
        let [a, s, t1, t2] = &self.points;
        let BitTerms { y, z, powers, numbers } = BitTerms::of(transcript, [a, s], length);
        let x = x(transcript, [t1, t2]);
        let [t, t_hiding, hiding] = self.scalars;
        let w = w(transcript, &self.scalars);
        let challenges = self.inner.challenges(transcript, length)?;
        // Two equations at once: c is drawn after all is said, so both hold or neither does.
        transcript.scalar(b"a", &self.inner.a);
        transcript.scalar(b"b", &self.inner.b);
        let c = transcript.challenge(b"c");
        let (base, blinding) = (RISTRETTO_BASEPOINT_POINT, blinding_generator());
        let [a, s, t1, t2] = [a, s, t1, t2].map(|point| point.decompress());

        let mut scalars = Vec::with_capacity(2 * length + values.len() + 64);
        let mut points = Vec::with_capacity(2 * length + values.len() + 64);
        let mut term = |scalar: Scalar, point: RistrettoPoint| {
            scalars.push(scalar);
            points.push(point);
        };
        // c·(Σ z^(1+j)·V_j + δ·B + x·T₁ + x²·T₂ − t·B − t_hiding·B~) = 0
        let mut z_power = z;
        for value in values {
            z_power *= z;
            term(c * z_power, *value);
        }
        term(c * x, t1?);
        term(c * x * x, t2?);
        let delta = delta(&powers, z, count);
        // A + x·S − z·ΣG + Σ (z + numbers·y^-i)·H_i − hiding·B~ + t·w·B + Σ u²·L + u^-2·R
        //   = a·Σ s_i·G_i + b·Σ s_i^-1·y^-i·H_i + a·b·w·B
        term(Scalar::ONE, a?);
        term(x, s?);
        let InnerProduct { a, b, rounds } = &self.inner;
        term(c * (delta - t) + w * (t - a * b), base);
        term(-c * t_hiding - hiding, blinding);
        for ((u, inverse), round) in challenges.iter().zip(rounds) {
            term(u * u, round[0].decompress()?);
            term(inverse * inverse, round[1].decompress()?);
        }
        let factors = folded(&challenges);
        let [g, h] = bit_generators(length);
        let y_inverse = y.invert();
        let mut y_power = Scalar::ONE;
        for (i, (g, h)) in g.into_iter().zip(h).enumerate() {
            term(-z - a * factors[i], g);
            term(z + y_power * (numbers[i] - b * factors[length - 1 - i]), h);
            y_power *= y_inverse;
        }
        Some(RistrettoPoint::vartime_multiscalar_mul(scalars, points).is_identity())
    }

    /// Bytes on the wire.
    pub(super) fn len(&self) -> usize {
        32 * (4 + 3 + 2 + 2 * self.inner.rounds.len())
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        let rounds = self.inner.rounds.iter().flatten();
        for point in self.points.iter().chain(rounds) {
            writer.bytes(point.as_bytes());
        }
        for scalar in self.scalars.iter().chain([&self.inner.a, &self.inner.b]) {
            writer.bytes(scalar.as_bytes());
        }
    }

    /// Of a proof about so many commitments.
    pub(super) fn read(reader: &mut Reader<'_>, values: usize) -> Result<Self, DecodeError> {
        let rounds = (padded(values) * BITS).ilog2();
        let mut next_point = || {
            let compressed = CompressedRistretto(reader.array()?);
            point("point", &compressed)?;
            Ok(compressed)
        };
        let mut points = [CompressedRistretto::identity(); 4];
        for point in &mut points {
            *point = next_point()?;
        }
        let rounds = (0..rounds).map(|_| Ok([next_point()?, next_point()?]));
        let rounds = rounds.collect::<Result<Vec<_>, DecodeError>>()?;
        let mut scalars = [Scalar::ZERO; 5];
        for next in &mut scalars {
            *next = scalar("scalar", reader.array()?)?;
        }
        let [t, t_hiding, hiding, a, b] = scalars;
        let inner = InnerProduct { rounds, a, b };
        Ok(Self { points, scalars: [t, t_hiding, hiding], inner })
    }
}

/// What the first two challenges give each bit.
struct BitTerms {
    y: Scalar,
    z: Scalar,
    /// y^i.
    powers: Vec<Scalar>,
    /// z^(1+j)·2^(i mod 16) of number j.
    numbers: Vec<Scalar>,
}

impl BitTerms {
    fn of(transcript: &mut Transcript, [a, s]: [&CompressedRistretto; 2], length: usize) -> Self {
        transcript.append(b"bits", &(length as u64).to_le_bytes());
        transcript.point(b"A", a);
        transcript.point(b"S", s);
        let (y, z) = (transcript.challenge(b"y"), transcript.challenge(b"z"));
        let powers = std::iter::successors(Some(Scalar::ONE), |power| Some(power * y)).take(length);
        let mut z_power = z;
        let numbers = (0..length / BITS).flat_map(|_| {
            z_power *= z;
            let of_number = z_power;
            (0..BITS).map(move |bit| of_number * Scalar::from(1u64 << bit))
        });
        Self { y, z, powers: powers.collect(), numbers: numbers.collect() }
    }
}

/// (z − z²)·Σ y^i − Σ_j z^(2+j)·(2^16 − 1).
fn delta(powers: &[Scalar], z: Scalar, count: usize) -> Scalar {
    let sum: Scalar = powers.iter().sum();
    let mut z_power = z * z;
    let mut delta = (z - z * z) * sum;
    for _ in 0..count {
        z_power *= z;
        delta -= z_power * Scalar::from((1u64 << BITS) - 1);
    }
    delta
}

fn x(transcript: &mut Transcript, [t1, t2]: [&CompressedRistretto; 2]) -> Scalar {
    transcript.point(b"T1", t1);
    transcript.point(b"T2", t2);
    transcript.challenge(b"x")
}

fn w(transcript: &mut Transcript, scalars: &[Scalar; 3]) -> Scalar {
    for scalar in scalars {
        transcript.scalar(b"t, hiding of t, hiding", scalar);
    }
    transcript.challenge(b"w")
}

/// y^-i·H_i.
fn weighted(h: &[RistrettoPoint], y: &Scalar) -> Vec<RistrettoPoint> {
    let inverse = y.invert();
    let powers = std::iter::successors(Some(Scalar::ONE), |power| Some(power * inverse));
    h.iter().zip(powers).map(|(h, power)| power * h).collect()
}
