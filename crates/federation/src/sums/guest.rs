//! A guest that adds its totals to sums over guests: in training when it is asked, live each step as soon as it can.

use std::time::Duration;

use protocol::ledger::{Ledger, LedgerError, SumRecords};
use protocol::message::parts::{HeldSteps, Text};
use protocol::message::sums::{
    Block, FromSumGuest, FromSumHost, SumGroup, SumHello, SumPlan, SumTerms,
};
use protocol::message::{Departure, PROTOCOL, ToGuest, ToHost};
use protocol::party::{Now, PartyId, RunId};
use traffic::Step;

use super::credentials::{Credentials, Verifier};
use super::member::{Joining, Member, MemberKey};
use super::recent::RecentRows;
use crate::error::PartyError;
use crate::live::LiveSumGuestSettings;
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
    /// All is summed: what a live guest needs may be kept.
    ///
    /// # Errors
    /// If it cannot be written.
    fn finish(&mut self, _run: RunId) -> Result<(), ModelFailure> {
        Ok(())
    }
}

/// Where its rows come from.
enum Source {
    /// Training.
    Prepared(Box<dyn SumRows>),
    /// Live.
    Recent(RecentRows),
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
    source: Source,
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
    /// Why; none once that was taken.
    Stopped(Option<PartyError>),
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
        Self::with(settings, trust, Source::Prepared(rows), ledger, now)
    }

    /// The same, live.
    pub(crate) fn live(
        settings: LiveSumGuestSettings,
        trust: SumTrust,
        ledger: Ledger,
        now: Now,
    ) -> Result<Self, PartyError> {
        let LiveSumGuestSettings { party, host, software, session, plan, least, timing } = settings;
        let (terms, folds, held) = (plan.terms.clone(), plan.folds, HeldSteps::default());
        let settings =
            SumGuestSettings { party, host, software, session, terms, held, folds, least, timing };
        Self::with(settings, trust, Source::Recent(RecentRows::new(plan)), ledger, now)
    }

    fn with(
        settings: SumGuestSettings,
        trust: SumTrust,
        source: Source,
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
        Ok(Self { settings, host, member, source, phase, greeted: None, summed: 0 })
    }

    /// Introduces itself over a new connection.
    pub(crate) fn connected(&mut self, now: Now) -> ToHostOutbox {
        if self.has_ended() {
            return Vec::new();
        }
        self.host.begin_turn(now);
        let done = self.say_hello();
        self.end_turn(done)
    }

    /// Totals of a step, live: kept, and sent masked if there is a group. Gives whether they were sent.
    pub(crate) fn add(&mut self, now: Now, step: Step, words: Vec<u64>) -> (ToHostOutbox, bool) {
        let Source::Recent(recent) = &mut self.source else { return (Vec::new(), false) };
        if matches!(self.phase, Phase::Finished | Phase::Stopped(_)) || !recent.keep(step, words) {
            return (Vec::new(), false);
        }
        self.host.begin_turn(now);
        let done = self.send_recent(&[step]);
        let sent = *done.as_ref().unwrap_or(&false);
        (self.end_turn(done.map(|_| ())), sent)
    }

    /// Rows up to a step are not needed any more.
    pub(crate) fn forget_to(&mut self, step: Step) {
        if let Source::Recent(recent) = &mut self.source {
            recent.forget_to(step);
        }
    }

    /// Whether it is in a group.
    pub(crate) fn is_member(&self) -> bool {
        matches!(self.phase, Phase::Member)
    }

    /// Why it has stopped, once.
    pub(crate) fn take_stopped(&mut self) -> Option<PartyError> {
        match &mut self.phase {
            Phase::Stopped(error) => error.take(),
            _ => None,
        }
    }

    pub(crate) fn ledger_mut(&mut self) -> &mut Ledger {
        self.host.ledger_mut()
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
        self.phase = Phase::Stopped(Some(PartyError::Stopped { reason }));
        self.host.take_outbox()
    }

    /// Whether it has ended, well or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Stopped(_))
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<&PartyError> {
        match &self.phase {
            Phase::Stopped(error) => error.as_ref(),
            _ => None,
        }
    }

    /// The same, as a value.
    pub fn into_stopped(self) -> Option<PartyError> {
        match self.phase {
            Phase::Stopped(error) => error,
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

    /// Sends rows that are kept, masked for the newest group. False if there is none.
    fn send_recent(&mut self, steps: &[Step]) -> Result<bool, PartyError> {
        let (Source::Recent(recent), Phase::Member) = (&self.source, &self.phase) else {
            return Ok(false);
        };
        let Some(group) = self.member.group().map(|group| group.group) else { return Ok(false) };
        for &step in steps {
            let Some(row) = recent.row(step) else { continue };
            let block = Block::new(step, step).map_err(PartyError::misuse)?;
            if let Some(masked) = self.member.mask(group, block, row.to_vec())? {
                self.host.say(ToHost::Sum(masked))?;
            }
        }
        Ok(true)
    }

    /// Live, a sum that this guest does not add to is no reason to stop: it sends nothing more of that step.
    fn declines(&self, error: &PartyError) -> bool {
        let declined = matches!(
            error,
            PartyError::TooFewParticipants { .. }
                | PartyError::Ledger(LedgerError::OtherParticipants { .. })
        );
        declined && matches!(self.source, Source::Recent(_))
    }

    fn joined(&mut self, plan: &SumPlan, joining: Joining) -> Result<(), PartyError> {
        match (&mut self.source, joining) {
            (_, Joining::Stale) => return self.greet_again(),
            (Source::Prepared(rows), Joining::New) => rows.prepare(plan)?,
            (Source::Recent(recent), Joining::New) => recent.check(&self.settings.host, plan)?,
            (_, Joining::Known) => {}
        }
        self.phase = Phase::Member;
        if let Source::Recent(recent) = &self.source {
            let steps = recent.steps();
            self.send_recent(&steps)?;
        }
        Ok(())
    }

    fn sum(&mut self, message: FromSumHost) -> Result<(), PartyError> {
        let answer = match message {
            FromSumHost::Group(group) => {
                let plan = group.plan.clone();
                let joining = match self.member.join(group) {
                    Err(error) if self.declines(&error) => return Ok(()),
                    joining => joining?,
                };
                return self.joined(&plan, joining);
            }
            FromSumHost::Finish { run } => {
                let Source::Prepared(rows) = &mut self.source else {
                    let what = "it has summed all, and this guest adds to sums live";
                    return Err(PartyError::misbehaved(&self.settings.host, what));
                };
                let group = self.member.group();
                if group.is_none_or(|group| group.run == run) {
                    if group.is_some() {
                        rows.finish(run)?;
                    }
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
                let Source::Prepared(rows) = &mut self.source else {
                    let what =
                        "it asked for totals, which this guest sends by itself, step by step";
                    return Err(PartyError::misbehaved(&self.settings.host, what));
                };
                let outside = block.steps().find(|step| !self.settings.held.contains(*step));
                if let Some(step) = outside {
                    let what = format!(
                        "it asked for totals of step {}, expected one that was announced",
                        step.0
                    );
                    return Err(PartyError::misbehaved(&self.settings.host, what));
                }
                let words = rows.rows(block)?;
                self.member.mask(group, block, words)?
            }
            FromSumHost::Participants { group, block, included } => {
                match self.member.agree(group, block, included) {
                    Err(error) if self.declines(&error) => None,
                    agreed => agreed?,
                }
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
            self.phase = Phase::Stopped(Some(error));
        }
        self.host.take_outbox()
    }
}
