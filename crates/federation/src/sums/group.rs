//! What the members of a group sign.

use protocol::message::sums::{Block, Included, SumGroup, SumTerms};
use protocol::party::PartyId;
use sha2::{Digest, Sha256};

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

/// The fewest participants of a sum over a group: more than half of it.
pub(crate) fn least_participants(members: usize) -> usize {
    members / 2 + 1
}
