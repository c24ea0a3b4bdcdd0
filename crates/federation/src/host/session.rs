//! A guest's guest: what the host knows of it.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::message::{Hello, Resume, StopReason, ToGuest};
use protocol::party::{Attempt, Now, PartyId, Round};

use super::{AbsencePolicy, Event, Host, ToGuestOutbox};
use crate::error::PartyError;
use crate::model::HostModel;
use crate::store::Store;
use crate::timing::lasted;

/// Sessions that are remembered, to tell late greetings from new ones.
const SESSIONS: usize = 16;

/// What the host knows of a guest.
pub(super) struct GuestSession {
    /// Whether it is expected to answer.
    pub present: bool,
    /// Its last greeting, if that still says where it stands.
    pub hello: Option<Hello>,
    /// The session of its last greeting; 0 before the first.
    pub session: u64,
    /// The last greetings of each session: one that comes late or again is no news.
    greetings: VecDeque<(u64, u64)>,
    /// The welcome it was sent last (its session, attempt, resumption), and whether it has spoken of
    /// a round since.
    pub welcome: Option<(u64, Attempt, Resume)>,
    pub spoke: bool,
    /// The last session in which it has spoken of a round.
    pub active: Option<u64>,
    /// The furthest round that it has answered in that session, and of which attempt.
    answered: Option<(u64, Attempt, Round)>,
    /// When it was heard, told anything, and asked last.
    pub heard: Duration,
    pub told: Duration,
    pub asked: Duration,
    /// The last round of this attempt that it is known to have kept.
    pub kept: Option<Round>,
    /// It has said that it is done.
    pub finished: bool,
    /// Since when its greetings say that it has lost its checkpoints.
    pub doubted: Option<Duration>,
    /// Why it is not here.
    pub reason: Option<StopReason>,
}

impl GuestSession {
    pub fn new(now: Duration) -> Self {
        Self {
            present: false,
            hello: None,
            session: 0,
            greetings: VecDeque::new(),
            welcome: None,
            spoke: false,
            active: None,
            answered: None,
            heard: now,
            told: now,
            asked: now,
            kept: None,
            finished: false,
            doubted: None,
            reason: None,
        }
    }

    /// Whether a greeting is not newer than the last one of its session, or from before it took part.
    pub fn is_stale(&self, hello: &Hello) -> bool {
        if self.active == Some(hello.session) && hello.resume_state.in_memory.is_none() {
            return true;
        }
        // Whoever has answered a round had finished the one before: a greeting from before that was
        // overtaken on its way.
        if let (Some((session, attempt, round)), Some((its, done))) =
            (self.answered, hello.resume_state.in_memory)
            && (session, attempt) == (hello.session, its)
            && done.next() < round
        {
            return true;
        }
        let known = self.greetings.iter().find(|(session, _)| *session == hello.session);
        known.is_some_and(|(_, number)| hello.greeting <= *number)
    }

    /// Takes note of an answer.
    pub fn answers(&mut self, attempt: Attempt, round: Round) {
        let before =
            self.answered.filter(|(session, its, _)| (*session, *its) == (self.session, attempt));
        let furthest = before.map_or(round, |(_, _, furthest)| furthest.max(round));
        self.answered = Some((self.session, attempt, furthest));
    }

    /// Takes note of a greeting.
    pub fn greet(&mut self, hello: Hello) {
        self.session = hello.session;
        self.greetings.retain(|(session, _)| *session != hello.session);
        self.greetings.push_front((hello.session, hello.greeting));
        self.greetings.truncate(SESSIONS);
        self.hello = Some(hello);
        self.present = true;
        self.doubted = None;
        self.reason = None;
    }
}

impl<M: HostModel, S: Store> Host<M, S> {
    /// Refuses a guest for what it did.
    pub(super) fn refuse(
        &mut self,
        now: Now,
        error: &PartyError,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let (PartyError::PeerMisbehaved { party, .. } | PartyError::PeerIncompatible { party, .. }) =
            error
        else {
            return Ok(());
        };
        let reason = StopReason::other(error);
        let mut session = 0;
        if let Some(guest) = self.sessions.get_mut(party) {
            session = guest.session;
            guest.present = false;
            guest.hello = None;
            guest.reason = Some(reason.clone());
        }
        self.events.push(Event::Refused(party.clone(), reason.text.clone()));
        self.say(now, party, ToGuest::Refuse { session, reason }, out)?;
        self.proceed_without(now, party, out)
    }

    /// Whether a greeting tells of lost checkpoints. To go back to the beginning for that would erase
    /// everyone else's, so such a guest is refused. As a greeting may also come late, from the time
    /// before there were any, the guest is called first, and refused if it still says so later.
    pub(super) fn has_lost_checkpoints(
        &mut self,
        now: Now,
        party: &PartyId,
        hello: &Hello,
        out: &mut ToGuestOutbox,
    ) -> Result<bool, PartyError> {
        let kept = self.store.rounds()?;
        let newest = self.round().max(kept.last().copied().unwrap_or_default());
        let resume_state = &hello.resume_state;
        // Nobody answers before it has a card, or a round before it has kept those that were due
        // until then; the newest one it may not have heard of.
        let without_card = resume_state.run.is_none() && !kept.is_empty();
        let without_rounds = kept.iter().any(|round| *round < newest)
            && !kept.iter().any(|round| resume_state.checkpoints.contains(round));
        if self.settings.absent == AbsencePolicy::Skip || !(without_card || without_rounds) {
            return Ok(false);
        }
        let resend = self.settings.timing.resend;
        let Some(guest) = self.sessions.get_mut(party) else { return Ok(true) };
        match guest.doubted {
            None => {
                guest.doubted = Some(now.monotonic);
                self.request_hello(now, party, out)?;
                Ok(true)
            }
            Some(since) if !lasted(since, now.monotonic, resend) => Ok(true),
            Some(_) => {
                guest.doubted = None;
                guest.session = hello.session;
                Err(PartyError::PeerIncompatible {
                    party: party.clone(),
                    what: "checkpoints",
                    found: list(&resume_state.checkpoints),
                    expected: format!("{}; restore its folder", list(&kept)),
                })
            }
        }
    }

    /// A guest that sends messages without having introduced itself is asked for a hello.
    pub(super) fn request_hello_of_stranger(
        &mut self,
        now: Now,
        party: &PartyId,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        let Some(guest) = self.sessions.get_mut(party) else { return Ok(()) };
        let lately = !lasted(guest.asked, now.monotonic, self.settings.timing.resend);
        if guest.present || lately {
            return Ok(());
        }
        guest.asked = now.monotonic;
        self.say(now, party, ToGuest::HelloRequest, out)
    }

    /// Guests to whom nothing was said for a while hear that the host is still there.
    pub(super) fn heartbeats(
        &mut self,
        now: Now,
        out: &mut ToGuestOutbox,
    ) -> Result<(), PartyError> {
        if self.ended().is_some() {
            return Ok(());
        }
        let due = self.settings.timing.heartbeat;
        let quiet: Vec<PartyId> = self
            .sessions
            .iter()
            .filter(|(_, guest)| !guest.finished && lasted(guest.told, now.monotonic, due))
            .map(|(party, _)| party.clone())
            .collect();
        quiet.iter().try_for_each(|party| self.say(now, party, ToGuest::Heartbeat, out))
    }
}

fn list(rounds: &[Round]) -> String {
    if rounds.is_empty() {
        return "none".to_owned();
    }
    let rounds: Vec<String> = rounds.iter().map(Round::to_string).collect();
    format!("of rounds {}", rounds.join(", "))
}
