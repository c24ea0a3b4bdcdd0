//! The host's side of a block: masked totals, then agreement on the participants, then seeds, then the sum.

use std::collections::BTreeMap;

use protocol::message::sums::{
    Block, FromSumHost, Included, MaskedWords, Seeds, Signature, SumGroup,
};
use protocol::party::PartyId;
use sealed::aggregate::{Contribution, Reveal, Seed, unmask};

use super::credentials::Verifier;
use super::group::{context, participants_statement};
use crate::error::PartyError;

/// The members of a group, and what they sign.
pub(crate) struct HostGroup {
    group: SumGroup,
    context: [u8; 32],
}

impl HostGroup {
    pub(crate) fn new(group: SumGroup) -> Self {
        let context = context(&group);
        Self { group, context }
    }

    pub(crate) fn as_sent(&self) -> &SumGroup {
        &self.group
    }

    pub(crate) fn id(&self) -> u64 {
        self.group.group
    }

    pub(crate) fn len(&self) -> usize {
        self.group.members.as_slice().len()
    }

    pub(crate) fn place(&self, party: &PartyId) -> Option<usize> {
        self.group.members.as_slice().iter().position(|member| member.party == *party)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &PartyId> {
        self.group.members.as_slice().iter().map(|member| &member.party)
    }

    fn width(&self) -> usize {
        self.group.plan.width as usize
    }
}

/// A block whose sum is not known yet.
pub(crate) struct OpenBlock {
    block: Block,
    masked: BTreeMap<usize, MaskedWords>,
    stage: Stage,
}

enum Stage {
    Masking,
    Agreeing(Included, BTreeMap<usize, Signature>),
    Revealing(Included, Vec<Signature>, BTreeMap<usize, Seeds>),
}

/// The sum of a block.
#[derive(Debug, PartialEq)]
pub(crate) struct Summed {
    pub participants: Vec<PartyId>,
    pub words: Vec<u64>,
}

impl OpenBlock {
    pub(crate) fn new(block: Block) -> Self {
        Self { block, masked: BTreeMap::new(), stage: Stage::Masking }
    }

    pub(crate) fn block(&self) -> Block {
        self.block
    }

    /// Whether the participants are still open.
    pub(crate) fn is_masking(&self) -> bool {
        matches!(self.stage, Stage::Masking)
    }

    /// Whose totals are there.
    pub(crate) fn has_masked(&self, place: usize) -> bool {
        self.masked.contains_key(&place)
    }

    /// Takes masked totals; those that come too late are of no use.
    pub(crate) fn masked(
        &mut self,
        group: &HostGroup,
        (from, place): (&PartyId, usize),
        words: MaskedWords,
    ) -> Result<(), PartyError> {
        let (found, expected) = (words.as_slice().len(), self.block.count() * group.width());
        if found != expected {
            let what = format!("masked totals: found {found} words, expected {expected}");
            return Err(PartyError::misbehaved(from, what));
        }
        if self.is_masking() {
            self.masked.entry(place).or_insert(words);
        }
        Ok(())
    }

    /// Settles the participants, whose totals are there.
    pub(crate) fn settle(&mut self, includes: impl Fn(usize) -> bool) -> Result<(), PartyError> {
        self.masked.retain(|place, _| includes(*place));
        let places = self.masked.keys().map(|place| *place as u32).collect();
        let included = Included::new(places).map_err(PartyError::misuse)?;
        self.stage = Stage::Agreeing(included, BTreeMap::new());
        Ok(())
    }

    /// Takes the signature of a participant; true once all are there.
    pub(crate) fn agreed(
        &mut self,
        group: &HostGroup,
        (from, place): (&PartyId, usize),
        signature: Signature,
        verifier: &dyn Verifier,
    ) -> Result<bool, PartyError> {
        let Stage::Agreeing(included, signatures) = &mut self.stage else { return Ok(false) };
        if !included.places().any(|one| one == place) {
            return Ok(false);
        }
        let statement = participants_statement(&group.context, self.block, included);
        let Some(member) = group.group.members.as_slice().get(place) else { return Ok(false) };
        if let Err(why) = verifier.verify(from, &member.key.certificate, &statement, &signature) {
            return Err(PartyError::misbehaved(from, format!("participants: {why}")));
        }
        signatures.insert(place, signature);
        let all = signatures.len() == included.as_slice().len();
        if all {
            let signatures = std::mem::take(signatures).into_values().collect();
            self.stage = Stage::Revealing(included.clone(), signatures, BTreeMap::new());
        }
        Ok(all)
    }

    /// Takes the seeds of a participant; gives the sum once all are there.
    pub(crate) fn revealed(
        &mut self,
        group: &HostGroup,
        (from, place): (&PartyId, usize),
        seeds: Seeds,
    ) -> Result<Option<Summed>, PartyError> {
        let Stage::Revealing(included, _, revealed) = &mut self.stage else { return Ok(None) };
        if !included.places().any(|one| one == place) {
            return Ok(None);
        }
        let (members, there) = (group.len(), included.as_slice().len());
        let (found, expected) = (seeds.dropped().len(), members - there);
        if found != expected {
            let what = format!("seeds of masks: found {found}, expected {expected}");
            return Err(PartyError::misbehaved(from, what));
        }
        revealed.insert(place, seeds);
        if revealed.len() < there {
            return Ok(None);
        }
        let reveals: BTreeMap<usize, Reveal> =
            revealed.iter().map(|(place, seeds)| (*place, reveal(seeds))).collect();
        let contributions: Vec<Contribution<'_>> = reveals
            .iter()
            .filter_map(|(place, reveal)| {
                let masked = self.masked.get(place)?.as_slice();
                Some(Contribution { place: *place, masked, reveal })
            })
            .collect();
        let words = unmask(members, &contributions);
        let words = words.map_err(|error| PartyError::Sums(error.to_string()))?;
        let names: Vec<&PartyId> = group.names().collect();
        let participants = included.places().filter_map(|place| names.get(place).copied().cloned());
        Ok(Some(Summed { participants: participants.collect(), words }))
    }

    /// What a member is asked for, if anything.
    pub(crate) fn question(&self, group: &HostGroup, place: usize) -> Option<FromSumHost> {
        let (id, block) = (group.id(), self.block);
        match &self.stage {
            Stage::Masking => {
                (!self.has_masked(place)).then_some(FromSumHost::Request { group: id, block })
            }
            Stage::Agreeing(included, signatures) => {
                let asked =
                    included.places().any(|one| one == place) && !signatures.contains_key(&place);
                let included = included.clone();
                asked.then_some(FromSumHost::Participants { group: id, block, included })
            }
            Stage::Revealing(included, signatures, seeds) => {
                let asked =
                    included.places().any(|one| one == place) && !seeds.contains_key(&place);
                let signatures = signatures.clone();
                asked.then_some(FromSumHost::Signatures { group: id, block, signatures })
            }
        }
    }

    /// The participants, once they are settled.
    pub(crate) fn participants<'a>(
        &'a self,
        group: &'a HostGroup,
    ) -> Option<impl Iterator<Item = &'a PartyId>> {
        match &self.stage {
            Stage::Masking => None,
            Stage::Agreeing(included, _) | Stage::Revealing(included, ..) => {
                let names: Vec<&PartyId> = group.names().collect();
                Some(included.places().filter_map(move |place| names.get(place).copied()))
            }
        }
    }
}

fn reveal(seeds: &Seeds) -> Reveal {
    let dropped = seeds.dropped().iter().map(|seed| Seed::from_bytes(*seed)).collect();
    Reveal { own: Seed::from_bytes(*seeds.own()), dropped }
}
