//! What host and guests say to each other.
//!
//! ```text
//!  guest                                     host
//!    │ ◄──────────────────── HelloRequest
//!    │ Hello ───────────────────────────►      name, network, steps held, checkpoints
//!    │ ◄───────────────────────── Welcome      the plan, and the round to resume from
//!    │ ◄──────────────── EmbeddingRequest ┐    round, purpose, samples
//!    │ Embedding ───────────────────────► │    one exchange
//!    │ Measurements ────────────────────► │    where the plan asks for them; or encrypted, see [`sealed`]
//!    │ ◄───── Gradient │ ExchangeClosed ──┘    training │ validation and estimates
//!    │ Checkpointed ────────────────────►      after rounds for which the request asks it
//!    │ ◄────────────────────────── Finish      the summary
//!    │ Leave ───────────────────────────►      it has saved its model
//! ```
//!
//! Every message of an exchange names run, attempt and round; who sent it the transport knows.
//! Parts are checked when they are made (see [`parts`]), so a message that exists is within bounds;
//! whether it fits the moment is for the state machines of host and guest to judge.

pub mod committed;
mod content;
pub mod heads;
pub mod key_authority;
pub mod live;
pub mod measurements;
pub mod parts;
pub mod sealed;
pub mod sums;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::compression::Compression;
use crate::party::{Attempt, PartyId, Round, RunId};
use crate::plan::{Plan, Summary};
use committed::{CommitmentReply, CommitmentRequest};
use heads::HeadMessage;
use live::{FromLiveGuest, FromLiveHost};
use measurements::{MeasurementOffer, Measurements};
use parts::{Batch, Embedding, EmbeddingGradient, HeldSteps, Text};
use sealed::{BlockWeights, CoefficientEntries, Fingerprint, MissingCiphertexts, Sealed};
use sums::{FromSumGuest, FromSumHost};

/// Version of these messages. Parties of different versions refuse each other.
pub const PROTOCOL: u32 = 9;

/// Why a party stops or is refused, as far as programs must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopCode {
    /// For any other reason, which the text gives.
    Other,
    /// A guest gives no more products.
    BudgetSpent,
    /// A guest has trained with other data than it had committed to.
    CommitmentMismatch,
}

/// Why a party stops or is refused: a code for programs, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopReason {
    /// For programs.
    pub code: StopCode,
    /// For people.
    pub text: Text,
}

impl StopReason {
    /// A reason that only people need to understand.
    pub fn other(text: impl fmt::Display) -> Self {
        Self { code: StopCode::Other, text: Text::of(text) }
    }
}

impl StopReason {
    /// The kind of a message with this reason, as ledgers and logs name it.
    fn kind(&self, usual: &'static str) -> &'static str {
        match self.code {
            StopCode::Other => usual,
            StopCode::BudgetSpent => "budget-spent",
            StopCode::CommitmentMismatch => "commitment-mismatch",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// From a guest to the host.
#[derive(Clone, Debug, PartialEq)]
pub enum ToHost {
    /// I am here.
    Hello(Box<Hello>),
    /// What I make of the samples you asked for.
    Embedding {
        /// Which exchange.
        exchange: Exchange,
        /// What for, as asked.
        purpose: Purpose,
        /// `[sample, width]`.
        embedding: Embedding,
    },
    /// What I have measured of the samples you asked for, as the plan says.
    Measurements {
        /// Which exchange.
        exchange: Exchange,
        /// What for, as asked.
        purpose: Purpose,
        /// `[sample, entry]`.
        measurements: Measurements,
    },
    /// The guest's public key for secure products.
    PublicKey {
        /// The exchange that asked for it.
        exchange: Exchange,
        /// The key.
        key: Sealed,
    },
    /// A block of measurements, sealed.
    Upload {
        /// Which exchange asked for it.
        exchange: Exchange,
        /// The block's place in the batch.
        place: u32,
        /// Their weights.
        weights: BlockWeights,
        /// The measurements.
        upload: Sealed,
    },
    /// The products that were asked for, masked.
    Products {
        /// Which exchange.
        exchange: Exchange,
        /// How many, and of how many values each: for the ledger.
        size: [u32; 2],
        /// The products.
        answer: Sealed,
    },
    /// Products with encrypted coefficients, masked; with the seed of the mask, encrypted for the recipient.
    MaskedProducts {
        /// Which exchange.
        exchange: Exchange,
        /// Who can remove the mask: another guest, or this one.
        recipient: PartyId,
        /// Its key.
        key: Fingerprint,
        /// How many, and of how many values each: for the ledger. Of none, if nobody else gets them.
        size: [u32; 2],
        /// The products.
        products: Sealed,
    },
    /// Commitments to the guest's data, and openings of their sums.
    Commitment(CommitmentReply),
    /// The guest has a checkpoint of the state after this exchange.
    Checkpointed {
        /// Which exchange.
        exchange: Exchange,
    },
    /// I am trained, and estimate with you.
    Live(FromLiveGuest),
    /// I add to a sum over guests.
    Sum(FromSumGuest),
    /// Heads of ledgers.
    Ledger(HeadMessage),
    /// I am still here.
    Heartbeat,
    /// I take part no longer.
    Leave {
        /// The session that ends.
        session: u64,
        /// Why.
        departure: Departure,
    },
}

/// From the host to a guest.
#[derive(Clone, Debug, PartialEq)]
pub enum ToGuest {
    /// Asks the guest for its [`Hello`].
    HelloRequest,
    /// You take part.
    Welcome(Box<Welcome>),
    /// Embed these samples.
    EmbeddingRequest {
        /// Which exchange.
        exchange: Exchange,
        /// What for.
        purpose: Purpose,
        /// The windows, and what is seen of the fleets.
        batch: Batch,
        /// Where measurements are encrypted, the ciphertexts that the host does not have yet.
        missing: Option<MissingCiphertexts>,
        /// Both sides store a checkpoint when the exchange is over.
        checkpoint: bool,
    },
    /// Multiply the measurements by the host's rows, which are encrypted.
    ProductQuery {
        /// Which exchange.
        exchange: Exchange,
        /// The rows.
        query: Sealed,
    },
    /// Asks for commitments and for openings of their sums.
    Commitment(CommitmentRequest),
    /// Multiply the measurements by the coefficients of one guest's gradient, which are encrypted.
    EncryptedCoefficients {
        /// Which exchange.
        exchange: Exchange,
        /// Whose gradient it is: another guest's, or this one's.
        recipient: PartyId,
        /// Its public key, if it is another guest.
        key: Option<Sealed>,
        /// Which measurements they are of.
        entries: CoefficientEntries,
        /// The coefficients.
        coefficients: Sealed,
    },
    /// The gradient of the guest's embedding, under a mask that only this guest can remove: closes an exchange for
    /// training where measurements are encrypted.
    MaskedGradient {
        /// Which exchange.
        exchange: Exchange,
        /// The gradient, of consecutive samples each.
        gradient: Vec<Sealed>,
    },
    /// The gradient of the guest's embedding: closes an exchange for training.
    Gradient {
        /// Which exchange.
        exchange: Exchange,
        /// `[sample, width]`, as the embedding.
        gradient: EmbeddingGradient,
    },
    /// Closes any other exchange.
    ExchangeClosed {
        /// Which exchange.
        exchange: Exchange,
        /// These weights are the best so far: remember them.
        best: bool,
        /// Training has ended: from here on the best weights are used.
        trained: bool,
    },
    /// All is done.
    Finish {
        /// In which run.
        run: RunId,
        /// In which attempt.
        attempt: Attempt,
        /// How it went.
        summary: Summary,
    },
    /// The guest is refused, or the host has stopped.
    Refuse {
        /// The session that is meant; 0 means any.
        session: u64,
        /// Why.
        reason: StopReason,
    },
    /// You are trained, and estimate with me.
    Live(FromLiveHost),
    /// You add to a sum over guests.
    Sum(FromSumHost),
    /// Heads of ledgers.
    Ledger(HeadMessage),
    /// I am still here.
    Heartbeat,
}

/// Which exchange a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// In which run.
    pub run: RunId,
    /// In which attempt.
    pub attempt: Attempt,
    /// Its number.
    pub round: Round,
}

/// What an embedding is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To learn from: weights as they are, with dropout.
    Train,
    /// To judge the weights that would be kept.
    Validate,
    /// To estimate with the best weights.
    Estimate,
}

/// How a guest introduces itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Version of its software, for logs.
    pub software: Text,
    /// Its name.
    pub party: PartyId,
    /// Drawn anew whenever the guest starts; not 0.
    pub session: u64,
    /// Counts the greetings of a session: an older one than the last is stale.
    pub greeting: u64,
    /// What all parties must agree on.
    pub terms: Terms,
    /// What it can embed.
    pub held: HeldSteps,
    /// How many numbers an embedding has, per sample.
    pub width: u32,
    /// What it measures.
    pub offer: MeasurementOffer,
    /// From which states it can resume.
    pub resume_state: ResumeState,
}

/// What all parties must agree on before they train together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Hash of links and turns.
    pub network_hash: Text,
    /// Length of a step.
    pub step_s: f64,
    /// The time at which step 0 begins, in seconds since the epoch.
    pub origin_s: f64,
    /// Steps of a window.
    pub window: u32,
    /// How embeddings and gradients cross.
    pub compression: Compression,
}

/// From which states a guest can resume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeState {
    /// The run of its checkpoints.
    pub run: Option<RunId>,
    /// Rounds after which it has a checkpoint, besides round 0; at most [`parts::MAX_CHECKPOINTS`].
    pub checkpoints: Vec<Round>,
    /// The attempt and the last finished round that it has in memory.
    pub in_memory: Option<(Attempt, Round)>,
}

/// The host's answer to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Version of the host's software, for logs.
    pub software: Text,
    /// Of the [`Hello`] that it answers.
    pub session: u64,
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: Attempt,
    /// What all parties must agree on.
    pub terms: Terms,
    /// How the parties train.
    pub plan: Plan,
    /// Where to go on.
    pub resume: Resume,
}

/// Where a guest goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// With the weights it had after this round, from memory or from a checkpoint.
    AtRound(Round),
    /// With the newest weights it has, although rounds were done without it.
    NewestWeights(MissedRounds),
}

/// What a guest has missed that goes on with its newest weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissedRounds {
    /// It goes on as if this round had just finished.
    pub round: Round,
    /// Training exchanges until then.
    pub exchanges: u64,
    /// An epoch ended as the best so far while it was away. Its weights have not changed since it left,
    /// so those that it has are the ones to be remembered.
    pub best: bool,
}

/// Why a guest leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Departure {
    /// The run has finished and its model is kept.
    Finished,
    /// It was told to stop, and may come back.
    Stopped,
    /// It cannot go on.
    Failed(StopReason),
}

impl ToHost {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            ToHost::Hello(_) => "hello",
            ToHost::Embedding { .. } => "embedding",
            ToHost::Measurements { .. } => "measurements",
            ToHost::PublicKey { .. } => "public-key",
            ToHost::Upload { .. } => "upload",
            ToHost::Products { .. } => "products",
            ToHost::MaskedProducts { .. } => "masked-products",
            ToHost::Commitment(message) => message.kind(),
            ToHost::Checkpointed { .. } => "checkpointed",
            ToHost::Live(message) => message.kind(),
            ToHost::Sum(message) => message.kind(),
            ToHost::Ledger(message) => message.kind(),
            ToHost::Heartbeat => "heartbeat",
            ToHost::Leave { departure: Departure::Failed(reason), .. } => reason.kind("leave"),
            ToHost::Leave { .. } => "leave",
        }
    }
}

impl ToGuest {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            ToGuest::HelloRequest => "hello-request",
            ToGuest::Welcome(_) => "welcome",
            ToGuest::EmbeddingRequest { .. } => "embedding-request",
            ToGuest::Gradient { .. } => "gradient",
            ToGuest::ProductQuery { .. } => "product-query",
            ToGuest::MaskedGradient { .. } => "masked-gradient",
            ToGuest::EncryptedCoefficients { .. } => "encrypted-coefficients",
            ToGuest::ExchangeClosed { .. } => "exchange-closed",
            ToGuest::Finish { .. } => "finish",
            ToGuest::Commitment(message) => message.kind(),
            ToGuest::Refuse { reason, .. } => reason.kind("refuse"),
            ToGuest::Live(message) => message.kind(),
            ToGuest::Sum(message) => message.kind(),
            ToGuest::Ledger(message) => message.kind(),
            ToGuest::Heartbeat => "heartbeat",
        }
    }
}
