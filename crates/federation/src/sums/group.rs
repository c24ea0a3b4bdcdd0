//! What the members of a group sign.

use protocol::message::PROTOCOL;
use protocol::message::parts::Text;
use protocol::message::sums::{
    Block, Included, Members, SumGroup, SumHello, SumMember, SumPlan, SumTerms,
};
use protocol::party::{PartyId, RunId};
use sha2::{Digest, Sha256};

use super::credentials::Verifier;
use crate::error::PartyError;
use crate::session::handshake::{check_name, check_terms};

/// A hash of fields, each with its length: no two lists of fields have the same bytes.
struct Transcript(Sha256);

impl Transcript {
    fn of(what: &str) -> Self {
        Self(Sha256::new()).with(what.as_bytes())
    }

    fn with(mut self, field: &[u8]) -> Self {
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
        self
    }

    fn number(self, number: u64) -> Self {
        self.with(&number.to_le_bytes())
    }

    fn terms(self, terms: &SumTerms) -> Self {
        let run = terms.run.map_or_else(Vec::new, |run| run.0.to_le_bytes().to_vec());
        self.with(terms.network_hash.as_str().as_bytes())
            .with(&terms.step_s.to_le_bytes())
            .with(&run)
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// The words before a digest that is signed: no signature of a handshake of TLS begins like this.
fn statement(digest: [u8; 32]) -> Vec<u8> {
    [&b"fedtse sum v1 "[..], &digest].concat()
}

/// What a guest signs of its key.
pub(super) fn key_statement(
    party: &PartyId,
    session: u64,
    terms: &SumTerms,
    public: &[u8; 32],
) -> Vec<u8> {
    let transcript = Transcript::of("key of a guest").with(party.as_str().as_bytes());
    statement(transcript.number(session).terms(terms).with(public).finish())
}

/// What all masks and signatures of a group depend on.
pub(super) fn context(group: &SumGroup) -> [u8; 32] {
    let plan = &group.plan;
    let mut transcript = Transcript::of("group of a sum")
        .number(group.run.0)
        .number(group.group)
        .terms(&plan.terms)
        .number(plan.folds.into())
        .number(plan.cells.into())
        .number(plan.movements.into())
        .number(plan.queues.into())
        .number(plan.width.into())
        .with(&plan.training.first.to_le_bytes())
        .with(&plan.training.last.to_le_bytes());
    for member in group.members.as_slice() {
        transcript = transcript
            .with(member.party.as_str().as_bytes())
            .number(member.session)
            .with(&member.key.public)
            .with(member.key.certificate.as_slice());
    }
    transcript.finish()
}

/// What a participant signs of the participants of a block.
pub(super) fn participants_statement(
    context: &[u8; 32],
    block: Block,
    included: &Included,
) -> Vec<u8> {
    let places = included.as_slice().iter().flat_map(|place| place.to_le_bytes());
    let places: Vec<u8> = places.collect();
    let transcript = Transcript::of("participants of a sum").with(context);
    statement(transcript.with(&block.to_bytes()).with(&places).finish())
}

/// Refuses a guest that is not who it says it is, or that would add to something else.
pub(crate) fn check_hello(
    from: &PartyId,
    hello: &SumHello,
    plan: &SumPlan,
    verifier: &dyn Verifier,
) -> Result<(), PartyError> {
    check_name(from, &hello.party)?;
    check_terms(from, hello.protocol, &hello.terms, &plan.terms)?;
    if hello.folds != plan.folds {
        let (found, expected) = (hello.folds.to_string(), plan.folds.to_string());
        let (party, what) = (from.clone(), "folds of its fleet");
        return Err(PartyError::PeerIncompatible { party, what, found, expected });
    }
    let key = &hello.key;
    let statement = key_statement(from, hello.session, &hello.terms, &key.public);
    verifier
        .verify(from, &key.certificate, &statement, &key.signature)
        .map_err(|why| PartyError::misbehaved(from, format!("its key: {why}")))
}

/// A group of those who have introduced themselves, in the order of their names.
pub(crate) fn group_of<'a>(
    hellos: impl Iterator<Item = &'a SumHello>,
    (run, plan, software): (RunId, &SumPlan, &Text),
) -> Result<SumGroup, PartyError> {
    let members = hellos.map(|hello| SumMember {
        party: hello.party.clone(),
        session: hello.session,
        key: hello.key.clone(),
    });
    let members: Vec<SumMember> = members.collect();
    Ok(SumGroup {
        protocol: PROTOCOL,
        software: software.clone(),
        run,
        group: group_number(&members, run),
        plan: plan.clone(),
        members: Members::new(members).map_err(PartyError::misuse)?,
    })
}

/// A number that no two groups of a run share: it follows from the members' sessions.
fn group_number(members: &[SumMember], run: RunId) -> u64 {
    let mut hash = Sha256::new().chain_update(run.0.to_le_bytes());
    for member in members {
        hash.update(member.session.to_le_bytes());
    }
    hash.finalize().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The fewest participants of a sum over a group: more than half of it.
pub(crate) fn least_participants(members: usize) -> usize {
    members / 2 + 1
}
