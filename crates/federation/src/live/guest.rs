//! A trained guest: sends what it makes of each step, as soon as it can.

use protocol::ledger::Ledger;
use protocol::message::live::{FromLiveGuest, FromLiveHost, LiveHello, LiveTerms, LiveWelcome};
use protocol::message::parts::{Embedding, Text, Values};
use protocol::message::{Departure, PROTOCOL, ToGuest, ToHost};
use protocol::party::{Now, PartyId};
use serde::Serialize;
use traffic::Step;

use super::ledger_sync::LedgerSync;
use crate::error::PartyError;
use crate::session::HostSession;
use crate::session::handshake::check_terms;
use crate::session::host::ToHostOutbox;
use crate::session::timing::Timing;

/// What a guest is told by those who run it.
#[derive(Clone, Debug)]
pub struct LiveGuestSettings {
    /// Its name.
    pub party: PartyId,
    /// The host's.
    pub host: PartyId,
    /// Version of its software, for logs.
    pub software: Text,
    /// Drawn anew at each start; not 0.
    pub session: u64,
    /// What all parties must agree on.
    pub terms: LiveTerms,
    /// Numbers of its embeddings.
    pub width: u32,
    /// How long it waits.
    pub timing: Timing,
}

/// What became of its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuestCounts {
    /// Embeddings that left.
    pub sent: u64,
    /// Embeddings that did not leave: the host was not there, or had gone on.
    pub unsent: u64,
    /// Steps that the host estimated with its embedding.
    pub taken: u64,
    /// Steps that the host estimated without it.
    pub missed: u64,
}

/// A trained guest, see the [module](super).
pub struct LiveGuest {
    settings: LiveGuestSettings,
    host: HostSession,
    phase: Phase,
    counts: GuestCounts,
    /// The newest step that the host has settled.
    settled: Option<Step>,
    /// The last step whose embedding has left.
    sent: Option<Step>,
    ledger_sync: LedgerSync,
}

#[derive(Debug)]
enum Phase {
    Joining,
    Live,
    Stopped(PartyError),
}

impl LiveGuest {
    /// A guest that is about to join: [`tick`](Self::tick) makes it speak.
    pub fn new(settings: LiveGuestSettings, ledger: Ledger, now: Now) -> Self {
        let (host, timing) = (settings.host.clone(), settings.timing);
        Self {
            host: HostSession::new(host, settings.session, timing, ledger, now),
            settings,
            phase: Phase::Joining,
            counts: GuestCounts::default(),
            settled: None,
            sent: None,
            ledger_sync: LedgerSync::from(now),
        }
    }

    /// The connection to the host is new: nobody there may know this guest.
    pub fn connected(&mut self, now: Now) -> ToHostOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        self.phase = Phase::Joining;
        let done = self.say_hello();
        self.end_turn(done)
    }

    /// An embedding of its own. It leaves only if the host is there and may still use it.
    pub fn embedding(&mut self, now: Now, step: Step, numbers: Vec<f32>) -> ToHostOutbox {
        self.host.begin_turn(now);
        // Records may go back to steps that the host has still to come to.
        let useless =
            self.settled.is_some_and(|settled| step <= settled) || self.sent == Some(step);
        if !self.is_live() || useless {
            self.counts.unsent += 1;
            return Vec::new();
        }
        let done = self.send(step, numbers);
        self.end_turn(done)
    }

    /// Takes a message of the host.
    pub fn handle(&mut self, now: Now, message: ToGuest) -> ToHostOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        self.host.hear();
        let done = match message {
            ToGuest::HelloRequest => self.say_hello(),
            ToGuest::Live(FromLiveHost::Welcome(welcome)) => self.welcome(&welcome),
            ToGuest::Live(FromLiveHost::StepEstimated { step, taken }) => {
                self.settled(step, taken);
                Ok(())
            }
            ToGuest::Refuse { session, reason } => self.host.refused(session, reason),
            ToGuest::Heartbeat => Ok(()),
            other => {
                let what = format!("found `{}`, which belongs to training", other.kind());
                Err(PartyError::misbehaved(&self.settings.host, what))
            }
        };
        self.end_turn(done)
    }

    /// Lets time pass: introduces itself again if nobody answers, and gives up after the limit.
    pub fn tick(&mut self, now: Now) -> ToHostOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        let done = self.wait(now);
        self.end_turn(done)
    }

    /// Takes part no longer, because someone says so.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToHostOutbox {
        if self.ended().is_some() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        // Whether or not the host hears of it, this guest stops.
        let _ = self.host.leave(Departure::Stopped);
        self.enter_stopped(PartyError::Stopped { reason });
        self.host.take_outbox()
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<&PartyError> {
        match &self.phase {
            Phase::Stopped(error) => Some(error),
            Phase::Joining | Phase::Live => None,
        }
    }

    /// Whether the host has welcomed it.
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live)
    }

    /// What became of its steps.
    pub fn counts(&self) -> GuestCounts {
        self.counts
    }

    /// The newest step that the host has settled.
    pub fn newest_settled(&self) -> Option<Step> {
        self.settled
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        self.host.ledger()
    }

    #[cfg(feature = "network")]
    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.host.ledger_mut()
    }

    fn wait(&mut self, now: Now) -> Result<(), PartyError> {
        self.ledger_sync.tick(self.host.ledger_mut(), now)?;
        self.host.check_silence()?;
        match self.phase {
            Phase::Joining if self.host.resend_due() => self.say_hello(),
            Phase::Live => Ok(self.host.heartbeat_if_due()?),
            _ => Ok(()),
        }
    }

    fn say_hello(&mut self) -> Result<(), PartyError> {
        let settings = &self.settings;
        let hello = LiveHello {
            protocol: PROTOCOL,
            software: settings.software.clone(),
            party: settings.party.clone(),
            session: settings.session,
            terms: settings.terms.clone(),
            width: settings.width,
        };
        Ok(self.host.say(ToHost::Live(FromLiveGuest::Hello(Box::new(hello))))?)
    }

    fn welcome(&mut self, welcome: &LiveWelcome) -> Result<(), PartyError> {
        let LiveGuestSettings { session, host, terms, .. } = &self.settings;
        if welcome.session == *session {
            check_terms(host, welcome.protocol, &welcome.terms, terms)?;
            self.phase = Phase::Live;
            // It may be another host, or one that begins anew.
            (self.settled, self.sent) = (None, None);
        }
        Ok(())
    }

    fn settled(&mut self, step: Step, taken: bool) {
        // Said twice, or an older one that was overtaken.
        if self.settled.is_some_and(|settled| step <= settled) {
            return;
        }
        self.settled = Some(step);
        *(if taken { &mut self.counts.taken } else { &mut self.counts.missed }) += 1;
    }

    fn send(&mut self, step: Step, numbers: Vec<f32>) -> Result<(), PartyError> {
        let values =
            Values::new(self.settings.width as usize, numbers).map_err(PartyError::misuse)?;
        let (session, embedding) = (self.settings.session, Embedding(values));
        self.host.say(ToHost::Live(FromLiveGuest::Embedding { session, step, embedding }))?;
        self.sent = Some(step);
        self.counts.sent += 1;
        Ok(())
    }

    fn end_turn(&mut self, done: Result<(), PartyError>) -> ToHostOutbox {
        if let Err(error) = done {
            self.host.leave_on(&error);
            self.enter_stopped(error);
        }
        self.host.take_outbox()
    }

    fn enter_stopped(&mut self, error: PartyError) {
        let error = self.ledger_sync.at_the_end(self.host.ledger_mut(), error);
        self.phase = Phase::Stopped(error);
    }
}
