//! Sealed parts as bytes.

use super::decode::{at_most, of_exchange as read_exchange, unknown};
use super::encode::of_exchange;
use super::generated as wire;
use super::generated::to_host::Message;
use super::numbers::{read_words, words};
use super::{WireError, committed};
use crate::message::parts::MAX_STEPS;
use crate::message::sealed::{
    BlockWeights, Fingerprint, Lacking, LoanEntries, MOST_LOAN_ENTRIES, Scheme, Sealed, Sealing,
};
use crate::message::{ToGuest, ToHost};
use crate::party::PartyId;

/// One of the messages that bring sealed measurements; nothing for any other.
pub(super) fn to_host(message: &ToHost) -> wire::ToHost {
    let message = match message {
        ToHost::Opening { exchange, opening } => Some(Message::Opening(wire::Opening {
            exchange: Some(of_exchange(exchange)),
            opening: opening.as_slice().to_vec().into(),
        })),
        ToHost::Upload { exchange, place, weights, upload } => {
            Some(Message::Upload(wire::Upload {
                exchange: Some(of_exchange(exchange)),
                place: *place,
                weights: words(weights.as_slice()),
                upload: upload.as_slice().to_vec().into(),
            }))
        }
        ToHost::Products { exchange, size: [rows, values], answer } => {
            Some(Message::Products(wire::Products {
                exchange: Some(of_exchange(exchange)),
                rows: *rows,
                values: *values,
                answer: answer.as_slice().to_vec().into(),
            }))
        }
        ToHost::Relay { exchange, to, key, size: [rows, values], relay } => {
            Some(Message::Relay(wire::Relay {
                exchange: Some(of_exchange(exchange)),
                to: to.as_str().into(),
                key: key.as_slice().to_vec().into(),
                rows: *rows,
                values: *values,
                relay: relay.as_slice().to_vec().into(),
            }))
        }
        _ => None,
    };
    wire::ToHost { message }
}

pub(super) fn opening(message: wire::Opening) -> Result<ToHost, WireError> {
    let exchange = read_exchange(message.exchange)?;
    Ok(ToHost::Opening { exchange, opening: Sealed::new(message.opening.into())? })
}

pub(super) fn upload(message: wire::Upload) -> Result<ToHost, WireError> {
    Ok(ToHost::Upload {
        exchange: read_exchange(message.exchange)?,
        place: message.place,
        weights: BlockWeights::new(read_words(&message.weights)?)?,
        upload: Sealed::new(message.upload.into())?,
    })
}

pub(super) fn products(message: wire::Products) -> Result<ToHost, WireError> {
    Ok(ToHost::Products {
        exchange: read_exchange(message.exchange)?,
        size: [message.rows, message.values],
        answer: Sealed::new(message.answer.into())?,
    })
}

pub(super) fn relay(message: wire::Relay) -> Result<ToHost, WireError> {
    Ok(ToHost::Relay {
        exchange: read_exchange(message.exchange)?,
        to: PartyId::new(&message.to)?,
        key: Fingerprint::new(&message.key)?,
        size: [message.rows, message.values],
        relay: Sealed::new(message.relay.into())?,
    })
}

pub(super) fn loan(message: wire::Loan) -> Result<ToGuest, WireError> {
    at_most("entries of a loan", message.entries.len(), MOST_LOAN_ENTRIES, "entries")?;
    Ok(ToGuest::Loan {
        exchange: read_exchange(message.exchange)?,
        to: PartyId::new(&message.to)?,
        key: message.key.map(|key| Sealed::new(key.into())).transpose()?,
        entries: LoanEntries::new(message.entries)?,
        loan: Sealed::new(message.loan.into())?,
    })
}

pub(super) fn question(message: wire::Question) -> Result<ToGuest, WireError> {
    let exchange = read_exchange(message.exchange)?;
    Ok(ToGuest::Question { exchange, question: Sealed::new(message.question.into())? })
}

pub(super) fn grant(message: wire::Grant) -> Result<ToGuest, WireError> {
    let exchange = read_exchange(message.exchange)?;
    Ok(ToGuest::Grant { exchange, grant: Sealed::new(message.grant.into())? })
}

pub(super) fn lacking(lacking: &Lacking) -> wire::Lacking {
    wire::Lacking { opening: lacking.opening, blocks: lacking.blocks.clone() }
}

pub(super) fn read_lacking(lacking: wire::Lacking, samples: usize) -> Result<Lacking, WireError> {
    at_most("blocks to be uploaded", lacking.blocks.len(), MAX_STEPS, "blocks")?;
    let lacking = Lacking { opening: lacking.opening, blocks: lacking.blocks };
    lacking.check(samples)?;
    Ok(lacking)
}

pub(super) fn sealing(sealing: &Sealing) -> wire::Sealing {
    let scheme = match sealing.scheme {
        Scheme::Lattice => wire::Scheme::Lattice,
        Scheme::Plain => wire::Scheme::Plain,
    };
    let commitments = sealing.commitments.as_ref().map(committed::committing);
    wire::Sealing { scheme: scheme as i32, most_rows: sealing.most_rows, commitments }
}

pub(super) fn read_sealing(sealing: wire::Sealing) -> Result<Sealing, WireError> {
    let scheme = match wire::Scheme::try_from(sealing.scheme) {
        Ok(wire::Scheme::Lattice) => Scheme::Lattice,
        Ok(wire::Scheme::Plain) => Scheme::Plain,
        _ => return Err(unknown("scheme of products", sealing.scheme)),
    };
    let commitments = sealing.commitments.map(committed::read_committing).transpose()?;
    Ok(Sealing { scheme, most_rows: sealing.most_rows, commitments })
}
