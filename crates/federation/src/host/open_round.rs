//! An exchange of the host that is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::message::measurements::Measurements;
use protocol::message::parts::{Batch, Embedding};
use protocol::message::{Exchange, Purpose};
use protocol::party::PartyId;

use super::sealing::{FirstUpdate, PendingQueries};
use crate::model::Answers;

/// An exchange that waits for answers.
pub(super) struct OpenRound {
    pub exchange: Exchange,
    pub purpose: Purpose,
    pub batch: Batch,
    pub answers: BTreeMap<PartyId, Embedding>,
    /// Whether guests measure in this exchange, and what they have measured.
    pub measuring: bool,
    pub measured: BTreeMap<PartyId, Measurements>,
    /// Those whose sealed measurements of this batch are all here.
    pub uploaded: BTreeSet<PartyId>,
    /// What they were asked about these.
    pub queries: Option<PendingQueries>,
    /// What came of their first products, in training.
    pub first: Option<FirstUpdate>,
    pub since: Duration,
}

impl OpenRound {
    /// Whether a guest has said all that it was asked for.
    pub fn has_answered(&self, party: &PartyId) -> bool {
        let queries = self.queries.as_ref().is_none_or(|queries| queries.has_answered(party));
        queries && self.has_given(party)
    }

    /// Whether a guest has embedded and measured.
    pub fn has_given(&self, party: &PartyId) -> bool {
        let measured =
            !self.measuring || self.measured.contains_key(party) || self.uploaded.contains(party);
        measured && self.answers.contains_key(party)
    }

    /// Takes an embedding, the first one if there are several. Whoever gives it after the others were asked is
    /// part of a new query.
    pub fn note(&mut self, party: &PartyId, embedding: Embedding) {
        if !self.answers.contains_key(party) {
            self.answers.insert(party.clone(), embedding);
            self.queries = None;
        }
    }

    /// What those have said who have embedded and measured; whoever has said a part of its answer is absent.
    pub fn given(&self, parties: impl Iterator<Item = PartyId>) -> Answers {
        let mut given = Answers::default();
        for party in parties {
            let there = self.has_given(&party);
            let embedding = self.answers.get(&party).filter(|_| there).cloned();
            let measured = self.measured.get(&party).filter(|_| there).cloned();
            given.measured.extend(measured.map(|measured| (party.clone(), measured)));
            given.embeddings.insert(party, embedding);
        }
        given
    }

    /// Does without a guest that has gone in the middle.
    pub fn forget(&mut self, party: &PartyId) {
        self.answers.remove(party);
        self.measured.remove(party);
        self.uploaded.remove(party);
        self.queries = None;
    }
}
