//! A guest that adds its totals to sums over guests, in training.

use std::time::Duration;

use protocol::ledger::{Ledger, SumRecords};
use protocol::message::parts::{HeldSteps, Text};
use protocol::message::sums::{
    Block, FromSumGuest, FromSumHost, SumGroup, SumHello, SumPlan, SumTerms,
};
use protocol::message::{Departure, PROTOCOL, ToGuest, ToHost};
use protocol::party::{Now, PartyId};

use super::credentials::{Credentials, Verifier};
use super::member::{Joining, Member, MemberKey};
use crate::error::PartyError;
use crate::model::ModelFailure;
use crate::session::HostSession;
use crate::session::host::ToHostOutbox;
use crate::session::timing::Timing;

/// A guest's totals, as words of fixed point.
pub trait SumRows: Send {
    /// Gets ready for what a host wants to sum.
    ///
    /// # Errors
    /// If the guest does not have that, or its policy does not allow it.
    fn prepare(&mut self, plan: &SumPlan) -> Result<(), ModelFailure>;
    /// The rows of some steps that it holds, as prepared: the same each time.
    ///
    /// # Errors
    /// If it does not hold them.
    fn rows(&mut self, block: Block) -> Result<Vec<u64>, ModelFailure>;
}

/// What a guest is told by those who run it.
pub struct SumGuestSettings {
    /// Its name.
    pub party: PartyId,
    /// The host's.
    pub host: PartyId,
    /// Version of its software, for logs.
    pub software: Text,
    /// Drawn anew at each start; not 0.
    pub session: u64,
    /// What all members must agree on.
    pub terms: SumTerms,
    /// What it can add.
    pub held: HeldSteps,
    /// Parts of its fleet.
    pub folds: u16,
    /// The fewest participants of a sum that it adds to.
    pub least: usize,
    /// How long it waits.
    pub timing: Timing,
}

/// Its certificate, whom it trusts, and what it has agreed to in all runs.
pub struct SumTrust {
    /// Its certificate and key.
    pub credentials: Box<dyn Credentials>,
    /// Checks what other guests sign.
    pub verifier: Box<dyn Verifier>,
    /// Over whom its steps were summed.
    pub records: SumRecords,
}

/// A guest, see the [module](self).
pub struct SumGuest {
    settings: Settings,
    host: HostSession,
    member: Member,
    rows: Box<dyn SumRows>,
    phase: Phase,
    greeted: Option<Duration>,
    /// Blocks that it has revealed its part of.
    summed: u64,
}

struct Settings {
    party: PartyId,
    host: PartyId,
    software: Text,
    session: u64,
    terms: SumTerms,
    held: HeldSteps,
    folds: u16,
}

enum Phase {
    Joining,
    Member,
    Finished,
    Stopped(PartyError),
}

impl SumGuest {
    /// A guest that is about to join: [`tick`](Self::tick) makes it speak.
    pub fn new(
        settings: SumGuestSettings,
        trust: SumTrust,
        rows: Box<dyn SumRows>,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        let SumGuestSettings { party, host, software, session, terms, held, folds, least, timing } =
            settings;
        timing.check().map_err(PartyError::misuse)?;
        let SumTrust { credentials, verifier, records } = trust;
        let member = Member::new(MemberKey {
            party: party.clone(),
            host: host.clone(),
            session,
            terms: terms.clone(),
            credentials,
            verifier,
            least,
            records,
        })?;
        let session_with_host = HostSession::new(host.clone(), session, timing, ledger, now);
        let settings = Settings { party, host, software, session, terms, held, folds };
        let (host, phase) = (session_with_host, Phase::Joining);
        Ok(Self { settings, host, member, rows, phase, greeted: None, summed: 0 })
    }

    /// Takes a message of the host.
    pub fn handle(&mut self, now: Now, message: ToGuest) -> ToHostOutbox {
        if self.has_ended() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        self.host.hear();
        let done = match message {
            ToGuest::HelloRequest => self.say_hello(),
            ToGuest::Sum(message) => self.sum(message),
            ToGuest::Refuse { session, reason } => self.host.refused(session, reason),
            ToGuest::Heartbeat => Ok(()),
            other => {
                let what = format!(
                    "found `{}`: it concatenates embeddings, and this guest adds to sums alone (fusion = \"sum\" of both)",
                    other.kind()
                );
                Err(PartyError::misbehaved(&self.settings.host, what))
            }
        };
        self.end_turn(done)
    }

    /// Lets time pass: introduces itself again if nobody answers, and gives up after the limit.
    pub fn tick(&mut self, now: Now) -> ToHostOutbox {
        if self.has_ended() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        let done = self.host.check_silence().and_then(|()| match self.phase {
            Phase::Joining if self.host.resend_due() => self.say_hello(),
            Phase::Member => Ok(self.host.heartbeat_if_due()?),
            _ => Ok(()),
        });
        self.end_turn(done)
    }

    /// Takes part no longer, because someone says so.
    pub fn stop(&mut self, now: Now, reason: Text) -> ToHostOutbox {
        if self.has_ended() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        let _ = self.host.leave(Departure::Stopped);
        self.phase = Phase::Stopped(PartyError::Stopped { reason });
        self.host.take_outbox()
    }

    /// Whether it has ended, well or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Stopped(_))
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<&PartyError> {
        match &self.phase {
            Phase::Stopped(error) => Some(error),
            _ => None,
        }
    }

    /// The same, as a value.
    pub fn into_stopped(self) -> Option<PartyError> {
        match self.phase {
            Phase::Stopped(error) => Some(error),
            _ => None,
        }
    }

    /// The group that it is in.
    pub fn group(&self) -> Option<&SumGroup> {
        self.member.group()
    }

    /// Blocks that it has revealed its part of.
    pub fn summed(&self) -> u64 {
        self.summed
    }

    /// Messages that have left it.
    pub fn ledger(&self) -> &Ledger {
        self.host.ledger()
    }

    /// The host may not know of this start of the guest, or the guest not of a group; not each time that it speaks.
    fn greet_again(&mut self) -> Result<(), PartyError> {
        match self.greeted {
            Some(greeted) if !self.host.may_repeat(greeted) => Ok(()),
            _ => self.say_hello(),
        }
    }

    fn say_hello(&mut self) -> Result<(), PartyError> {
        self.greeted = Some(self.host.now());
        let settings = &self.settings;
        let hello = SumHello {
            protocol: PROTOCOL,
            software: settings.software.clone(),
            party: settings.party.clone(),
            session: settings.session,
            terms: settings.terms.clone(),
            held: settings.held.clone(),
            folds: settings.folds,
            key: self.member.signed_key().clone(),
        };
        Ok(self.host.say(ToHost::Sum(FromSumGuest::Hello(Box::new(hello))))?)
    }

    fn sum(&mut self, message: FromSumHost) -> Result<(), PartyError> {
        let answer = match message {
            FromSumHost::Group(group) => {
                let plan = group.plan.clone();
                match self.member.join(group)? {
                    Joining::New => self.rows.prepare(&plan)?,
                    Joining::Known => {}
                    Joining::Stale => return self.greet_again(),
                }
                self.phase = Phase::Member;
                None
            }
            FromSumHost::Finish { run } => {
                if self.group().is_none_or(|group| group.run == run) {
                    self.host.leave(Departure::Finished)?;
                    self.host.ledger_mut().sync()?;
                    self.phase = Phase::Finished;
                }
                None
            }
            // It has not heard of this group.
            FromSumHost::Request { group, .. }
            | FromSumHost::Participants { group, .. }
            | FromSumHost::Signatures { group, .. }
                if !self.member.is_in(group) =>
            {
                return self.greet_again();
            }
            FromSumHost::Request { group, block } => {
                let outside = block.steps().find(|step| !self.settings.held.contains(*step));
                if let Some(step) = outside {
                    let what = format!(
                        "it asked for totals of step {}, expected one that was announced",
                        step.0
                    );
                    return Err(PartyError::misbehaved(&self.settings.host, what));
                }
                let words = self.rows.rows(block)?;
                self.member.mask(group, block, words)?
            }
            FromSumHost::Participants { group, block, included } => {
                self.member.agree(group, block, included)?
            }
            FromSumHost::Signatures { group, block, signatures } => {
                let seeds = self.member.reveal(group, block, &signatures)?;
                self.summed += u64::from(seeds.is_some());
                seeds
            }
        };
        answer.map_or(Ok(()), |answer| Ok(self.host.say(ToHost::Sum(answer))?))
    }

    fn end_turn(&mut self, done: Result<(), PartyError>) -> ToHostOutbox {
        if let Err(error) = done {
            self.host.leave_on(&error);
            self.phase = Phase::Stopped(error);
        }
        self.host.take_outbox()
    }
}
