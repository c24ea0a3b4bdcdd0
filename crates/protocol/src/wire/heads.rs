//! Heads of ledgers, to the definition and back.

use prost::bytes::Bytes;

use super::WireError;
use super::generated as wire;
use crate::message::heads::{Countersignature, HeadMessage, LedgerHead};
use crate::message::parts::PartError;
use crate::message::sums::{CertificateBytes, Signature};

pub(super) fn of_head(head: &LedgerHead) -> wire::LedgerHead {
    wire::LedgerHead { sequence: head.sequence, head: Bytes::copy_from_slice(&head.head) }
}

pub(super) fn of_countersigned(signed: &Countersignature) -> wire::Countersigned {
    wire::Countersigned {
        sequence: signed.head.sequence,
        head: Bytes::copy_from_slice(&signed.head.head),
        certificate: Bytes::copy_from_slice(signed.certificate.as_slice()),
        signature: Bytes::copy_from_slice(signed.signature.as_slice()),
    }
}

pub(super) fn head(message: &wire::LedgerHead) -> Result<HeadMessage, WireError> {
    Ok(HeadMessage::Head(checked(message.sequence, &message.head)?))
}

pub(super) fn countersigned(message: wire::Countersigned) -> Result<HeadMessage, WireError> {
    Ok(HeadMessage::Countersigned(Box::new(Countersignature {
        head: checked(message.sequence, &message.head)?,
        certificate: CertificateBytes::new(message.certificate.into())?,
        signature: Signature::new(message.signature.into())?,
    })))
}

fn checked(sequence: u64, head: &[u8]) -> Result<LedgerHead, WireError> {
    if sequence == 0 {
        return Err(PartError::new("lines of a ledger", 0, "1 or more").into());
    }
    let bytes = head.try_into();
    let head = bytes.map_err(|_| PartError::new("head of a ledger", head.len(), "32 bytes"))?;
    Ok(LedgerHead { sequence, head })
}
