//! Heads of ledgers that parties countersign for each other at checkpoints: around any party, so that the rounds know nothing of it.
//!
//! A checkpoint is a message `checkpointed` in training, and the agreement on a block in sums. A guest then asks its host to countersign its
//! ledger, and the host asks that guest; sums in which there is a block every few seconds ask less often.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use protocol::ledger::{HeadFile, LedgerError, Recorded, Released, SignedHead, head_statement};
use protocol::message::heads::{CarriesHeads, Countersignature, HeadMessage, LedgerHead};
use protocol::message::{ToGuest, ToHost};
use protocol::party::{Now, PartyId};
use tracing::warn;

use super::dial::Dialled;
use super::drive::Party;
use super::listen::Arrival;
use super::signing::{GuestCertificates, SigningKey};
use crate::session::timing::lasted;
use crate::sums::{Credentials, Verifier};

/// A peer's ledger is not countersigned more often than this.
const LEAST_ANSWER: Duration = Duration::from_millis(500);
/// Of sums, a ledger is not sent to be countersigned more often than this.
const BETWEEN_SUMS: Duration = Duration::from_secs(10);

/// What a party countersigns with, whom it trusts, and what it keeps.
pub struct Heads {
    party: PartyId,
    /// Of a guest: the one that all it hears is from.
    host: Option<PartyId>,
    credentials: SigningKey,
    verifier: GuestCertificates,
    file: HeadFile,
    peers: BTreeMap<PartyId, Peer>,
    /// Peers whose countersignature is due.
    due: BTreeSet<PartyId>,
}

#[derive(Default)]
struct Peer {
    /// Sent to be countersigned, and when.
    asked: Option<(LedgerHead, Duration)>,
    answered: Option<Duration>,
}

/// What arrives at a party, as far as it is a message.
pub trait Heard {
    /// Of which kind.
    type Message: CarriesHeads;
    /// The message, and whom it is from; `host` is the host of a guest.
    fn heard(&self, host: Option<&PartyId>) -> Option<(PartyId, &Self::Message)>;
}

impl Heard for Arrival {
    type Message = ToHost;
    fn heard(&self, _: Option<&PartyId>) -> Option<(PartyId, &ToHost)> {
        match self {
            Arrival::Message(from, message) => Some((from.clone(), message)),
            _ => None,
        }
    }
}

impl Heard for Dialled {
    type Message = ToGuest;
    fn heard(&self, host: Option<&PartyId>) -> Option<(PartyId, &ToGuest)> {
        match self {
            Dialled::Message(message) => Some((host?.clone(), message)),
            _ => None,
        }
    }
}

impl Heads {
    /// Of a party with its ledger; a guest names its host.
    ///
    /// # Errors
    /// If the file beside the ledger cannot be used.
    pub fn open(
        ledger: &Path,
        (party, host): (&PartyId, Option<&PartyId>),
        (credentials, verifier): (SigningKey, GuestCertificates),
    ) -> Result<Self, LedgerError> {
        let (file, peers, due) = (HeadFile::open(ledger)?, BTreeMap::new(), BTreeSet::new());
        let (party, host) = (party.clone(), host.cloned());
        Ok(Self { party, host, credentials, verifier, file, peers, due })
    }

    /// Takes what is of heads, and gives what there is to say; none if the party is to hear it.
    pub(super) fn hear<P: Party>(
        &mut self,
        party: &mut P,
        now: Now,
        arrival: &P::Arrival,
    ) -> Option<Vec<Released<P::Message>>>
    where
        P::Arrival: Heard,
        P::Message: CarriesHeads,
    {
        let (from, message) = arrival.heard(self.host.as_ref())?;
        let Some(head) = message.head() else {
            if self.is_checkpoint(now, &from, message.kind()) {
                self.due.insert(from);
            }
            return None;
        };
        let answer = match head {
            HeadMessage::Head(head) => self.countersign(now, &from, *head),
            HeadMessage::Countersigned(signed) => {
                if let Err(problem) = self.keep(&from, signed) {
                    warn!(%from, "a countersignature of our ledger: {problem}");
                }
                None
            }
        };
        Some(answer.and_then(|answer| released(party, now, &from, answer)).into_iter().collect())
    }

    /// Asks peers to countersign, where a checkpoint was reached.
    pub(super) fn after<P: Party>(
        &mut self,
        party: &mut P,
        now: Now,
        said: &[Released<P::Message>],
    ) -> Vec<Released<P::Message>>
    where
        P::Message: CarriesHeads,
    {
        for message in said {
            let to = message.recipient().clone();
            if self.is_checkpoint(now, &to, message.message().kind()) {
                self.due.insert(to);
            }
        }
        let mut asked = Vec::new();
        for peer in std::mem::take(&mut self.due) {
            // What is countersigned must not be lost.
            if party.ledger_mut().sync().is_err() {
                break;
            }
            let head = party.ledger_mut().head();
            if let Some(message) = released(party, now, &peer, HeadMessage::Head(head)) {
                self.peers.entry(peer).or_default().asked = Some((head, now.monotonic));
                asked.push(message);
            }
        }
        asked
    }

    fn is_checkpoint(&self, now: Now, peer: &PartyId, kind: &str) -> bool {
        let asked = self.peers.get(peer).and_then(|peer| peer.asked);
        match kind {
            "checkpointed" => true,
            "sum-agreed" => {
                asked.is_none_or(|(_, asked)| lasted(asked, now.monotonic, BETWEEN_SUMS))
            }
            _ => false,
        }
    }

    /// Signs a peer's head, unless it is of a ledger that is not the one that was signed before.
    fn countersign(&mut self, now: Now, of: &PartyId, head: LedgerHead) -> Option<HeadMessage> {
        let peer = self.peers.entry(of.clone()).or_default();
        if peer.answered.is_some_and(|answered| !lasted(answered, now.monotonic, LEAST_ANSWER)) {
            return None;
        }
        peer.answered = Some(now.monotonic);
        let newest = self.file.newest(of, &self.party);
        if let Some(newest) = newest.filter(|newest| {
            head.sequence < newest.sequence || (head.sequence == newest.sequence && head != *newest)
        }) {
            warn!(
                party = %of, found = head.sequence, signed = newest.sequence,
                "its ledger is not the one that we have countersigned: it begins anew, or was rewritten"
            );
            return None;
        }
        let statement = head_statement(of, &self.party, &head);
        let signature = self.credentials.sign(&statement);
        let signature = signature.map_err(|problem| warn!("countersigning: {problem}")).ok()?;
        let certificate = self.credentials.certificate().clone();
        let signed = Countersignature { head, certificate, signature };
        if newest != Some(head) {
            let (of, by) = (of.clone(), self.party.clone());
            let kept = self.file.add(SignedHead { of, by, signed: signed.clone() });
            kept.map_err(|problem| warn!("countersigning: {problem}")).ok()?;
        }
        Some(HeadMessage::Countersigned(Box::new(signed)))
    }

    /// Keeps what a peer has signed of our ledger.
    fn keep(&mut self, by: &PartyId, signed: &Countersignature) -> Result<(), String> {
        let asked = self.peers.get(by).and_then(|peer| peer.asked);
        if asked.is_none_or(|(head, _)| head != signed.head) {
            return Err("found one that was not asked for".to_owned());
        }
        let statement = head_statement(&self.party, by, &signed.head);
        self.verifier.verify(by, &signed.certificate, &statement, &signed.signature)?;
        let (of, by, signed) = (self.party.clone(), by.clone(), signed.clone());
        self.file.add(SignedHead { of, by, signed }).map_err(|error| error.to_string())
    }
}

fn released<P: Party>(
    party: &mut P,
    now: Now,
    to: &PartyId,
    message: HeadMessage,
) -> Option<Released<P::Message>>
where
    P::Message: CarriesHeads,
{
    // A ledger that cannot be written lets nothing out, and the party will find that by itself.
    party.ledger_mut().release(now, to, P::Message::of_head(message)).ok()
}
