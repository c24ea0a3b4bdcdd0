//! A party's data, policy, protection and model, as a federation drives them: in one process or over the network.

mod contribution;
pub(crate) mod guest_part;
mod guest_party;
pub(crate) mod host_part;
mod host_party;
pub mod noise;
mod noise_store;
pub mod policy;
pub mod privacy;
mod shown;
mod summed;
mod summed_live;
mod trained;
mod trained_model;

pub use contribution::LiveContribution;
pub(crate) use contribution::{Contribution, fleet_queues};
pub use guest_part::GuestPart;
pub use guest_party::{CustomSubModelSpec, CustomSubModels, GuestParty, MakeCustomSubModel};
pub use host_part::HostPart;
pub use host_party::{HOST_SUB_MODEL, HostParty, HostWindows};
pub use shown::{Contributed, ContributedState};
pub use summed::{SumGuestPart, SumHostPart};
pub use summed_live::{LiveSumGuestPart, LiveSumHostPart};
pub use trained::TrainedParty;
pub use trained_model::{CustomSubModelSpecs, TrainedCustomSubModel, TrainedModel};

use data_encoding::HEXLOWER;

/// A short text that tells weights apart: two parties' weights are the same if these are.
fn digest(weights: &[f32]) -> String {
    let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    digest_bytes(&bytes)
}

fn digest_bytes(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    HEXLOWER.encode(&Sha256::digest(bytes)[..8])
}
