//! From messages of the definition to ours, every part checked.

use traffic::{FleetView, Step, Window};

use super::generated as wire;
use super::generated::{leave, to_guest, to_host, welcome};
use super::{WireError, committed, heads, live, measured, numbers, sealed, sums};
use crate::compression::Compression;
use crate::message::measurements::{Movements, TrafficShares};
use crate::message::parts::{
    Batch, Embedding, EmbeddingGradient, HeldSteps, MAX_CHECKPOINTS, MAX_EXCHANGES, MAX_RANGES,
    MAX_STEP, MAX_STEPS, PartError, StepRange, Text,
};
use crate::message::sums::FromSumHost;
use crate::message::{
    Departure, Exchange, Hello, MissedRounds, Purpose, Resume, ResumeState, StopCode, StopReason,
    Terms, ToGuest, ToHost, Welcome,
};
use crate::party::{Attempt, PartyId, Round, RunId};
use crate::plan::{HostUpdates, LocalUpdates, LocalVariant, OptimiserSettings, Plan, Summary};

pub(crate) fn to_host(message: wire::ToHost) -> Result<ToHost, WireError> {
    use to_host::Message;
    Ok(match required("message", message.message)? {
        Message::Hello(message) => ToHost::Hello(Box::new(hello(message)?)),
        Message::Embedding(wire::Embedding { exchange, purpose, numbers }) => ToHost::Embedding {
            exchange: of_exchange(exchange)?,
            purpose: of_purpose(purpose)?,
            embedding: Embedding(numbers::decode(numbers)?),
        },
        Message::Measurements(message) => ToHost::Measurements {
            exchange: of_exchange(message.exchange)?,
            purpose: of_purpose(message.purpose)?,
            measurements: measured::measurements(
                message.entries,
                &message.values,
                &message.weights,
            )?,
        },
        Message::PublicKey(message) => sealed::public_key(message)?,
        Message::Upload(message) => sealed::upload(message)?,
        Message::Products(message) => sealed::products(message)?,
        Message::MaskedProducts(message) => sealed::masked_products(message)?,
        Message::Commitments(message) => ToHost::Commitment(committed::commitments(message)?),
        Message::CommitmentOpenings(message) => ToHost::Commitment(committed::response(message)?),
        Message::Heartbeat(wire::Heartbeat {}) => ToHost::Heartbeat,
        Message::LiveHello(message) => ToHost::Live(live::hello(message)?),
        Message::LiveEmbedding(message) => ToHost::Live(live::embedding(message)?),
        Message::SumHello(message) => ToHost::Sum(sums::hello(message)?),
        Message::MaskedTotals(message) => ToHost::Sum(sums::masked(message)?),
        Message::SumAgreed(message) => ToHost::Sum(sums::agreed(message)?),
        Message::MaskSeeds(message) => ToHost::Sum(sums::seeds(message)?),
        Message::LedgerHead(message) => ToHost::Ledger(heads::head(&message)?),
        Message::Countersigned(message) => ToHost::Ledger(heads::countersigned(message)?),
        Message::Checkpointed(wire::Checkpointed { exchange }) => {
            ToHost::Checkpointed { exchange: of_exchange(exchange)? }
        }
        Message::Leave(wire::Leave { session, departure }) => ToHost::Leave {
            session,
            departure: match required("leave", departure)? {
                leave::Departure::Finished(leave::Finished {}) => Departure::Finished,
                leave::Departure::Stopped(leave::Stopped {}) => Departure::Stopped,
                leave::Departure::Failed(leave::Failed { reason, code }) => {
                    Departure::Failed(stop_reason(reason, code)?)
                }
            },
        },
    })
}

pub(crate) fn to_guest(message: wire::ToGuest) -> Result<ToGuest, WireError> {
    use to_guest::Message;
    Ok(match required("message", message.message)? {
        Message::HelloRequest(wire::HelloRequest {}) => ToGuest::HelloRequest,
        Message::Welcome(message) => ToGuest::Welcome(Box::new(welcome(message)?)),
        Message::EmbeddingRequest(message) => embedding_request(message)?,
        Message::Gradient(wire::Gradient { exchange, numbers }) => ToGuest::Gradient {
            exchange: of_exchange(exchange)?,
            gradient: EmbeddingGradient(numbers::decode(numbers)?),
        },
        Message::ProductQuery(message) => sealed::query(message)?,
        Message::MaskedGradient(message) => sealed::masked_gradient(message)?,
        Message::EncryptedCoefficients(message) => sealed::encrypted_coefficients(message)?,
        Message::CommitmentRequest(message) => ToGuest::Commitment(committed::commit(message)?),
        Message::CommitmentsAccepted(message) => ToGuest::Commitment(committed::accepted(message)?),
        Message::Challenge(message) => ToGuest::Commitment(committed::challenge(message)?),
        Message::ExchangeClosed(wire::ExchangeClosed { exchange, best, trained }) => {
            ToGuest::ExchangeClosed { exchange: of_exchange(exchange)?, best, trained }
        }
        Message::Finish(message) => ToGuest::Finish {
            run: RunId(message.run),
            attempt: Attempt(message.attempt),
            summary: Summary {
                rounds: Round(message.rounds),
                epochs: message.epochs,
                best_epoch: message.best_epoch,
                validation: finite("validation loss", message.validation)?,
            },
        },
        Message::LiveWelcome(message) => ToGuest::Live(live::welcome(message)?),
        Message::LiveStepEstimated(message) => ToGuest::Live(live::settled(message)?),
        Message::SumGroup(message) => ToGuest::Sum(sums::group(message)?),
        Message::TotalsRequest(message) => ToGuest::Sum(sums::request(message)?),
        Message::SumParticipants(message) => ToGuest::Sum(sums::participants(message)?),
        Message::SumSignatures(message) => ToGuest::Sum(sums::signatures(message)?),
        Message::LedgerHead(message) => ToGuest::Ledger(heads::head(&message)?),
        Message::Countersigned(message) => ToGuest::Ledger(heads::countersigned(message)?),
        Message::SumFinish(wire::SumFinish { run }) => {
            ToGuest::Sum(FromSumHost::Finish { run: RunId(run) })
        }
        Message::Refuse(wire::Refuse { reason, session, code }) => {
            ToGuest::Refuse { session, reason: stop_reason(reason, code)? }
        }
        Message::Heartbeat(wire::Heartbeat {}) => ToGuest::Heartbeat,
    })
}

fn hello(hello: wire::Hello) -> Result<Hello, WireError> {
    at_most("steps held", hello.held.len(), MAX_RANGES, "ranges")?;
    let ranges = hello.held.into_iter();
    let movements = Movements {
        turned: hello.turned,
        left: hello.left,
        free_metres: hello.free_metres,
        free_seconds: hello.free_seconds,
        queued_metres: hello.queued_metres,
        queued_steps: hello.queued_steps,
    };
    Ok(Hello {
        protocol: hello.protocol,
        software: Text::parse(hello.software)?,
        party: PartyId::new(&hello.party)?,
        session: hello.session,
        greeting: hello.greeting,
        terms: terms(hello.terms)?,
        held: HeldSteps::new(
            ranges.map(|range| StepRange { first: range.first, last: range.last }).collect(),
        )?,
        width: hello.width,
        offer: measured::measures(
            hello.measurements,
            hello.folds,
            (hello.passages, hello.stated_share),
            movements,
        )?,
        resume_state: resume_state(required("resume_state", hello.resume_state)?)?,
    })
}

fn welcome(welcome: wire::Welcome) -> Result<Welcome, WireError> {
    Ok(Welcome {
        protocol: welcome.protocol,
        software: Text::parse(welcome.software)?,
        session: welcome.session,
        run: RunId(welcome.run),
        attempt: Attempt(welcome.attempt),
        terms: terms(welcome.terms)?,
        plan: plan(required("plan", welcome.plan)?)?,
        resume: match required("resume", welcome.resume)? {
            welcome::Resume::AtRound(round) => Resume::AtRound(Round(round)),
            welcome::Resume::NewestWeights(wire::MissedRounds { round, exchanges, best }) => {
                if exchanges > MAX_EXCHANGES {
                    let expected = format!("at most {MAX_EXCHANGES}");
                    return Err(PartError::new("exchanges", exchanges, expected).into());
                }
                Resume::NewestWeights(MissedRounds { round: Round(round), exchanges, best })
            }
        },
    })
}

fn embedding_request(ask: wire::EmbeddingRequest) -> Result<ToGuest, WireError> {
    let batch = samples(ask.first, &ask.offset, &ask.view)?;
    let missing = ask.missing.map(|missing| sealed::read_missing(missing, batch.samples().len()));
    Ok(ToGuest::EmbeddingRequest {
        exchange: of_exchange(ask.exchange)?,
        purpose: of_purpose(ask.purpose)?,
        batch,
        missing: missing.transpose()?,
        checkpoint: ask.checkpoint,
    })
}

pub(super) fn samples(first: i64, offsets: &[u64], views: &[u32]) -> Result<Batch, WireError> {
    at_most("samples asked for", offsets.len(), MAX_STEPS, "samples")?;
    if !views.is_empty() && views.len() != offsets.len() {
        let expected = format!("none, or {}", offsets.len());
        return Err(PartError::new("views asked for", views.len(), expected).into());
    }
    let step = |offset: u64| {
        let step = first.checked_add_unsigned(offset);
        let step = step.filter(|step| step.unsigned_abs() <= MAX_STEP as u64);
        step.map(Step).ok_or_else(|| {
            let found = format!("{first} + {offset}");
            PartError::new("samples asked for", found, format!("steps within ±{MAX_STEP}"))
        })
    };
    let view = |view: u32| {
        let small = u16::try_from(view).map(FleetView);
        small.map_err(|_| PartError::new("views asked for", view, "small numbers"))
    };
    let views = views.iter().map(|number| view(*number)).chain(std::iter::repeat(Ok(FleetView(0))));
    let steps = offsets.iter().copied().map(step);
    let samples = steps.zip(views).map(|(last, view)| Ok(Window { last: last?, view: view? }));
    Ok(Batch::new(samples.collect::<Result<Vec<_>, PartError>>()?)?)
}

fn terms(terms: Option<wire::Terms>) -> Result<Terms, WireError> {
    let terms = required("terms", terms)?;
    Ok(Terms {
        network_hash: Text::parse(terms.network_hash)?,
        step_s: finite("length of a step", terms.step_s)?,
        origin_s: finite("begin of step 0", terms.origin_s)?,
        window: terms.window,
        compression: match wire::Compression::try_from(terms.compression) {
            Ok(wire::Compression::None) => Compression::None,
            Ok(wire::Compression::F16) => Compression::F16,
            Ok(wire::Compression::Q8) => Compression::Q8,
            _ => return Err(unknown("compression", terms.compression)),
        },
    })
}

fn resume_state(resume_state: wire::ResumeState) -> Result<ResumeState, WireError> {
    at_most("checkpoints", resume_state.checkpoints.len(), MAX_CHECKPOINTS, "rounds")?;
    Ok(ResumeState {
        run: resume_state.run.map(RunId),
        checkpoints: resume_state.checkpoints.into_iter().map(Round).collect(),
        in_memory: resume_state.in_memory.map(|live| (Attempt(live.attempt), Round(live.round))),
    })
}

fn plan(plan: wire::Plan) -> Result<Plan, WireError> {
    let variant = match wire::LocalVariant::try_from(plan.local_variant) {
        Ok(wire::LocalVariant::Recompute) => LocalVariant::Recompute,
        Ok(wire::LocalVariant::Frozen) => LocalVariant::Frozen,
        _ => return Err(unknown("variant of local updates", plan.local_variant)),
    };
    let plan = Plan {
        seed: plan.seed,
        batch: plan.batch,
        epochs: plan.epochs,
        exchanges: plan.exchanges,
        optimiser: OptimiserSettings {
            rate: plan.rate,
            one_cycle: plan.one_cycle,
            decay: plan.decay,
            clip: plan.clip,
            average: plan.average,
        },
        local: LocalUpdates {
            count: plan.local_updates,
            variant,
            proximal: plan.proximal,
            host: if plan.host_updates_once { HostUpdates::Once } else { HostUpdates::Each },
        },
        segment: plan.segment,
        measured: measured::kinds(&plan.measured)?,
        shares: plan.shares.map(|wire::TrafficShares { own, all }| TrafficShares { own, all }),
        sealing: plan.sealing.map(sealed::read_sealing).transpose()?,
    };
    plan.check()?;
    Ok(plan)
}

pub(super) fn of_exchange(exchange: Option<wire::Exchange>) -> Result<Exchange, WireError> {
    let exchange = required("exchange", exchange)?;
    Ok(Exchange {
        run: RunId(exchange.run),
        attempt: Attempt(exchange.attempt),
        round: Round(exchange.round),
    })
}

fn of_purpose(purpose: i32) -> Result<Purpose, WireError> {
    match wire::Purpose::try_from(purpose) {
        Ok(wire::Purpose::Train) => Ok(Purpose::Train),
        Ok(wire::Purpose::Validate) => Ok(Purpose::Validate),
        Ok(wire::Purpose::Estimate) => Ok(Purpose::Estimate),
        _ => Err(unknown("purpose", purpose)),
    }
}

pub(super) fn required<T>(field: &'static str, part: Option<T>) -> Result<T, WireError> {
    part.ok_or(WireError::Missing { field })
}

pub(super) fn unknown(field: &'static str, found: i32) -> WireError {
    PartError::new(field, found, "a value of the definition").into()
}

pub(super) fn finite(field: &'static str, found: f64) -> Result<f64, WireError> {
    if found.is_finite() {
        Ok(found)
    } else {
        Err(PartError::new(field, found, "a finite number").into())
    }
}

pub(super) fn at_most(
    field: &'static str,
    found: usize,
    most: usize,
    of_what: &str,
) -> Result<(), WireError> {
    if found <= most {
        Ok(())
    } else {
        Err(PartError::new(field, found, format!("at most {most} {of_what}")).into())
    }
}

fn stop_reason(text: String, code: i32) -> Result<StopReason, WireError> {
    let code = match wire::StopCode::try_from(code) {
        Ok(wire::StopCode::Other) => StopCode::Other,
        Ok(wire::StopCode::BudgetSpent) => StopCode::BudgetSpent,
        Ok(wire::StopCode::CommitmentMismatch) => StopCode::CommitmentMismatch,
        _ => return Err(unknown("code of a reason", code)),
    };
    Ok(StopReason { code, text: Text::parse(text)? })
}
