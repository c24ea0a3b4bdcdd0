//! The host's sessions with its guests.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::ledger::{Ledger, LedgerError, Released};
use protocol::message::key_authority::ToAuthority;
use protocol::message::{StopReason, ToGuest};
use protocol::party::{Now, PartyId};

use super::timing::{Timing, lasted};

/// Messages to guests.
pub type ToGuestOutbox = Vec<Released<ToGuest>>;

/// The host's sessions, its ledger and its outbox. `T` is what training or live estimation knows of a guest.
pub(crate) struct GuestSessions<T> {
    ledger: Ledger,
    timing: Timing,
    now: Now,
    outbox: ToGuestOutbox,
    sessions: BTreeMap<PartyId, Session<T>>,
    /// When a stranger was last told that it is not among the guests.
    turned_away: Option<Duration>,
}

/// One guest.
pub(crate) struct Session<T> {
    /// When a message of it last came.
    pub heard: Duration,
    /// When a message was last sent to it.
    told: Duration,
    /// When it was last asked for something.
    asked: Option<Duration>,
    pub state: T,
}

impl<T> GuestSessions<T> {
    /// `asked` is when guests count as asked for the first time: the host then waits before it asks by itself.
    pub(crate) fn new(
        ledger: Ledger,
        timing: Timing,
        now: Now,
        guests: impl Iterator<Item = (PartyId, T)>,
        asked: Option<Duration>,
    ) -> Self {
        let (heard, told) = (now.monotonic, now.monotonic);
        let session = |(party, state)| (party, Session { heard, told, asked, state });
        let sessions = guests.map(session).collect();
        Self { ledger, timing, now, outbox: Vec::new(), sessions, turned_away: None }
    }

    /// The host is called at this time.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.now = now;
    }

    /// What is to be sent.
    pub(crate) fn take_outbox(&mut self) -> ToGuestOutbox {
        std::mem::take(&mut self.outbox)
    }

    pub(crate) fn now(&self) -> Duration {
        self.now.monotonic
    }

    /// By the clock on the wall, which no party's work stops.
    pub(crate) fn wall_time(&self) -> Duration {
        self.now.unix
    }

    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Whether something that began then has lasted this long by now.
    pub(crate) fn lasted(&self, since: Duration, long: Duration) -> bool {
        lasted(since, self.now.monotonic, long)
    }

    /// Seconds since then.
    pub(crate) fn seconds_since(&self, since: Duration) -> f64 {
        self.now.monotonic.saturating_sub(since).as_secs_f64()
    }

    pub(crate) fn get(&self, party: &PartyId) -> Option<&T> {
        self.sessions.get(party).map(|session| &session.state)
    }

    pub(crate) fn get_mut(&mut self, party: &PartyId) -> Option<&mut T> {
        self.sessions.get_mut(party).map(|session| &mut session.state)
    }

    pub(crate) fn parties(&self) -> impl Iterator<Item = &PartyId> {
        self.sessions.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PartyId, &T)> {
        self.sessions.iter().map(|(party, session)| (party, &session.state))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&PartyId, &mut T)> {
        self.sessions.iter_mut().map(|(party, session)| (party, &mut session.state))
    }

    /// The same, with the time at which each was last heard.
    pub(crate) fn iter_heard(&mut self) -> impl Iterator<Item = (&PartyId, &mut T, Duration)> {
        let sessions = self.sessions.iter_mut();
        sessions.map(|(party, session)| (party, &mut session.state, session.heard))
    }

    /// A guest's connection has come or gone, which counts as a sign of life.
    pub(crate) fn note_connection(&mut self, party: &PartyId) {
        if let Some(session) = self.sessions.get_mut(party) {
            session.heard = self.now.monotonic;
        }
    }

    /// Those for whom a condition holds, with the time at which each was last heard.
    pub(crate) fn those(&self, condition: impl Fn(&T, Duration) -> bool) -> Vec<PartyId> {
        let those = self.sessions.iter();
        let those = those.filter(|(_, session)| condition(&session.state, session.heard));
        those.map(|(party, _)| party.clone()).collect()
    }

    /// Takes note that a guest was heard; tells a stranger that it is none.
    pub(crate) fn hear(&mut self, from: &PartyId) -> Result<bool, LedgerError> {
        if let Some(session) = self.sessions.get_mut(from) {
            session.heard = self.now.monotonic;
            return Ok(true);
        }
        // Each message is a line of the ledger: a stranger cannot have it grow as it likes.
        if is_due(&mut self.turned_away, self.now.monotonic, self.timing.resend) {
            let reason = StopReason::other(format!("`{from}` is not among the guests"));
            self.say(from, ToGuest::Refuse { session: 0, reason })?;
        }
        Ok(false)
    }

    /// When a guest was last heard; now, if there is no such guest.
    pub(crate) fn heard(&self, party: &PartyId) -> Duration {
        self.sessions.get(party).map_or(self.now.monotonic, |session| session.heard)
    }

    /// A guest has been silent for as long as makes it absent.
    pub(crate) fn is_silent(&self, party: &PartyId) -> bool {
        self.lasted(self.heard(party), self.timing.silence)
    }

    /// Releases a message to a guest.
    pub(crate) fn say(&mut self, to: &PartyId, message: ToGuest) -> Result<(), LedgerError> {
        self.outbox.push(self.ledger.release(self.now, to, message)?);
        if let Some(session) = self.sessions.get_mut(to) {
            session.told = self.now.monotonic;
        }
        Ok(())
    }

    /// Releases a message to a key authority.
    pub(crate) fn release(
        &mut self,
        to: &PartyId,
        message: ToAuthority,
    ) -> Result<Released<ToAuthority>, LedgerError> {
        self.ledger.release(self.now, to, message)
    }

    /// The same with a message that a guest has to answer: it is sent again if it does not.
    pub(crate) fn ask(&mut self, to: &PartyId, message: ToGuest) -> Result<(), LedgerError> {
        if let Some(session) = self.sessions.get_mut(to) {
            session.asked = Some(self.now.monotonic);
        }
        self.say(to, message)
    }

    /// Whether a guest that has not answered is to be asked again.
    pub(crate) fn resend_due(&self, party: &PartyId) -> bool {
        let asked = self.sessions.get(party).and_then(|session| session.asked);
        asked.is_none_or(|asked| self.lasted(asked, self.timing.resend))
    }

    /// Asks a guest to introduce itself.
    pub(crate) fn request_hello(&mut self, party: &PartyId) -> Result<(), LedgerError> {
        self.ask(party, ToGuest::HelloRequest)
    }

    /// Asks a guest that speaks without having introduced itself, but not each time that it speaks.
    pub(crate) fn request_missing_hello(&mut self, party: &PartyId) -> Result<(), LedgerError> {
        if !self.sessions.contains_key(party) || !self.resend_due(party) {
            return Ok(());
        }
        self.request_hello(party)
    }

    /// A guest that was welcomed may be asked again at once.
    pub(crate) fn clear_asked(&mut self, party: &PartyId) {
        if let Some(session) = self.sessions.get_mut(party) {
            session.asked = None;
        }
    }

    /// Sends a sign of life to guests to which nothing was sent for a while.
    pub(crate) fn heartbeats(
        &mut self,
        expects: impl Fn(&T, Duration) -> bool,
    ) -> Result<(), LedgerError> {
        let quiet = self.sessions.iter().filter(|(_, session)| {
            expects(&session.state, session.heard)
                && self.lasted(session.told, self.timing.heartbeat)
        });
        let quiet: Vec<PartyId> = quiet.map(|(party, _)| party.clone()).collect();
        quiet.iter().try_for_each(|party| self.say(party, ToGuest::Heartbeat))
    }

    /// Tells all guests that the host stops, each its reason. A ledger that cannot be written lets nothing out, not even
    /// this: guests will notice the silence.
    pub(crate) fn refuse_all(&mut self, reason: impl Fn(&PartyId) -> StopReason) {
        let parties: Vec<PartyId> = self.sessions.keys().cloned().collect();
        for party in parties {
            let _ = self.say(&party, ToGuest::Refuse { session: 0, reason: reason(&party) });
        }
    }
}

/// Whether something that was last done then may be done again; if so, it counts as done now.
pub(crate) fn is_due(last: &mut Option<Duration>, now: Duration, every: Duration) -> bool {
    let due = last.is_none_or(|last| lasted(last, now, every));
    if due {
        *last = Some(now);
    }
    due
}
