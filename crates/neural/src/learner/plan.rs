//! How a batch is divided.

use crate::layer::Layer;

/// How a batch is divided. Results depend on it (in the last digits), so it is derived from the
/// model at most, never from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Samples that go through all layers together.
    pub chunk: usize,
    /// Accumulators: also the most threads that can take part in a training step.
    pub lanes: usize,
}

/// Working memory of a chunk that a core's cache still holds, more or less. Chunks of half or
/// twice that cost the same, much larger ones a quarter more.
const CHUNK_BYTES: usize = 2 << 20;

impl Default for Plan {
    /// 8 samples keep the paper's model of 17 nodes within a core's cache; 8 lanes feed 8 cores.
    fn default() -> Self {
        Plan { chunk: 8, lanes: 8 }
    }
}

impl Plan {
    /// The default, with smaller chunks for models that need much memory for a sample: so the cost
    /// of a node stays the same however large the graph.
    pub fn for_model(model: &impl Layer) -> Self {
        let most = Plan::default();
        let sample = size_of::<f32>() * (model.saved_len(1) + model.scratch_len(1));
        Plan { chunk: (CHUNK_BYTES / sample.max(1)).clamp(1, most.chunk), ..most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chain, Linear};

    #[test]
    fn large_models_get_small_chunks() {
        // Between its two layers, a sample has `width` values, and as many gradients twice.
        let chunk = |width: usize| {
            let model = Chain::new()
                .then("in", Linear::new(width, 1, 1))
                .then("out", Linear::new(width, 1, 1));
            Plan::for_model(&model).chunk
        };
        assert_eq!(chunk(1), 8);
        assert_eq!(chunk(CHUNK_BYTES / (4 * 3 * 8)), 8);
        assert_eq!(chunk(CHUNK_BYTES / (4 * 3 * 2)), 2);
        assert_eq!(chunk(CHUNK_BYTES), 1);
    }
}
