//! The host: asks the guests, fuses what they answer, learns, and sends each its gradient.
//!
//! ```text
//! Gathering ──all are here──► Training ──all rounds──► Checkpointing ──all have stored──► Finishing ──► Finished
//!     ▲                          │ a guest has lost its memory: back to the last common round
//!     └──────────────────────────┘
//! any ── an error, a guest that is absent for too long ──► Stopped, and every guest is told
//! ```
//!
//! Each phase is a file with the state that it owns. A phase takes a message or the time and says which `Transition`
//! follows; [`Host`] carries it out. What all phases share is the `HostContext`: settings, store, sessions, events.
//!
//! All parties are at the same round or one apart: the host ends a round only when every guest has answered, and a guest
//! answers only when it has finished (and, where due, stored) the round before. So two generations of checkpoints at
//! each party always have a round in common.

mod checkpointing;
mod ciphertexts;
mod commitments;
mod context;
mod finishing;
mod gathering;
mod guest_state;
mod measurements;
mod open_exchange;
mod run;
mod secure;
mod settings;
mod shares;
mod training;

use protocol::ledger::Ledger;
use protocol::message::parts::{PartError, Text};
use protocol::message::{Departure, Exchange, Hello, StopCode, StopReason, ToGuest, ToHost};
use protocol::party::{Attempt, Now, PartyId, Round, RunId};
use protocol::plan::{Plan, Summary};

use crate::error::PartyError;
use crate::guest::read_record;
use crate::keys::KeyAuthority;
use crate::model::{Agreed, HostModel, ModelFailure};
use crate::schedule::EpochLosses;
use crate::session::GuestSessions;
use crate::store::Store;
use checkpointing::Checkpointing;
use context::{Furthest, HostContext};
use finishing::Finishing;
use gathering::{Gathering, Known};
use guest_state::GuestState;
use run::{Run, RunRecord};
use training::Training;

pub use crate::session::guests::ToGuestOutbox;
pub use measurements::MeasurementBounds;
pub use settings::{AbsencePolicy, CheckpointInterval, HostSettings};

/// Makes the host's model once the plan and what guests measure are known.
pub type MakeHostModel<M> = Box<dyn FnMut(&Plan, &Agreed) -> Result<M, ModelFailure> + Send>;

/// Something worth telling the people who run the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A guest has joined.
    Joined(PartyId),
    /// A guest was refused.
    Refused(PartyId, Text),
    /// A guest is missed.
    Missed(PartyId),
    /// A guest has left.
    Left(PartyId, Departure),
    /// All parties continue from this round, and do again what had begun after it.
    Begun {
        /// The attempt.
        attempt: Attempt,
        /// The last round that counts as done.
        round: Round,
        /// The furthest round that any party had come to before.
        furthest: Round,
    },
    /// No round is stored by all: they begin anew, and everything up to this round is lost.
    Restarted(Round),
    /// A guest has committed to its data of so many samples, of so many in all.
    Committed(PartyId, usize, usize),
    /// A round is done.
    Round(Round),
    /// An epoch is done.
    Epoch(EpochLosses),
    /// The host has stored its state.
    Checkpointed(Round),
}

/// The host, see the [module](self).
pub struct Host<M, S> {
    context: HostContext<M, S>,
    phase: Phase<M>,
}

/// Where the host stands; each phase owns what only it needs.
enum Phase<M> {
    Gathering(Gathering<M>),
    Training(Training<M>),
    Checkpointing(Checkpointing<M>),
    Finishing(Finishing<M>),
    Finished(Finishing<M>),
    Stopped(Stopped<M>),
    /// Between two phases, while [`Host::enter`] runs.
    Changing,
}

/// The host cannot continue.
struct Stopped<M> {
    error: PartyError,
    /// None if it stopped before it had one.
    run: Option<Run<M>>,
}

/// What follows from a message or the time.
#[must_use]
enum Transition {
    Stay,
    /// Gathering → Training.
    Begin,
    /// Training, Checkpointing → Gathering, because this guest has lost its memory.
    GatherAgain(PartyId),
    /// Training → Checkpointing.
    Checkpoint,
    /// Checkpointing → Finishing.
    Finish,
    /// Finishing → Finished.
    End,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub enum HostEnd<'a> {
    /// The run has finished; the model has the best weights.
    Finished(&'a Summary),
    /// It cannot continue.
    Stopped(&'a PartyError),
}

impl<M: HostModel, S: Store> Host<M, S> {
    /// A host that waits for its guests, or continues after a restart: [`tick`](Self::tick) makes it speak.
    pub fn new(
        settings: HostSettings,
        make: MakeHostModel<M>,
        store: S,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        settings.check()?;
        let record: Option<RunRecord> = read_record(&store)?;
        let parties = settings.guests.keys().map(|party| (party.clone(), GuestState::default()));
        let (began, before) = (now.monotonic, ledger.last_round());
        let guests = GuestSessions::new(ledger, settings.timing, now, parties, Some(began));
        let furthest = Furthest { round: Round::START, reached: began, returns: 0 };
        let events = Vec::new();
        let keys = None;
        let mut context =
            HostContext { settings, make, store, guests, furthest, before, keys, events };
        let phase = match record {
            None => Phase::Gathering(Gathering::new(began, Known::Nothing)),
            Some(record) => Self::continue_run(&mut context, record)?,
        };
        Ok(Self { context, phase })
    }

    /// With a key authority, for a plan whose products need its keys.
    pub fn with_key_authority(mut self, keys: Box<dyn KeyAuthority>) -> Self {
        self.context.keys = Some(keys);
        self
    }

    /// After a restart: what the checkpoints belong to must be what was asked for.
    fn continue_run(
        context: &mut HostContext<M, S>,
        record: RunRecord,
    ) -> Result<Phase<M>, PartyError> {
        let settings = &context.settings;
        let plan = Plan { exchanges: record.plan.exchanges, ..settings.plan.clone() };
        if (&plan, &settings.terms) != (&record.plan, &record.terms) {
            let found = "a run with another plan, network or clock";
            let error = PartError::new("checkpoints", found, "the same, or a new folder");
            return Err(PartyError::misuse(error));
        }
        crate::error::same_subject(&record.subject, &settings.subject)?;
        let now = context.guests.now();
        let Some(summary) = record.finished.clone() else {
            return Ok(Phase::Gathering(Gathering::new(now, Known::Stored(Box::new(record)))));
        };
        let mut run = Run::new(record, context)?;
        if let Some(&newest) = context.store.rounds()?.last() {
            run.load(newest, &context.store)?;
        }
        Ok(Phase::Finishing(Finishing { run, summary, since: now }))
    }

    /// Takes a message of a guest, as the transport knows it.
    pub fn handle(&mut self, now: Now, from: &PartyId, message: ToHost) -> ToGuestOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.context.guests.begin_turn(now);
        let handled = self.dispatch(from, message);
        self.end_turn(handled)
    }

    /// Lets time pass: what was not answered is asked again, and every wait ends.
    pub fn tick(&mut self, now: Now) -> ToGuestOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.context.guests.begin_turn(now);
        let context = &mut self.context;
        let ticked = match &mut self.phase {
            Phase::Gathering(phase) => phase.tick(context),
            Phase::Training(phase) => phase.tick(context),
            Phase::Checkpointing(phase) => phase.tick(context),
            Phase::Finishing(phase) => phase.tick(context),
            Phase::Finished(_) | Phase::Stopped(_) | Phase::Changing => Ok(Transition::Stay),
        };
        let out = self.end_turn(ticked);
        if self.ended().is_some() {
            return out;
        }
        let beaten = self.context.guests.heartbeats(|guest, _| !guest.finished);
        let beaten = beaten.map(|()| Transition::Stay).map_err(PartyError::from);
        out.into_iter().chain(self.end_turn(beaten)).collect()
    }

    /// Ends the run because someone says so. It can continue later.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToGuestOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.context.guests.begin_turn(now);
        self.end_turn(Err(PartyError::Stopped { reason }))
    }

    /// What it does without a guest.
    pub fn absent(&self) -> AbsencePolicy {
        self.context.settings.absent
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<HostEnd<'_>> {
        match &self.phase {
            Phase::Finished(phase) => Some(HostEnd::Finished(&phase.summary)),
            Phase::Stopped(stopped) => Some(HostEnd::Stopped(&stopped.error)),
            _ => None,
        }
    }

    /// Guests that have not said that they are done.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &PartyId> {
        self.context.guests.iter().filter(|(_, guest)| !guest.finished).map(|(party, _)| party)
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.context.events)
    }

    /// Its model, once a run has begun.
    pub fn model(&self) -> Option<&M> {
        self.phase.run().map(|run| &run.model)
    }

    /// The same, as a value.
    pub fn into_model(self) -> Option<M> {
        self.phase.into_run().map(|run| run.model)
    }

    /// The epochs so far.
    pub fn history(&self) -> &[EpochLosses] {
        self.phase.run().map_or(&[], Run::history)
    }

    /// The run that it leads, once there is one.
    pub fn run(&self) -> Option<RunId> {
        self.phase.record().map(|record| record.run)
    }

    /// The last round it has finished.
    pub fn round(&self) -> Round {
        self.phase.round()
    }

    /// The guests that are there.
    pub fn present(&self) -> impl Iterator<Item = &PartyId> {
        self.context.guests.iter().filter(|(_, guest)| guest.present).map(|(party, _)| party)
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        self.context.guests.ledger()
    }

    #[cfg(feature = "network")]
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.context.guests.ledger_mut()
    }

    fn dispatch(&mut self, from: &PartyId, message: ToHost) -> Result<Transition, PartyError> {
        if !self.context.guests.hear(from)? {
            return Ok(Transition::Stay);
        }
        match message {
            ToHost::Hello(hello) => self.hello(from, *hello),
            ToHost::Heartbeat => {
                if self.context.guests.get(from).is_some_and(|guest| !guest.present) {
                    self.context.guests.request_missing_hello(from)?;
                }
                Ok(Transition::Stay)
            }
            ToHost::Leave { session, departure } => self.leave(from, session, departure),
            ToHost::Live(_) => {
                Err(PartyError::misbehaved(from, "it wants to estimate live, and this host trains"))
            }
            message => match message.exchange() {
                Some(exchange) => self.answer(from, exchange, message),
                None => Ok(Transition::Stay),
            },
        }
    }

    /// A message about an exchange.
    fn answer(
        &mut self,
        from: &PartyId,
        exchange: Exchange,
        message: ToHost,
    ) -> Result<Transition, PartyError> {
        let context = &mut self.context;
        // While guests gather, no exchange is under way.
        let run = match &mut self.phase {
            Phase::Training(Training { run, .. })
            | Phase::Checkpointing(Checkpointing { run, .. })
            | Phase::Finishing(Finishing { run, .. }) => run,
            _ => return Ok(Transition::Stay),
        };
        if !context.takes_part(from, exchange, &run.record)? {
            return Ok(Transition::Stay);
        }
        if let ToHost::Checkpointed { .. } = message {
            if exchange.round > run.done {
                let (found, done) = (exchange.round, run.done);
                let what = format!("it stored round {found}, but only {done} are done");
                return Err(PartyError::misbehaved(from, what));
            }
            if let Some(guest) = context.guests.get_mut(from) {
                guest.checkpoint = guest.checkpoint.max(Some(exchange.round));
            }
            return Ok(match &self.phase {
                Phase::Checkpointing(phase) => phase.finish_if_stored(context),
                _ => Transition::Stay,
            });
        }
        if let ToHost::Embedding { .. } = message {
            if let Some(guest) = context.guests.get_mut(from) {
                guest.answers(exchange.attempt, exchange.round);
            }
            if run.closed.as_ref().is_some_and(|closed| closed.round == exchange.round) {
                // It did not hear how that round ended.
                if let Some(message) = run.closed_for(from) {
                    context.guests.say(from, message)?;
                }
                return Ok(Transition::Stay);
            }
        }
        match &mut self.phase {
            Phase::Training(phase) => phase.answer(context, from, exchange, message),
            _ => Ok(Transition::Stay),
        }
    }

    fn hello(&mut self, from: &PartyId, hello: Hello) -> Result<Transition, PartyError> {
        let context = &mut self.context;
        if context.guests.get(from).is_none_or(|guest| guest.is_stale(&hello)) {
            return Ok(Transition::Stay);
        }
        context.check_hello(from, &hello, self.phase.record())?;
        if context.has_lost_checkpoints(from, &hello, self.phase.round())? {
            return Ok(Transition::Stay);
        }
        let resume_state = hello.resume_state.clone();
        let before = context.guests.get(from).map(|guest| guest.session);
        if let Some(run) = self.phase.run_mut() {
            if resume_state.run.is_none() {
                run.forget_commitments(from);
            }
            if before != Some(hello.session) {
                // With a new key, what was uploaded under the old one cannot be used.
                run.ciphertexts.remove(from);
            }
        }
        if let Phase::Training(phase) = &mut self.phase
            && before != Some(hello.session)
        {
            phase.open.forget_session(from);
        }
        if let Some(guest) = context.guests.get_mut(from) {
            guest.join(hello);
        }
        context.events.push(Event::Joined(from.clone()));
        match &mut self.phase {
            Phase::Gathering(_) => {
                Ok(match context.guests.iter().all(|(_, guest)| guest.hello.is_some()) {
                    true => Transition::Begin,
                    false => Transition::Stay,
                })
            }
            Phase::Training(phase) => phase.rejoin(context, from, &resume_state),
            Phase::Checkpointing(phase) => phase.rejoin(context, from, &resume_state),
            Phase::Finishing(phase) => phase.rejoin(context, from, &resume_state),
            Phase::Finished(_) | Phase::Stopped(_) | Phase::Changing => Ok(Transition::Stay),
        }
    }

    fn leave(
        &mut self,
        from: &PartyId,
        session: u64,
        departure: Departure,
    ) -> Result<Transition, PartyError> {
        if departure == Departure::Finished {
            return match &self.phase {
                Phase::Finishing(phase) => Ok(phase.confirm(&mut self.context, from)),
                _ => {
                    let what = "it has finished a run that has not ended";
                    Err(PartyError::misbehaved(from, what))
                }
            };
        }
        let Some(guest) = self.context.guests.get_mut(from) else { return Ok(Transition::Stay) };
        if session != guest.session {
            return Ok(Transition::Stay);
        }
        guest.is_gone(match &departure {
            Departure::Failed(reason) => reason.clone(),
            _ => StopReason::other("it was told to stop"),
        });
        // A guest that gives no more products never will: there is nobody to wait for.
        let spent =
            matches!(&departure, Departure::Failed(reason) if reason.code == StopCode::BudgetSpent);
        self.context.events.push(Event::Left(from.clone(), departure));
        if spent && !self.context.skips() {
            return Err(PartyError::BudgetSpent { party: from.clone() });
        }
        self.proceed_without(from)
    }

    /// What follows when a guest has gone.
    fn proceed_without(&mut self, party: &PartyId) -> Result<Transition, PartyError> {
        match &mut self.phase {
            Phase::Training(phase) => phase.proceed_without(&mut self.context, party),
            Phase::Checkpointing(phase) => phase.proceed_without(&mut self.context, party),
            _ => Ok(Transition::Stay),
        }
    }

    /// Refuses a guest for what it did.
    fn refuse(&mut self, party: &PartyId, error: &PartyError) -> Result<Transition, PartyError> {
        let (reason, mut session) = (StopReason::other(error), 0);
        if let Some(guest) = self.context.guests.get_mut(party) {
            session = guest.session;
            guest.is_gone(reason.clone());
        }
        self.context.events.push(Event::Refused(party.clone(), reason.text.clone()));
        self.context.guests.say(party, ToGuest::Refuse { session, reason })?;
        self.proceed_without(party)
    }

    /// Carries out what follows. A guest's error ends that guest's session; any other error ends the run.
    fn end_turn(&mut self, result: Result<Transition, PartyError>) -> ToGuestOutbox {
        let result = match result {
            Err(error) => match error.culprit().cloned() {
                Some(party) => self.refuse(&party, &error),
                None => Err(error),
            },
            transition => transition,
        };
        if let Err(error) = result.and_then(|transition| self.enter(transition)) {
            self.stop_on(error);
        }
        self.context.guests.take_outbox()
    }

    /// Enters the phases that follow, until one of them has to wait.
    fn enter(&mut self, mut transition: Transition) -> Result<(), PartyError> {
        loop {
            if matches!(transition, Transition::Stay) {
                return Ok(());
            }
            // An error on the way stops the host for good: what it had in memory is not needed any more.
            let phase = std::mem::replace(&mut self.phase, Phase::Changing);
            let context = &mut self.context;
            (self.phase, transition) = match (transition, phase) {
                (Transition::Begin, Phase::Gathering(phase)) => {
                    let run = phase.begin(context)?;
                    Training::enter(run, context)?
                }
                (
                    Transition::GatherAgain(newcomer),
                    Phase::Training(Training { run, .. })
                    | Phase::Checkpointing(Checkpointing { run, .. }),
                ) => Gathering::again(run, context, &newcomer)?,
                (Transition::Checkpoint, Phase::Training(phase)) => {
                    Checkpointing::enter(phase.run, context)
                }
                (Transition::Finish, Phase::Checkpointing(phase)) => {
                    (Phase::Finishing(Finishing::enter(phase.run, context)?), Transition::Stay)
                }
                (Transition::End, Phase::Finishing(phase)) => {
                    (Phase::Finished(phase), Transition::Stay)
                }
                (_, phase) => (phase, Transition::Stay),
            };
        }
    }

    /// Every guest is told; one that has broken its commitments is told of what.
    fn stop_on(&mut self, error: PartyError) {
        let reason = error.for_peers();
        let accused = match &error {
            PartyError::CommitmentMismatch { party, .. } => Some(party.clone()),
            _ => None,
        };
        let own = StopReason { code: reason.code, text: Text::of(&error) };
        self.context.guests.refuse_all(|party| {
            if accused.as_ref() == Some(party) { own.clone() } else { reason.clone() }
        });
        let run = std::mem::replace(&mut self.phase, Phase::Changing).into_run();
        self.phase = Phase::Stopped(Stopped { error, run });
    }
}

impl<M> Phase<M> {
    /// The run, where one is in memory.
    fn run(&self) -> Option<&Run<M>> {
        match self {
            Self::Gathering(phase) => phase.run(),
            Self::Training(phase) => Some(&phase.run),
            Self::Checkpointing(phase) => Some(&phase.run),
            Self::Finishing(phase) | Self::Finished(phase) => Some(&phase.run),
            Self::Stopped(stopped) => stopped.run.as_ref(),
            Self::Changing => None,
        }
    }

    fn run_mut(&mut self) -> Option<&mut Run<M>> {
        match self {
            Self::Gathering(phase) => phase.run_mut(),
            Self::Training(phase) => Some(&mut phase.run),
            Self::Checkpointing(phase) => Some(&mut phase.run),
            Self::Finishing(phase) | Self::Finished(phase) => Some(&mut phase.run),
            Self::Stopped(stopped) => stopped.run.as_mut(),
            Self::Changing => None,
        }
    }

    fn into_run(self) -> Option<Run<M>> {
        match self {
            Self::Gathering(phase) => phase.into_run(),
            Self::Training(phase) => Some(phase.run),
            Self::Checkpointing(phase) => Some(phase.run),
            Self::Finishing(phase) | Self::Finished(phase) => Some(phase.run),
            Self::Stopped(stopped) => stopped.run,
            Self::Changing => None,
        }
    }

    /// The record of the run, which may be in the store alone.
    fn record(&self) -> Option<&RunRecord> {
        match self {
            Self::Gathering(phase) => phase.record(),
            other => other.run().map(|run| &run.record),
        }
    }

    /// The last finished round.
    fn round(&self) -> Round {
        self.run().map_or(Round::START, |run| run.done)
    }
}
