//! A guest among the members of a group. It trusts neither the host nor what the host says of other guests.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ledger::SumRecords;
use protocol::message::parts::PartError;
use protocol::message::sums::{
    Block, FromSumGuest, Included, MaskedWords, Seeds, Signature, SignedKey, SumGroup, SumTerms,
};
use protocol::party::PartyId;
use sealed::aggregate::{MaskKey, Masks, PublicKey};

use super::credentials::{Credentials, Verifier};
use super::group::{context, key_statement, least_participants, participants_statement};
use crate::error::PartyError;
use crate::live::MAX_AHEAD;
use crate::session::handshake::check_terms;

/// Blocks of a group that are kept; older ones are forgotten. Live guests may be so many steps ahead of the host.
const MOST_OPEN: usize = MAX_AHEAD;
/// Groups that are kept: messages of an earlier one may still be on their way.
const MOST_GROUPS: usize = 16;

/// What a guest signs with, whom it trusts, and what it has agreed to.
pub(crate) struct MemberKey {
    pub party: PartyId,
    pub host: PartyId,
    pub session: u64,
    pub terms: SumTerms,
    pub credentials: Box<dyn Credentials>,
    pub verifier: Box<dyn Verifier>,
    /// The fewest participants of a sum.
    pub least: usize,
    pub records: SumRecords,
}

/// See the [module](self).
pub(crate) struct Member {
    own: MemberKey,
    mask_key: MaskKey,
    signed: SignedKey,
    /// The newest last.
    joined: Vec<Joined>,
}

/// What became of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joining {
    New,
    Known,
    /// It is of an earlier start of this guest.
    Stale,
}

struct Joined {
    group: Box<SumGroup>,
    place: usize,
    context: [u8; 32],
    masks: Masks,
    open: BTreeMap<Block, Agreement>,
}

/// What was said of a block.
enum Agreement {
    Masked,
    Signed(Included, Signature),
}

impl Member {
    /// Draws and signs a key.
    pub(crate) fn new(own: MemberKey) -> Result<Self, PartyError> {
        if own.least == 0 {
            let expected = "1 or more";
            let error = PartError::new("fewest participants of a sum", 0, expected);
            return Err(PartyError::misuse(error));
        }
        let mask_key = MaskKey::from_os().map_err(|error| PartyError::Sums(error.to_string()))?;
        let public = mask_key.public().0;
        let statement = key_statement(&own.party, own.session, &own.terms, &public);
        let signature = own.credentials.sign(&statement).map_err(PartyError::Sums)?;
        let certificate = own.credentials.certificate().clone();
        let signed = SignedKey { public, certificate, signature };
        Ok(Self { own, mask_key, signed, joined: Vec::new() })
    }

    /// Its key, for its hello.
    pub(crate) fn signed_key(&self) -> &SignedKey {
        &self.signed
    }

    /// The newest group, if it has joined one.
    pub(crate) fn group(&self) -> Option<&SumGroup> {
        self.joined.last().map(|joined| &*joined.group)
    }

    fn joined(&mut self, group: u64) -> Option<&mut Joined> {
        self.joined.iter_mut().rev().find(|joined| joined.group.group == group)
    }

    /// Joins a group, if its members are who they say they are.
    pub(crate) fn join(&mut self, group: Box<SumGroup>) -> Result<Joining, PartyError> {
        let context = context(&group);
        if self.joined.iter().any(|joined| joined.context == context) {
            return Ok(Joining::Known);
        }
        let own = &self.own;
        check_terms(&own.host, group.protocol, &group.plan.terms, &own.terms)?;
        let wrong = |what: String| Err(PartyError::misbehaved(&own.host, what));
        let members = group.members.as_slice();
        let Some(place) = members.iter().position(|member| member.party == own.party) else {
            return wrong(format!("group of a sum: found no `{}` in it, expected one", own.party));
        };
        if members[place].session != own.session {
            return Ok(Joining::Stale);
        }
        if members.len() < own.least {
            return Err(PartyError::TooFewParticipants { found: members.len(), least: own.least });
        }
        if members[place].key != self.signed {
            return wrong("group of a sum: found another key of ours, expected our own".to_owned());
        }
        for member in members.iter().filter(|member| member.party != own.party) {
            let key = &member.key;
            let terms = &group.plan.terms;
            let statement = key_statement(&member.party, member.session, terms, &key.public);
            let party = &member.party;
            if let Err(why) =
                own.verifier.verify(party, &key.certificate, &statement, &key.signature)
            {
                return wrong(format!("key of `{party}`: {why}"));
            }
        }
        let keys: Vec<_> = members
            .iter()
            .map(|member| (member.party.as_str(), PublicKey(member.key.public)))
            .collect();
        let masks = Masks::agree(&self.mask_key, place, &keys, &context);
        let masks = masks.map_err(|error| PartyError::Sums(error.to_string()))?;
        let open = BTreeMap::new();
        self.joined.push(Joined { group, place, context, masks, open });
        if self.joined.len() > MOST_GROUPS {
            self.joined.remove(0);
        }
        Ok(Joining::New)
    }

    /// Whether it has joined a group.
    pub(crate) fn is_in(&self, group: u64) -> bool {
        self.joined.iter().any(|joined| joined.group.group == group)
    }

    /// Masks the totals of a block. The same totals of the same steps each time: see [`sealed::aggregate`].
    pub(crate) fn mask(
        &mut self,
        group: u64,
        block: Block,
        mut words: Vec<u64>,
    ) -> Result<Option<FromSumGuest>, PartyError> {
        let Some(joined) = self.joined(group) else { return Ok(None) };
        let expected = block.count().saturating_mul(joined.group.plan.width as usize);
        if words.len() != expected {
            let error = PartError::new("numbers of a block", words.len(), expected);
            return Err(PartyError::misuse(error));
        }
        joined.masks.mask(&block.to_bytes(), &mut words);
        joined.open.entry(block).or_insert(Agreement::Masked);
        while joined.open.len() > MOST_OPEN {
            joined.open.pop_first();
        }
        let words = MaskedWords::new(words).map_err(PartyError::misuse)?;
        Ok(Some(FromSumGuest::Masked { group, block, words }))
    }

    /// Signs the participants of a block, and no others for these steps.
    pub(crate) fn agree(
        &mut self,
        group: u64,
        block: Block,
        included: Included,
    ) -> Result<Option<FromSumGuest>, PartyError> {
        let Self { own, joined, .. } = self;
        let joined = joined.iter_mut().rev().find(|joined| joined.group.group == group);
        let Some(joined) = joined else { return Ok(None) };
        let Some(agreement) = joined.open.get_mut(&block) else { return Ok(None) };
        if let Agreement::Signed(before, signature) = agreement {
            if *before != included {
                let what = format!(
                    "participants of steps {} to {}: found {:?}, expected {:?} as before",
                    block.first().0,
                    block.last().0,
                    included.as_slice(),
                    before.as_slice()
                );
                return Err(PartyError::misbehaved(&own.host, what));
            }
            return Ok(Some(FromSumGuest::Agreed { group, block, signature: signature.clone() }));
        }
        let members = joined.group.members.as_slice();
        let names: Option<BTreeSet<PartyId>> =
            included.places().map(|place| Some(members.get(place)?.party.clone())).collect();
        let Some(names) = names.filter(|names| names.contains(&own.party)) else {
            let what = format!(
                "participants: found {:?} of {} members, expected places among them with ours",
                included.as_slice(),
                members.len()
            );
            return Err(PartyError::misbehaved(&own.host, what));
        };
        let least = own.least.max(least_participants(members.len()));
        if names.len() < least {
            return Err(PartyError::TooFewParticipants { found: names.len(), least });
        }
        own.records.agree(block, &names)?;
        let statement = participants_statement(&joined.context, block, &included);
        let signature = own.credentials.sign(&statement).map_err(PartyError::Sums)?;
        *agreement = Agreement::Signed(included, signature.clone());
        Ok(Some(FromSumGuest::Agreed { group, block, signature }))
    }

    /// Reveals what takes the masks off a sum, once all participants have signed them.
    pub(crate) fn reveal(
        &self,
        group: u64,
        block: Block,
        signatures: &[Signature],
    ) -> Result<Option<FromSumGuest>, PartyError> {
        let own = &self.own;
        let joined = self.joined.iter().rev().find(|joined| joined.group.group == group);
        let Some(joined) = joined else { return Ok(None) };
        // Nothing is revealed of what it has not agreed to.
        let Some(Agreement::Signed(included, _)) = joined.open.get(&block) else { return Ok(None) };
        let expected = included.as_slice().len();
        if signatures.len() != expected {
            let what = format!("signatures: found {}, expected {expected}", signatures.len());
            return Err(PartyError::misbehaved(&own.host, what));
        }
        let statement = participants_statement(&joined.context, block, included);
        for (place, signature) in included.places().zip(signatures) {
            let Some(member) = joined.group.members.as_slice().get(place) else { continue };
            if place == joined.place {
                continue;
            }
            let (party, certificate) = (&member.party, &member.key.certificate);
            if let Err(why) = own.verifier.verify(party, certificate, &statement, signature) {
                let what = format!("participants signed by `{party}`: {why}");
                return Err(PartyError::misbehaved(&own.host, what));
            }
        }
        let survivors: Vec<usize> = included.places().collect();
        let reveal = joined.masks.reveal(&block.to_bytes(), &survivors);
        let dropped = reveal.dropped.iter().map(|seed| *seed.as_bytes()).collect();
        let seeds = Seeds::new(*reveal.own.as_bytes(), dropped).map_err(PartyError::misuse)?;
        Ok(Some(FromSumGuest::Seeds { group, block, seeds }))
    }
}
