//! A trained guest: sends what it makes of each step, as soon as it can.

use std::time::Duration;

use protocol::ledger::{Ledger, Released};
use protocol::message::live::{FromLiveGuest, FromLiveHost, LiveHello, LiveTerms, LiveWelcome};
use protocol::message::parts::{Embedding, Text, Values};
use protocol::message::{Departure, PROTOCOL, ToGuest, ToHost};
use protocol::party::{Now, PartyId};
use serde::Serialize;
use traffic::Step;

use super::ledger_sync::LedgerSync;
use crate::error::{PartyError, agree_live};
use crate::timing::{Timing, lasted};

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
    /// OptimiserSettings of its embeddings.
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
    ledger: Ledger,
    stage: Stage,
    counts: GuestCounts,
    /// The newest step that the host has settled.
    settled: Option<Step>,
    /// The last step whose embedding has left.
    sent: Option<Step>,
    ledger_sync: LedgerSync,
    heard: Duration,
    said: Option<Duration>,
}

#[derive(Debug)]
enum Stage {
    Joining,
    Live,
    Stopped(PartyError),
}

impl LiveGuest {
    /// A guest that is about to join: [`tick`](Self::tick) makes it speak.
    pub fn new(settings: LiveGuestSettings, ledger: Ledger, now: Now) -> Self {
        Self {
            settings,
            ledger,
            stage: Stage::Joining,
            counts: GuestCounts::default(),
            settled: None,
            sent: None,
            ledger_sync: LedgerSync::from(now),
            heard: now.monotonic,
            said: None,
        }
    }

    /// The connection to the host is new: nobody there may know this guest.
    pub fn connected(&mut self, now: Now) -> Vec<Released<ToHost>> {
        let mut out = Vec::new();
        if self.ended().is_none() {
            self.stage = Stage::Joining;
            let greeted = self.greet(now, &mut out);
            self.stop_on_error(now, greeted, &mut out);
        }
        out
    }

    /// An embedding of its own. It leaves only if the host is there and may still use it.
    pub fn embedding(&mut self, now: Now, step: Step, numbers: Vec<f32>) -> Vec<Released<ToHost>> {
        let mut out = Vec::new();
        let live = matches!(self.stage, Stage::Live);
        // Records may go back to steps that the host has still to come to.
        let useless =
            self.settled.is_some_and(|settled| step <= settled) || self.sent == Some(step);
        if !live || useless {
            self.counts.unsent += 1;
            return out;
        }
        let sent = self.send(now, step, numbers, &mut out);
        self.stop_on_error(now, sent, &mut out);
        out
    }

    /// Takes a message of the host.
    pub fn handle(&mut self, now: Now, message: ToGuest) -> Vec<Released<ToHost>> {
        let mut out = Vec::new();
        if self.ended().is_some() {
            return out;
        }
        self.heard = now.monotonic;
        let handled = match message {
            ToGuest::HelloRequest => self.greet(now, &mut out),
            ToGuest::Live(FromLiveHost::Welcome(welcome)) => self.welcome(&welcome),
            ToGuest::Live(FromLiveHost::StepEstimated { step, taken }) => {
                self.settled(step, taken);
                Ok(())
            }
            ToGuest::Refuse { session, reason } => {
                let ours = session == 0 || session == self.settings.session;
                if ours { Err(PartyError::HostStopped { reason }) } else { Ok(()) }
            }
            ToGuest::Heartbeat => Ok(()),
            other => {
                let what = format!("found `{}`, which belongs to training", other.kind());
                Err(PartyError::misbehaved(&self.settings.host, what))
            }
        };
        self.stop_on_error(now, handled, &mut out);
        out
    }

    /// Lets time pass: greets again if nobody answers, and gives up after the limit.
    pub fn tick(&mut self, now: Now) -> Vec<Released<ToHost>> {
        let mut out = Vec::new();
        if self.ended().is_some() {
            return out;
        }
        let ticked = self.wait(now, &mut out);
        self.stop_on_error(now, ticked, &mut out);
        out
    }

    /// Takes part no longer, because someone says so.
    pub fn stop(&mut self, now: Now, reason: Text) -> Vec<Released<ToHost>> {
        let mut out = Vec::new();
        if self.ended().is_none() {
            // Whether or not the host hears of it, this guest stops.
            let _ = self.goodbye(now, Departure::Stopped, &mut out);
            self.end(PartyError::Stopped { reason });
        }
        out
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<&PartyError> {
        match &self.stage {
            Stage::Stopped(error) => Some(error),
            Stage::Joining | Stage::Live => None,
        }
    }

    /// Whether the host has welcomed it.
    pub fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live)
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
        &self.ledger
    }

    fn wait(&mut self, now: Now, out: &mut Vec<Released<ToHost>>) -> Result<(), PartyError> {
        self.ledger_sync.tick(&mut self.ledger, now)?;
        let timing = self.settings.timing;
        if lasted(self.heard, now.monotonic, timing.limit) {
            let seconds = now.monotonic.saturating_sub(self.heard).as_secs_f64();
            return Err(PartyError::HostSilent { seconds });
        }
        let quiet = |long| self.said.is_none_or(|said| lasted(said, now.monotonic, long));
        match self.stage {
            Stage::Joining if quiet(timing.resend) => self.greet(now, out),
            Stage::Live if quiet(timing.heartbeat) => self.say(now, ToHost::Heartbeat, out),
            _ => Ok(()),
        }
    }

    fn greet(&mut self, now: Now, out: &mut Vec<Released<ToHost>>) -> Result<(), PartyError> {
        let settings = &self.settings;
        let hello = LiveHello {
            protocol: PROTOCOL,
            software: settings.software.clone(),
            party: settings.party.clone(),
            session: settings.session,
            terms: settings.terms.clone(),
            width: settings.width,
        };
        self.say(now, ToHost::Live(FromLiveGuest::Hello(Box::new(hello))), out)
    }

    fn welcome(&mut self, welcome: &LiveWelcome) -> Result<(), PartyError> {
        let LiveGuestSettings { session, host, terms, .. } = &self.settings;
        if welcome.session == *session {
            agree_live(host, (welcome.protocol, PROTOCOL), &welcome.terms, terms)?;
            self.stage = Stage::Live;
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

    fn send(
        &mut self,
        now: Now,
        step: Step,
        numbers: Vec<f32>,
        out: &mut Vec<Released<ToHost>>,
    ) -> Result<(), PartyError> {
        let values =
            Values::new(self.settings.width as usize, numbers).map_err(PartyError::misuse)?;
        let (session, embedding) = (self.settings.session, Embedding(values));
        let message = FromLiveGuest::Embedding { session, step, embedding };
        self.say(now, ToHost::Live(message), out)?;
        self.sent = Some(step);
        self.counts.sent += 1;
        Ok(())
    }

    fn say(
        &mut self,
        now: Now,
        message: ToHost,
        out: &mut Vec<Released<ToHost>>,
    ) -> Result<(), PartyError> {
        out.push(self.ledger.release(now, &self.settings.host, message)?);
        self.said = Some(now.monotonic);
        Ok(())
    }

    fn goodbye(
        &mut self,
        now: Now,
        departure: Departure,
        out: &mut Vec<Released<ToHost>>,
    ) -> Result<(), PartyError> {
        let session = self.settings.session;
        self.say(now, ToHost::Leave { session, departure }, out)
    }

    fn stop_on_error(
        &mut self,
        now: Now,
        done: Result<(), PartyError>,
        out: &mut Vec<Released<ToHost>>,
    ) {
        let Err(error) = done else { return };
        if !matches!(error, PartyError::HostStopped { .. }) {
            // A ledger that cannot be written lets nothing out, not even this.
            let _ = self.goodbye(now, Departure::Failed(error.for_peers()), out);
        }
        self.end(error);
    }

    fn end(&mut self, error: PartyError) {
        self.stage = Stage::Stopped(self.ledger_sync.at_the_end(&mut self.ledger, error));
    }
}
