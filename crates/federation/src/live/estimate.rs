//! What a live host is made of, and what comes out of it.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::message::Departure;
use protocol::message::live::LiveTerms;
use protocol::message::parts::Text;
use protocol::party::PartyId;
use serde::{Deserialize, Serialize};
use traffic::Step;

use crate::model::{Embeddings, ModelFailure};
use crate::session::timing::Timing;

/// What the host is told by those who run it.
#[derive(Clone, Debug)]
pub struct LiveHostSettings {
    /// Its name.
    pub party: PartyId,
    /// Its guests, and the numbers of their embeddings.
    pub guests: BTreeMap<PartyId, u32>,
    /// Version of its software, for logs.
    pub software: Text,
    /// What all parties must agree on.
    pub terms: LiveTerms,
    /// How long a step waits for guests, from when it opens.
    pub deadline: Duration,
    /// The rest of its patience.
    pub timing: Timing,
}

/// The host's model: its own numbers of a window and the guests' embeddings to an estimate.
pub trait LiveModel: Send {
    /// The host's own numbers.
    type Own: Send;
    /// An estimate.
    type Estimate;

    /// Estimates one window; a guest without an embedding is absent. None if what comes out are no
    /// numbers.
    fn estimate(
        &mut self,
        own: &Self::Own,
        embeddings: &Embeddings,
    ) -> Result<Option<Self::Estimate>, ModelFailure>;
}

/// Whether a guest took part in an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Participation {
    /// Its embedding was there.
    In,
    /// It was connected, but its embedding was not there by the deadline.
    Late,
    /// It was not connected, or silent.
    Absent,
    /// Its embedding was there, but no numbers came out of the model with it.
    Unusable,
}

/// An estimate and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated<E> {
    /// The step.
    pub step: Step,
    /// The estimate.
    pub estimate: E,
    /// How long the step was open.
    pub waited: Duration,
    /// Who took part.
    pub guests: BTreeMap<PartyId, Participation>,
}

/// Something that those who run the host want to know.
#[derive(Debug)]
pub enum LiveEvent<E> {
    /// A step has been estimated.
    Estimated(Estimated<E>),
    /// A step has no estimate: no numbers came out of the model.
    Unestimated(Step),
    /// A step has no sum over guests: too few of them were there, or one that had taken part was gone before the masks were off.
    Unsummed(Step),
    /// The host's own data have gone back, to a step that is not newer than the newest; nothing is
    /// estimated until they are past it.
    WentBack {
        /// Found.
        step: Step,
        /// The newest.
        newest: Step,
    },
    /// A guest takes part.
    Joined(PartyId),
    /// A guest was refused.
    Refused(PartyId, Text),
    /// A guest has left.
    Left(PartyId, Departure),
}
