//! Parties as processes of their own: `fedtse host`, `fedtse guest` and `fedtse authority`; and all of them in one
//! process, with the same configurations: `fedtse rehearse`.

mod arguments;
pub(crate) mod authority;
pub(crate) mod config;
mod gauges;
pub(crate) mod guest;
mod guest_config;
pub(crate) mod host;
mod host_config;
pub(crate) mod live;
pub(crate) mod logs;
mod metrics;
pub(crate) mod rehearse;
pub(crate) mod stopping;
mod sum_guest;
mod sum_host;

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use federation::grpc::{CertificateInfo, GuestCertificates, Heads, Identity, SigningKey};
use protocol::message::Departure;
use protocol::message::parts::Text;
use protocol::{Attempt, PartyId, Round};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::{info, warn};

pub(crate) use training::party::{
    CustomSubModelSpec, GuestPart, HOST_SUB_MODEL, HostPart, HostParty, LiveContribution,
    LiveSumGuestPart, LiveSumHostPart, TrainedCustomSubModel, TrainedModel, policy, privacy,
};

/// The name and version of this program, as other parties see it.
fn software() -> Text {
    Text::of(concat!("fedtse ", env!("CARGO_PKG_VERSION")))
}

/// What a party countersigns its peers' ledgers with, and whose countersignatures of its own it takes.
struct HeadKeys {
    credentials: SigningKey,
    verifier: GuestCertificates,
}

impl HeadKeys {
    /// Of a host, whose peers are guests.
    fn of_host(identity: &Identity, authority: &[CertificateDer<'static>]) -> Result<Self> {
        let credentials = SigningKey::of(identity)?;
        Ok(Self { credentials, verifier: GuestCertificates::new(authority, None)? })
    }

    /// Of a guest, whose peer is the host.
    fn of_guest(identity: &Identity, authority: &[CertificateDer<'static>]) -> Result<Self> {
        let credentials = SigningKey::of(identity)?;
        Ok(Self { credentials, verifier: GuestCertificates::of_hosts(authority)? })
    }

    /// Countersignatures beside a ledger; a guest names its host.
    fn open(self, ledger: &Path, party: &PartyId, host: Option<&PartyId>) -> Result<Heads> {
        Ok(Heads::open(ledger, (party, host), (self.credentials, self.verifier))?)
    }
}

/// A session number that no other start has.
fn random_session_id() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() | 1
}

/// The name in a certificate, which must be valid now.
fn own_name(info: &CertificateInfo) -> Result<PartyId> {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unix_s = unix.as_secs() as i64;
    if !(info.valid_from..=info.valid_until).contains(&unix_s) {
        bail!("certificate of `{}`: not valid now; see `fedtse certs show`", info.name);
    }
    let days = (info.valid_until - unix_s) / 86_400;
    if days < 30 {
        warn!(days, "the certificate of `{}` expires soon", info.name);
    }
    Ok(info.name.clone())
}

/// The thread that reads and writes the network; the models have the others.
fn network_threads() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("network threads")
}

/// Why a guest leaves, in words.
fn departure(why: &Departure) -> &str {
    match why {
        Departure::Finished => "it has finished",
        Departure::Stopped => "it was told to stop",
        Departure::Failed(reason) => reason.text.as_str(),
    }
}

/// Says from where a party goes on, and what it does again.
fn log_begun(attempt: Attempt, round: Round, furthest: Round) {
    let (attempt, repeated) = (attempt.0, furthest.0.saturating_sub(round.0));
    let (first, last) = (round.0 + 1, furthest.0);
    if repeated > 0 && round == Round::START {
        warn!(
            attempt,
            repeated,
            "lost the work of rounds {first} to {last}: no checkpoint is there at all parties, training begins anew"
        );
    } else if repeated > 0 {
        warn!(
            attempt,
            round = round.0,
            repeated,
            "lost the work of rounds {first} to {last}: training resumes from the checkpoint of round {round}"
        );
    } else if round == Round::START {
        info!(attempt, "training begins");
    } else {
        info!(attempt, round = round.0, "nothing was lost: training resumes after round {round}");
    }
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
