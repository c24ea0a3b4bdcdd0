//! The joint model: sub-models of the parties, the host's head, sizes, seeds, update rules.

pub(crate) mod architecture;
pub(crate) mod host_model;
pub(crate) mod layers;
pub(crate) mod model_error;
pub(crate) mod parts;
pub(crate) mod party_block;
pub(crate) mod plan;
pub(crate) mod read_out;
pub(crate) mod recipe;
pub(crate) mod sizes;
pub(crate) mod sub_model;
#[cfg(test)]
pub(crate) mod test_models;

pub use architecture::{Architecture, GuestSlot, HostShape, ModelShape};
pub use host_model::{
    EmbeddingCoefficients, Embeddings, HostBatch, HostModel, KnownBlock, PartialGradients, Rows,
};
pub use model_error::ModelError;
pub use parts::{EmbeddingShape, GuestShape, SubModelKind};
pub use party_block::{PARTY_CHECKPOINT, UpdateRule};
pub use plan::{GuestPlan, NeuralPlan};
pub use read_out::ReadOut;
pub use recipe::Recipe;
pub use sizes::Sizes;
pub use sub_model::{LayerSubModel, PassError, SubModel};
