//! The host: asks the guests, fuses what they answer, learns, and sends each its gradient.
//!
//! ```text
//! Gathering ──all are here──► Training ──all rounds──► Closing ──all have kept──► Finishing ──► Finished
//!     ▲                          │ a guest has lost its memory: back to the last common round
//!     └──────────────────────────┘
//! any ── an error, a guest absent_too_long too long ──► Stopped, and every guest is told
//! ```
//!
//! It takes messages and the time, and returns messages. All parties are at the same round or one
//! apart: the host ends a round only when every guest has answered, and a guest answers only when
//! it has finished (and, where due, kept) the round before. So two generations of checkpoints at
//! each party always have a round in common.

mod absence;
mod ciphertexts;
mod committing;
mod ending;
mod exchange;
mod gathering;
mod kept;
mod lending;
mod measuring;
mod open_round;
mod sealing;
mod session;
mod settings;

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::ledger::{Ledger, Released};
use protocol::message::committed::Digest;
use protocol::message::parts::{HeldSteps, Text};
use protocol::message::{Departure, StopCode, StopReason, Terms, ToGuest, ToHost};
use protocol::party::{Attempt, Now, PartyId, Round, RunId};
use protocol::plan::{Plan, Summary};
use serde::{Deserialize, Serialize};

use crate::error::PartyError;
use crate::guest::{read_card, write_card};
use crate::model::{Agreed, HostModel, ModelFailure};
use crate::schedule::{EpochLosses, Progress, SampleSchedule};
use crate::store::Store;
use ciphertexts::GuestCiphertexts;
use exchange::ClosedExchange;
use kept::{HostCheckpoint, Residuals};
pub use measuring::Measuring;
use open_round::OpenRound;
use session::GuestSession;
pub use settings::{AbsencePolicy, HostSettings};

/// Makes the host's model once the plan and what guests measure are known.
pub type MakeHostModel<M> = Box<dyn FnMut(&Plan, &Agreed) -> Result<M, ModelFailure> + Send>;

/// Messages to guests.
pub type ToGuestOutbox = Vec<Released<ToGuest>>;

/// Something worth telling the people who run the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A guest has joined.
    Joined(PartyId),
    /// A guest was refused.
    Refused(PartyId, Text),
    /// A guest is missed.
    Missed(PartyId),
    /// A guest has said goodbye.
    Left(PartyId, Departure),
    /// All go on from this round.
    Begun(Attempt, Round),
    /// No round is kept by all: they begin anew, and everything up to this round is lost.
    Restarted(Round),
    /// A guest has committed to its data of so many samples, of so many in all.
    Committed(PartyId, usize, usize),
    /// A round is done.
    Round(Round),
    /// An epoch is done.
    Epoch(EpochLosses),
    /// The host has kept its state.
    Checkpointed(Round),
}

/// The host, see the [module](self).
pub struct Host<M, S> {
    settings: HostSettings,
    make: MakeHostModel<M>,
    store: S,
    ledger: Ledger,
    card: Option<RunRecord>,
    running: Option<Running<M>>,
    sessions: BTreeMap<PartyId, GuestSession>,
    stage: Stage,
    furthest: Furthest,
    events: Vec<Event>,
}

#[derive(Debug)]
enum Stage {
    /// Since when.
    Gathering(Duration),
    Training,
    /// All rounds are done; the guests must keep the last trained state.
    Closing(Duration),
    /// The guests are told.
    Finishing(Duration),
    Finished,
    Stopped(PartyError),
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub enum HostEnd<'a> {
    /// The run has finished; the model has the best weights.
    Finished(&'a Summary),
    /// It cannot go on.
    Stopped(&'a PartyError),
}

/// What the checkpoints belong to; kept beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRecord {
    run: RunId,
    attempt: Attempt,
    plan: Plan,
    terms: Terms,
    subject: Text,
    /// The samples that all hold.
    aligned: HeldSteps,
    /// What the guests measure for this run.
    agreed: Agreed,
    /// What each guest has committed to, once it has to everything.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    commitments: BTreeMap<PartyId, Digest>,
    finished: Option<Summary>,
}

/// The furthest round that a run has come to.
#[derive(Clone, Copy, Debug)]
struct Furthest {
    round: Round,
    /// When.
    reached: Duration,
    /// How often the parties have gone back to a checkpoint since.
    returns: u32,
}

/// A run that the host has in memory.
struct Running<M> {
    model: M,
    initial: Vec<u8>,
    /// What compression has lost of each guest's gradients.
    feedback: Residuals,
    schedule: SampleSchedule,
    beginning: Progress,
    /// The last finished round.
    done: Round,
    /// The round after which training had ended.
    trained: Option<Round>,
    open: Option<OpenRound>,
    closed: Option<ClosedExchange>,
    /// What guests have uploaded, where measurements are sealed.
    sealed: BTreeMap<PartyId, GuestCiphertexts>,
    /// What they have committed to, where they do.
    registry: Option<committing::CommitmentRegistry>,
}

impl<M: HostModel, S: Store> Host<M, S> {
    /// A host that waits for its guests, or goes on after a restart: [`tick`](Self::tick) makes it
    /// speak.
    pub fn new(
        settings: HostSettings,
        make: MakeHostModel<M>,
        store: S,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        settings.check()?;
        let card: Option<RunRecord> = read_card(&store)?;
        let sessions = settings.guests.keys();
        let sessions =
            sessions.map(|party| (party.clone(), GuestSession::new(now.monotonic))).collect();
        let stage = Stage::Gathering(now.monotonic);
        let (running, events) = (None, Vec::new());
        let furthest = Furthest { round: Round::START, reached: now.monotonic, returns: 0 };
        let mut host = Self {
            settings,
            make,
            store,
            ledger,
            card,
            running,
            sessions,
            stage,
            furthest,
            events,
        };
        host.continue_run(now)?;
        Ok(host)
    }

    /// Takes a message of a guest, as the transport knows it.
    pub fn handle(&mut self, now: Now, from: &PartyId, message: ToHost) -> ToGuestOutbox {
        let mut out = Vec::new();
        if self.ended().is_some() {
            return out;
        }
        let Some(guest) = self.sessions.get_mut(from) else {
            let reason = StopReason::other(format!("`{from}` is not among the guests"));
            let told = self.say(now, from, ToGuest::Refuse { session: 0, reason }, &mut out);
            self.stop_on_error(now, told, &mut out);
            return out;
        };
        guest.heard = now.monotonic;
        let handled = match message {
            ToHost::Hello(hello) => self.hello(now, from, *hello, &mut out),
            ToHost::Embedding { exchange, purpose, embedding } => {
                self.embedding(now, from, exchange, purpose, embedding, &mut out)
            }
            ToHost::Measurements { exchange, purpose, measurements } => {
                self.measurements(now, from, exchange, purpose, measurements, &mut out)
            }
            ToHost::PublicKey { exchange, key } => {
                self.public_key(now, from, exchange, &key, &mut out)
            }
            ToHost::Upload { exchange, place, weights, upload } => {
                self.upload(now, from, exchange, (place, weights, &upload), &mut out)
            }
            ToHost::Products { exchange, answer, .. } => {
                self.products(now, from, exchange, &answer, &mut out)
            }
            ToHost::MaskedProducts { exchange, recipient, key, products, .. } => {
                self.masked_products(now, from, exchange, (&recipient, key, &products), &mut out)
            }
            ToHost::Commitment(message) => self.commitment_reply(now, from, message, &mut out),
            ToHost::Checkpointed { exchange } => self.checkpointed(now, from, exchange, &mut out),
            ToHost::Heartbeat => self.request_hello_of_stranger(now, from, &mut out),
            ToHost::Live(_) => {
                Err(PartyError::misbehaved(from, "it wants to estimate live, and this host trains"))
            }
            ToHost::Leave { session, departure } => {
                self.leave(now, from, session, departure, &mut out)
            }
        };
        self.stop_on_error(now, handled, &mut out);
        out
    }

    /// Lets time pass: what was not answered is said again, and nobody is waited for for ever.
    pub fn tick(&mut self, now: Now) -> ToGuestOutbox {
        let mut out = Vec::new();
        let ticked = match self.stage {
            Stage::Gathering(since) => self.gather_on(now, since, &mut out),
            Stage::Training => self.wait_for_answers(now, &mut out),
            Stage::Closing(since) => self.close_on(now, since, &mut out),
            Stage::Finishing(since) => self.finish_on(now, since, &mut out),
            Stage::Finished | Stage::Stopped(_) => Ok(()),
        };
        let ticked = ticked.and_then(|()| self.heartbeats(now, &mut out));
        self.stop_on_error(now, ticked, &mut out);
        out
    }

    /// Ends the run because someone says so. It can go on later.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToGuestOutbox {
        let mut out = Vec::new();
        if self.ended().is_none() {
            self.stop_on_error(now, Err(PartyError::Stopped { reason }), &mut out);
        }
        out
    }

    /// What it does without a guest.
    pub fn absent(&self) -> AbsencePolicy {
        self.settings.absent
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<HostEnd<'_>> {
        match &self.stage {
            Stage::Finished => self.summary().map(HostEnd::Finished),
            Stage::Stopped(error) => Some(HostEnd::Stopped(error)),
            _ => None,
        }
    }

    /// Guests that have not said that they are done.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &PartyId> {
        self.sessions.iter().filter(|(_, guest)| !guest.finished).map(|(party, _)| party)
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Its model, once a run has begun.
    pub fn model(&self) -> Option<&M> {
        self.running.as_ref().map(|running| &running.model)
    }

    /// The same, to be taken apart.
    pub fn into_model(self) -> Option<M> {
        self.running.map(|running| running.model)
    }

    /// The epochs so far.
    pub fn history(&self) -> &[EpochLosses] {
        self.running.as_ref().map_or(&[], |running| running.schedule.history())
    }

    /// The run that it leads, once there is one.
    pub fn run(&self) -> Option<RunId> {
        self.card.as_ref().map(|card| card.run)
    }

    /// The last round it has finished.
    pub fn round(&self) -> Round {
        self.running.as_ref().map_or(Round::START, |running| running.done)
    }

    /// The guests that are there.
    pub fn present(&self) -> impl Iterator<Item = &PartyId> {
        self.sessions.iter().filter(|(_, guest)| guest.present).map(|(party, _)| party)
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn summary(&self) -> Option<&Summary> {
        self.card.as_ref().and_then(|card| card.finished.as_ref())
    }

    fn say(
        &mut self,
        now: Now,
        to: &PartyId,
        message: ToGuest,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        out.push(self.ledger.release(now, to, message)?);
        if let Some(guest) = self.sessions.get_mut(to) {
            guest.told = now.monotonic;
        }
        Ok(())
    }

    /// A guest's fault is the guest's affair; anything else ends the run, and everyone is told.
    fn stop_on_error(&mut self, now: Now, done: Result<(), PartyError>, out: &mut ToGuestOutbox) {
        let mut result = done;
        if let Err(
            error @ (PartyError::PeerMisbehaved { .. } | PartyError::PeerIncompatible { .. }),
        ) = result
        {
            result = self.refuse(now, &error, out);
        }
        let Err(error) = result else { return };
        let accused = match &error {
            PartyError::CommitmentMismatch { party, .. } => {
                let (code, text) = (StopCode::CommitmentMismatch, Text::of(&error));
                Some((party.clone(), StopReason { code, text }))
            }
            _ => None,
        };
        let reason = error.for_peers();
        let parties: Vec<PartyId> = self.sessions.keys().cloned().collect();
        for party in parties {
            // A ledger that cannot be written lets nothing out, not even this: the guests will
            // notice the silence.
            let own = accused.as_ref().filter(|(accused, _)| *accused == party);
            let reason = own.map_or(&reason, |(_, reason)| reason).clone();
            let refuse = ToGuest::Refuse { session: 0, reason };
            let _ = self.say(now, &party, refuse, out);
        }
        self.stage = Stage::Stopped(error);
    }
}
