//! Why a party stops, and whose fault it is.

use protocol::compression::Compression;
use protocol::ledger::LedgerError;
use protocol::message::parts::{PartError, Text};
use protocol::message::{StopCode, StopReason};
use protocol::party::{PartyId, Round};
use thiserror::Error;

use crate::model::ModelFailure;
use crate::store::StoreError;

/// Why a party stops.
#[derive(Debug, Error)]
pub enum PartyError {
    /// A peer broke the rules.
    #[error("`{party}` misbehaved: {what}")]
    PeerMisbehaved {
        /// Who.
        party: PartyId,
        /// What it did.
        what: String,
    },
    /// A peer is honest, but cannot take part.
    #[error("`{party}` cannot take part: {what}: found {found}, expected {expected}")]
    PeerIncompatible {
        /// Who.
        party: PartyId,
        /// Which property.
        what: &'static str,
        /// The peer's.
        found: String,
        /// Ours.
        expected: String,
    },
    /// This party was set up wrongly.
    #[error("{what}: found {found}, expected {expected}")]
    Misuse {
        /// Which setting.
        what: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// Guests count more vehicles than there are.
    #[error("shares of the traffic: found {all:.3} in all fleets ({each}), expected at most 1")]
    Shares {
        /// Their sum.
        all: f64,
        /// Each guest's.
        each: String,
    },
    /// A guest stays away.
    #[error("guest `{party}` has been away for {seconds:.0} s{}", because(.reason))]
    Absent {
        /// Who.
        party: PartyId,
        /// For how long.
        seconds: f64,
        /// Why it left or was refused.
        reason: Option<StopReason>,
    },
    /// The host does not answer.
    #[error("no word from the host for {seconds:.0} s")]
    HostSilent {
        /// For how long.
        seconds: f64,
    },
    /// The host refused this guest, or has stopped.
    #[error("the host has stopped: {reason}")]
    HostStopped {
        /// Why.
        reason: StopReason,
    },
    /// Someone asked this party to stop.
    #[error("stopped: {reason}")]
    Stopped {
        /// Who or what.
        reason: Text,
    },
    /// The loss is not a number any more.
    #[error("training diverged in round {round}: the loss is {loss}; try a smaller learning rate")]
    Diverged {
        /// The round.
        round: Round,
        /// Its loss.
        loss: f64,
    },
    /// A guest gives no more products than it was told to.
    #[error(
        "products per datum: found {found:.1} with this query of {rows} products, expected at most {most}: the budget is spent"
    )]
    Budget {
        /// With the query that was refused.
        found: f64,
        /// Its products.
        rows: usize,
        /// The limit.
        most: f64,
    },
    /// A guest that gives no more products.
    #[error("guest `{party}` refuses further products: its budget is spent")]
    BudgetSpent {
        /// Who.
        party: PartyId,
    },
    /// A guest has trained with other data than it had committed to.
    #[error("{MISMATCH}: guest `{party}`, round {round}, blocks of steps {first} to {last}")]
    CommitmentMismatch {
        /// Who.
        party: PartyId,
        /// When it showed.
        round: Round,
        /// The first step of the blocks that it was about.
        first: i64,
        /// The last one.
        last: i64,
    },
    /// The key authority gives no keys.
    #[error("key authority: {0}")]
    KeyAuthority(#[from] crate::keys::KeyFailure),
    /// A secure product.
    #[error("sealed products: {0}")]
    Sealed(#[from] sealed::SealedError),
    /// Commitments.
    #[error("commitments: {0}")]
    Committed(#[from] sealed::committed::CommittedError),
    /// A sum over so few guests that a guest does not add to it.
    #[error(
        "participants of a sum: found {found}, expected {least} or more; over a single guest the sum is its own data (policy: fewest-participants)"
    )]
    TooFewParticipants {
        /// How many.
        found: usize,
        /// The fewest.
        least: usize,
    },
    /// Masks, keys or signatures of a sum.
    #[error("sum over guests: {0}")]
    Sums(String),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The checkpoints.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelFailure),
}

/// What the host tells everyone when commitments and products do not match.
const MISMATCH: &str = "what was trained with is not what was committed to";

fn because(reason: &Option<StopReason>) -> String {
    reason.as_ref().map_or(String::new(), |reason| format!("; last: {reason}"))
}

impl PartyError {
    /// A peer broke the rules.
    pub(crate) fn misbehaved(party: &PartyId, what: impl Into<String>) -> Self {
        Self::PeerMisbehaved { party: party.clone(), what: what.into() }
    }

    /// The peer that is at fault, if a peer is and the others can continue without it.
    pub fn culprit(&self) -> Option<&PartyId> {
        match self {
            Self::PeerMisbehaved { party, .. } | Self::PeerIncompatible { party, .. } => {
                Some(party)
            }
            _ => None,
        }
    }

    /// What other parties may know of it: the kind of trouble, without names, paths or words of
    /// anyone else.
    pub fn for_peers(&self) -> StopReason {
        let code = match self {
            Self::Budget { .. } => StopCode::BudgetSpent,
            Self::CommitmentMismatch { .. } => StopCode::CommitmentMismatch,
            _ => StopCode::Other,
        };
        let text = match self {
            Self::PeerMisbehaved { .. } => "a peer broke the rules",
            Self::PeerIncompatible { .. } => "a peer does not fit",
            Self::Misuse { .. } => "it is set up wrongly",
            Self::Shares { .. } => "guests count more vehicles than there are",
            Self::Absent { .. } => "a guest has been away for too long",
            Self::HostSilent { .. } => "it has not heard from the host for too long",
            Self::HostStopped { .. } => "the host has stopped",
            Self::Stopped { .. } => "it was told to stop",
            Self::Diverged { .. } => "training diverged",
            Self::Budget { .. } => "its budget of products is spent",
            Self::BudgetSpent { .. } => "a guest's budget of products is spent",
            Self::CommitmentMismatch { .. } => MISMATCH,
            Self::KeyAuthority(_) => "the key authority gives it no keys",
            Self::Sealed(_) => "its sealed products failed",
            Self::Committed(_) => "its commitments failed",
            Self::TooFewParticipants { .. } => "the sum is over too few guests for it",
            Self::Sums(_) => "its sums over guests failed",
            Self::Ledger(LedgerError::OtherParticipants { .. }) => {
                "steps were summed over other guests before"
            }
            Self::Ledger(_) => "its ledger failed",
            Self::Store(_) => "its checkpoints failed",
            Self::Model(_) => "its model failed",
        };
        StopReason { code, text: Text::of(text) }
    }

    /// A setting of our own.
    pub(crate) fn misuse(error: PartError) -> Self {
        Self::Misuse { what: error.field, found: error.found, expected: error.expected }
    }
}

/// What a peer did that packs its numbers otherwise than agreed.
pub(crate) fn differently_packed(found: Compression, expected: Compression) -> String {
    format!("compression of its numbers: found {}, expected {}", found.name(), expected.name())
}

/// Refuses checkpoints of other data or another model.
pub(crate) fn same_subject(kept: &Text, ours: &Text) -> Result<(), PartyError> {
    if kept == ours {
        return Ok(());
    }
    let found = format!("those of other data or another model ({kept})");
    let expected = format!("{ours}; choose another folder");
    Err(PartyError::Misuse { what: "checkpoints in this folder", found, expected })
}
