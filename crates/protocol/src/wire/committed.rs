//! Commitments and what is opened of them, as bytes.

use super::WireError;
use super::decode::{at_most, of_exchange as read_exchange, samples as read_samples, unknown};
use super::encode::{of_exchange, samples};
use super::generated as wire;
use super::generated::{to_guest, to_host};
use crate::message::committed::{
    Bounds, CheckWeights, CommitmentGroup, CommitmentOpenings, CommitmentReply, CommitmentRequest,
    CommitmentTerms, Digest, MOST_CHECKS, MOST_GROUPS, ProvenCommitments,
};

pub(super) fn from_guest(message: &CommitmentReply) -> to_host::Message {
    use to_host::Message;
    match message {
        CommitmentReply::Commitments { exchange, after, digest, values, proven } => {
            let groups = proven.groups().iter().map(|group| wire::CommitmentGroup {
                commitments: group.commitments.clone().into(),
                proof: group.proof.clone().into(),
            });
            Message::Commitments(wire::Commitments {
                exchange: Some(of_exchange(exchange)),
                after: after.as_slice().to_vec().into(),
                digest: digest.as_slice().to_vec().into(),
                values: *values,
                groups: groups.collect(),
            })
        }
        CommitmentReply::Response { exchange, challenge, size: [rows, values], openings } => {
            Message::CommitmentOpenings(wire::CommitmentOpenings {
                exchange: Some(of_exchange(exchange)),
                challenge: challenge.as_slice().to_vec().into(),
                rows: *rows,
                values: *values,
                openings: openings.rows().iter().map(|opening| opening.clone().into()).collect(),
            })
        }
    }
}

pub(super) fn from_host(message: &CommitmentRequest) -> to_guest::Message {
    use to_guest::Message;
    match message {
        CommitmentRequest::Samples { exchange, after, batch } => {
            let (first, offset, view) = samples(batch);
            let (exchange, after) = (Some(of_exchange(exchange)), after.as_slice().to_vec().into());
            Message::CommitmentRequest(wire::CommitmentRequest {
                exchange,
                after,
                first,
                offset,
                view,
            })
        }
        CommitmentRequest::Accepted { exchange, digest } => {
            Message::CommitmentsAccepted(wire::CommitmentsAccepted {
                exchange: Some(of_exchange(exchange)),
                digest: digest.as_slice().to_vec().into(),
            })
        }
        CommitmentRequest::Challenge { exchange, query, weights } => {
            Message::Challenge(wire::Challenge {
                exchange: Some(of_exchange(exchange)),
                query: query.as_slice().to_vec().into(),
                weights: weights.to_bytes().into(),
            })
        }
    }
}

pub(super) fn commitments(message: wire::Commitments) -> Result<CommitmentReply, WireError> {
    at_most("groups of commitments", message.groups.len(), MOST_GROUPS, "groups")?;
    let groups = message.groups.into_iter();
    let groups = groups.map(|group| CommitmentGroup {
        commitments: group.commitments.into(),
        proof: group.proof.into(),
    });
    Ok(CommitmentReply::Commitments {
        exchange: read_exchange(message.exchange)?,
        after: Digest::new(&message.after)?,
        digest: Digest::new(&message.digest)?,
        values: message.values,
        proven: ProvenCommitments::new(groups.collect())?,
    })
}

pub(super) fn response(message: wire::CommitmentOpenings) -> Result<CommitmentReply, WireError> {
    at_most("opened rows", message.openings.len(), MOST_CHECKS as usize, "rows")?;
    Ok(CommitmentReply::Response {
        exchange: read_exchange(message.exchange)?,
        challenge: Digest::new(&message.challenge)?,
        size: [message.rows, message.values],
        openings: CommitmentOpenings::new(message.openings.into_iter().map(Into::into).collect())?,
    })
}

pub(super) fn commit(message: wire::CommitmentRequest) -> Result<CommitmentRequest, WireError> {
    Ok(CommitmentRequest::Samples {
        exchange: read_exchange(message.exchange)?,
        after: Digest::new(&message.after)?,
        batch: read_samples(message.first, &message.offset, &message.view)?,
    })
}

pub(super) fn accepted(message: wire::CommitmentsAccepted) -> Result<CommitmentRequest, WireError> {
    let exchange = read_exchange(message.exchange)?;
    Ok(CommitmentRequest::Accepted { exchange, digest: Digest::new(&message.digest)? })
}

pub(super) fn challenge(message: wire::Challenge) -> Result<CommitmentRequest, WireError> {
    Ok(CommitmentRequest::Challenge {
        exchange: read_exchange(message.exchange)?,
        query: Digest::new(&message.query)?,
        weights: CheckWeights::from_bytes(&message.weights)?,
    })
}

pub(super) fn terms(committing: &CommitmentTerms) -> wire::CommitmentTerms {
    let bounds = match committing.bounds {
        Bounds::Physical => wire::Bounds::Physical,
        Bounds::Noised => wire::Bounds::Noised,
    };
    wire::CommitmentTerms { bounds: bounds as i32, checks: committing.checks }
}

pub(super) fn read_terms(committing: wire::CommitmentTerms) -> Result<CommitmentTerms, WireError> {
    let bounds = match wire::Bounds::try_from(committing.bounds) {
        Ok(wire::Bounds::Physical) => Bounds::Physical,
        Ok(wire::Bounds::Noised) => Bounds::Noised,
        _ => return Err(unknown("bounds of committed values", committing.bounds)),
    };
    Ok(CommitmentTerms { bounds, checks: committing.checks })
}

#[cfg(test)]
mod tests;
