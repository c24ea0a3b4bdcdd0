//! From our messages to those of the definition.

use super::generated as wire;
use super::generated::{leave, to_guest, to_host, welcome};
use super::{committed, live, measured, numbers, sealed};
use crate::compression::Compression;
use crate::message::parts::Batch;
use crate::message::{
    Departure, Exchange, Hello, Missed, Purpose, Resume, Standing, Terms, ToGuest, ToHost, Welcome,
};
use crate::party::Round;
use crate::plan::{LocalVariant, Plan};

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
        ToHost::Opening { .. }
        | ToHost::Upload { .. }
        | ToHost::Products { .. }
        | ToHost::Relay { .. } => {
            return sealed::to_host(message);
        }
        ToHost::Pledge(message) => committed::from_guest(message),
        ToHost::Live(message) => live::from_guest(message),
        ToHost::Heartbeat => Message::Heartbeat(wire::Heartbeat {}),
        ToHost::Kept { exchange } => {
            Message::Kept(wire::Kept { exchange: Some(of_exchange(exchange)) })
        }
        ToHost::Leave { session, departure } => Message::Leave(wire::Leave {
            session: *session,
            departure: Some(match departure {
                Departure::Finished => leave::Departure::Finished(leave::Finished {}),
                Departure::Stopped => leave::Departure::Stopped(leave::Stopped {}),
                Departure::Failed(reason) => {
                    leave::Departure::Failed(leave::Failed { reason: reason.as_str().into() })
                }
            }),
        }),
    };
    wire::ToHost { message: Some(message) }
}

pub(crate) fn to_guest(message: &ToGuest) -> wire::ToGuest {
    use to_guest::Message;
    let message = match message {
        ToGuest::Call => Message::Call(wire::Call {}),
        ToGuest::Welcome(message) => Message::Welcome(welcome(message)),
        ToGuest::Ask { exchange, purpose, batch, lacking } => Message::Ask(wire::Ask {
            lacking: lacking.as_ref().map(sealed::lacking),
            ..ask(exchange, *purpose, batch)
        }),
        ToGuest::Question { exchange, question } => Message::Question(wire::Question {
            exchange: Some(of_exchange(exchange)),
            question: question.as_slice().to_vec().into(),
        }),
        ToGuest::Loan { exchange, to, key, entries, loan } => Message::Loan(wire::Loan {
            exchange: Some(of_exchange(exchange)),
            to: to.as_str().into(),
            key: key.as_ref().map(|key| key.as_slice().to_vec().into()),
            entries: entries.as_slice().to_vec(),
            loan: loan.as_slice().to_vec().into(),
        }),
        ToGuest::Grant { exchange, grant } => Message::Grant(wire::Grant {
            exchange: Some(of_exchange(exchange)),
            grant: grant.as_slice().to_vec().into(),
        }),
        ToGuest::Gradient { exchange, gradient } => Message::Gradient(wire::Gradient {
            exchange: Some(of_exchange(exchange)),
            numbers: Some(numbers::encode(&gradient.0)),
        }),
        ToGuest::Settled { exchange, best, trained } => Message::Settled(wire::Settled {
            exchange: Some(of_exchange(exchange)),
            best: *best,
            trained: *trained,
        }),
        ToGuest::Finish { run, attempt, summary } => Message::Finish(wire::Finish {
            run: run.0,
            attempt: attempt.0,
            rounds: summary.rounds.0,
            epochs: summary.epochs,
            best_epoch: summary.best_epoch,
            validation: summary.validation,
        }),
        ToGuest::Refuse { session, reason } => {
            Message::Refuse(wire::Refuse { reason: reason.as_str().into(), session: *session })
        }
        ToGuest::Hold(message) => committed::from_host(message),
        ToGuest::Live(message) => live::from_host(message),
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
        measures: measured::layouts(&hello.measures.layout),
        folds: hello.measures.folds.into(),
        passages: hello.measures.passages,
        turned: hello.measures.movements.turned.clone(),
        left: hello.measures.movements.left.clone(),
        standing: Some(standing(&hello.standing)),
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
            Resume::Exactly(round) => welcome::Resume::Exactly(round.0),
            Resume::AsYouAre(Missed { round: Round(round), exchanges, best }) => {
                welcome::Resume::AsYouAre(wire::AsYouAre { round, exchanges, best })
            }
        }),
    }
}

fn ask(exchange: &Exchange, purpose: Purpose, batch: &Batch) -> wire::Ask {
    let (first, offset, view) = samples(batch);
    wire::Ask {
        exchange: Some(of_exchange(exchange)),
        purpose: of_purpose(purpose) as i32,
        first,
        offset,
        view,
        lacking: None,
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

fn standing(standing: &Standing) -> wire::Standing {
    wire::Standing {
        run: standing.run.map(|run| run.0),
        kept: standing.kept.iter().map(|round| round.0).collect(),
        live: standing
            .live
            .map(|(attempt, round)| wire::Live { attempt: attempt.0, round: round.0 }),
    }
}

fn plan(plan: &Plan) -> wire::Plan {
    wire::Plan {
        seed: plan.seed,
        batch: plan.batch,
        epochs: plan.epochs,
        exchanges: plan.exchanges,
        keep_every: plan.keep_every,
        rate: plan.recipe.rate,
        one_cycle: plan.recipe.one_cycle,
        decay: plan.recipe.decay,
        clip: plan.recipe.clip,
        average: plan.recipe.average,
        local_updates: plan.local.count,
        local_variant: match plan.local.variant {
            LocalVariant::Recompute => wire::LocalVariant::Recompute,
            LocalVariant::Frozen => wire::LocalVariant::Frozen,
        } as i32,
        proximal: plan.local.proximal,
        segment: plan.segment,
        measured: plan.measured.iter().map(|kind| measured::of_kind(*kind) as i32).collect(),
        shares: plan.shares.map(|shares| wire::Shares { own: shares.own, all: shares.all }),
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
