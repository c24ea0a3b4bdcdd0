//! From the parameters to the weights of a pass, and from the gradient of these back.
//!
//! With the residual in the last tap `E_τ = W_τ + R·[τ = K−1]` (R the identity or A), a map `M`, `m`
//! before the convolution gives the taps `M·E_τ` and the bias `b + Σ_τ m·E_τ`.

use super::{TemporalConv, TemporalShape};
use crate::gemm::{Product, Start};
use crate::layer::{Pass, carve};
use crate::linear::transpose;
use crate::vector;
use crate::winograd::TAPS;

/// What a pass uses.
pub(super) struct Weights<'a> {
    /// Taps, `[K, input, width]`.
    pub taps: &'a [f32],
    pub bias: &'a [f32],
    /// Transposed taps, last first: `[K, width, input]`.
    pub reversed: &'a [f32],
    /// Taps and transposed taps at Winograd's points.
    pub points: &'a [f32],
    /// Eᵀ, where there is a map before the convolution: `[K, width, input]`.
    unmixed_turned: &'a [f32],
}

impl TemporalConv {
    /// Lengths of what [`Weights`] holds, with E before its transpose.
    pub(super) fn weight_lens(&self) -> [usize; 6] {
        let taps = self.weight.len();
        let points = self.winograd.map_or(0, |winograd| winograd.prepared_len());
        let unmixed = if self.mix.is_some() { taps } else { 0 };
        [taps, self.width(), taps, points, unmixed, unmixed]
    }

    pub(super) fn weights<'a>(&self, pass: &Pass<'a>) -> Weights<'a> {
        let mut rest = pass.prepared;
        let [taps, bias, reversed, points, _, unmixed_turned] = self.weight_lens().map(|len| {
            let (cut, after) = rest.split_at(len);
            rest = after;
            cut
        });
        Weights { taps, bias, reversed, points, unmixed_turned }
    }

    pub(super) fn prepare_weights(&self, parameters: &[f32], prepared: &mut [f32]) {
        let TemporalShape { kernel, inputs, .. } = self.shape;
        let width = self.width();
        let one = inputs * width;
        let [taps, bias, reversed, points, unmixed, unmixed_turned] =
            carve(prepared, self.weight_lens());
        self.add_residual(parameters, taps, bias);
        if let Some((mix, mix_bias)) = &self.mix {
            let (mix, mix_bias) = (&parameters[mix.clone()], &parameters[mix_bias.clone()]);
            unmixed.copy_from_slice(taps);
            let product = Product::dense(inputs, inputs, width);
            for tap in 0..kernel {
                let at = tap * one..(tap + 1) * one;
                let (own, turned) = (&unmixed[at.clone()], &mut unmixed_turned[at.clone()]);
                transpose(own, width, turned);
                product.run(mix, own, Start::Zero, &mut taps[at]);
                Product::dense(1, inputs, width).run(mix_bias, own, Start::Keep, bias);
            }
        }
        for (tap, turned) in taps.chunks_exact(one).zip(reversed.chunks_exact_mut(one).rev()) {
            transpose(tap, width, turned);
        }
        if let Some(winograd) = &self.winograd {
            let tap = |tap: usize| &taps[tap * one..(tap + 1) * one];
            let turned = |tap: usize| &reversed[(TAPS - 1 - tap) * one..(TAPS - tap) * one];
            winograd.prepare(std::array::from_fn(tap), std::array::from_fn(turned), points);
        }
    }

    /// Copies taps and bias, and adds the residual.
    fn add_residual(&self, parameters: &[f32], taps: &mut [f32], bias: &mut [f32]) {
        let TemporalShape { kernel, inputs, outputs, .. } = self.shape;
        let width = self.width();
        taps.copy_from_slice(&parameters[self.weight.clone()]);
        bias.copy_from_slice(&parameters[self.bias.clone()]);
        let last = &mut taps[(kernel - 1) * inputs * width..];
        if let Some((align, align_bias)) = &self.align {
            let align = parameters[align.clone()].chunks_exact(outputs);
            for (row, align) in last.chunks_exact_mut(width).zip(align) {
                vector::add(&mut row[..outputs], align);
            }
            vector::add(&mut bias[..outputs], &parameters[align_bias.clone()]);
        } else {
            for channel in 0..inputs {
                last[channel * width + channel] += 1.0;
            }
        }
    }

    /// Adds to the gradient what follows from that of the pass's taps and bias, where there is a
    /// map before the convolution.
    pub(super) fn unmix(
        &self,
        pass: &Pass<'_>,
        d_taps: &[f32],
        d_bias: &[f32],
        gradient: &mut [f32],
    ) {
        let Some((mix, mix_bias)) = &self.mix else { return };
        let TemporalShape { kernel, inputs, .. } = self.shape;
        let width = self.width();
        let one = inputs * width;
        let weights = self.weights(pass);
        vector::add(&mut gradient[self.bias.clone()], d_bias);
        let d_unmixed = Product::transposed(inputs, inputs, width);
        let d_weight = &mut gradient[self.weight.clone()];
        for (d_weight, d_tap) in d_weight.chunks_exact_mut(one).zip(d_taps.chunks_exact(one)) {
            d_unmixed.run(&pass.parameters[mix.clone()], d_tap, Start::Keep, d_weight);
            let rows = d_weight.chunks_exact_mut(width).zip(&pass.parameters[mix_bias.clone()]);
            for (d_weight, mix_bias) in rows {
                vector::add_scaled(d_weight, *mix_bias, d_bias);
            }
        }
        let d_mix = Product {
            segments: kernel,
            a_segment: one,
            b_segment: one,
            ..Product::dense(inputs, width, inputs)
        };
        d_mix.run(d_taps, weights.unmixed_turned, Start::Keep, &mut gradient[mix.clone()]);
        let d_mix_bias =
            Product { segments: kernel, b_segment: one, ..Product::dense(1, width, inputs) };
        let to = &mut gradient[mix_bias.clone()];
        d_mix_bias.run(d_bias, weights.unmixed_turned, Start::Keep, to);
    }
}
