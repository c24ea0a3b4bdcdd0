//! From our messages to those of the definition.

use super::generated as wire;
use super::generated::{leave, to_guest, to_host, welcome};
use super::{committed, heads, live, measured, numbers, sealed, sums};
use crate::compression::Compression;
use crate::message::heads::HeadMessage;
use crate::message::parts::Batch;
use crate::message::{
    Departure, Exchange, Hello, MissedRounds, Purpose, Resume, ResumeState, StopCode, Terms,
    ToGuest, ToHost, Welcome,
};
use crate::party::Round;
use crate::plan::{HostUpdates, LocalVariant, Plan};

pub(crate) fn to_host(message: &ToHost) -> wire::ToHost {
    use to_host::Message;
    let message = match message {
        ToHost::Hello(message) => Message::Hello(hello(message)),
        ToHost::Embedding { exchange, purpose, embedding } => Message::Embedding(wire::Embedding {
            exchange: Some(of_exchange(exchange)),
            purpose: of_purpose(*purpose) as i32,
            numbers: Some(numbers::encode(&embedding.0)),
        }),
        ToHost::Measurements { exchange, purpose, measurements } => {
            Message::Measurements(wire::Measurements {
                exchange: Some(of_exchange(exchange)),
                purpose: of_purpose(*purpose) as i32,
                entries: measurements.entries() as u32,
                values: numbers::words(measurements.values()),
                weights: numbers::words(measurements.weights()),
            })
        }
        ToHost::PublicKey { .. }
        | ToHost::Upload { .. }
        | ToHost::Products { .. }
        | ToHost::MaskedProducts { .. } => {
            return sealed::to_host(message);
        }
        ToHost::Commitment(message) => committed::from_guest(message),
        ToHost::Live(message) => live::from_guest(message),
        ToHost::Sum(message) => sums::from_guest(message),
        ToHost::Ledger(HeadMessage::Head(head)) => Message::LedgerHead(heads::of_head(head)),
        ToHost::Ledger(HeadMessage::Countersigned(signed)) => {
            Message::Countersigned(heads::of_countersigned(signed))
        }
        ToHost::Heartbeat => Message::Heartbeat(wire::Heartbeat {}),
        ToHost::Checkpointed { exchange } => {
            Message::Checkpointed(wire::Checkpointed { exchange: Some(of_exchange(exchange)) })
        }
        ToHost::Leave { session, departure } => Message::Leave(wire::Leave {
            session: *session,
            departure: Some(match departure {
                Departure::Finished => leave::Departure::Finished(leave::Finished {}),
                Departure::Stopped => leave::Departure::Stopped(leave::Stopped {}),
                Departure::Failed(reason) => leave::Departure::Failed(leave::Failed {
                    reason: reason.text.as_str().into(),
                    code: of_code(reason.code) as i32,
                }),
            }),
        }),
    };
    wire::ToHost { message: Some(message) }
}

pub(crate) fn to_guest(message: &ToGuest) -> wire::ToGuest {
    use to_guest::Message;
    let message = match message {
        ToGuest::HelloRequest => Message::HelloRequest(wire::HelloRequest {}),
        ToGuest::Welcome(message) => Message::Welcome(welcome(message)),
        ToGuest::EmbeddingRequest { exchange, purpose, batch, missing, checkpoint } => {
            Message::EmbeddingRequest(wire::EmbeddingRequest {
                missing: missing.as_ref().map(sealed::missing),
                checkpoint: *checkpoint,
                ..embedding_request(exchange, *purpose, batch)
            })
        }
        ToGuest::ProductQuery { exchange, query } => Message::ProductQuery(wire::ProductQuery {
            exchange: Some(of_exchange(exchange)),
            query: query.as_slice().to_vec().into(),
        }),
        ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients } => {
            Message::EncryptedCoefficients(wire::EncryptedCoefficients {
                exchange: Some(of_exchange(exchange)),
                recipient: recipient.as_str().into(),
                key: key.as_ref().map(|key| key.as_slice().to_vec().into()),
                entries: entries.as_slice().to_vec(),
                first: entries.first() as u32,
                coefficients: coefficients.as_slice().to_vec().into(),
            })
        }
        ToGuest::MaskedGradient { exchange, gradient } => {
            Message::MaskedGradient(wire::MaskedGradient {
                exchange: Some(of_exchange(exchange)),
                gradient: gradient.iter().map(|part| part.as_slice().to_vec().into()).collect(),
            })
        }
        ToGuest::Gradient { exchange, gradient } => Message::Gradient(wire::Gradient {
            exchange: Some(of_exchange(exchange)),
            numbers: Some(numbers::encode(&gradient.0)),
        }),
        ToGuest::ExchangeClosed { exchange, best, trained } => {
            Message::ExchangeClosed(wire::ExchangeClosed {
                exchange: Some(of_exchange(exchange)),
                best: *best,
                trained: *trained,
            })
        }
        ToGuest::Finish { run, attempt, summary } => Message::Finish(wire::Finish {
            run: run.0,
            attempt: attempt.0,
            rounds: summary.rounds.0,
            epochs: summary.epochs,
            best_epoch: summary.best_epoch,
            validation: summary.validation,
        }),
        ToGuest::Refuse { session, reason } => Message::Refuse(wire::Refuse {
            reason: reason.text.as_str().into(),
            session: *session,
            code: of_code(reason.code) as i32,
        }),
        ToGuest::Commitment(message) => committed::from_host(message),
        ToGuest::Live(message) => live::from_host(message),
        ToGuest::Sum(message) => sums::from_host(message),
        ToGuest::Ledger(HeadMessage::Head(head)) => Message::LedgerHead(heads::of_head(head)),
        ToGuest::Ledger(HeadMessage::Countersigned(signed)) => {
            Message::Countersigned(heads::of_countersigned(signed))
        }
        ToGuest::Heartbeat => Message::Heartbeat(wire::Heartbeat {}),
    };
    wire::ToGuest { message: Some(message) }
}

fn hello(hello: &Hello) -> wire::Hello {
    let held = hello.held.ranges().iter();
    wire::Hello {
        protocol: hello.protocol,
        software: hello.software.as_str().into(),
        party: hello.party.as_str().into(),
        session: hello.session,
        greeting: hello.greeting,
        terms: Some(terms(&hello.terms)),
        held: held.map(|range| wire::StepRange { first: range.first, last: range.last }).collect(),
        width: hello.width,
        measurements: measured::layouts(&hello.offer.layout),
        folds: hello.offer.folds.into(),
        passages: hello.offer.passages,
        turned: hello.offer.movements.turned.clone(),
        left: hello.offer.movements.left.clone(),
        free_metres: hello.offer.movements.free_metres.clone(),
        free_seconds: hello.offer.movements.free_seconds.clone(),
        queued_metres: hello.offer.movements.queued_metres.clone(),
        queued_steps: hello.offer.movements.queued_steps.clone(),
        stated_share: hello.offer.stated,
        resume_state: Some(resume_state(&hello.resume_state)),
    }
}

fn welcome(welcome: &Welcome) -> wire::Welcome {
    wire::Welcome {
        protocol: welcome.protocol,
        software: welcome.software.as_str().into(),
        session: welcome.session,
        run: welcome.run.0,
        attempt: welcome.attempt.0,
        terms: Some(terms(&welcome.terms)),
        plan: Some(plan(&welcome.plan)),
        resume: Some(match welcome.resume {
            Resume::AtRound(round) => welcome::Resume::AtRound(round.0),
            Resume::NewestWeights(MissedRounds { round: Round(round), exchanges, best }) => {
                welcome::Resume::NewestWeights(wire::MissedRounds { round, exchanges, best })
            }
        }),
    }
}

fn embedding_request(
    exchange: &Exchange,
    purpose: Purpose,
    batch: &Batch,
) -> wire::EmbeddingRequest {
    let (first, offset, view) = samples(batch);
    wire::EmbeddingRequest {
        exchange: Some(of_exchange(exchange)),
        purpose: of_purpose(purpose) as i32,
        first,
        offset,
        view,
        missing: None,
        checkpoint: false,
    }
}

/// The smallest step, each one's distance from it, and the views, if there are any but whole fleets.
pub(super) fn samples(batch: &Batch) -> (i64, Vec<u64>, Vec<u32>) {
    let steps = || batch.samples().iter().map(|sample| sample.last.0);
    let views = batch.samples().iter().map(|sample| u32::from(sample.view.0));
    let whole = views.clone().all(|view| view == 0);
    let first = steps().min().unwrap_or(0);
    // Most runs know whole fleets only, and need not say so each time.
    let views = if whole { Vec::new() } else { views.collect() };
    (first, steps().map(|step| step.abs_diff(first)).collect(), views)
}

fn terms(terms: &Terms) -> wire::Terms {
    wire::Terms {
        network_hash: terms.network_hash.as_str().into(),
        step_s: terms.step_s,
        origin_s: terms.origin_s,
        window: terms.window,
        compression: match terms.compression {
            Compression::None => wire::Compression::None,
            Compression::F16 => wire::Compression::F16,
            Compression::Q8 => wire::Compression::Q8,
        } as i32,
    }
}

fn resume_state(resume_state: &ResumeState) -> wire::ResumeState {
    wire::ResumeState {
        run: resume_state.run.map(|run| run.0),
        checkpoints: resume_state.checkpoints.iter().map(|round| round.0).collect(),
        in_memory: resume_state
            .in_memory
            .map(|(attempt, round)| wire::AttemptRound { attempt: attempt.0, round: round.0 }),
    }
}

fn plan(plan: &Plan) -> wire::Plan {
    wire::Plan {
        seed: plan.seed,
        batch: plan.batch,
        epochs: plan.epochs,
        exchanges: plan.exchanges,
        rate: plan.optimiser.rate,
        one_cycle: plan.optimiser.one_cycle,
        decay: plan.optimiser.decay,
        clip: plan.optimiser.clip,
        average: plan.optimiser.average,
        local_updates: plan.local.count,
        local_variant: match plan.local.variant {
            LocalVariant::Recompute => wire::LocalVariant::Recompute,
            LocalVariant::Frozen => wire::LocalVariant::Frozen,
        } as i32,
        proximal: plan.local.proximal,
        host_updates_once: plan.local.host == HostUpdates::Once,
        segment: plan.segment,
        measured: plan.measured.iter().map(|kind| measured::of_kind(*kind) as i32).collect(),
        shares: plan.shares.map(|shares| wire::TrafficShares { own: shares.own, all: shares.all }),
        sealing: plan.sealing.as_ref().map(sealed::sealing),
    }
}

pub(super) fn of_exchange(exchange: &Exchange) -> wire::Exchange {
    wire::Exchange { run: exchange.run.0, attempt: exchange.attempt.0, round: exchange.round.0 }
}

fn of_purpose(purpose: Purpose) -> wire::Purpose {
    match purpose {
        Purpose::Train => wire::Purpose::Train,
        Purpose::Validate => wire::Purpose::Validate,
        Purpose::Estimate => wire::Purpose::Estimate,
    }
}

fn of_code(code: StopCode) -> wire::StopCode {
    match code {
        StopCode::Other => wire::StopCode::Other,
        StopCode::BudgetSpent => wire::StopCode::BudgetSpent,
        StopCode::CommitmentMismatch => wire::StopCode::CommitmentMismatch,
    }
}
