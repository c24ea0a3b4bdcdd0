//! Parties as processes of their own: `fedtse host`, `fedtse guest` and `fedtse authority`; and all of them in one
//! process, with the same configurations: `fedtse rehearse`.

mod any_guest;
mod any_host;
mod arguments;
pub mod authority;
pub mod config;
mod contribution;
mod gauges;
pub mod guest;
mod guest_config;
pub mod guest_part;
pub mod host;
mod host_config;
pub mod host_part;
pub mod learning;
pub mod live;
pub mod logs;
pub mod noise;
pub mod policy;
pub mod privacy;
pub mod rehearse;
pub mod stopping;
mod trained;
mod trained_model;
pub mod watched;

use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use data_encoding::HEXLOWER;
use federation::grpc::Card;
use protocol::message::parts::Text;
use protocol::{PartyId, Round};
use serde_json::json;
use tokio::runtime::Runtime;
use tracing::{info, warn};

pub use any_guest::{Brought, GuestOf, MakeOwn, Own};
pub use any_host::{HostOf, OWN_PART};
pub use trained_model::{OwnModel, OwnModels, TrainedModel};

/// The name and version of this program, as other parties see it.
fn software() -> Text {
    Text::of(concat!("fedtse ", env!("CARGO_PKG_VERSION")))
}

/// A number that no other start has.
fn drawn() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() | 1
}

/// The name in a certificate, which must be valid now.
fn own_name(card: &Card) -> Result<PartyId> {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unix_s = unix.as_secs() as i64;
    if !(card.valid_from..=card.valid_until).contains(&unix_s) {
        bail!("certificate of `{}`: not valid now; see `fedtse certs show`", card.name);
    }
    let days = (card.valid_until - unix_s) / 86_400;
    if days < 30 {
        warn!(days, "the certificate of `{}` expires soon", card.name);
    }
    Ok(card.name.clone())
}

/// A short text that tells weights apart: two parties' weights are the same if these are.
fn digest(weights: &[f32]) -> String {
    let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    digest_bytes(&bytes)
}

fn digest_bytes(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    HEXLOWER.encode(&Sha256::digest(bytes)[..8])
}

/// The thread that reads and writes the network; the models have the others.
fn network_threads() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("network threads")
}

/// Says that a party has stopped because it was asked to.
fn print_stopped(reason: &Text, round: Round, json: bool) {
    info!(%round, "stopped: {reason}");
    if json {
        println!("{}", json!({"stopped": reason.as_str(), "round": round}));
    } else {
        println!("stopped in round {round}; start again to go on");
    }
}
