//! Commitments and what is opened of them, as bytes.

use super::WireError;
use super::decode::{at_most, of_exchange as read_exchange, samples as read_samples, unknown};
use super::encode::{of_exchange, samples};
use super::generated as wire;
use super::generated::{to_guest, to_host};
use crate::message::committed::{
    Bounds, CheckWeights, Committing, Digest, Group, Hold, MOST_CHECKS, MOST_GROUPS, Openings,
    Pledge, Proven,
};

pub(super) fn from_guest(message: &Pledge) -> to_host::Message {
    use to_host::Message;
    match message {
        Pledge::Commitments { exchange, after, digest, values, proven } => {
            let groups = proven.groups().iter().map(|group| wire::Group {
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
        Pledge::Response { exchange, challenge, size: [rows, values], openings } => {
            Message::Response(wire::Response {
                exchange: Some(of_exchange(exchange)),
                challenge: challenge.as_slice().to_vec().into(),
                rows: *rows,
                values: *values,
                openings: openings.rows().iter().map(|opening| opening.clone().into()).collect(),
            })
        }
    }
}

pub(super) fn from_host(message: &Hold) -> to_guest::Message {
    use to_guest::Message;
    match message {
        Hold::Commit { exchange, after, batch } => {
            let (first, offset, view) = samples(batch);
            let (exchange, after) = (Some(of_exchange(exchange)), after.as_slice().to_vec().into());
            Message::Commit(wire::Commit { exchange, after, first, offset, view })
        }
        Hold::Accepted { exchange, digest } => Message::Accepted(wire::Accepted {
            exchange: Some(of_exchange(exchange)),
            digest: digest.as_slice().to_vec().into(),
        }),
        Hold::Challenge { exchange, question, weights } => Message::Challenge(wire::Challenge {
            exchange: Some(of_exchange(exchange)),
            question: question.as_slice().to_vec().into(),
            weights: weights.to_bytes().into(),
        }),
    }
}

pub(super) fn commitments(message: wire::Commitments) -> Result<Pledge, WireError> {
    at_most("groups of commitments", message.groups.len(), MOST_GROUPS, "groups")?;
    let groups = message.groups.into_iter();
    let groups = groups
        .map(|group| Group { commitments: group.commitments.into(), proof: group.proof.into() });
    Ok(Pledge::Commitments {
        exchange: read_exchange(message.exchange)?,
        after: Digest::new(&message.after)?,
        digest: Digest::new(&message.digest)?,
        values: message.values,
        proven: Proven::new(groups.collect())?,
    })
}

pub(super) fn response(message: wire::Response) -> Result<Pledge, WireError> {
    at_most("opened rows", message.openings.len(), MOST_CHECKS as usize, "rows")?;
    Ok(Pledge::Response {
        exchange: read_exchange(message.exchange)?,
        challenge: Digest::new(&message.challenge)?,
        size: [message.rows, message.values],
        openings: Openings::new(message.openings.into_iter().map(Into::into).collect())?,
    })
}

pub(super) fn commit(message: wire::Commit) -> Result<Hold, WireError> {
    Ok(Hold::Commit {
        exchange: read_exchange(message.exchange)?,
        after: Digest::new(&message.after)?,
        batch: read_samples(message.first, &message.offset, &message.view)?,
    })
}

pub(super) fn accepted(message: wire::Accepted) -> Result<Hold, WireError> {
    let exchange = read_exchange(message.exchange)?;
    Ok(Hold::Accepted { exchange, digest: Digest::new(&message.digest)? })
}

pub(super) fn challenge(message: wire::Challenge) -> Result<Hold, WireError> {
    Ok(Hold::Challenge {
        exchange: read_exchange(message.exchange)?,
        question: Digest::new(&message.question)?,
        weights: CheckWeights::from_bytes(&message.weights)?,
    })
}

pub(super) fn committing(committing: &Committing) -> wire::Committing {
    let bounds = match committing.bounds {
        Bounds::Physical => wire::Bounds::Physical,
        Bounds::Noised => wire::Bounds::Noised,
    };
    wire::Committing { bounds: bounds as i32, checks: committing.checks }
}

pub(super) fn read_committing(committing: wire::Committing) -> Result<Committing, WireError> {
    let bounds = match wire::Bounds::try_from(committing.bounds) {
        Ok(wire::Bounds::Physical) => Bounds::Physical,
        Ok(wire::Bounds::Noised) => Bounds::Noised,
        _ => return Err(unknown("bounds of committed values", committing.bounds)),
    };
    Ok(Committing { bounds, checks: committing.checks })
}

#[cfg(test)]
mod tests;
