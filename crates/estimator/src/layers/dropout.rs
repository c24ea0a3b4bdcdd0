//! Dropout: in training each value is zero with some chance, and larger otherwise, so that its
//! mean stays.
//!
//! ```text
//! y = x·m/(1 − p),   m = 0 with chance p, else 1
//! ```
//!
//! `m` is a hash of seed, training step, layer, sample and place: the same in backward, and
//! whatever the threads. Without noise, `y = x`.

use neural::{Given, Layer, Layout, Memory, Noise, Pass, hash};

/// The layer, see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    len: usize,
    /// Below this, of 2¹⁶, a value is dropped.
    threshold: u16,
    /// Tells this layer's draws from those of others.
    salt: u64,
}

impl Dropout {
    /// For samples of `len` values, of which this share (0 to below 1) is dropped. Layers of one
    /// model must differ in `salt`.
    pub fn new(len: usize, share: f32, salt: u64) -> Self {
        Dropout { len, threshold: (share.clamp(0.0, 0.99) * 65_536.0) as u16, salt }
    }

    /// Multiplies each value by its factor.
    fn apply(&self, noise: Noise, values: &mut [f32]) {
        let kept = 1.0 / (1.0 - f32::from(self.threshold) / 65_536.0);
        for (number, sample) in values.chunks_mut(self.len.max(1)).enumerate() {
            let sample_key =
                hash([noise.seed, noise.step, self.salt, noise.first_sample + number as u64]);
            // One hash of 64 bits decides on four values.
            for (block, four) in sample.chunks_mut(4).enumerate() {
                let bits = hash([sample_key, block as u64]);
                for (i, value) in four.iter_mut().enumerate() {
                    let draw = (bits >> (16 * i)) as u16;
                    *value *= if draw < self.threshold { 0.0 } else { kept };
                }
            }
        }
    }
}

impl Layer for Dropout {
    fn layout(&self) -> Layout {
        Layout::default()
    }
    fn input_len(&self) -> usize {
        self.len
    }
    fn output_len(&self) -> usize {
        self.len
    }

    fn forward(&self, pass: &Pass<'_>, x: &[f32], y: &mut [f32], _memory: Memory<'_>) {
        y.copy_from_slice(x);
        if let Some(noise) = pass.noise {
            self.apply(noise, y);
        }
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        _given: Given<'_>,
        dy: &mut [f32],
        dx: Option<&mut [f32]>,
        _gradient: &mut [f32],
        _memory: Memory<'_>,
    ) {
        let Some(dx) = dx else { return };
        dx.copy_from_slice(dy);
        if let Some(noise) = pass.noise {
            self.apply(noise, dx);
        }
    }
}
