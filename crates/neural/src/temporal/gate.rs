//! The gate: one half of the channels decides how much of the other passes.

use crate::kernel::Vectorised;
use crate::vector;

/// `y = P·σ(Q)` for halves `[P | Q]` in each row; leaves `σ(Q)` in place of `Q`.
pub(super) struct Gate<'a> {
    pub halves: &'a mut [f32],
    pub y: &'a mut [f32],
    pub channels: usize,
}

impl Vectorised for Gate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let rows = self.halves.chunks_exact_mut(2 * self.channels);
        for (row, y) in rows.zip(self.y.chunks_exact_mut(self.channels)) {
            let (p, q) = row.split_at_mut(self.channels);
            // Blocks of a fixed size, copied before they are written: only so does the compiler
            // see that nothing overlaps.
            let ((p, p_rest), (q, q_rest)) = (p.as_chunks::<16>(), q.as_chunks_mut::<16>());
            let (y, y_rest) = y.as_chunks_mut::<16>();
            for ((y, p), q) in y.iter_mut().zip(p).zip(q) {
                let (mut gate, mut gated) = (*q, *p);
                for l in 0..16 {
                    gate[l] = vector::sigmoid::<FUSED>(gate[l]);
                    gated[l] *= gate[l];
                }
                (*q, *y) = (gate, gated);
            }
            for ((y, p), q) in y_rest.iter_mut().zip(p_rest).zip(q_rest) {
                *q = vector::sigmoid::<FUSED>(*q);
                *y = *p * *q;
            }
        }
    }
}

/// From halves `[P | σ(Q)]` to their gradients: `dP = dy·σ`, `dQ = dy·P·σ·(1−σ) = dy·y·(1−σ)`.
pub(super) struct GateBack<'a> {
    pub y: &'a [f32],
    pub dy: &'a [f32],
    pub halves: &'a mut [f32],
    pub channels: usize,
}

impl Vectorised for GateBack<'_> {
    type Output = ();
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let rows = self.halves.chunks_exact_mut(2 * self.channels);
        let given = self.y.chunks_exact(self.channels).zip(self.dy.chunks_exact(self.channels));
        for (row, (y, dy)) in rows.zip(given) {
            let (p, s) = row.split_at_mut(self.channels);
            // Blocks of a fixed size, copied before they are written: only so does the compiler
            // see that nothing overlaps.
            let (p, p_rest) = p.as_chunks_mut::<16>();
            let (s, s_rest) = s.as_chunks_mut::<16>();
            let ((y, y_rest), (dy, dy_rest)) = (y.as_chunks::<16>(), dy.as_chunks::<16>());
            for (((p, s), y), dy) in p.iter_mut().zip(s).zip(y).zip(dy) {
                let (mut dp, mut dq) = ([0.0; 16], *s);
                for l in 0..16 {
                    dp[l] = dy[l] * dq[l];
                    dq[l] = dy[l] * y[l] * (1.0 - dq[l]);
                }
                (*p, *s) = (dp, dq);
            }
            for (((p, s), y), dy) in p_rest.iter_mut().zip(s_rest).zip(y_rest).zip(dy_rest) {
                (*p, *s) = (dy * *s, dy * y * (1.0 - *s));
            }
        }
    }
}
