//! Messages of live estimation, to the definition and back.

use traffic::Step;

use super::decode::{finite, required};
use super::generated as wire;
use super::generated::{to_guest, to_host};
use super::{WireError, numbers};
use crate::message::live::{FromLiveGuest, FromLiveHost, LiveHello, LiveTerms, LiveWelcome};
use crate::message::parts::{Embedding, MAX_STEP, PartError, Text};
use crate::party::{PartyId, RunId};

pub(super) fn from_guest(message: &FromLiveGuest) -> to_host::Message {
    match message {
        FromLiveGuest::Hello(hello) => to_host::Message::LiveHello(wire::LiveHello {
            protocol: hello.protocol,
            software: hello.software.as_str().into(),
            party: hello.party.as_str().into(),
            session: hello.session,
            terms: Some(of_terms(&hello.terms)),
            width: hello.width,
        }),
        FromLiveGuest::Embedding { session, step, embedding } => {
            to_host::Message::LiveEmbedding(wire::LiveEmbedding {
                session: *session,
                step: step.0,
                numbers: Some(numbers::encode(&embedding.0)),
            })
        }
    }
}

pub(super) fn from_host(message: &FromLiveHost) -> to_guest::Message {
    match message {
        FromLiveHost::Welcome(welcome) => to_guest::Message::LiveWelcome(wire::LiveWelcome {
            protocol: welcome.protocol,
            software: welcome.software.as_str().into(),
            session: welcome.session,
            terms: Some(of_terms(&welcome.terms)),
        }),
        FromLiveHost::StepEstimated { step, taken } => {
            to_guest::Message::LiveStepEstimated(wire::LiveStepEstimated {
                step: step.0,
                taken: *taken,
            })
        }
    }
}

pub(super) fn hello(hello: wire::LiveHello) -> Result<FromLiveGuest, WireError> {
    Ok(FromLiveGuest::Hello(Box::new(LiveHello {
        protocol: hello.protocol,
        software: Text::parse(hello.software)?,
        party: PartyId::new(&hello.party)?,
        session: hello.session,
        terms: terms(hello.terms)?,
        width: hello.width,
    })))
}

pub(super) fn embedding(message: wire::LiveEmbedding) -> Result<FromLiveGuest, WireError> {
    Ok(FromLiveGuest::Embedding {
        session: message.session,
        step: of_step(message.step)?,
        embedding: Embedding(numbers::decode(message.numbers)?),
    })
}

pub(super) fn welcome(welcome: wire::LiveWelcome) -> Result<FromLiveHost, WireError> {
    Ok(FromLiveHost::Welcome(Box::new(LiveWelcome {
        protocol: welcome.protocol,
        software: Text::parse(welcome.software)?,
        session: welcome.session,
        terms: terms(welcome.terms)?,
    })))
}

pub(super) fn settled(message: wire::LiveStepEstimated) -> Result<FromLiveHost, WireError> {
    Ok(FromLiveHost::StepEstimated { step: of_step(message.step)?, taken: message.taken })
}

fn of_terms(terms: &LiveTerms) -> wire::LiveTerms {
    wire::LiveTerms {
        run: terms.run.0,
        network_hash: terms.network_hash.as_str().into(),
        step_s: terms.step_s,
        window: terms.window,
    }
}

fn terms(terms: Option<wire::LiveTerms>) -> Result<LiveTerms, WireError> {
    let terms = required("terms", terms)?;
    Ok(LiveTerms {
        run: RunId(terms.run),
        network_hash: Text::parse(terms.network_hash)?,
        step_s: finite("length of a step", terms.step_s)?,
        window: terms.window,
    })
}

fn of_step(step: i64) -> Result<Step, WireError> {
    if step.unsigned_abs() <= MAX_STEP as u64 {
        return Ok(Step(step));
    }
    Err(PartError::new("step", step, format!("a step within ±{MAX_STEP}")).into())
}
