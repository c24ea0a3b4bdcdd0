//! Messages of sums over guests, to the definition and back.

use prost::bytes::Bytes;
use traffic::Step;

use super::WireError;
use super::decode::{at_most, finite, required};
use super::generated as wire;
use super::generated::{to_guest, to_host};
use crate::message::measurements::MAX_FOLDS;
use crate::message::parts::{HeldSteps, MAX_RANGES, MAX_STEP, PartError, StepRange, Text};
use crate::message::sums::{
    Block, CertificateBytes, FromSumGuest, FromSumHost, Included, MAX_MEMBERS, MAX_ROW, MAX_WORDS,
    MaskedWords, Members, Seeds, Signature, SignedKey, SumGroup, SumHello, SumMember, SumPlan,
    SumTerms,
};
use crate::party::{PartyId, RunId};

pub(super) fn from_guest(message: &FromSumGuest) -> to_host::Message {
    match message {
        FromSumGuest::Hello(hello) => to_host::Message::SumHello(wire::SumHello {
            protocol: hello.protocol,
            software: hello.software.as_str().into(),
            party: hello.party.as_str().into(),
            session: hello.session,
            terms: Some(of_terms(&hello.terms)),
            held: hello.held.ranges().iter().map(of_range).collect(),
            folds: hello.folds.into(),
            key: Some(of_key(&hello.key)),
        }),
        FromSumGuest::Masked { group, block, words } => {
            let bytes = words.as_slice().iter().flat_map(|word| word.to_le_bytes());
            to_host::Message::MaskedTotals(wire::MaskedTotals {
                group: *group,
                block: Some(of_block(block)),
                words: bytes.collect::<Vec<u8>>().into(),
            })
        }
        FromSumGuest::Agreed { group, block, signature } => {
            to_host::Message::SumAgreed(wire::SumAgreed {
                group: *group,
                block: Some(of_block(block)),
                signature: bytes(signature.as_slice()),
            })
        }
        FromSumGuest::Seeds { group, block, seeds } => {
            to_host::Message::MaskSeeds(wire::MaskSeeds {
                group: *group,
                block: Some(of_block(block)),
                own: bytes(seeds.own()),
                dropped: seeds.dropped().iter().map(|seed| bytes(seed)).collect(),
            })
        }
    }
}

pub(super) fn from_host(message: &FromSumHost) -> to_guest::Message {
    match message {
        FromSumHost::Group(group) => to_guest::Message::SumGroup(wire::SumGroup {
            protocol: group.protocol,
            software: group.software.as_str().into(),
            run: group.run.0,
            group: group.group,
            plan: Some(wire::SumPlan {
                terms: Some(of_terms(&group.plan.terms)),
                folds: group.plan.folds.into(),
                cells: group.plan.cells,
                movements: group.plan.movements,
                queues: group.plan.queues,
                width: group.plan.width,
                training: Some(of_range(&group.plan.training)),
            }),
            members: group
                .members
                .as_slice()
                .iter()
                .map(|member| wire::SumMember {
                    party: member.party.as_str().into(),
                    session: member.session,
                    key: Some(of_key(&member.key)),
                })
                .collect(),
        }),
        FromSumHost::Request { group, block } => {
            let block = Some(of_block(block));
            to_guest::Message::TotalsRequest(wire::TotalsRequest { group: *group, block })
        }
        FromSumHost::Participants { group, block, included } => {
            to_guest::Message::SumParticipants(wire::SumParticipants {
                group: *group,
                block: Some(of_block(block)),
                included: included.as_slice().to_vec(),
            })
        }
        FromSumHost::Signatures { group, block, signatures } => {
            to_guest::Message::SumSignatures(wire::SumSignatures {
                group: *group,
                block: Some(of_block(block)),
                signatures: signatures.iter().map(|one| bytes(one.as_slice())).collect(),
            })
        }
        FromSumHost::Finish { run } => to_guest::Message::SumFinish(wire::SumFinish { run: run.0 }),
    }
}

pub(super) fn hello(hello: wire::SumHello) -> Result<FromSumGuest, WireError> {
    at_most("steps held", hello.held.len(), MAX_RANGES, "ranges")?;
    Ok(FromSumGuest::Hello(Box::new(SumHello {
        protocol: hello.protocol,
        software: Text::parse(hello.software)?,
        party: PartyId::new(&hello.party)?,
        session: hello.session,
        terms: terms(hello.terms)?,
        held: HeldSteps::new(hello.held.iter().map(range).collect())?,
        folds: folds(hello.folds)?,
        key: key(hello.key)?,
    })))
}

pub(super) fn masked(message: wire::MaskedTotals) -> Result<FromSumGuest, WireError> {
    let words = match message.words.as_chunks::<8>() {
        (words, []) if words.len() <= MAX_WORDS => words,
        _ => {
            let expected = format!("a multiple of 8, at most {}", 8 * MAX_WORDS);
            let found = message.words.len();
            return Err(PartError::new("bytes of masked totals", found, expected).into());
        }
    };
    Ok(FromSumGuest::Masked {
        group: message.group,
        block: block(message.block)?,
        words: MaskedWords::new(words.iter().map(|word| u64::from_le_bytes(*word)).collect())?,
    })
}

pub(super) fn agreed(message: wire::SumAgreed) -> Result<FromSumGuest, WireError> {
    let signature = Signature::new(message.signature.into())?;
    Ok(FromSumGuest::Agreed { group: message.group, block: block(message.block)?, signature })
}

pub(super) fn seeds(message: wire::MaskSeeds) -> Result<FromSumGuest, WireError> {
    at_most("seeds of masks", message.dropped.len(), MAX_MEMBERS, "seeds")?;
    let dropped = message.dropped.iter().map(|seed| bytes_32("seed of a mask", seed));
    let seeds = Seeds::new(
        bytes_32("seed of a mask", &message.own)?,
        dropped.collect::<Result<_, WireError>>()?,
    )?;
    Ok(FromSumGuest::Seeds { group: message.group, block: block(message.block)?, seeds })
}

pub(super) fn group(message: wire::SumGroup) -> Result<FromSumHost, WireError> {
    at_most("members of a sum", message.members.len(), MAX_MEMBERS, "members")?;
    let plan = required("plan", message.plan)?;
    if !(1..=MAX_ROW as u32).contains(&plan.width) {
        let expected = format!("1 to {MAX_ROW}");
        return Err(PartError::new("numbers of a row", plan.width, expected).into());
    }
    let training = range(&required("training", plan.training)?);
    let bounds = -MAX_STEP..=MAX_STEP;
    if !(bounds.contains(&training.first) && bounds.contains(&training.last)) {
        let found = format!("{} to {}", training.first, training.last);
        let expected = format!("steps within ±{MAX_STEP}");
        return Err(PartError::new("training part", found, expected).into());
    }
    let members = message.members.into_iter().map(|member| {
        Ok(SumMember {
            party: PartyId::new(&member.party)?,
            session: member.session,
            key: key(member.key)?,
        })
    });
    Ok(FromSumHost::Group(Box::new(SumGroup {
        protocol: message.protocol,
        software: Text::parse(message.software)?,
        run: RunId(message.run),
        group: message.group,
        members: Members::new(members.collect::<Result<_, WireError>>()?)?,
        plan: SumPlan {
            terms: terms(plan.terms)?,
            folds: folds(plan.folds)?,
            cells: plan.cells,
            movements: plan.movements,
            queues: plan.queues,
            width: plan.width,
            training,
        },
    })))
}

pub(super) fn request(message: wire::TotalsRequest) -> Result<FromSumHost, WireError> {
    Ok(FromSumHost::Request { group: message.group, block: block(message.block)? })
}

pub(super) fn participants(message: wire::SumParticipants) -> Result<FromSumHost, WireError> {
    at_most("participants of a sum", message.included.len(), MAX_MEMBERS, "places")?;
    Ok(FromSumHost::Participants {
        group: message.group,
        block: block(message.block)?,
        included: Included::new(message.included)?,
    })
}

pub(super) fn signatures(message: wire::SumSignatures) -> Result<FromSumHost, WireError> {
    at_most("signatures", message.signatures.len(), MAX_MEMBERS, "signatures")?;
    let signatures = message.signatures.into_iter().map(|bytes| Signature::new(bytes.into()));
    Ok(FromSumHost::Signatures {
        group: message.group,
        block: block(message.block)?,
        signatures: signatures.collect::<Result<_, PartError>>()?,
    })
}

fn bytes(slice: &[u8]) -> Bytes {
    Bytes::copy_from_slice(slice)
}

fn bytes_32(field: &'static str, bytes: &[u8]) -> Result<[u8; 32], WireError> {
    bytes.try_into().map_err(|_| PartError::new(field, bytes.len(), "32 bytes").into())
}

fn of_key(key: &SignedKey) -> wire::SignedKey {
    wire::SignedKey {
        public: bytes(&key.public),
        certificate: bytes(key.certificate.as_slice()),
        signature: bytes(key.signature.as_slice()),
    }
}

fn key(key: Option<wire::SignedKey>) -> Result<SignedKey, WireError> {
    let key = required("key", key)?;
    Ok(SignedKey {
        public: bytes_32("public key", &key.public)?,
        certificate: CertificateBytes::new(key.certificate.into())?,
        signature: Signature::new(key.signature.into())?,
    })
}

fn of_terms(terms: &SumTerms) -> wire::SumTerms {
    wire::SumTerms {
        network_hash: terms.network_hash.as_str().into(),
        step_s: terms.step_s,
        run: terms.run.map(|run| run.0),
    }
}

fn terms(terms: Option<wire::SumTerms>) -> Result<SumTerms, WireError> {
    let terms = required("terms", terms)?;
    Ok(SumTerms {
        network_hash: Text::parse(terms.network_hash)?,
        step_s: finite("length of a step", terms.step_s)?,
        run: terms.run.map(RunId),
    })
}

fn folds(found: u32) -> Result<u16, WireError> {
    let folds = u16::try_from(found).ok().filter(|folds| (1..=MAX_FOLDS).contains(folds));
    folds.ok_or_else(|| PartError::new("folds", found, format!("1 to {MAX_FOLDS}")).into())
}

fn of_range(range: &StepRange) -> wire::StepRange {
    wire::StepRange { first: range.first, last: range.last }
}

fn range(range: &wire::StepRange) -> StepRange {
    StepRange { first: range.first, last: range.last }
}

fn of_block(block: &Block) -> wire::StepRange {
    wire::StepRange { first: block.first().0, last: block.last().0 }
}

fn block(block: Option<wire::StepRange>) -> Result<Block, WireError> {
    let range = required("block", block)?;
    Ok(Block::new(Step(range.first), Step(range.last))?)
}

#[cfg(test)]
mod tests;
