//! The host of trained parties: collects embeddings of each step until its deadline, then estimates.

mod session;
mod speech;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use protocol::ledger::{Ledger, Released};
use protocol::message::live::{FromLiveGuest, FromLiveHost, LiveHello, LiveWelcome};
use protocol::message::parts::{Embedding, Text};
use protocol::message::{PROTOCOL, ToGuest, ToHost};
use protocol::party::{Now, PartyId};
use traffic::Step;

use super::estimate::{Estimated, LiveEvent, LiveHostSettings, LiveModel, Participation};
use super::ledger_sync::LedgerSync;
use super::{LARGEST, MAX_OPEN};
use crate::error::{PartyError, agree_live};
use crate::model::Embeddings;
use crate::timing::lasted;

pub use session::LiveGuestCounts;
use session::{LiveGuestSession, Placed};
use speech::again;

/// Messages to guests.
pub type Outbox = Vec<Released<ToGuest>>;

/// The host, see the [module](super).
pub struct LiveHost<M: LiveModel> {
    settings: LiveHostSettings,
    model: M,
    ledger: Ledger,
    sessions: BTreeMap<PartyId, LiveGuestSession>,
    open: VecDeque<Open<M::Own>>,
    /// The last settled step.
    settled: Option<Step>,
    /// When the last settled steps had opened.
    opened: VecDeque<(Step, Duration)>,
    /// Whether its own data are before what is settled.
    back: bool,
    /// When someone without a guest was last told so.
    turned_away: Option<Duration>,
    ledger_sync: LedgerSync,
    events: Vec<LiveEvent<M::Estimate>>,
    stopped: Option<PartyError>,
}

struct Open<O> {
    step: Step,
    own: O,
    since: Duration,
}

impl<M: LiveModel> LiveHost<M> {
    /// A host without guests yet.
    pub fn new(settings: LiveHostSettings, model: M, ledger: Ledger, now: Now) -> Self {
        let sessions = settings.guests.keys();
        let sessions =
            sessions.map(|party| (party.clone(), LiveGuestSession::new(now.monotonic))).collect();
        Self {
            settings,
            model,
            ledger,
            sessions,
            open: VecDeque::new(),
            settled: None,
            opened: VecDeque::new(),
            back: false,
            turned_away: None,
            ledger_sync: LedgerSync::from(now),
            events: Vec::new(),
            stopped: None,
        }
    }

    /// The host's own numbers of a step are there: it opens. Steps come in order; others are left out,
    /// and the first of them is an event.
    pub fn open(&mut self, now: Now, step: Step, own: M::Own) -> Outbox {
        let mut out = Vec::new();
        let newest = self.open.back().map(|open| open.step).or(self.settled);
        if self.stopped.is_some() {
            return out;
        }
        if let Some(newest) = newest.filter(|newest| step <= *newest) {
            if !std::mem::replace(&mut self.back, true) {
                self.events.push(LiveEvent::WentBack { step, newest });
            }
            return out;
        }
        self.back = false;
        self.open.push_back(Open { step, own, since: now.monotonic });
        let done = self.settle(now, &mut out);
        self.stop_on_error(now, done, &mut out);
        out
    }

    /// Takes a message of a guest, as the transport knows it.
    pub fn handle(&mut self, now: Now, from: &PartyId, message: ToHost) -> Outbox {
        let mut out = Vec::new();
        if self.stopped.is_some() {
            return out;
        }
        let done = match self.sessions.get_mut(from) {
            Some(guest) => {
                guest.heard = now.monotonic;
                self.take(now, from, message, &mut out)
            }
            None => self.turn_away(now, from, &mut out),
        };
        self.stop_on_error(now, done, &mut out);
        out
    }

    /// A guest's connection has come or gone.
    pub fn connection(&mut self, now: Now, guest: &PartyId, connected: bool) -> Outbox {
        let mut out = Vec::new();
        if let Some(guest) = self.sessions.get_mut(guest) {
            guest.connected = connected;
            guest.heard = now.monotonic;
            // Whoever connects says who he is; whoever has gone is not waited for.
            guest.session = None;
            (guest.greeted, guest.refused) = (None, None);
        }
        let done = self.settle(now, &mut out);
        self.stop_on_error(now, done, &mut out);
        out
    }

    /// Lets time pass: settles what is due.
    pub fn tick(&mut self, now: Now) -> Outbox {
        let mut out = Vec::new();
        if self.stopped.is_some() {
            return out;
        }
        let done = self
            .settle(now, &mut out)
            .and_then(|()| self.heartbeats(now, &mut out))
            .and_then(|()| self.ledger_sync.tick(&mut self.ledger, now));
        self.stop_on_error(now, done, &mut out);
        out
    }

    /// Ends because someone says so; guests are told.
    pub fn stop(&mut self, now: Now, reason: Text) -> Outbox {
        let mut out = Vec::new();
        if self.stopped.is_none() {
            self.stop_on_error(now, Err(PartyError::Stopped { reason }), &mut out);
        }
        out
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<&PartyError> {
        self.stopped.as_ref()
    }

    /// Whether steps wait for their guests.
    pub fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<LiveEvent<M::Estimate>> {
        std::mem::take(&mut self.events)
    }

    /// Each guest: whether steps wait for it, and what became of its embeddings.
    pub fn sessions(&self, now: Now) -> impl Iterator<Item = (&PartyId, bool, LiveGuestCounts)> {
        let silence = self.settings.timing.silence;
        let guest = move |(party, guest)| {
            let guest: &LiveGuestSession = guest;
            (party, guest.is_waited_for(now.monotonic, silence), guest.counts)
        };
        self.sessions.iter().map(guest)
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn take(
        &mut self,
        now: Now,
        from: &PartyId,
        message: ToHost,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        match message {
            ToHost::Live(FromLiveGuest::Hello(hello)) => self.hello(now, from, &hello, out),
            ToHost::Live(FromLiveGuest::Embedding { session, step, embedding }) => {
                self.embedding(now, from, session, step, embedding, out)
            }
            ToHost::Heartbeat => self.request_hello_of_stranger(now, from, out),
            ToHost::Leave { session, departure } => {
                if let Some(guest) = self.sessions.get_mut(from)
                    && guest.session == Some(session)
                {
                    guest.session = None;
                    self.events.push(LiveEvent::Left(from.clone(), departure));
                }
                self.settle(now, out)
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

    fn hello(
        &mut self,
        now: Now,
        from: &PartyId,
        hello: &LiveHello,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        let resend = self.settings.timing.resend;
        // A greeting that is lost so is repeated.
        if !self.sessions.get_mut(from).is_some_and(|guest| again(&mut guest.greeted, now, resend))
        {
            return Ok(());
        }
        if hello.party != *from {
            let what = format!("it greets as `{}`", hello.party);
            return Err(PartyError::misbehaved(from, what));
        }
        let settings = &self.settings;
        agree_live(from, (hello.protocol, PROTOCOL), &hello.terms, &settings.terms)?;
        let width = settings.guests.get(from).copied().unwrap_or_default();
        if hello.width != width {
            return Err(PartyError::PeerIncompatible {
                party: from.clone(),
                what: "numbers of an embedding",
                found: hello.width.to_string(),
                expected: width.to_string(),
            });
        }
        let welcome = LiveWelcome {
            protocol: PROTOCOL,
            software: settings.software.clone(),
            session: hello.session,
            terms: settings.terms.clone(),
        };
        if let Some(guest) = self.sessions.get_mut(from) {
            if guest.session != Some(hello.session) {
                guest.join(hello.session, self.settled.is_some());
                self.events.push(LiveEvent::Joined(from.clone()));
            }
            // A transport without connections has nobody else to say so.
            guest.connected = true;
        }
        self.say(now, from, ToGuest::Live(FromLiveHost::Welcome(Box::new(welcome))), out)
    }

    fn embedding(
        &mut self,
        now: Now,
        from: &PartyId,
        session: u64,
        step: Step,
        embedding: Embedding,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        let width = self.settings.guests.get(from).copied().unwrap_or_default() as usize;
        let Some(guest) = self.sessions.get_mut(from) else { return Ok(()) };
        if guest.session != Some(session) {
            guest.counts.strange += 1;
            return self.request_hello_of_stranger(now, from, out);
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
        let opened = self.opened.iter().find(|(opened, _)| *opened == step);
        let prompt =
            opened.is_some_and(|(_, since)| !lasted(*since, now.monotonic, self.settings.deadline));
        match guest.place(step, embedding, self.settled, prompt) {
            Placed::Waits => self.settle(now, out),
            Placed::Late | Placed::Duplicate => Ok(()),
        }
    }

    /// Settles steps in order, as long as the first one need not wait any longer.
    fn settle(&mut self, now: Now, out: &mut Outbox) -> Result<(), PartyError> {
        while let Some(first) = self.open.front() {
            let over = lasted(first.since, now.monotonic, self.settings.deadline);
            let step = first.step;
            let all_in = self.waited_for(now).all(|guest| guest.has(step) || guest.is_past(step));
            if !(over || all_in || self.open.len() > MAX_OPEN) {
                return Ok(());
            }
            let Some(first) = self.open.pop_front() else { return Ok(()) };
            self.estimate(now, first, out)?;
        }
        Ok(())
    }

    fn waited_for(&self, now: Now) -> impl Iterator<Item = &LiveGuestSession> {
        let silence = self.settings.timing.silence;
        self.sessions.values().filter(move |guest| guest.is_waited_for(now.monotonic, silence))
    }

    fn estimate(
        &mut self,
        now: Now,
        open: Open<M::Own>,
        out: &mut Outbox,
    ) -> Result<(), PartyError> {
        let Open { step, own, since } = open;
        let silence = self.settings.timing.silence;
        let (mut embeddings, mut guests) = (Embeddings::new(), BTreeMap::new());
        for (party, guest) in &mut self.sessions {
            let present = guest.is_present(now.monotonic, silence);
            let embedding = guest.take(step);
            let participation = match (&embedding, present) {
                (Some(_), _) => Participation::In,
                (None, true) => Participation::Late,
                (None, false) => Participation::Absent,
            };
            guests.insert(party.clone(), participation);
            embeddings.insert(party.clone(), embedding);
        }
        self.settled = Some(step);
        self.opened.push_back((step, since));
        if self.opened.len() > MAX_OPEN {
            self.opened.pop_front();
        }
        let mut estimate = self.model.estimate(&own, &embeddings)?;
        if estimate.is_none() {
            // Whose numbers it were is not known: it is the host's own estimate, or none.
            embeddings.values_mut().for_each(|embedding| *embedding = None);
            let within = guests.values_mut().filter(|guest| **guest == Participation::In);
            within.for_each(|guest| *guest = Participation::Unusable);
            estimate = self.model.estimate(&own, &embeddings)?;
        }
        for (party, session) in &mut self.sessions {
            guests.get(party).into_iter().for_each(|one| session.settled(*one));
        }
        let waited = now.monotonic.saturating_sub(since);
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
            self.say(now, &party, settled, out)?;
        }
        Ok(())
    }
}
