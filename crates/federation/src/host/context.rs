//! What all phases of the host share, and how it admits guests in each of them.

use std::time::Duration;

use protocol::message::key_authority::ToAuthority;
use protocol::message::parts::MAX_CHECKPOINTS;
use protocol::message::{Exchange, Hello, PROTOCOL, Resume, ToGuest, Welcome};
use protocol::party::{PartyId, Round};
use protocol::plan::Plan;

use super::guest_state::GuestState;
use super::run::RunRecord;
use super::{AbsencePolicy, Event, HostSettings, MakeHostModel};
use crate::error::PartyError;
use crate::keys::{KeyAuthority, no_authority};
use crate::session::GuestSessions;
use crate::session::handshake::{check_name, check_terms, check_width};
use crate::store::Store;

/// See the [module](self).
pub(super) struct HostContext<M, S> {
    pub settings: HostSettings,
    pub make: MakeHostModel<M>,
    pub store: S,
    pub guests: GuestSessions<GuestState>,
    pub furthest: Furthest,
    /// The round of the last message before this start.
    pub before: Option<Round>,
    /// Where it gets the keys of its products, if an authority issues them.
    pub keys: Option<Box<dyn KeyAuthority>>,
    pub events: Vec<Event>,
}

/// The furthest round that a run has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Furthest {
    pub round: Round,
    /// When.
    pub reached: Duration,
    /// How often the parties have gone back to a checkpoint since.
    pub returns: u32,
}

impl<M, S> HostContext<M, S> {
    /// Keys for rows, of the authority that has drawn a guest's public key.
    pub(super) fn keys_of(
        &mut self,
        round: Round,
        guest: &PartyId,
        size: [u32; 2],
        question: Vec<u8>,
    ) -> Result<Vec<u8>, PartyError> {
        let authority = self.keys.as_mut().ok_or_else(no_authority)?;
        let message = ToAuthority::Keys { round, guest: guest.clone(), size, question };
        let message = self.guests.release(authority.name(), message)?;
        Ok(authority.ask(&message)?)
    }
}

impl<M, S: Store> HostContext<M, S> {
    pub(super) fn skips(&self) -> bool {
        self.settings.absent == AbsencePolicy::Skip
    }

    /// The run has come to a round.
    pub(super) fn reached(&mut self, round: Round) {
        if round > self.furthest.round {
            self.furthest = Furthest { round, reached: self.guests.now(), returns: 0 };
        }
    }

    pub(super) fn absent_too_long(&self, party: &PartyId, since: Duration) -> PartyError {
        let reason = self.guests.get(party).and_then(|guest| guest.reason.clone());
        let seconds = self.guests.seconds_since(since);
        PartyError::Absent { party: party.clone(), seconds, reason }
    }

    /// A guest that was expected is silent.
    pub(super) fn miss(&mut self, party: &PartyId) {
        if let Some(guest) = self.guests.get_mut(party) {
            guest.present = false;
        }
        self.events.push(Event::Missed(party.clone()));
    }

    /// What the policy `stop` says of a guest that has gone from a run that has begun.
    pub(super) fn check_absence(&self, party: &PartyId) -> Result<(), PartyError> {
        match self.settings.absent {
            AbsencePolicy::Stop => Err(self.absent_too_long(party, self.guests.heard(party))),
            AbsencePolicy::Skip | AbsencePolicy::Wait => Ok(()),
        }
    }

    /// Whether a message about an exchange comes from a guest that takes part in this attempt.
    pub(super) fn takes_part(
        &mut self,
        from: &PartyId,
        exchange: Exchange,
        record: &RunRecord,
    ) -> Result<bool, PartyError> {
        if (record.run, record.attempt) != (exchange.run, exchange.attempt) {
            return Ok(false);
        }
        let skips = self.skips();
        let Some(guest) = self.guests.get_mut(from) else { return Ok(false) };
        if !guest.present && skips {
            self.guests.request_missing_hello(from)?;
            return Ok(false);
        }
        guest.takes_part();
        Ok(true)
    }

    /// Refuses a guest whose hello does not fit, or not the run that has begun.
    pub(super) fn check_hello(
        &self,
        from: &PartyId,
        hello: &Hello,
        record: Option<&RunRecord>,
    ) -> Result<(), PartyError> {
        check_name(from, &hello.party)?;
        if hello.session == 0 || hello.resume_state.checkpoints.len() > MAX_CHECKPOINTS {
            return Err(PartyError::misbehaved(from, "its hello is out of bounds"));
        }
        check_terms(from, hello.protocol, &hello.terms, &self.settings.terms)?;
        check_width(from, hello.width, self.settings.guests.get(from).copied())?;
        self.check_offer(from, hello, record)?;
        let incompatible = |what, found: String, expected: String| {
            Err(PartyError::PeerIncompatible { party: from.clone(), what, found, expected })
        };
        let Some(record) = record else {
            return match hello.resume_state.run {
                Some(run) => {
                    let found = format!("checkpoints of run {run}");
                    incompatible("run", found, "a new folder for a new run".to_owned())
                }
                None => Ok(()),
            };
        };
        if let Some(run) = hello.resume_state.run.filter(|run| *run != record.run) {
            return incompatible("run", run.to_string(), record.run.to_string());
        }
        let samples = self.settings.samples.filter(|step| record.aligned.contains(step));
        match samples.all().find(|sample| !hello.held.contains(sample.last)) {
            Some(sample) => incompatible(
                "steps held",
                format!("no step {}", sample.last.0),
                "all that the run began with".to_owned(),
            ),
            None => Ok(()),
        }
    }

    /// Whether a hello tells of lost checkpoints. To go back to the beginning for that would erase everyone else's, so
    /// such a guest is refused. As a hello may also come late, from the time before there were any, the guest is asked
    /// for another one first, and refused if it still says so later.
    pub(super) fn has_lost_checkpoints(
        &mut self,
        party: &PartyId,
        hello: &Hello,
        done: Round,
    ) -> Result<bool, PartyError> {
        let stored = self.store.rounds()?;
        let newest = done.max(stored.last().copied().unwrap_or_default());
        let resume_state = &hello.resume_state;
        // Nobody answers before it has a run record, or a round before it has stored the checkpoints that were due until
        // then; the newest one it may not have heard of.
        let without_record = resume_state.run.is_none() && !stored.is_empty();
        let without_rounds = stored.iter().any(|round| *round < newest)
            && !stored.iter().any(|round| resume_state.checkpoints.contains(round));
        if self.skips() || !(without_record || without_rounds) {
            return Ok(false);
        }
        let (now, resend) = (self.guests.now(), self.guests.timing().resend);
        let Some(guest) = self.guests.get_mut(party) else { return Ok(true) };
        match guest.doubted {
            None => {
                guest.doubted = Some(now);
                self.guests.request_hello(party)?;
                Ok(true)
            }
            Some(since) if now.saturating_sub(since) < resend => Ok(true),
            Some(_) => {
                guest.doubted = None;
                guest.session = hello.session;
                Err(PartyError::PeerIncompatible {
                    party: party.clone(),
                    what: "checkpoints",
                    found: list(&resume_state.checkpoints),
                    expected: format!("{}; restore its folder", list(&stored)),
                })
            }
        }
    }

    /// Tells a guest which run it takes part in, and from where.
    pub(super) fn welcome(
        &mut self,
        party: &PartyId,
        record: &RunRecord,
        resume: Resume,
    ) -> Result<(), PartyError> {
        let Some(guest) = self.guests.get_mut(party) else { return Ok(()) };
        guest.is_welcomed(record.attempt, resume);
        let welcome = Welcome {
            protocol: PROTOCOL,
            software: self.settings.software.clone(),
            session: guest.session,
            run: record.run,
            attempt: record.attempt,
            terms: record.terms.clone(),
            plan: Plan { shares: record.shares_of(party), ..record.plan.clone() },
            resume,
        };
        Ok(self.guests.say(party, ToGuest::Welcome(Box::new(welcome)))?)
    }
}

fn list(rounds: &[Round]) -> String {
    if rounds.is_empty() {
        return "none".to_owned();
    }
    let rounds: Vec<String> = rounds.iter().map(Round::to_string).collect();
    format!("of rounds {}", rounds.join(", "))
}
