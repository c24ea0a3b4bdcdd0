//! What host and guests say to each other.
//!
//! ```text
//!  guest                                     host
//!    │ ◄──────────────────────────── Call      who is there?
//!    │ Hello ───────────────────────────►      name, network, steps held, where it stands
//!    │ ◄───────────────────────── Welcome      the plan, and the round to go on from
//!    │ ◄───────────────────────────── Ask ┐    round, purpose, samples
//!    │ Embedding ───────────────────────► │    one exchange
//!    │ Measurements ────────────────────► │    where the plan asks for them; or sealed, see [`sealed`]
//!    │ ◄──────────── Gradient │ Settled ──┘    training │ validation and estimates
//!    │ Kept ────────────────────────────►      after some rounds: it has a checkpoint
//!    │ ◄────────────────────────── Finish      the summary
//!    │ Leave ───────────────────────────►      it has kept its model
//! ```
//!
//! Every message of an exchange names run, attempt and round; who sent it the transport knows.
//! Parts are checked when they are made (see [`parts`]), so a message that exists is within bounds;
//! whether it fits the moment is for the state machines of host and guest to judge.

pub mod committed;
mod content;
pub mod live;
pub mod measurements;
pub mod parts;
pub mod sealed;

use serde::{Deserialize, Serialize};

use crate::compression::Compression;
use crate::party::{Attempt, PartyId, Round, RunId};
use crate::plan::{Plan, Summary};
use committed::{Hold, Pledge};
use live::{FromLiveGuest, FromLiveHost};
use measurements::{Measurements, Measures};
use parts::{Batch, Embedding, EmbeddingGradient, HeldSteps, Text};
use sealed::{BlockWeights, Fingerprint, Lacking, LoanEntries, Sealed};

/// Version of these messages. Parties of different versions refuse each other.
pub const PROTOCOL: u32 = 6;

/// What a guest says that gives no more products.
pub const SPENT: &str = "its budget of products is spent";

/// What the host says that has found forged data.
pub const FORGED: &str = "what was trained with is not what was committed to";

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
    /// My key for sealed products.
    Opening {
        /// Which exchange asked for it.
        exchange: Exchange,
        /// The key.
        opening: Sealed,
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
    /// Products that one guest is to get, masked; and what takes off the mask, encrypted for it.
    Relay {
        /// Which exchange.
        exchange: Exchange,
        /// Whom they are for: another guest, or this one.
        to: PartyId,
        /// Its key.
        key: Fingerprint,
        /// How many, and of how many values each: for the ledger. Of none, if nobody else gets them.
        size: [u32; 2],
        /// The products.
        relay: Sealed,
    },
    /// What I am held to.
    Pledge(Pledge),
    /// I have kept the state after this exchange.
    Kept {
        /// Which exchange.
        exchange: Exchange,
    },
    /// I am trained, and estimate with you.
    Live(FromLiveGuest),
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
    /// Say who you are and where you stand.
    Call,
    /// You take part.
    Welcome(Box<Welcome>),
    /// Embed these samples.
    Ask {
        /// Which exchange.
        exchange: Exchange,
        /// What for.
        purpose: Purpose,
        /// The windows, and what is seen of the fleets.
        batch: Batch,
        /// Where measurements are sealed, what the host does not have of them yet.
        lacking: Option<Lacking>,
    },
    /// Multiply your measurements by my rows, as they are hidden in here.
    Question {
        /// Which exchange.
        exchange: Exchange,
        /// The rows.
        question: Sealed,
    },
    /// What you are held to.
    Hold(Hold),
    /// Multiply your measurements by my coefficients for one guest, as they are hidden in here.
    Loan {
        /// Which exchange.
        exchange: Exchange,
        /// Who is to get the products: another guest, or this one.
        to: PartyId,
        /// Its key, if it is another one.
        key: Option<Sealed>,
        /// Which measurements they are of.
        entries: LoanEntries,
        /// The coefficients.
        loan: Sealed,
    },
    /// How the loss depends on your embedding, which only you can read: closes an exchange for training where
    /// measurements are sealed.
    Grant {
        /// Which exchange.
        exchange: Exchange,
        /// The gradient.
        grant: Sealed,
    },
    /// How the loss depends on your embedding: closes an exchange for training.
    Gradient {
        /// Which exchange.
        exchange: Exchange,
        /// `[sample, width]`, as the embedding.
        gradient: EmbeddingGradient,
    },
    /// Closes any other exchange.
    Settled {
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
    /// You do not take part, or nobody does any longer.
    Refuse {
        /// The session that is meant; 0 means any.
        session: u64,
        /// Why.
        reason: Text,
    },
    /// You are trained, and estimate with me.
    Live(FromLiveHost),
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
    /// Numbers of an embedding, per sample.
    pub width: u32,
    /// What it measures.
    pub measures: Measures,
    /// Where it stands.
    pub standing: Standing,
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

/// Where a guest stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The run that it has checkpoints of.
    pub run: Option<RunId>,
    /// Rounds after which it has a checkpoint, besides round 0; at most [`parts::MAX_KEPT`].
    pub kept: Vec<Round>,
    /// The attempt and the last finished round that it has in memory.
    pub live: Option<(Attempt, Round)>,
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
    Exactly(Round),
    /// With the newest weights it has, although rounds were done without it.
    AsYouAre(Missed),
}

/// What a guest has missed that goes on with its newest weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missed {
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
    Failed(Text),
}

impl ToHost {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            ToHost::Hello(_) => "hello",
            ToHost::Embedding { .. } => "embedding",
            ToHost::Measurements { .. } => "measurements",
            ToHost::Opening { .. } => "opening",
            ToHost::Upload { .. } => "upload",
            ToHost::Products { .. } => "products",
            ToHost::Relay { .. } => "relay",
            ToHost::Pledge(message) => message.kind(),
            ToHost::Kept { .. } => "kept",
            ToHost::Live(message) => message.kind(),
            ToHost::Heartbeat => "heartbeat",
            ToHost::Leave { departure: Departure::Failed(reason), .. }
                if reason.as_str() == SPENT =>
            {
                "refusal"
            }
            ToHost::Leave { departure: Departure::Failed(reason), .. } if says_forged(reason) => {
                "forgery"
            }
            ToHost::Leave { .. } => "leave",
        }
    }
}

/// Whether someone stops because a guest has not trained with what it had committed to.
pub fn says_forged(reason: &Text) -> bool {
    reason.as_str().starts_with(FORGED)
}

impl ToGuest {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            ToGuest::Call => "call",
            ToGuest::Welcome(_) => "welcome",
            ToGuest::Ask { .. } => "ask",
            ToGuest::Gradient { .. } => "gradient",
            ToGuest::Question { .. } => "question",
            ToGuest::Grant { .. } => "grant",
            ToGuest::Loan { .. } => "loan",
            ToGuest::Settled { .. } => "settled",
            ToGuest::Finish { .. } => "finish",
            ToGuest::Hold(message) => message.kind(),
            ToGuest::Refuse { reason, .. } if says_forged(reason) => "forgery",
            ToGuest::Refuse { .. } => "refuse",
            ToGuest::Live(message) => message.kind(),
            ToGuest::Heartbeat => "heartbeat",
        }
    }
}
