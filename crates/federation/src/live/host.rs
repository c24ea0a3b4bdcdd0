//! The host of trained parties: collects embeddings of each step until its deadline, then estimates.

use std::collections::BTreeMap;

use protocol::ledger::Ledger;
use protocol::message::live::{FromLiveGuest, FromLiveHost, LiveHello, LiveWelcome};
use protocol::message::parts::{Embedding, Text};
use protocol::message::{PROTOCOL, StopReason, ToGuest, ToHost};
use protocol::party::{Now, PartyId};
use traffic::Step;

use super::LARGEST;
use super::estimate::{Estimated, LiveEvent, LiveHostSettings, LiveModel, Participation};
use super::guest_state::{LiveGuestCounts, LiveGuestState, Placed};
use super::ledger_sync::LedgerSync;
use super::open_steps::{OpenStep, OpenSteps, WentBack};
use crate::error::PartyError;
use crate::model::Embeddings;
use crate::session::GuestSessions;
use crate::session::guests::{ToGuestOutbox, is_due};
use crate::session::handshake::{check_name, check_terms, check_width};

/// The host, see the [module](super).
pub struct LiveHost<M: LiveModel> {
    settings: LiveHostSettings,
    model: M,
    guests: GuestSessions<LiveGuestState<Embedding>>,
    steps: OpenSteps<M::Own>,
    ledger_sync: LedgerSync,
    events: Vec<LiveEvent<M::Estimate>>,
    stopped: Option<PartyError>,
}

impl<M: LiveModel> LiveHost<M> {
    /// A host without guests yet.
    pub fn new(settings: LiveHostSettings, model: M, ledger: Ledger, now: Now) -> Self {
        let parties = settings.guests.keys();
        let parties = parties.map(|party| (party.clone(), LiveGuestState::default()));
        let guests = GuestSessions::new(ledger, settings.timing, now, parties, None);
        Self {
            settings,
            model,
            guests,
            steps: OpenSteps::new(),
            ledger_sync: LedgerSync::from(now),
            events: Vec::new(),
            stopped: None,
        }
    }

    /// The host's own numbers of a step are there: it opens. Steps come in order; others are left out,
    /// and the first of them is an event.
    pub fn open(&mut self, now: Now, step: Step, own: M::Own) -> ToGuestOutbox {
        if self.stopped.is_some() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        if let Err(WentBack(newest)) = self.steps.push(step, own, now.monotonic) {
            let event = newest.map(|newest| LiveEvent::WentBack { step, newest });
            self.events.extend(event);
            return Vec::new();
        }
        let done = self.settle();
        self.end_turn(done)
    }

    /// Takes a message of a guest, as the transport knows it.
    pub fn handle(&mut self, now: Now, from: &PartyId, message: ToHost) -> ToGuestOutbox {
        if self.stopped.is_some() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        let done = self.dispatch(from, message);
        self.end_turn(done)
    }

    /// A guest's connection has come or gone.
    pub fn connection(&mut self, now: Now, guest: &PartyId, connected: bool) -> ToGuestOutbox {
        if self.stopped.is_some() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        self.guests.note_connection(guest);
        if let Some(guest) = self.guests.get_mut(guest) {
            guest.connection(connected);
        }
        let done = self.settle();
        self.end_turn(done)
    }

    /// Lets time pass: settles what is due.
    pub fn tick(&mut self, now: Now) -> ToGuestOutbox {
        if self.stopped.is_some() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        let done = self.settle().and_then(|()| self.wait(now));
        self.end_turn(done)
    }

    fn wait(&mut self, now: Now) -> Result<(), PartyError> {
        let silence = self.settings.timing.silence;
        self.guests.heartbeats(|guest, heard| guest.is_present(heard, now.monotonic, silence))?;
        self.ledger_sync.tick(self.guests.ledger_mut(), now)
    }

    /// Ends because someone says so; guests are told.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToGuestOutbox {
        if self.stopped.is_some() {
            return Vec::new();
        }
        self.guests.begin_turn(now);
        self.end_turn(Err(PartyError::Stopped { reason }))
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<&PartyError> {
        self.stopped.as_ref()
    }

    /// Whether steps wait for their guests.
    pub fn is_waiting(&self) -> bool {
        !self.steps.is_empty()
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<LiveEvent<M::Estimate>> {
        std::mem::take(&mut self.events)
    }

    /// Each guest: whether steps wait for it, and what became of its embeddings.
    pub fn sessions(&self, now: Now) -> impl Iterator<Item = (&PartyId, bool, LiveGuestCounts)> {
        let silence = self.settings.timing.silence;
        self.guests.iter().map(move |(party, guest)| {
            let heard = self.guests.heard(party);
            (party, guest.is_waited_for(heard, now.monotonic, silence), guest.counts)
        })
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        self.guests.ledger()
    }

    #[cfg(feature = "network")]
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.guests.ledger_mut()
    }

    fn dispatch(&mut self, from: &PartyId, message: ToHost) -> Result<(), PartyError> {
        if !self.guests.hear(from)? {
            return Ok(());
        }
        match message {
            ToHost::Live(FromLiveGuest::Hello(hello)) => self.hello(from, &hello),
            ToHost::Live(FromLiveGuest::Embedding { session, step, embedding }) => {
                self.embedding(from, session, step, embedding)
            }
            ToHost::Heartbeat => {
                if self.guests.get(from).is_some_and(|guest| guest.session.is_none()) {
                    self.guests.request_missing_hello(from)?;
                }
                Ok(())
            }
            ToHost::Leave { session, departure } => {
                let guest = self.guests.get_mut(from);
                if let Some(guest) = guest.filter(|guest| guest.session == Some(session)) {
                    guest.session = None;
                    self.events.push(LiveEvent::Left(from.clone(), departure));
                }
                self.settle()
            }
            other => {
                let what = format!(
                    "it sent `{}`: it wants to train, and this host estimates live",
                    other.kind()
                );
                Err(PartyError::misbehaved(from, what))
            }
        }
    }

    fn hello(&mut self, from: &PartyId, hello: &LiveHello) -> Result<(), PartyError> {
        let (now, resend) = (self.guests.now(), self.settings.timing.resend);
        // A hello that is lost so is repeated.
        let guest = self.guests.get_mut(from);
        if !guest.is_some_and(|guest| is_due(&mut guest.greeted, now, resend)) {
            return Ok(());
        }
        check_name(from, &hello.party)?;
        let settings = &self.settings;
        check_terms(from, hello.protocol, &hello.terms, &settings.terms)?;
        check_width(from, hello.width, settings.guests.get(from).copied())?;
        let welcome = LiveWelcome {
            protocol: PROTOCOL,
            software: settings.software.clone(),
            session: hello.session,
            terms: settings.terms.clone(),
        };
        if let Some(guest) = self.guests.get_mut(from) {
            if guest.session != Some(hello.session) {
                guest.join(hello.session, self.steps.settled().is_some());
                self.guests.clear_asked(from);
                self.events.push(LiveEvent::Joined(from.clone()));
            }
            // A transport without connections has nobody else to say so.
            if let Some(guest) = self.guests.get_mut(from) {
                guest.connected = true;
            }
        }
        Ok(self.guests.say(from, ToGuest::Live(FromLiveHost::Welcome(Box::new(welcome))))?)
    }

    fn embedding(
        &mut self,
        from: &PartyId,
        session: u64,
        step: Step,
        embedding: Embedding,
    ) -> Result<(), PartyError> {
        let width = self.settings.guests.get(from).copied().unwrap_or_default() as usize;
        let (opened, deadline) = (self.steps.opened(step), self.settings.deadline);
        let prompt = opened.is_some_and(|since| !self.guests.lasted(since, deadline));
        let Some(guest) = self.guests.get_mut(from) else { return Ok(()) };
        if guest.session != Some(session) {
            guest.counts.strange += 1;
            if guest.session.is_none() {
                self.guests.request_missing_hello(from)?;
            }
            return Ok(());
        }
        let found = [embedding.0.samples(), embedding.0.width()];
        if found != [1, width] {
            let what =
                format!("embedding of step {}: found {found:?}, expected [1, {width}]", step.0);
            return Err(PartyError::misbehaved(from, what));
        }
        if let Some(number) = embedding.0.as_slice().iter().find(|n| n.abs() > LARGEST) {
            let what = format!(
                "embedding of step {}: found {number:e}, expected at most {LARGEST:e}",
                step.0
            );
            return Err(PartyError::misbehaved(from, what));
        }
        match guest.place(step, embedding, self.steps.settled(), prompt) {
            Placed::Waits => self.settle(),
            Placed::Late | Placed::Duplicate => Ok(()),
        }
    }

    /// Settles steps in order, as long as the first one need not wait any longer.
    fn settle(&mut self) -> Result<(), PartyError> {
        while let Some((step, since)) = self.steps.front() {
            let over = self.guests.lasted(since, self.settings.deadline);
            let all_in = self.waited_for().all(|guest| guest.has(step) || guest.is_past(step));
            if !(over || all_in || self.steps.are_too_many()) {
                return Ok(());
            }
            let Some(first) = self.steps.settle() else { return Ok(()) };
            self.estimate(first)?;
        }
        Ok(())
    }

    fn waited_for(&self) -> impl Iterator<Item = &LiveGuestState<Embedding>> {
        let (now, silence) = (self.guests.now(), self.settings.timing.silence);
        let waited_for = self.guests.iter().filter(move |(party, guest)| {
            guest.is_waited_for(self.guests.heard(party), now, silence)
        });
        waited_for.map(|(_, guest)| guest)
    }

    fn estimate(&mut self, open: OpenStep<M::Own>) -> Result<(), PartyError> {
        let OpenStep { step, own, since } = open;
        let silence = self.settings.timing.silence;
        let (mut embeddings, mut guests) = (Embeddings::new(), BTreeMap::new());
        let now = self.guests.now();
        for (party, guest, heard) in self.guests.iter_heard() {
            let present = guest.is_present(heard, now, silence);
            let embedding = guest.take(step);
            let participation = match (&embedding, present) {
                (Some(_), _) => Participation::In,
                (None, true) => Participation::Late,
                (None, false) => Participation::Absent,
            };
            guests.insert(party.clone(), participation);
            embeddings.insert(party.clone(), embedding);
        }
        let mut estimate = self.model.estimate(&own, &embeddings)?;
        if estimate.is_none() {
            // The guest at fault is unknown: the estimate is the host's own, or none.
            embeddings.values_mut().for_each(|embedding| *embedding = None);
            let within = guests.values_mut().filter(|guest| **guest == Participation::In);
            within.for_each(|guest| *guest = Participation::Unusable);
            estimate = self.model.estimate(&own, &embeddings)?;
        }
        for (party, guest) in self.guests.iter_mut() {
            guests.get(party).into_iter().for_each(|one| guest.settled(*one));
        }
        let waited = now.saturating_sub(since);
        let told: Vec<(PartyId, bool)> = guests
            .iter()
            .filter(|(_, participation)| **participation != Participation::Absent)
            .map(|(party, participation)| (party.clone(), *participation == Participation::In))
            .collect();
        self.events.push(match estimate {
            Some(estimate) => LiveEvent::Estimated(Estimated { step, estimate, waited, guests }),
            None => LiveEvent::Unestimated(step),
        });
        for (party, taken) in told {
            let settled = ToGuest::Live(FromLiveHost::StepEstimated { step, taken });
            self.guests.say(&party, settled)?;
        }
        Ok(())
    }

    /// A guest's error ends that guest's session; any other error ends the host, and everyone is told.
    fn end_turn(&mut self, done: Result<(), PartyError>) -> ToGuestOutbox {
        let done = match done {
            Err(error) => match error.culprit().cloned() {
                Some(party) => self.refuse(&party, StopReason::other(&error)),
                None => Err(error),
            },
            Ok(()) => Ok(()),
        };
        if let Err(error) = done {
            let reason = error.for_peers();
            self.guests.refuse_all(|_| reason.clone());
            self.stopped = Some(self.ledger_sync.at_the_end(self.guests.ledger_mut(), error));
        }
        self.guests.take_outbox()
    }

    fn refuse(&mut self, party: &PartyId, reason: StopReason) -> Result<(), PartyError> {
        let (now, resend) = (self.guests.now(), self.settings.timing.resend);
        let Some(guest) = self.guests.get_mut(party) else { return Ok(()) };
        guest.session = None;
        // Each refusal is a line of the ledger and of the log: a guest cannot have them grow as it likes.
        if is_due(&mut guest.refused, now, resend) {
            self.events.push(LiveEvent::Refused(party.clone(), reason.text.clone()));
            self.guests.say(party, ToGuest::Refuse { session: 0, reason })?;
        }
        // It is not waited for any longer.
        self.settle()
    }
}
