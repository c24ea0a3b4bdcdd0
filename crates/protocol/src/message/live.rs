//! What trained parties say to each other, step by step.

use traffic::Step;

use crate::message::parts::{Embedding, Text};
use crate::party::{PartyId, RunId};

/// From a guest to the host.
#[derive(Clone, Debug, PartialEq)]
pub enum FromLiveGuest {
    /// I am here, and trained.
    Hello(Box<LiveHello>),
    /// What I make of the window that ends with this step.
    Embedding {
        /// Of the [`LiveHello`].
        session: u64,
        /// The step.
        step: Step,
        /// One sample.
        embedding: Embedding,
    },
}

/// From the host to a guest.
#[derive(Clone, Debug, PartialEq)]
pub enum FromLiveHost {
    /// You take part.
    Welcome(Box<LiveWelcome>),
    /// A step has been estimated.
    StepEstimated {
        /// The step.
        step: Step,
        /// Whether your embedding was there in time.
        taken: bool,
    },
}

/// How a trained guest introduces itself.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveHello {
    /// [`PROTOCOL`](crate::message::PROTOCOL).
    pub protocol: u32,
    /// Version of its software, for logs.
    pub software: Text,
    /// Its name.
    pub party: PartyId,
    /// Drawn anew whenever the guest starts; not 0.
    pub session: u64,
    /// What all parties must agree on.
    pub terms: LiveTerms,
    /// How many numbers an embedding has.
    pub width: u32,
}

/// The host's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveWelcome {
    /// [`PROTOCOL`](crate::message::PROTOCOL).
    pub protocol: u32,
    /// Version of the host's software, for logs.
    pub software: Text,
    /// Of the [`LiveHello`] that it answers.
    pub session: u64,
    /// What all parties must agree on.
    pub terms: LiveTerms,
}

/// What all parties must agree on to estimate together.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveTerms {
    /// The run that their weights are of.
    pub run: RunId,
    /// Hash of links and turns.
    pub network_hash: Text,
    /// Length of a step. Step 0 begins at the epoch.
    pub step_s: f64,
    /// Steps of a window.
    pub window: u32,
}

impl FromLiveGuest {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            FromLiveGuest::Hello(_) => "live-hello",
            FromLiveGuest::Embedding { .. } => "live-embedding",
        }
    }
}

impl FromLiveHost {
    /// The kind, as ledgers and logs name it.
    pub fn kind(&self) -> &'static str {
        match self {
            FromLiveHost::Welcome(_) => "live-welcome",
            FromLiveHost::StepEstimated { .. } => "live-step-estimated",
        }
    }
}
