//! A guest: embeds what it is asked for and learns from the gradients that come back.
//!
//! ```text
//! Joining ──Welcome──► Training ──Finish──► Finished
//!    └───────────────────┴── an error, a refusal, silence ──► Stopped
//! ```
//!
//! It takes messages and the time, and returns messages. An exchange that was answered before is
//! answered with the same bytes again; one that is over is ignored; so lost, doubled, late and
//! reordered messages change nothing.

mod committing;
mod exchange;
mod joining;
mod lending;
mod sealing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::compression::Feedback;
use protocol::ledger::{Ledger, Released};
use protocol::message::committed::Digest;
use protocol::message::measurements::{MeasurementLayout, MeasurementOffer};
use protocol::message::parts::{Batch, HeldSteps, Text};
use protocol::message::sealed::{MissingCiphertexts, Sealed};
use protocol::message::{Departure, Exchange, Purpose, StopCode, Terms, ToGuest, ToHost};
use protocol::party::{Attempt, Now, PartyId, Round, RunId};
use protocol::plan::{Plan, Summary};
use serde::{Deserialize, Serialize};

use crate::error::{PartyError, same_subject};
use crate::model::{GuestModel, ModelFailure};
use crate::store::{Store, StoreError};
use crate::timing::{Timing, lasted};
use lending::MessageHead;

pub use committing::CommitmentPolicy;
pub(crate) use committing::context;
pub use sealing::DisclosurePolicy;

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
    /// OptimiserSettings of its embeddings, per sample.
    pub width: u32,
    /// What it measures, and gives to a host that asks for it.
    pub measures: MeasurementOffer,
    /// What it gives of sealed measurements.
    pub sharing: DisclosurePolicy,
    /// How long it waits.
    pub timing: Timing,
}

/// Makes the guest's model once the plan is known.
pub type MakeGuestModel<M> = Box<dyn FnMut(&Plan) -> Result<M, ModelFailure> + Send>;

/// Messages to the host.
pub type ToHostOutbox = Vec<Released<ToHost>>;

/// A guest, see the [module](self).
pub struct Guest<M, S> {
    settings: GuestSettings,
    make: MakeGuestModel<M>,
    store: S,
    ledger: Ledger,
    card: Option<RunRecord>,
    running: Option<Running<M>>,
    stage: Stage,
    greeting: u64,
    heard: Duration,
    /// When it last said anything.
    said: Option<Duration>,
}

/// Where a guest stands.
#[derive(Debug)]
enum Stage {
    Joining,
    Training,
    Finished(Summary),
    Stopped(PartyError),
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub enum GuestEnd<'a> {
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
    plan: Plan,
    subject: Text,
    /// What its commitments are hidden by, where it commits to its data. As secret as the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blinding: Option<committing::StoredSeed>,
    finished: Option<Summary>,
}

/// A run that the guest has in memory.
struct Running<M> {
    run: RunId,
    attempt: Attempt,
    plan: Plan,
    /// What the plan asks for of what the guest measures.
    asked: MeasurementLayout,
    model: M,
    initial: Vec<u8>,
    /// What compression has lost of embeddings.
    feedback: Feedback,
    /// The last finished round.
    done: Round,
    /// The exchange that waits for its end.
    open: Option<Open>,
    /// What was asked too early: the end of the exchange before it is still on its way.
    early: Option<Asked>,
    /// Where measurements are sealed.
    encryption: Option<sealing::EncryptionState>,
    /// Where it commits to its data.
    committed: committing::Committed,
}

/// A query for embeddings.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    exchange: Exchange,
    purpose: Purpose,
    batch: Batch,
    missing: Option<MissingCiphertexts>,
}

struct Open {
    exchange: Exchange,
    purpose: Purpose,
    batch: Batch,
    /// What it has said to it.
    answers: Vec<ToHost>,
    answered: Duration,
    /// The query about sealed measurements that it has answered.
    query: Option<Sealed>,
    /// The coefficient_requests that it has answered, by whom they are for.
    coefficient_requests: BTreeMap<PartyId, MessageHead>,
    /// Questions and coefficient_requests that others have taken the place of: they may still come late, or twice.
    superseded: BTreeSet<MessageHead>,
    /// The challenge to that query that it has answered.
    challenge: Option<Digest>,
}

impl<M: GuestModel, S: Store> Guest<M, S> {
    /// A guest that is about to join, or to go on after a restart: [`tick`](Self::tick) makes it
    /// speak.
    pub fn new(
        settings: GuestSettings,
        mut make: MakeGuestModel<M>,
        store: S,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        settings.timing.check().map_err(PartyError::misuse)?;
        settings.measures.check().map_err(PartyError::misuse)?;
        let card: Option<RunRecord> = read_card(&store)?;
        if let Some(card) = &card {
            same_subject(&card.subject, &settings.subject)?;
        }
        let mut stage = Stage::Joining;
        let mut running = None;
        if let Some(RunRecord { run, plan, finished: Some(summary), .. }) = &card {
            let model = make(plan)?;
            let asked = settings.measures.layout.of(&plan.measured);
            let mut ended = Running::new(*run, Attempt::default(), plan.clone(), asked, model)?;
            if let Some(&newest) = store.rounds()?.last() {
                ended.restore(&store.get(newest)?)?;
            }
            running = Some(ended);
            stage = Stage::Finished(summary.clone());
        }
        let (heard, greeting) = (now.monotonic, 0);
        let said = None;
        Ok(Self { settings, make, store, ledger, card, running, stage, greeting, heard, said })
    }

    /// Takes a message of the host.
    pub fn handle(&mut self, now: Now, message: ToGuest) -> ToHostOutbox {
        let mut out = Vec::new();
        if matches!(self.stage, Stage::Stopped(_)) {
            return out;
        }
        self.heard = now.monotonic;
        let handled = match message {
            ToGuest::HelloRequest => self.greet(now, &mut out),
            ToGuest::Welcome(welcome) => self.welcome(now, *welcome, &mut out),
            ToGuest::EmbeddingRequest { exchange, purpose, batch, missing } => {
                self.ask(now, Asked { exchange, purpose, batch, missing }, &mut out)
            }
            ToGuest::ProductQuery { exchange, query } => self.query(now, exchange, query, &mut out),
            ToGuest::EncryptedCoefficients { exchange, recipient, key, entries, coefficients } => {
                let key = key.as_ref();
                let (entries, coefficients) = (&entries, &coefficients);
                let request = lending::ShareRequest { recipient, key, entries, coefficients };
                self.encrypted_coefficients(now, exchange, request, &mut out)
            }
            ToGuest::Commitment(message) => self.commitment_request(now, message, &mut out),
            ToGuest::MaskedGradient { exchange, gradient } => {
                self.masked_gradient(now, exchange, &gradient, &mut out)
            }
            ToGuest::Gradient { exchange, gradient } => {
                self.gradient(now, exchange, &gradient, &mut out)
            }
            ToGuest::ExchangeClosed { exchange, best, trained } => {
                self.exchange_closed(now, exchange, best, trained, &mut out)
            }
            ToGuest::Finish { run, attempt, summary } => {
                self.finish(now, run, attempt, summary, &mut out)
            }
            ToGuest::Refuse { session, reason } => self.refused(session, reason),
            ToGuest::Live(_) | ToGuest::Heartbeat => Ok(()),
        };
        self.stop_on_error(now, handled, &mut out);
        out
    }

    /// Lets time pass: what was not answered is said again, and nothing is waited for for ever.
    pub fn tick(&mut self, now: Now) -> ToHostOutbox {
        let mut out = Vec::new();
        let ticked = self.wait(now, &mut out);
        self.stop_on_error(now, ticked, &mut out);
        out
    }

    fn wait(&mut self, now: Now, out: &mut ToHostOutbox) -> Result<(), PartyError> {
        if self.ended().is_some() {
            return Ok(());
        }
        let timing = self.settings.timing;
        if lasted(self.heard, now.monotonic, timing.limit) {
            let seconds = now.monotonic.saturating_sub(self.heard).as_secs_f64();
            return Err(PartyError::HostSilent { seconds });
        }
        if matches!(self.stage, Stage::Joining) {
            if self.quiet_for(now, timing.resend) {
                self.greet(now, out)?;
            }
            return Ok(());
        }
        // Embeddings are large: they are sent again only to a host that asks again.
        if self.quiet_for(now, timing.heartbeat) {
            self.say(now, ToHost::Heartbeat, out)?;
        }
        Ok(())
    }

    /// Takes part no longer, because someone says so. It can come back later.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToHostOutbox {
        let mut out = Vec::new();
        if self.ended().is_none() {
            // Whether or not the host hears of it, this guest stops.
            let _ = self.goodbye(now, Departure::Stopped, &mut out);
            self.stage = Stage::Stopped(PartyError::Stopped { reason });
        }
        out
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<GuestEnd<'_>> {
        match &self.stage {
            Stage::Joining | Stage::Training => None,
            Stage::Finished(summary) => Some(GuestEnd::Finished(summary)),
            Stage::Stopped(error) => Some(GuestEnd::Stopped(error)),
        }
    }

    /// Its model, once a run has begun.
    pub fn model(&self) -> Option<&M> {
        self.running.as_ref().map(|running| &running.model)
    }

    /// The same, to be changed.
    pub fn model_mut(&mut self) -> Option<&mut M> {
        self.running.as_mut().map(|running| &mut running.model)
    }

    /// The same, to be taken apart.
    pub fn into_model(self) -> Option<M> {
        self.running.map(|running| running.model)
    }

    /// The run that it takes part in, once there is one.
    pub fn run(&self) -> Option<RunId> {
        self.running.as_ref().map(|running| running.run)
    }

    /// The last round it has finished.
    pub fn round(&self) -> Round {
        self.running.as_ref().map_or(Round::START, |running| running.done)
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn quiet_for(&self, now: Now, long: Duration) -> bool {
        self.said.is_none_or(|said| lasted(said, now.monotonic, long))
    }

    fn say(&mut self, now: Now, message: ToHost, out: &mut ToHostOutbox) -> Result<(), PartyError> {
        out.push(self.ledger.release(now, &self.settings.host, message)?);
        self.said = Some(now.monotonic);
        Ok(())
    }

    /// What has been said before, word for word.
    fn say_again(
        &mut self,
        now: Now,
        message: ToHost,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        out.push(self.ledger.release_again(now, &self.settings.host, message)?);
        self.said = Some(now.monotonic);
        Ok(())
    }

    fn goodbye(
        &mut self,
        now: Now,
        departure: Departure,
        out: &mut ToHostOutbox,
    ) -> Result<(), PartyError> {
        let session = self.settings.session;
        self.say(now, ToHost::Leave { session, departure }, out)
    }

    fn stop_on_error(&mut self, now: Now, done: Result<(), PartyError>, out: &mut ToHostOutbox) {
        let Err(error) = done else { return };
        // Its ledger is to say that it was found forging data, whether or not anyone hears of it.
        let accused = match &error {
            PartyError::HostStopped { reason } if reason.code == StopCode::CommitmentMismatch => {
                Some(reason.clone())
            }
            _ => None,
        };
        if let Some(reason) = accused {
            let _ = self.goodbye(now, Departure::Failed(reason), out);
        } else if !matches!(error, PartyError::HostStopped { .. }) {
            // A ledger that cannot be written lets nothing out, not even this: the host will notice
            // the silence.
            let _ = self.goodbye(now, Departure::Failed(error.for_peers()), out);
        }
        self.stage = Stage::Stopped(error);
    }
}

impl<M: GuestModel> Running<M> {
    fn new(
        run: RunId,
        attempt: Attempt,
        plan: Plan,
        asked: MeasurementLayout,
        model: M,
    ) -> Result<Self, ModelFailure> {
        let initial = model.save()?;
        let (feedback, done) = (Feedback::default(), Round::START);
        let (open, early, encryption) = (None, None, None);
        let committed = committing::Committed::default();
        Ok(Self {
            run,
            attempt,
            plan,
            asked,
            model,
            initial,
            feedback,
            done,
            open,
            early,
            encryption,
            committed,
        })
    }

    /// All that changes in training.
    fn save(&self) -> Result<Vec<u8>, ModelFailure> {
        let mut bytes = Vec::new();
        self.feedback.save(&mut bytes);
        bytes.extend(self.model.save()?);
        Ok(bytes)
    }

    /// Goes back to what was saved.
    fn restore(&mut self, mut saved: &[u8]) -> Result<(), PartyError> {
        self.feedback = Feedback::restore(&mut saved).map_err(StoreError::from)?;
        Ok(self.model.restore(saved)?)
    }

    /// Goes back to the beginning.
    fn begin_anew(&mut self) -> Result<(), ModelFailure> {
        self.feedback = Feedback::default();
        self.model.restore(&self.initial)
    }
}

/// The card beside some checkpoints.
pub(crate) fn read_card<C: serde::de::DeserializeOwned>(
    store: &impl Store,
) -> Result<Option<C>, StoreError> {
    let Some(bytes) = store.card()? else { return Ok(None) };
    let card = serde_json::from_slice(&bytes).map_err(|error| StoreError::Content {
        path: "run.json".into(),
        problem: error.to_string(),
    })?;
    Ok(Some(card))
}

/// Writes the card beside some checkpoints.
pub(crate) fn write_card(store: &mut impl Store, card: &impl Serialize) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(card).map_err(|error| StoreError::Content {
        path: "run.json".into(),
        problem: error.to_string(),
    })?;
    store.put_run_record(&bytes)
}
