//! A guest: embeds what it is asked for and learns from the gradients that come back.
//!
//! ```text
//! Joining ──Welcome──► Training ──Finish──► Finished
//!    └───────────────────┴── an error, a refusal, silence ──► Stopped
//! ```
//!
//! It takes messages and the time, and returns messages. Requests are idempotent: a duplicate gets the same bytes again, a
//! stale one is ignored. So lost, doubled, late and reordered messages change nothing.

mod coefficients;
mod commitments;
mod encryption;
mod joining;
mod run;
mod training;

use protocol::ledger::Ledger;
use protocol::message::measurements::MeasurementOffer;
use protocol::message::parts::{HeldSteps, Text};
use protocol::message::{Departure, Hello, PROTOCOL, ResumeState, Terms, ToGuest, ToHost, Welcome};
use protocol::party::{Attempt, Now, PartyId, Round, RunId};
use protocol::plan::{Plan, Summary};

use crate::error::{PartyError, same_subject};
use crate::keys::KeyAuthority;
use crate::model::{GuestModel, ModelFailure};
use crate::session::HostSession;
use crate::session::handshake::check_terms;
use crate::session::timing::Timing;
use crate::store::Store;
use run::{Run, RunRecord};
use training::Training;

pub use crate::session::host::ToHostOutbox;
pub use commitments::CommitmentPolicy;
pub(crate) use commitments::proof_context;
pub use encryption::DisclosurePolicy;
pub(crate) use encryption::MOST_SHARED_ANSWERS;
pub(crate) use run::{read_record, write_record};

/// What a guest is told by those who run it.
#[derive(Clone, Debug)]
pub struct GuestSettings {
    /// Its name.
    pub party: PartyId,
    /// The host's.
    pub host: PartyId,
    /// Version of its software, for logs.
    pub software: Text,
    /// Drawn anew at each start; not 0.
    pub session: u64,
    /// What all parties must agree on.
    pub terms: Terms,
    /// Digest of what is trained on what: a folder with checkpoints of something else is refused.
    pub subject: Text,
    /// What it can embed.
    pub held: HeldSteps,
    /// Numbers of its embeddings, per sample.
    pub width: u32,
    /// What it measures, and gives to a host that asks for it.
    pub measures: MeasurementOffer,
    /// What it discloses of encrypted measurements.
    pub sharing: DisclosurePolicy,
    /// How long it waits.
    pub timing: Timing,
}

/// Makes the guest's model once the plan is known.
pub type MakeGuestModel<M> = Box<dyn FnMut(&Plan) -> Result<M, ModelFailure> + Send>;

/// Something worth telling the people who run a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestEvent {
    /// It takes part from this round, and does again what it had begun after it, up to the second one.
    Begun {
        /// The attempt.
        attempt: Attempt,
        /// The last round that counts as done.
        round: Round,
        /// The furthest round that it had come to before.
        furthest: Round,
    },
    /// It has stored its state.
    Checkpointed(Round),
}

/// A guest, see the [module](self).
pub struct Guest<M, S> {
    context: GuestContext<M, S>,
    phase: Phase<M>,
}

/// What all phases of a guest share.
struct GuestContext<M, S> {
    settings: GuestSettings,
    make: MakeGuestModel<M>,
    store: S,
    host: HostSession,
    /// The number of its last hello.
    hellos: u64,
    /// The round of the last message before this start.
    before: Option<Round>,
    /// Where it gets public keys, if an authority draws them.
    keys: Option<Box<dyn KeyAuthority>>,
    events: Vec<GuestEvent>,
}

/// Where a guest stands; each phase owns what only it needs.
enum Phase<M> {
    /// With the record of the run that its checkpoints belong to, if it has any.
    Joining(Option<Box<RunRecord>>),
    Training(Box<Training<M>>),
    Finished(Box<Finished<M>>),
    Stopped(Box<Stopped<M>>),
    /// Between two phases.
    Changing,
}

/// The run is over.
struct Finished<M> {
    summary: Summary,
    run: Run<M>,
}

/// The guest cannot continue.
struct Stopped<M> {
    error: PartyError,
    /// None if it stopped before it had one.
    run: Option<Run<M>>,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub enum GuestEnd<'a> {
    /// The run has finished; the model has the best weights.
    Finished(&'a Summary),
    /// It cannot continue.
    Stopped(&'a PartyError),
}

impl<M: GuestModel, S: Store> Guest<M, S> {
    /// A guest that is about to join, or to continue after a restart: [`tick`](Self::tick) makes it speak.
    pub fn new(
        settings: GuestSettings,
        mut make: MakeGuestModel<M>,
        store: S,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        settings.timing.check().map_err(PartyError::misuse)?;
        settings.measures.check().map_err(PartyError::misuse)?;
        let record: Option<RunRecord> = read_record(&store)?;
        if let Some(record) = &record {
            same_subject(&record.subject, &settings.subject)?;
        }
        let finished = record.as_ref().and_then(|record| record.finished.clone());
        let phase = match (record, finished) {
            (Some(record), Some(summary)) => {
                let model = make(&record.plan)?;
                let layout = settings.measures.layout.of(&record.plan.measured);
                let mut run = Run::new(record, Attempt::default(), layout, model)?;
                if let Some(&newest) = store.rounds()?.last() {
                    run.restore(&store.get(newest)?)?;
                }
                Phase::Finished(Box::new(Finished { summary, run }))
            }
            (record, _) => Phase::Joining(record.map(Box::new)),
        };
        let (host, timing, before) = (settings.host.clone(), settings.timing, ledger.last_round());
        let host = HostSession::new(host, settings.session, timing, ledger, now);
        let events = Vec::new();
        let keys = None;
        let context = GuestContext { settings, make, store, host, hellos: 0, before, keys, events };
        Ok(Self { context, phase })
    }

    /// With a key authority, for hosts whose products need its keys.
    pub fn with_key_authority(mut self, keys: Box<dyn KeyAuthority>) -> Self {
        self.context.keys = Some(keys);
        self
    }

    /// Takes a message of the host.
    pub fn handle(&mut self, now: Now, message: ToGuest) -> ToHostOutbox {
        if matches!(self.phase, Phase::Stopped(_)) {
            return Vec::new();
        }
        self.context.host.begin_turn(now);
        self.context.host.hear();
        let handled = self.dispatch(message);
        self.end_turn(handled)
    }

    /// There is a connection to the host: what was said before it did not leave, so a guest that wants to join says hello again.
    pub fn connected(&mut self, now: Now) -> ToHostOutbox {
        if !matches!(self.phase, Phase::Joining(_)) {
            return Vec::new();
        }
        self.context.host.begin_turn(now);
        let said = self.say_hello();
        self.end_turn(said)
    }

    /// Lets time pass: what was not answered is sent again, and every wait ends.
    pub fn tick(&mut self, now: Now) -> ToHostOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.context.host.begin_turn(now);
        let ticked = self.wait();
        self.end_turn(ticked)
    }

    fn wait(&mut self) -> Result<(), PartyError> {
        let host = &mut self.context.host;
        host.check_silence()?;
        match self.phase {
            Phase::Joining(_) if host.resend_due() => self.say_hello(),
            // Embeddings are large: they are sent again only to a host that asks again.
            Phase::Training(_) => Ok(host.heartbeat_if_due()?),
            _ => Ok(()),
        }
    }

    /// Takes part no longer, because someone says so. It can come back later.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToHostOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.context.host.begin_turn(now);
        // Whether or not the host hears of it, this guest stops.
        let _ = self.context.host.leave(Departure::Stopped);
        self.enter_stopped(PartyError::Stopped { reason });
        self.context.host.take_outbox()
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<GuestEnd<'_>> {
        match &self.phase {
            Phase::Finished(finished) => Some(GuestEnd::Finished(&finished.summary)),
            Phase::Stopped(stopped) => Some(GuestEnd::Stopped(&stopped.error)),
            Phase::Joining(_) | Phase::Training(_) | Phase::Changing => None,
        }
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<GuestEvent> {
        std::mem::take(&mut self.context.events)
    }

    /// Its model, once a run has begun.
    pub fn model(&self) -> Option<&M> {
        self.phase.run().map(|run| &run.model)
    }

    /// The same, to be changed.
    pub fn model_mut(&mut self) -> Option<&mut M> {
        match &mut self.phase {
            Phase::Training(training) => Some(&mut training.run.model),
            Phase::Finished(finished) => Some(&mut finished.run.model),
            Phase::Stopped(stopped) => stopped.run.as_mut().map(|run| &mut run.model),
            Phase::Joining(_) | Phase::Changing => None,
        }
    }

    /// The same, as a value.
    pub fn into_model(self) -> Option<M> {
        self.phase.into_run().map(|run| run.model)
    }

    /// The run that it takes part in, once there is one.
    pub fn run(&self) -> Option<RunId> {
        self.phase.run().map(|run| run.record.run)
    }

    /// The last round it has finished.
    pub fn round(&self) -> Round {
        self.phase.run().map_or(Round::START, |run| run.done)
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        self.context.host.ledger()
    }

    #[cfg(feature = "network")]
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.context.host.ledger_mut()
    }

    fn dispatch(&mut self, message: ToGuest) -> Result<(), PartyError> {
        match (&mut self.phase, message) {
            (_, ToGuest::HelloRequest) => self.say_hello(),
            (_, ToGuest::Welcome(welcome)) => self.welcome(*welcome),
            (_, ToGuest::Finish { run, attempt, summary }) => self.finish(run, attempt, summary),
            (Phase::Finished(_), ToGuest::Refuse { .. }) => Ok(()),
            (_, ToGuest::Refuse { session, reason }) => self.context.host.refused(session, reason),
            (_, ToGuest::Live(_) | ToGuest::Heartbeat) => Ok(()),
            (Phase::Training(training), message) => training.answer(&mut self.context, message),
            (_, _) => Ok(()),
        }
    }

    fn say_hello(&mut self) -> Result<(), PartyError> {
        let (record, in_memory) = match &self.phase {
            Phase::Joining(record) => (record.as_deref(), None),
            Phase::Training(training) => {
                let run = &training.run;
                (Some(&run.record), Some((run.attempt, run.done)))
            }
            Phase::Finished(_) => return Ok(self.context.host.leave(Departure::Finished)?),
            Phase::Stopped(_) | Phase::Changing => return Ok(()),
        };
        self.context.say_hello(record, in_memory)
    }

    fn welcome(&mut self, welcome: Welcome) -> Result<(), PartyError> {
        let context = &mut self.context;
        // An answer to an earlier start of this guest.
        if welcome.session != context.host.id() {
            return Ok(());
        }
        match &mut self.phase {
            Phase::Joining(record) => {
                context.check_welcome(&welcome, record.as_deref())?;
                match context.begin(record.take().map(|record| *record), welcome)? {
                    Ok(training) => self.phase = Phase::Training(Box::new(training)),
                    Err(record) => self.phase = Phase::Joining(Some(Box::new(record))),
                }
                Ok(())
            }
            Phase::Training(training) => {
                context.check_welcome(&welcome, Some(&training.run.record))?;
                training.welcome(context, welcome.attempt, welcome.resume)
            }
            Phase::Finished(_) | Phase::Stopped(_) | Phase::Changing => Ok(()),
        }
    }

    fn finish(&mut self, run: RunId, attempt: Attempt, summary: Summary) -> Result<(), PartyError> {
        let context = &mut self.context;
        match &mut self.phase {
            Phase::Finished(_) => {}
            Phase::Training(training)
                if (training.run.record.run, training.run.attempt) == (run, attempt) =>
            {
                let ours = &mut training.run;
                // The end of the last exchange may be lost; if more is missing, the host must say what.
                if ours.done.next() < summary.rounds {
                    return self.say_hello();
                }
                ours.record.finished = Some(summary.clone());
                write_record(&mut context.store, &ours.record)?;
                context.host.ledger_mut().sync()?;
            }
            _ => return Ok(()),
        }
        self.phase = match std::mem::replace(&mut self.phase, Phase::Changing) {
            Phase::Training(training) => {
                Phase::Finished(Box::new(Finished { summary, run: training.run }))
            }
            other => other,
        };
        Ok(self.context.host.leave(Departure::Finished)?)
    }

    fn end_turn(&mut self, done: Result<(), PartyError>) -> ToHostOutbox {
        if let Err(error) = done {
            self.context.host.leave_on(&error);
            self.enter_stopped(error);
        }
        self.context.host.take_outbox()
    }

    fn enter_stopped(&mut self, error: PartyError) {
        let run = std::mem::replace(&mut self.phase, Phase::Changing).into_run();
        self.phase = Phase::Stopped(Box::new(Stopped { error, run }));
    }
}

impl<M, S: Store> GuestContext<M, S> {
    fn say_hello(
        &mut self,
        record: Option<&RunRecord>,
        in_memory: Option<(Attempt, Round)>,
    ) -> Result<(), PartyError> {
        self.hellos += 1;
        let settings = &self.settings;
        let hello = Hello {
            protocol: PROTOCOL,
            software: settings.software.clone(),
            party: settings.party.clone(),
            session: settings.session,
            greeting: self.hellos,
            terms: settings.terms.clone(),
            held: settings.held.clone(),
            width: settings.width,
            offer: settings.measures.clone(),
            resume_state: ResumeState {
                run: record.map(|record| record.run),
                checkpoints: self.store.rounds()?,
                in_memory,
            },
        };
        Ok(self.host.say(ToHost::Hello(Box::new(hello)))?)
    }

    /// Refuses a welcome that does not fit, or not the run that this guest has checkpoints of.
    fn check_welcome(
        &self,
        welcome: &Welcome,
        record: Option<&RunRecord>,
    ) -> Result<(), PartyError> {
        let host = &self.settings.host;
        check_terms(host, welcome.protocol, &welcome.terms, &self.settings.terms)?;
        welcome.plan.check().map_err(|error| {
            PartyError::misbehaved(host, format!("its plan is out of bounds: {error}"))
        })?;
        self.check_measurements(&welcome.plan)?;
        self.check_commitments(&welcome.plan)?;
        record.map_or(Ok(()), |record| self.check_same_run(welcome, record))
    }
}

impl<M> Phase<M> {
    /// The run, where one is in memory.
    fn run(&self) -> Option<&Run<M>> {
        match self {
            Self::Training(training) => Some(&training.run),
            Self::Finished(finished) => Some(&finished.run),
            Self::Stopped(stopped) => stopped.run.as_ref(),
            Self::Joining(_) | Self::Changing => None,
        }
    }

    fn into_run(self) -> Option<Run<M>> {
        match self {
            Self::Training(training) => Some(training.run),
            Self::Finished(finished) => Some(finished.run),
            Self::Stopped(stopped) => stopped.run,
            Self::Joining(_) | Self::Changing => None,
        }
    }
}
