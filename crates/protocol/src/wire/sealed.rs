//! Sealed parts as bytes.

use super::decode::{at_most, of_exchange as read_exchange, unknown};
use super::encode::of_exchange;
use super::generated as wire;
use super::generated::to_host::Message;
use super::numbers::{read_words, words};
use super::{WireError, committed};
use crate::message::parts::MAX_STEPS;
use crate::message::sealed::{
    BlockWeights, CoefficientEntries, Fingerprint, MAX_COEFFICIENT_ENTRIES, MAX_GRADIENT_PARTS,
    MissingCiphertexts, Scheme, Sealed, Sealing,
};
use crate::message::{ToGuest, ToHost};
use crate::party::PartyId;

/// One of the messages that bring sealed measurements; nothing for any other.
pub(super) fn to_host(message: &ToHost) -> wire::ToHost {
    let message = match message {
        ToHost::PublicKey { exchange, key } => Some(Message::PublicKey(wire::PublicKey {
            exchange: Some(of_exchange(exchange)),
            key: key.as_slice().to_vec().into(),
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
        ToHost::MaskedProducts { exchange, recipient, key, size: [rows, values], products } => {
            Some(Message::MaskedProducts(wire::MaskedProducts {
                exchange: Some(of_exchange(exchange)),
                recipient: recipient.as_str().into(),
                key: key.as_slice().to_vec().into(),
                rows: *rows,
                values: *values,
                products: products.as_slice().to_vec().into(),
            }))
        }
        _ => None,
    };
    wire::ToHost { message }
}

pub(super) fn public_key(message: wire::PublicKey) -> Result<ToHost, WireError> {
    let exchange = read_exchange(message.exchange)?;
    Ok(ToHost::PublicKey { exchange, key: Sealed::new(message.key.into())? })
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

pub(super) fn masked_products(message: wire::MaskedProducts) -> Result<ToHost, WireError> {
    Ok(ToHost::MaskedProducts {
        exchange: read_exchange(message.exchange)?,
        recipient: PartyId::new(&message.recipient)?,
        key: Fingerprint::new(&message.key)?,
        size: [message.rows, message.values],
        products: Sealed::new(message.products.into())?,
    })
}

pub(super) fn encrypted_coefficients(
    message: wire::EncryptedCoefficients,
) -> Result<ToGuest, WireError> {
    at_most("entries of coefficients", message.entries.len(), MAX_COEFFICIENT_ENTRIES, "entries")?;
    Ok(ToGuest::EncryptedCoefficients {
        exchange: read_exchange(message.exchange)?,
        recipient: PartyId::new(&message.recipient)?,
        key: message.key.map(|key| Sealed::new(key.into())).transpose()?,
        entries: CoefficientEntries::new(message.entries)?.from_sample(message.first),
        coefficients: Sealed::new(message.coefficients.into())?,
    })
}

pub(super) fn query(message: wire::ProductQuery) -> Result<ToGuest, WireError> {
    let exchange = read_exchange(message.exchange)?;
    Ok(ToGuest::ProductQuery { exchange, query: Sealed::new(message.query.into())? })
}

pub(super) fn masked_gradient(message: wire::MaskedGradient) -> Result<ToGuest, WireError> {
    let exchange = read_exchange(message.exchange)?;
    at_most("parts of a masked gradient", message.gradient.len(), MAX_GRADIENT_PARTS, "parts")?;
    let gradient = message.gradient.into_iter().map(|part| Sealed::new(part.into()));
    Ok(ToGuest::MaskedGradient { exchange, gradient: gradient.collect::<Result<_, _>>()? })
}

pub(super) fn missing(missing: &MissingCiphertexts) -> wire::MissingCiphertexts {
    wire::MissingCiphertexts { public_key: missing.public_key, blocks: missing.blocks.clone() }
}

pub(super) fn read_missing(
    missing: wire::MissingCiphertexts,
    samples: usize,
) -> Result<MissingCiphertexts, WireError> {
    at_most("blocks to be uploaded", missing.blocks.len(), MAX_STEPS, "blocks")?;
    let missing = MissingCiphertexts { public_key: missing.public_key, blocks: missing.blocks };
    missing.check(samples)?;
    Ok(missing)
}

pub(super) fn sealing(sealing: &Sealing) -> wire::Sealing {
    let scheme = match sealing.scheme {
        Scheme::Lattice => wire::Scheme::Lattice,
        Scheme::Plain => wire::Scheme::Plain,
        Scheme::KeyAuthority => wire::Scheme::KeyAuthority,
    };
    let commitments = sealing.commitments.as_ref().map(committed::terms);
    wire::Sealing { scheme: scheme as i32, most_rows: sealing.most_rows, commitments }
}

pub(super) fn read_sealing(sealing: wire::Sealing) -> Result<Sealing, WireError> {
    let scheme = match wire::Scheme::try_from(sealing.scheme) {
        Ok(wire::Scheme::Lattice) => Scheme::Lattice,
        Ok(wire::Scheme::Plain) => Scheme::Plain,
        Ok(wire::Scheme::KeyAuthority) => Scheme::KeyAuthority,
        _ => return Err(unknown("scheme of products", sealing.scheme)),
    };
    let commitments = sealing.commitments.map(committed::read_terms).transpose()?;
    Ok(Sealing { scheme, most_rows: sealing.most_rows, commitments })
}
